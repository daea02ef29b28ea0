// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a trace from front to back with constant memory, from a file or a pipe. Each chunk's
//! checksum is verified before its bytes are believed; the footer is compared with what went by.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::decode::{Decoder, Fault, Sink};
use crate::error::{Place, TraceError};
use crate::footer::{Digest, Footer, Totals, parse_trailer};
use crate::header::{Header, word};
use crate::layout::{
    CHUNK_HEADER_LEN, CHUNK_MARK, FOOTER_FIXED_LEN, INDEX_ENTRY_LEN, INDEX_MARK, MAX_CHUNK_RECORDS,
    MAX_PAYLOAD_LEN, MAX_STORED_LEN, TRAILER_LEN,
};
use crate::record::Record;
use crate::writer::io_error;

/// A trace being read.
pub struct Reader<R: Read> {
    from: R,
    name: String,
    header: Header,
    stated: Option<Footer>,
    decoder: Decoder,
    decompressor: zstd::bulk::Decompressor<'static>,
    stored: Vec<u8>,
    offset: u64,
    chunk_offset: u64,
    chunks: u64,
    records: u64,
    index_sum: crc32fast::Hasher,
    content: Option<Sha256>,
    ended: bool,
}

impl<R: Read> std::fmt::Debug for Reader<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("Reader");
        text.field("name", &self.name)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl Reader<BufReader<File>> {
    /// Opens a trace file. Its totals are known at once.
    ///
    /// # Errors
    /// [`TraceError`] for a file that is missing, empty, foreign, truncated or damaged.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let mut file = File::open(path).map_err(io_error(&name, "open"))?;
        if !file.metadata().map_err(io_error(&name, "read"))?.is_file() {
            return Self::from_stream(BufReader::new(file), &name);
        }
        let (_, header_len) = Header::read(&mut file, &name)?;
        let footer = read_footer(&mut file, &name, u64::from(header_len))?;
        file.rewind().map_err(io_error(&name, "read"))?;
        let mut reader = Self::from_stream(BufReader::new(file), &name)?;
        reader.stated = Some(footer);
        Ok(reader)
    }
}

impl<R: Read> Reader<R> {
    /// Reads a trace from a stream that need not seek; `name` stands for it in errors.
    ///
    /// # Errors
    /// As [`Reader::open`], for the header.
    pub fn from_stream(mut from: R, name: &str) -> Result<Self, TraceError> {
        let (header, header_len) = Header::read(&mut from, name)?;
        let decompressor = zstd::bulk::Decompressor::new().map_err(io_error(name, "decompress"))?;
        Ok(Self {
            from,
            name: name.to_owned(),
            header,
            stated: None,
            decoder: Decoder::default(),
            decompressor,
            stored: Vec::new(),
            offset: u64::from(header_len),
            chunk_offset: 0,
            chunks: 0,
            records: 0,
            index_sum: crc32fast::Hasher::new(),
            content: None,
            ended: false,
        })
    }

    /// What the trace says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The trace's totals: at once for a file, after the last block for a stream.
    pub fn totals(&self) -> Option<&Totals> {
        self.stated.as_ref().map(|footer| &footer.totals)
    }

    /// The digest the trace states for its content; known when [`Self::totals`] are.
    pub fn digest(&self) -> Option<Digest> {
        self.stated.as_ref().map(|footer| footer.digest)
    }

    /// Replaces `out` by the next records in order, 1 to 4,096 of them. At the end of the trace
    /// `out` is empty and the answer `false`.
    ///
    /// # Errors
    /// [`TraceError`] at the first byte that is missing or wrong; `out` is then of no use, and so
    /// is the reader.
    pub fn next_block(&mut self, out: &mut Vec<Record>) -> Result<bool, TraceError> {
        if !self.more()? {
            out.clear();
            return Ok(false);
        }
        let done = self.decoder.done();
        let result = self.decoder.next_block(out);
        self.count(done, result)?;
        assert!(
            !out.is_empty() && out.len() == self.decoder.done() - done,
            "a block has the records that are counted, and at least one"
        );
        Ok(true)
    }

    /// As [`Self::next_block`], each record given to `sink`.
    ///
    /// # Errors
    /// As [`Self::next_block`]; the sink may have got records before the error.
    pub fn next_into(&mut self, sink: &mut impl Sink) -> Result<bool, TraceError> {
        if !self.more()? {
            return Ok(false);
        }
        let done = self.decoder.done();
        let result = self.decoder.next_into(sink);
        self.count(done, result)?;
        Ok(true)
    }

    /// Whether there is a record left; it is in the decoder then.
    fn more(&mut self) -> Result<bool, TraceError> {
        Ok(!self.decoder.is_drained() || self.next_chunk()?)
    }

    /// Counts the records since `done`, unless decoding them has failed.
    fn count(&mut self, done: usize, decoded: Result<(), Fault>) -> Result<(), TraceError> {
        decoded.map_err(|fault| self.fault(fault))?;
        self.records += (self.decoder.done() - done) as u64;
        Ok(())
    }

