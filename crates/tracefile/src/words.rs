// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reading of words, strings and blocks in a file's byte order, each checked against what is left.

use crate::error::{Fault, Place};
use crate::input::Input;

/// The longest string ended by a NUL that is accepted: names of systems, clocks, instances.
const STRING_MAX: usize = 4096;

/// A place to read words from.
pub(crate) trait Words {
    /// Fills `out` or fails with the place where the data ended.
    fn fill(&mut self, out: &mut [u8], what: &str) -> Result<(), Fault>;
    /// Bytes left.
    fn left(&self) -> u64;
    /// Where the next byte is.
    fn place(&self) -> Place;
    /// True if the most significant byte comes first.
    fn big(&self) -> bool;

    fn u8(&mut self, what: &str) -> Result<u8, Fault> {
        let mut b = [0; 1];
        self.fill(&mut b, what)?;
        Ok(b[0])
    }

    fn u16(&mut self, what: &str) -> Result<u16, Fault> {
        let mut b = [0; 2];
        self.fill(&mut b, what)?;
        Ok(if self.big() {
            u16::from_be_bytes(b)
        } else {
            u16::from_le_bytes(b)
        })
    }

    fn u32(&mut self, what: &str) -> Result<u32, Fault> {
        let mut b = [0; 4];
        self.fill(&mut b, what)?;
        Ok(if self.big() {
            u32::from_be_bytes(b)
        } else {
            u32::from_le_bytes(b)
        })
    }

    fn u64(&mut self, what: &str) -> Result<u64, Fault> {
        let mut b = [0; 8];
        self.fill(&mut b, what)?;
        Ok(if self.big() {
            u64::from_be_bytes(b)
        } else {
            u64::from_le_bytes(b)
        })
    }

    /// `len` bytes; fails before allocating if there are fewer.
    fn block(&mut self, len: u64, what: &str) -> Result<Vec<u8>, Fault> {
        if len > self.left() {
            return Err(Fault::new(
                self.place(),
                format!(
                    "{what} should have {len} bytes, but only {} follow",
                    self.left()
                ),
            ));
        }
        let len = usize::try_from(len)
            .map_err(|_| Fault::new(self.place(), format!("{what} is too large")))?;
        let mut block = vec![0; len];
        self.fill(&mut block, what)?;
        Ok(block)
    }

    /// Bytes up to a NUL, which is consumed.
    fn cstr(&mut self, what: &str) -> Result<String, Fault> {
        let start = self.place();
        let mut bytes = Vec::new();
        loop {
            match self.u8(what)? {
                0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                b if bytes.len() < STRING_MAX => bytes.push(b),
                _ => {
                    return Err(Fault::new(
                        start,
                        format!("{what} is not ended within {STRING_MAX} bytes"),
                    ));
                }
            }
        }
    }

    /// Fails unless exactly `expected` follows.
    fn expect(&mut self, expected: &[u8], what: &str) -> Result<(), Fault> {
        let place = self.place();
        let found = self.block(u64::try_from(expected.len()).unwrap_or(u64::MAX), what)?;
        if found == expected {
            return Ok(());
        }
        Err(Fault::new(
            place,
            format!(
                "expected {what} (`{}`), found `{}`",
                expected.escape_ascii(),
                found.escape_ascii()
            ),
        ))
    }
}

/// Words of a block in memory.
#[derive(Debug)]
pub(crate) struct Block<'a> {
    data: &'a [u8],
    at: usize,
    /// Byte of the file where the block begins, and whether it was packed there.
    origin: u64,
    packed: bool,
    big: bool,
}

impl<'a> Block<'a> {
    pub fn new(data: &'a [u8], origin: u64, packed: bool, big: bool) -> Self {
        Self {
            data,
            at: 0,
            origin,
            packed,
            big,
        }
    }
}

impl Words for Block<'_> {
    fn fill(&mut self, out: &mut [u8], what: &str) -> Result<(), Fault> {
        let rest = self.data.get(self.at..).unwrap_or_default();
        let Some(bytes) = rest.get(..out.len()) else {
            return Err(Fault::new(
                self.place(),
                format!("the data end inside {what}"),
            ));
        };
        out.copy_from_slice(bytes);
        self.at += out.len();
        Ok(())
    }

    fn left(&self) -> u64 {
        u64::try_from(self.data.len() - self.at).unwrap_or(u64::MAX)
    }

    fn place(&self) -> Place {
        let at = u64::try_from(self.at).unwrap_or(u64::MAX);
        if self.packed {
            Place::Unpacked {
                section: self.origin,
                byte: at,
            }
        } else {
            Place::Byte(self.origin.saturating_add(at))
        }
    }

    fn big(&self) -> bool {
        self.big
    }
}

/// Words of a file, from a place on.
#[derive(Debug)]
pub(crate) struct FileWords<'a> {
    pub input: &'a Input,
    pub at: u64,
    pub big: bool,
}

impl Words for FileWords<'_> {
    fn fill(&mut self, out: &mut [u8], what: &str) -> Result<(), Fault> {
        let len = u64::try_from(out.len()).unwrap_or(u64::MAX);
        if len > self.left() {
            return Err(Fault::new(
                Place::Byte(self.input.len()),
                format!("the file ends inside {what}"),
            ));
        }
        self.input
            .read_exact_at(out, self.at)
            .map_err(|e| Fault::new(self.place(), format!("cannot read {what}: {e}")))?;
        self.at += len;
        Ok(())
    }

    fn left(&self) -> u64 {
        self.input.len().saturating_sub(self.at)
    }

    fn place(&self) -> Place {
        Place::Byte(self.at)
    }

    fn big(&self) -> bool {
        self.big
    }
}
