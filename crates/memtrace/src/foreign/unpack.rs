// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bytes of a file, unpacked: plain, packed as `steady_unpack` knows it, or the members of a
//! zip archive one after the other. Memory does not grow with the file.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Take};

use flate2::bufread::DeflateDecoder;
use steady_unpack::{Member, Packing, members, unread};

use super::{Bytes, Named, place};
use crate::error::TraceError;
use crate::writer::io_error;

/// First bytes that distinguish formats.
const HEAD_LEN: usize = 64;
/// Longest line of a text.
const LINE_LEN: usize = 4096;

/// The unpacked bytes of one file and how far they were read.
pub(super) struct Unpacked {
    from: Box<dyn BufRead>,
    name: String,
    offset: u64,
    /// Bytes that were looked at and not yet read.
    head: Vec<u8>,
}

impl Unpacked {
    pub(super) fn open(input: Named) -> Result<Self, TraceError> {
        let Named { name, mut bytes } = input;
        let head = bytes.fill_buf().map_err(io_error(&name, "read"))?;
        if head.is_empty() {
            return Err(TraceError::Empty { file: name });
        }
        let from: Box<dyn BufRead> = match Packing::of(head) {
            Some(Packing::Zip) => Box::new(BufReader::new(Members::open(bytes, &name)?)),
            Some(packing) => {
                let decoder = packing.decoder(bytes).map_err(io_error(&name, "unpack"))?;
                Box::new(BufReader::new(decoder))
            }
            None => {
                if let Some(what) = unread(head) {
                    let what = format!("it is {what}");
                    return Err(TraceError::Unsupported { file: name, what });
                }
                Box::new(bytes)
            }
        };
        Ok(Self {
            from,
            name,
            offset: 0,
            head: Vec::new(),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Unpacked bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The first bytes, fewer where the file is shorter; they stay to be read.
    pub(super) fn peek(&mut self) -> Result<Vec<u8>, TraceError> {
        debug_assert!(self.offset == 0 && self.head.is_empty(), "asked once");
        let mut head = [0; HEAD_LEN];
        let count = self.fill(&mut head)?;
        self.head = head[..count].to_vec();
        Ok(self.head.clone())
    }

    /// Reads one record; `false` where the bytes end before it.
    pub(super) fn read_record(
        &mut self,
        record: &mut [u8],
        what: &'static str,
    ) -> Result<bool, TraceError> {
        let looked_at = self.head.len().min(record.len());
        for (to, from) in record.iter_mut().zip(self.head.drain(..looked_at)) {
            *to = from;
        }
        let found = looked_at + self.fill(&mut record[looked_at..])?;
        if found == 0 {
            return Ok(false);
        }
        if found < record.len() {
            return Err(TraceError::Truncated {
                place: place(&self.name, self.offset),
                what,
                expected: record.len() as u64,
                found: found as u64,
            });
        }
        self.offset += record.len() as u64;
        Ok(true)
    }

    /// Fills `bytes` as far as there are any.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<usize, TraceError> {
        let mut found = 0;
        while found < bytes.len() {
            match self.from.read(&mut bytes[found..]) {
                Ok(0) => break,
                Ok(count) => found += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(error, found)),
            }
        }
        Ok(found)
    }

    /// Reads one line into `line`, without its end; `false` where there are no more.
    pub(super) fn read_line(&mut self, line: &mut Vec<u8>) -> Result<bool, TraceError> {
        line.clear();
        let head = std::mem::take(&mut self.head);
        let mut from = head.as_slice().chain(&mut self.from);
        let mut limited = Read::take(&mut from, LINE_LEN as u64 + 1);
        let read = limited.read_until(b'\n', line);
        let (rest, _) = from.into_inner();
        self.head = rest.to_vec();
        let read = read.map_err(|error| self.broken(error, line.len()))?;
        if line.len() > LINE_LEN {
            return Err(TraceError::Damaged {
                place: place(&self.name, self.offset),
                what: "line of a text trace",
                expected: format!("at most {LINE_LEN} bytes"),
                found: "more".to_owned(),
            });
        }
        assert_eq!(read, line.len(), "a line is all that was read");
        self.offset += read as u64;
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        Ok(read > 0)
    }

    /// What is wrong with the bytes behind the first `found` of a record.
    fn broken(&self, error: io::Error, found: usize) -> TraceError {
        // The system's own errors have a number; the others are the unpackers'.
        if error.raw_os_error().is_some() {
            return io_error(&self.name, "read")(error);
        }
        TraceError::Damaged {
            place: place(&self.name, self.offset + found as u64),
            what: "packed data (the offset counts unpacked bytes)",
            expected: "data that unpacks".to_owned(),
            found: error.to_string(),
        }
    }
}

/// The member being read.
enum Part {
    Stored(Take<Box<dyn Bytes>>),
    Deflated(Box<DeflateDecoder<Take<Box<dyn Bytes>>>>),
}

/// The members of a zip archive as one stream, in the order of the archive's directory.
struct Members {
    /// The archive, while no member is open.
    archive: Option<Box<dyn Bytes>>,
    part: Option<Part>,
    sum: crc32fast::Hasher,
    expected_sum: u32,
    left: std::vec::IntoIter<Member>,
}

impl Members {
    fn open(mut bytes: Box<dyn Bytes>, name: &str) -> Result<Self, TraceError> {
        let members = members(&mut bytes).map_err(|error| TraceError::Damaged {
            place: place(name, 0),
            what: "directory of the zip archive",
            expected: "one that can be read (is the file whole?)".to_owned(),
            found: error,
        })?;
        let unread = |(at, member): (usize, &Member)| Some((at, member.deflated.clone().err()?));
        if let Some((at, what)) = members.iter().enumerate().find_map(unread) {
            return Err(TraceError::Unsupported {
                file: name.to_owned(),
                what: format!("its member {at} is {what}; unpack it first"),
            });
        }
        if members.is_empty() {
            return Err(TraceError::Empty {
                file: name.to_owned(),
            });
        }
        Ok(Self {
            archive: Some(bytes),
            part: None,
            sum: crc32fast::Hasher::new(),
            expected_sum: 0,
            left: members.into_iter(),
        })
    }

