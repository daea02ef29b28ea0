// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The bytes of a file, unpacked: plain, gzip, xz, or the members of a zip archive one after the
//! other, told apart by content. Memory does not grow with the file.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, SeekFrom, Take};

use flate2::bufread::{DeflateDecoder, MultiGzDecoder};
use liblzma::bufread::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use zip::{CompressionMethod, ZipArchive};

use super::{Bytes, Named, place};
use crate::error::TraceError;
use crate::writer::io_error;

/// First bytes that tell formats apart.
const HEAD_LEN: usize = 12;
/// Memory that unpacking xz may take, bytes: four times what its highest level needs.
const XZ_MEMORY: u64 = 256 << 20;

/// The unpacked bytes of one file and how far they were read.
pub(super) struct Unpacked {
    from: Box<dyn Read>,
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
        let unsupported = |what: &str| TraceError::Unsupported {
            file: name.clone(),
            what: format!("it is packed with {what}; unpack it first"),
        };
        let from: Box<dyn Read> = if head.starts_with(b"\xfd7zXZ\0") {
            let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED)
                .map_err(|error| io_error(&name, "unpack")(error.into()))?;
            Box::new(BufReader::new(XzDecoder::new_stream(bytes, stream)))
        } else if head.starts_with(&[0x1f, 0x8b]) {
            Box::new(BufReader::new(MultiGzDecoder::new(bytes)))
        } else if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
            let members = Members::open(bytes, &name)?;
            Box::new(BufReader::new(members))
        } else if head.starts_with(&[0x04, 0x22, 0x4d, 0x18]) {
            return Err(unsupported("lz4"));
        } else if head.starts_with(b"\xff\x06\0\0sNaPpY") {
            return Err(unsupported("snappy"));
        } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            return Err(unsupported("zstd"));
        } else {
            Box::new(bytes)
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
                // The system's own errors have a number; the others are the unpackers'.
                Err(error) if error.raw_os_error().is_some() => {
                    return Err(io_error(&self.name, "read")(error));
                }
                Err(error) => {
                    return Err(TraceError::Damaged {
                        place: place(&self.name, self.offset + found as u64),
                        what: "packed data (the offset counts unpacked bytes)",
                        expected: "data that unpacks".to_owned(),
                        found: error.to_string(),
                    });
                }
            }
        }
        Ok(found)
    }
}

/// Where a member's packed bytes lie.
struct Member {
    start: u64,
    packed_len: u64,
    crc32: u32,
    deflated: bool,
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
    fn open(bytes: Box<dyn Bytes>, name: &str) -> Result<Self, TraceError> {
        let damaged = |error: zip::result::ZipError| TraceError::Damaged {
            place: place(name, 0),
            what: "directory of the zip archive",
            expected: "one that can be read (is the file whole?)".to_owned(),
            found: error.to_string(),
        };
        let mut archive = ZipArchive::new(bytes).map_err(damaged)?;
        let mut members = Vec::new();
        for at in 0..archive.len() {
            let member = archive.by_index_raw(at).map_err(damaged)?;
            let deflated = match member.compression() {
                CompressionMethod::Stored => false,
                _ if member.encrypted() => {
                    return Err(TraceError::Unsupported {
                        file: name.to_owned(),
                        what: format!("its member {at} is encrypted; unpack it first"),
                    });
                }
                // Compiled without decompressors, the library knows the methods by number.
                #[expect(deprecated, reason = "names no method that needs its features")]
                CompressionMethod::Unsupported(8) => true,
                other => {
                    return Err(TraceError::Unsupported {
                        file: name.to_owned(),
                        what: format!("its member {at} is packed by {other}, expected deflate"),
                    });
                }
            };
            members.push(Member {
                start: member.data_start(),
                packed_len: member.compressed_size(),
                crc32: member.crc32(),
                deflated,
            });
        }
        if members.is_empty() {
            return Err(TraceError::Empty {
                file: name.to_owned(),
            });
        }
        Ok(Self {
            archive: Some(archive.into_inner()),
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
        self.part = Some(if member.deflated {
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