    /// Makes the reader hash what it decompresses and compare the digest at the end. The
    /// checksums already find damage; this finds a footer that names another trace, so
    /// [`crate::check`] asks for it and a simulation saves the time.
    pub(crate) fn verify_digest(&mut self) {
        self.content = Some(Sha256::new());
    }

    /// Place of the chunk being read.
    pub(crate) fn place(&self, record: Option<u64>) -> Box<Place> {
        Box::new(Place {
            file: self.name.clone(),
            chunk: self.chunks.checked_sub(1),
            record,
            offset: self.chunk_offset,
        })
    }

    /// A place outside the chunks.
    fn place_at(&self, offset: u64) -> Box<Place> {
        Box::new(Place {
            file: self.name.clone(),
            chunk: None,
            record: None,
            offset,
        })
    }

    /// Records of the current chunk that were handed out.
    pub(crate) fn done_in_chunk(&self) -> u64 {
        self.decoder.done() as u64
    }

    fn fault(&self, fault: Fault) -> TraceError {
        if fault.impossible {
            return TraceError::Invariant {
                place: self.place(fault.record),
                what: fault.what,
                expected: fault.expected,
                found: fault.found,
            };
        }
        TraceError::Damaged {
            place: self.place(fault.record),
            what: fault.what,
            expected: fault.expected,
            found: fault.found,
        }
    }

    fn damaged(
        &self,
        place: Box<Place>,
        what: &'static str,
        expected: impl ToString,
        found: impl ToString,
    ) -> TraceError {
        TraceError::Damaged {
            place,
            what,
            expected: expected.to_string(),
            found: found.to_string(),
        }
    }

    /// Reads exactly `bytes`, or says what part of the file is cut.
    fn read_part(&mut self, bytes: &mut [u8], what: &'static str) -> Result<(), TraceError> {
        let mut found = 0;
        while found < bytes.len() {
            match self.from.read(&mut bytes[found..]) {
                Ok(0) => {
                    return Err(TraceError::Truncated {
                        place: self.place_at(self.offset),
                        what,
                        expected: bytes.len() as u64,
                        found: found as u64,
                    });
                }
                Ok(count) => found += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io_error(&self.name, "read")(error)),
            }
        }
        self.offset += bytes.len() as u64;
        Ok(())
    }

    /// Reads and decompresses the next chunk; `false` once the footer has been read instead.
    fn next_chunk(&mut self) -> Result<bool, TraceError> {
        if self.ended {
            return Ok(false);
        }
        self.chunk_offset = self.offset;
        let mut head = [0; CHUNK_HEADER_LEN];
        self.read_part(&mut head[..4], "next chunk")?;
        if head[..4] == INDEX_MARK {
            self.read_footer_in_stream()?;
            self.ended = true;
            return Ok(false);
        }
        self.chunks += 1;
        if head[..4] != CHUNK_MARK {
            let found = head[..4].escape_ascii();
            return Err(self.damaged(self.place(None), "start of a chunk", "CHNK or INDX", found));
        }
        self.read_part(&mut head[4..], "head of a chunk")?;
        let (records, raw, stored) = (word(&head, 4), word(&head, 8), word(&head, 12));
        for (what, value, limit) in [
            ("record count of a chunk", records, MAX_CHUNK_RECORDS),
            ("raw length of a chunk", raw, MAX_PAYLOAD_LEN),
            ("stored length of a chunk", stored, MAX_STORED_LEN),
        ] {
            if value == 0 || value > limit {
                return Err(self.damaged(self.place(None), what, format!("1 to {limit}"), value));
            }
        }
        let mut bytes = std::mem::take(&mut self.stored);
        bytes.resize(stored as usize, 0);
        self.read_part(&mut bytes, "body of a chunk")?;
        let mut sum = crc32fast::Hasher::new();
        sum.update(&head[..16]);
        sum.update(&bytes);
        let sum = sum.finalize();
        if sum != word(&head, 16) {
            let (expected, found) = (format!("{:#010x}", word(&head, 16)), format!("{sum:#010x}"));
            return Err(self.damaged(self.place(None), "checksum of a chunk", expected, found));
        }
        self.index_sum.update(&self.chunk_offset.to_le_bytes());
        self.index_sum.update(&head[4..8]);
        self.index_sum.update(&head[16..20]);
        self.stored = bytes;
        self.start_decoding(records, raw as usize)?;
        Ok(true)
    }

    fn start_decoding(&mut self, records: u32, raw: usize) -> Result<(), TraceError> {
        let (decompressor, stored) = (&mut self.decompressor, &self.stored);
        let started = self.decoder.start(records as usize, |payload| {
            payload.reserve(raw + 8);
            let count = decompressor.decompress_to_buffer(stored, payload);
            count.map_err(|error| error.to_string()).and_then(|count| {
                if count == raw {
                    Ok(())
                } else {
                    Err(format!("{count} bytes"))
                }
            })
        });
        match started {
            Err(found) => {
                let place = self.place(None);
                return Err(self.damaged(place, "decompression", format!("{raw} bytes"), found));
            }
            Ok(columns) => columns.map_err(|fault| self.fault(fault))?,
        }
        if let Some(content) = &mut self.content {
            content.update(records.to_le_bytes());
            content.update(self.decoder.payload());
        }
        Ok(())
    }

    /// The footer met in reading order: its index must be that of the chunks that went by.
    fn read_footer_in_stream(&mut self) -> Result<(), TraceError> {
        let start = self.chunk_offset;
        let place = self.place_at(start);
        let mut fixed = [0; FOOTER_FIXED_LEN];
        fixed[..4].copy_from_slice(&INDEX_MARK);
        self.read_part(&mut fixed[4..], "footer")?;
        let Some(footer) = Footer::parse(&fixed) else {
            return Err(self.damaged(place, "footer", "known flags", "others"));
        };
        for (what, seen, stated) in [
            (
                "chunks counted in the footer",
                self.chunks,
                footer.totals.chunks,
            ),
            (
                "records counted in the footer",
                self.records,
                footer.totals.records,
            ),
        ] {
            if seen != stated {
                return Err(self.damaged(place, what, seen, stated));
            }
        }
        let mut sum = crc32fast::Hasher::new();
        sum.update(&fixed);
        let mut index = crc32fast::Hasher::new();
        let mut entry = [0; INDEX_ENTRY_LEN];
        for _ in 0..self.chunks {
            self.read_part(&mut entry, "index")?;
            sum.update(&entry);
            index.update(&entry);
        }
        let mut stated = [0; 4];
        self.read_part(&mut stated, "checksum of the footer")?;
        let (found, expected) = (sum.finalize(), word(&stated, 0));
        if found != expected {
            return Err(self.damaged(place, "checksum of the footer", expected, found));
        }
        if index.finalize() != self.index_sum.clone().finalize() {
            let what = "index of chunks";
            return Err(self.damaged(place, what, "the chunks before it", "others"));
        }
        let len = self.offset - start;
        let mut trailer = [0; TRAILER_LEN];
        self.read_part(&mut trailer, "trailer")?;
        if parse_trailer(&trailer) != Some((start, len)) {
            let what = "trailer";
            return Err(self.damaged(place, what, format!("footer at byte {start}"), "another"));
        }
        if self
            .from
            .read(&mut [0])
            .map_err(io_error(&self.name, "read"))?
            != 0
        {
            return Err(self.damaged(place, "end of the file", "nothing more", "more bytes"));
        }
        if let Some(content) = self.content.take() {
            let digest = Digest(content.finalize().into());
            if digest != footer.digest {
                return Err(self.damaged(place, "digest", footer.digest, digest));
            }
        }
        self.stated = Some(footer);
        Ok(())
    }
}

