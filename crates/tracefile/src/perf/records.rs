// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The records of `perf.data`, one after the other, from the file and out of compressed ones.

use std::io::{self, Read};

use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

/// Bytes read at once; a record has at most 65535.
const WINDOW: usize = 256 << 10;
/// The most that one compressed record unpacks to: perf packs what its buffer of a CPU holds.
const UNPACKED_MAX: usize = 64 << 20;

/// One step through the records.
#[derive(Debug)]
pub(super) enum Step {
    /// A record of this type, its body at these bytes of [`Records::bytes`].
    Record(u32, std::ops::Range<usize>),
    /// The end, cleanly.
    End,
    /// The end, inside a record.
    Cut,
    /// A record that cannot be: nothing behind it can be found.
    Lost(String),
}

/// Reads records through a window.
pub(super) struct Records {
    reader: Box<dyn Read + Send>,
    /// Grows to the window's size once; `at..len` of it is what was read and not yet used.
    buffer: Vec<u8>,
    at: usize,
    len: usize,
    /// Byte of the file where the window begins.
    base: u64,
    ended: bool,
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records")
            .field("base", &self.base)
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl Records {
    /// Records that begin at byte `base` of the file, where `reader` stands.
    pub fn new(reader: Box<dyn Read + Send>, base: u64) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            at: 0,
            len: 0,
            base,
            ended: false,
        }
    }

    /// Where the next record is, in bytes from the file's start.
    pub fn offset(&self) -> u64 {
        self.base
            .saturating_add(u64::try_from(self.at).unwrap_or(0))
    }

    pub fn bytes(&self, range: std::ops::Range<usize>) -> &[u8] {
        self.buffer.get(range).unwrap_or_default()
    }

    /// Steps to the next record.
    pub fn step(&mut self) -> io::Result<Step> {
        self.want(8)?;
        let rest = &self.buffer[self.at..self.len];
        let Some(head) = rest.first_chunk::<8>() else {
            return Ok(if rest.is_empty() {
                Step::End
            } else {
                Step::Cut
            });
        };
        let (kind, size) = parse_head(head);
        if size < 8 {
            return Ok(Step::Lost(format!(
                "a record says that it has {size} bytes; expected 8 or more"
            )));
        }
        self.want(size)?;
        if self.len - self.at < size {
            return Ok(Step::Cut);
        }
        let body = self.at + 8..self.at + size;
        self.at += size;
        Ok(Step::Record(kind, body))
    }

    /// The next `len` bytes, which follow a record without being in it; `None` if there are fewer.
    pub fn blob(&mut self, len: u64, keep: bool) -> io::Result<Option<Vec<u8>>> {
        let mut out = Vec::new();
        let mut left = len;
        while left > 0 {
            self.want(1)?;
            let here = self.len - self.at;
            if here == 0 {
                return Ok(None);
            }
            let take = usize::try_from(left).unwrap_or(usize::MAX).min(here);
            if keep {
                out.extend_from_slice(&self.buffer[self.at..self.at + take]);
            }
            self.at += take;
            left -= u64::try_from(take).unwrap_or(left);
        }
        Ok(Some(out))
    }

    /// Makes `len` bytes available if there are as many.
    fn want(&mut self, len: usize) -> io::Result<()> {
        if self.len - self.at >= len || self.ended {
            return Ok(());
        }
        self.base = self.offset();
        self.buffer.resize(WINDOW, 0);
        self.buffer.copy_within(self.at..self.len, 0);
        self.len -= self.at;
        self.at = 0;
        // A pipe gives little at a time; what is wanted suffices.
        while self.len < len {
            match self.reader.read(&mut self.buffer[self.len..]) {
                Ok(0) => {
                    self.ended = true;
                    break;
                }
                Ok(n) => self.len += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// Reads the records inside compressed ones. They are one stream: a record may begin in one
/// compressed record and end in the next.
pub(super) struct Unpacker {
    decoder: Decoder<'static>,
    buffer: Vec<u8>,
    at: usize,
}

impl std::fmt::Debug for Unpacker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unpacker")
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl Unpacker {
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            decoder: Decoder::new()?,
            buffer: Vec::new(),
            at: 0,
        })
    }

    /// Unpacks the body of a compressed record.
    pub fn push(&mut self, packed: &[u8]) -> Result<(), String> {
        self.buffer.drain(..self.at);
        self.at = 0;
        let mut input = InBuffer::around(packed);
        let mut block = [0; 32 << 10];
        loop {
            let mut output = OutBuffer::around(&mut block[..]);
            self.decoder
                .run(&mut input, &mut output)
                .map_err(|e| format!("compressed records do not unpack: {e}"))?;
            let written = output.pos();
            self.buffer.extend_from_slice(&block[..written]);
            if self.buffer.len() > UNPACKED_MAX {
                return Err(format!(
                    "a compressed record unpacks to more than {UNPACKED_MAX} bytes"
                ));
            }
            if input.pos() >= packed.len() && written < block.len() {
                return Ok(());
            }
        }
    }

    /// The next whole record that is unpacked.
    pub fn step(&mut self) -> Result<Option<(u32, std::ops::Range<usize>)>, String> {
        let rest = &self.buffer[self.at..];
        let Some(head) = rest.first_chunk::<8>() else {
            return Ok(None);
        };
        let (kind, size) = parse_head(head);
        if size < 8 {
            self.buffer.clear();
            self.at = 0;
            return Err(format!(
                "an unpacked record says that it has {size} bytes; expected 8 or more"
            ));
        }
        if rest.len() < size {
            return Ok(None);
        }
        let body = self.at + 8..self.at + size;
        self.at += size;
        Ok(Some((kind, body)))
    }

    pub fn bytes(&self, range: std::ops::Range<usize>) -> &[u8] {
        self.buffer.get(range).unwrap_or_default()
    }

    /// Bytes of a record whose end is missing.
    pub fn left(&self) -> usize {
        self.buffer.len() - self.at
    }
}

/// Type and size out of a `struct perf_event_header`; the flags between them are not needed.
fn parse_head(b: &[u8; 8]) -> (u32, usize) {
    (
        u32::from_le_bytes([b[0], b[1], b[2], b[3]]),
        usize::from(u16::from_le_bytes([b[6], b[7]])),
    )
}
