// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Captured traces as a source of records: what `steady coherence capture` wrote.

use std::io::Read;
use std::path::Path;

use crate::Error;
use crate::filler::Filler;
use crate::record::{Record, Source};

/// A captured trace.
#[derive(Debug)]
pub struct Captured<R: Read> {
    reader: steady_memtrace::Reader<R>,
    block: Vec<Record>,
}

/// Opens a trace file.
///
/// # Errors
/// [`Error::Source`] when the file cannot be read or is not a trace; the text says where and why.
pub fn open(path: &Path) -> Result<Captured<impl Read + Send + std::fmt::Debug>, Error> {
    let reader = steady_memtrace::Reader::open(path).map_err(|e| Error::Source(e.to_string()))?;
    Ok(Captured::new(reader))
}

impl<R: Read> Captured<R> {
    /// The records of `reader`.
    pub const fn new(reader: steady_memtrace::Reader<R>) -> Self {
        Self {
            reader,
            block: Vec::new(),
        }
    }
}

impl<R: Read + Send> Source for Captured<R> {
    fn next_block(&mut self, out: &mut Vec<Record>) -> Result<bool, Error> {
        self.block.clear();
        let more = self
            .reader
            .next_block(&mut self.block)
            .map_err(|e| Error::Source(e.to_string()))?;
        assert_eq!(more, !self.block.is_empty(), "only the end gives no record");
        out.append(&mut self.block);
        Ok(more)
    }

    fn fill(&mut self, block: &mut Filler) -> Result<bool, Error> {
        let more = self.reader.next_into(block);
        more.map_err(|e| Error::Source(e.to_string()))
    }

    /// The emulator has no processors of the host's.
    fn processors(&self) -> Option<Vec<Option<u16>>> {
        Some(Vec::new())
    }
}
