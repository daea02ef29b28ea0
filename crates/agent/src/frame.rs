// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames: how events and files leave the emulated host byte by byte over a debug port.
//!
//! A frame is the magic `STDY`, one kind byte, the length of the payload (32 bits, little
//! endian), the CRC-32 of kind, length and payload, and the payload. An emulator may print words
//! of its own on the same stream, so the decoder looks for the magic; what it passed over is
//! counted, and a frame that fails its check is an error, never skipped in silence.

use thiserror::Error;

use crate::event::Event;

const MAGIC: [u8; 4] = *b"STDY";
const HEADER: usize = 13;
/// Largest payload, in bytes; a longer length is a damaged frame.
pub const PAYLOAD_MAX: usize = 16 << 20;
/// Payload of the file frames that the host writes, in bytes.
pub const FILE_CHUNK: usize = 64 << 10;

/// What a frame holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An [`Event`] as JSON.
    Event,
    /// The next bytes of the file announced by [`Event::File`].
    File,
}

/// A decoded frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// An event.
    Event(Box<Event>),
    /// Bytes of the file announced last.
    File(Vec<u8>),
}

/// Why a stream of frames cannot be read.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum FrameError {
    /// The check sum is wrong.
    #[error("frame at byte {offset}: checksum {found:08x} instead of {expected:08x}")]
    Checksum {
        /// Where the frame starts.
        offset: u64,
        /// What the header says.
        expected: u32,
        /// What the bytes give.
        found: u32,
    },
    /// The header makes no sense.
    #[error("frame at byte {offset}: {what}")]
    Header {
        /// Where the frame starts.
        offset: u64,
        /// What is wrong with it.
        what: String,
    },
    /// The event is not one of ours.
    #[error("frame at byte {offset}: not an event: {what}")]
    Event {
        /// Where the frame starts.
        offset: u64,
        /// What the JSON reader says.
        what: String,
    },
}

fn checksum(kind: u8, payload: &[u8]) -> u32 {
    let length = u32::try_from(payload.len()).expect("payload is bounded");
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[kind]);
    hasher.update(&length.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

/// One frame as bytes.
///
/// # Panics
/// If the payload is longer than [`PAYLOAD_MAX`].
#[must_use]
pub fn encode(kind: Kind, payload: &[u8]) -> Vec<u8> {
    assert!(
        payload.len() <= PAYLOAD_MAX,
        "frame of {} bytes",
        payload.len()
    );
    let kind = match kind {
        Kind::Event => 1,
        Kind::File => 2,
    };
    let length = u32::try_from(payload.len()).expect("asserted above");
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.push(kind);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&checksum(kind, payload).to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Reads frames from a stream that arrives in pieces.
#[derive(Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
    offset: u64,
    passed_over: Vec<u8>,
}

impl Decoder {
    /// Adds bytes to the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Bytes between frames: words of the emulator itself, or the rest of a torn frame.
    #[must_use]
    pub fn passed_over(&self) -> &[u8] {
        &self.passed_over
    }

    /// Bytes of a frame that has begun but is not complete.
    #[must_use]
    pub fn incomplete(&self) -> usize {
        self.pending.len()
    }

    /// The next whole frame, or `None` if more bytes are needed.
    ///
    /// # Errors
    /// [`FrameError`] for a frame that is damaged; the decoder goes on behind its magic.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        self.seek_magic();
        if self.pending.len() < HEADER {
            return Ok(None);
        }
        let offset = self.offset;
        let word = |at: usize| {
            u32::from_le_bytes(self.pending[at..at + 4].try_into().expect("four bytes"))
        };
        let (kind, length, expected) = (self.pending[4], word(5) as usize, word(9));
        if length > PAYLOAD_MAX || !(1..=2).contains(&kind) {
            self.skip(MAGIC.len());
            let what = format!(
                "kind {kind}, length {length} (kinds are 1 and 2, length at most {PAYLOAD_MAX})"
            );
            return Err(FrameError::Header { offset, what });
        }
        if self.pending.len() < HEADER + length {
            return Ok(None);
        }
        let payload = self.pending[HEADER..HEADER + length].to_vec();
        let found = checksum(kind, &payload);
        if found != expected {
            self.skip(MAGIC.len());
            return Err(FrameError::Checksum {
                offset,
                expected,
                found,
            });
        }
        self.pending.drain(..HEADER + length);
        self.offset += (HEADER + length) as u64;
        if kind == 2 {
            return Ok(Some(Frame::File(payload)));
        }
        match serde_json::from_slice(&payload) {
            Ok(event) => Ok(Some(Frame::Event(Box::new(event)))),
            Err(error) => Err(FrameError::Event {
                offset,
                what: error.to_string(),
            }),
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.passed_over.extend(self.pending.drain(..bytes));
        self.offset += bytes as u64;
    }

    fn seek_magic(&mut self) {
        let found = self
            .pending
            .windows(MAGIC.len())
            .position(|window| window == MAGIC);
        // Without the magic, its first bytes may still be the end of what is there.
        let keep_from = found.unwrap_or(self.pending.len().saturating_sub(MAGIC.len() - 1));
        if keep_from > 0 {
            self.skip(keep_from);
        }
    }
}