    /// Opens the next member; `false` after the last.
    fn next_member(&mut self) -> io::Result<bool> {
        let (Some(member), Some(mut archive)) = (self.left.next(), self.archive.take()) else {
            return Ok(false);
        };
        archive.seek(SeekFrom::Start(member.start))?;
        let packed = archive.take(member.packed_len);
        self.part = Some(if member.deflated == Ok(true) {
            Part::Deflated(Box::new(DeflateDecoder::new(packed)))
        } else {
            Part::Stored(packed)
        });
        self.sum = crc32fast::Hasher::new();
        self.expected_sum = member.crc32;
        Ok(true)
    }

    /// Closes the member that has ended and holds it to its checksum.
    fn end_member(&mut self) -> io::Result<()> {
        self.archive = match self.part.take() {
            Some(Part::Stored(part)) => Some(part.into_inner()),
            Some(Part::Deflated(part)) => Some(part.into_inner().into_inner()),
            None => None,
        };
        let found = std::mem::take(&mut self.sum).finalize();
        if found == self.expected_sum {
            return Ok(());
        }
        let expected = self.expected_sum;
        let text = format!("a member of checksum {found:#010x} instead of {expected:#010x}");
        Err(io::Error::new(ErrorKind::InvalidData, text))
    }
}

impl Read for Members {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        loop {
            let count = match &mut self.part {
                Some(Part::Stored(part)) => part.read(bytes)?,
                Some(Part::Deflated(part)) => part.read(bytes)?,
                None => {
                    if self.next_member()? {
                        continue;
                    }
                    return Ok(0);
                }
            };
            if count > 0 {
                self.sum.update(&bytes[..count]);
                return Ok(count);
            }
            self.end_member()?;
        }
    }
}