/// The footer of a file, found by the trailer, before anything else is read.
fn read_footer(file: &mut File, name: &str, after: u64) -> Result<Footer, TraceError> {
    let size = file
        .seek(SeekFrom::End(0))
        .map_err(io_error(name, "read"))?;
    let least = (FOOTER_FIXED_LEN + 4 + TRAILER_LEN) as u64;
    let place = |offset| {
        Box::new(Place {
            file: name.to_owned(),
            chunk: None,
            record: None,
            offset,
        })
    };
    let cut = |found| TraceError::Truncated {
        place: place(after),
        what: "records or index (the end mark is missing)",
        expected: least,
        found,
    };
    let rest = size.saturating_sub(after);
    if rest < least {
        return Err(cut(rest));
    }
    let trailer_at = size - TRAILER_LEN as u64;
    let mut trailer = [0; TRAILER_LEN];
    let mut read_at = |offset, bytes: &mut [u8]| {
        file.seek(SeekFrom::Start(offset))
            .and_then(|_| file.read_exact(bytes))
            .map_err(io_error(name, "read"))
    };
    read_at(trailer_at, &mut trailer)?;
    let damaged = |offset, what, expected: String, found: String| TraceError::Damaged {
        place: place(offset),
        what,
        expected,
        found,
    };
    let Some((offset, len)) = parse_trailer(&trailer) else {
        let expected = "the end mark of a whole trace (is the file truncated?)".to_owned();
        let found = trailer.escape_ascii().to_string();
        return Err(damaged(trailer_at, "trailer", expected, found));
    };
    if offset < after || offset.checked_add(len) != Some(trailer_at) || len < least - 28 {
        let expected = format!("a footer from byte {after} to {trailer_at}");
        return Err(damaged(
            trailer_at,
            "trailer",
            expected,
            format!("byte {offset}, {len} long"),
        ));
    }
    let mut fixed = [0; FOOTER_FIXED_LEN];
    read_at(offset, &mut fixed)?;
    let entries = len - (FOOTER_FIXED_LEN + 4) as u64;
    Footer::parse(&fixed)
        .filter(|footer| footer.totals.chunks.checked_mul(INDEX_ENTRY_LEN as u64) == Some(entries))
        .ok_or_else(|| {
            let expected = format!("INDX, known flags, {entries} bytes of index");
            damaged(offset, "footer", expected, "others".to_owned())
        })
}
