// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The header of a trace: what was recorded, by which command, and when.

use std::io::Read;

use crate::error::{Place, TraceError};
use crate::layout::{FIXED_HEADER_LEN, MAGIC, MAX_HEADER_LEN, VERSION};

/// What recorded the accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Origin {
    /// Made by a program: a generator or a test.
    #[default]
    Generated,
    /// A real program under the `qemu-memtrace` plugin.
    Qemu,
    /// Converted from a ChampSim trace.
    ChampSim,
    /// Converted from a DynamoRIO trace.
    DynamoRio,
    /// Converted from text, which any tool can print.
    Text,
}

impl Origin {
    fn code(self) -> u32 {
        match self {
            Self::Generated => 0,
            Self::Qemu => 1,
            Self::ChampSim => 2,
            Self::DynamoRio => 3,
            Self::Text => 4,
        }
    }

    fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0 => Self::Generated,
            1 => Self::Qemu,
            2 => Self::ChampSim,
            3 => Self::DynamoRio,
            4 => Self::Text,
            _ => return None,
        })
    }
}

/// What stands before the first record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Bytes in a base page, a power of two from 512 to 2^30.
    pub page_size: u32,
    /// What recorded the accesses.
    pub origin: Origin,
    /// Name of the program, for people.
    pub program: String,
    /// The command that made the trace, word by word; empty where there is none.
    pub command: Vec<String>,
    /// Tool and version that recorded, for people.
    pub recorder: String,
    /// When, in seconds since 1970, or 0 for "not said". Not part of the trace's digest.
    pub captured_unix_s: u64,
}

impl Header {
    /// A header for a generated trace of 4 KiB pages.
    #[must_use]
    pub fn new(program: &str) -> Self {
        Self {
            page_size: 4096,
            origin: Origin::Generated,
            program: program.to_owned(),
            command: Vec::new(),
            recorder: String::new(),
            captured_unix_s: 0,
        }
    }

    /// The bytes of the header, its checksum included.
    pub(crate) fn to_bytes(&self, file: &str) -> Result<Vec<u8>, TraceError> {
        let mut bytes = MAGIC.to_vec();
        for word in [VERSION, 0, self.page_size, self.origin.code()] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&self.captured_unix_s.to_le_bytes());
        let words = u32::try_from(self.command.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&words.to_le_bytes());
        let texts = [&self.program, &self.recorder]
            .into_iter()
            .chain(&self.command);
        for text in texts {
            let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
            bytes.extend_from_slice(&len.to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        let total = bytes.len() + 4;
        let len = u32::try_from(total)
            .ok()
            .filter(|len| *len <= MAX_HEADER_LEN);
        let len = len.ok_or_else(|| TraceError::Unwritable {
            file: file.to_owned(),
            what: format!("its header takes {total} bytes, at most {MAX_HEADER_LEN} fit"),
        })?;
        if !page_size_is_legal(self.page_size) {
            return Err(TraceError::Unwritable {
                file: file.to_owned(),
                what: format!(
                    "page size {} is not a power of two from 512 to 2^30",
                    self.page_size
                ),
            });
        }
        bytes[12..16].copy_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        Ok(bytes)
    }

    /// Reads a header and the count of its bytes.
    pub(crate) fn read(from: &mut impl Read, file: &str) -> Result<(Self, u32), TraceError> {
        let fixed = read_up_to(from, FIXED_HEADER_LEN, file)?;
        if fixed.is_empty() {
            return Err(TraceError::Empty {
                file: file.to_owned(),
            });
        }
        if !fixed.starts_with(&MAGIC) {
            return Err(TraceError::Foreign {
                file: file.to_owned(),
                found: printable(&fixed[..fixed.len().min(MAGIC.len())]),
                expected: printable(&MAGIC),
            });
        }
        if fixed.len() < FIXED_HEADER_LEN {
            return Err(truncated(file, FIXED_HEADER_LEN, fixed.len()));
        }
        if word(&fixed, 8) != VERSION {
            return Err(TraceError::Version {
                file: file.to_owned(),
                found: word(&fixed, 8),
                expected: VERSION,
            });
        }
        let len = word(&fixed, 12);
        let whole = usize::try_from(len).unwrap_or(usize::MAX);
        if len > MAX_HEADER_LEN || whole < FIXED_HEADER_LEN + 4 {
            let range = format!("{} to {MAX_HEADER_LEN}", FIXED_HEADER_LEN + 4);
            return Err(damaged(file, 12, "length of the header", range, len));
        }
        let mut bytes = fixed;
        bytes.append(&mut read_up_to(from, whole - FIXED_HEADER_LEN, file)?);
        if bytes.len() < whole {
            return Err(truncated(file, whole, bytes.len()));
        }
        let (body, sum) = bytes.split_at(whole - 4);
        if crc32fast::hash(body) != word(sum, 0) {
            let found = format!("{:#010x}", crc32fast::hash(body));
            let expected = format!("{:#010x}", word(sum, 0));
            return Err(damaged(file, 0, "checksum of the header", expected, found));
        }
        let header = Self::parse(body).ok_or_else(|| {
            damaged(
                file,
                16,
                "fields of the header",
                "values in range",
                "others",
            )
        })?;
        Ok((header, len))
    }

    /// Reads the fields of a header whose checksum is right.
    fn parse(body: &[u8]) -> Option<Self> {
        let words = usize::try_from(word(body, 32)).ok()?;
        let mut at = FIXED_HEADER_LEN;
        let mut text = || {
            let len = usize::try_from(word(body.get(at..at + 4)?, 0)).ok()?;
            let bytes = body.get(at + 4..(at + 4).checked_add(len)?)?;
            at += 4 + len;
            String::from_utf8(bytes.to_vec()).ok()
        };
        let program = text()?;
        let recorder = text()?;
        let mut command = Vec::new();
        for _ in 0..words {
            command.push(text()?);
        }
        let page_size = word(body, 16);
        (at == body.len() && page_size_is_legal(page_size)).then_some(())?;
        Some(Self {
            page_size,
            origin: Origin::from_code(word(body, 20))?,
            program,
            command,
            recorder,
            captured_unix_s: u64::from(word(body, 28)) << 32 | u64::from(word(body, 24)),
        })
    }
}

fn page_size_is_legal(size: u32) -> bool {
    size.is_power_of_two() && (512..=1 << 30).contains(&size)
}

/// The little-endian word at `at`, which the caller knows to be there.
pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    let part = &bytes[at..at + 4];
    u32::from_le_bytes([part[0], part[1], part[2], part[3]])
}

/// Two words: the little-endian 64-bit number at `at`.
pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at + 4)) << 32 | u64::from(word(bytes, at))
}

/// Reads `len` bytes, fewer at the end of the input.
pub(crate) fn read_up_to(
    from: &mut impl Read,
    len: usize,
    file: &str,
) -> Result<Vec<u8>, TraceError> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(len).unwrap_or(u64::MAX);
    from.take(limit)
        .read_to_end(&mut bytes)
        .map_err(|error| TraceError::Io {
            file: file.to_owned(),
            action: "read",
            error,
        })?;
    Ok(bytes)
}

fn printable(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}

fn truncated(file: &str, expected: usize, found: usize) -> TraceError {
    TraceError::Truncated {
        place: place(file, 0),
        what: "header",
        expected: u64::try_from(expected).unwrap_or(u64::MAX),
        found: u64::try_from(found).unwrap_or(u64::MAX),
    }
}

fn place(file: &str, offset: u64) -> Box<Place> {
    Box::new(Place {
        file: file.to_owned(),
        chunk: None,
        record: None,
        offset,
    })
}

fn damaged(
    file: &str,
    offset: u64,
    what: &'static str,
    expected: impl ToString,
    found: impl ToString,
) -> TraceError {
    TraceError::Damaged {
        place: place(file, offset),
        what,
        expected: expected.to_string(),
        found: found.to_string(),
    }
}
