// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where records come from. What a record is, the trace format says.

use crate::Error;
use crate::filler::Filler;

pub use steady_memtrace::{MapKind, Prot, Record, Run, Sink};

/// Pages that exist before the first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// The address space (VM) they belong to, from 0.
    pub vm: u16,
    /// First byte; a multiple of 4 KiB.
    pub start: u64,
    /// Number of 4 KiB pages.
    pub pages: u64,
    /// The number of first pages that are in NVM in a steady start, the rest in DRAM.
    pub cold_pages: u64,
}

/// A stream of records, read as blocks so that memory does not grow with its length.
pub trait Source: Send {
    /// Appends the next block to `out`. False: nothing was appended and the stream has ended.
    ///
    /// # Errors
    /// [`Error::Source`] for damaged or unreadable input.
    fn next_block(&mut self, out: &mut Vec<Record>) -> Result<bool, Error>;

    /// Gives the next block to `block`: the same records, without a list of them where the source
    /// can do so. False: there was none.
    ///
    /// # Errors
    /// As [`Source::next_block`].
    fn fill(&mut self, block: &mut Filler) -> Result<bool, Error> {
        block.take_list(|out| self.next_block(out))
    }

    /// Pages present before the first record; a captured trace has none.
    fn residents(&self) -> Vec<Resident> {
        Vec::new()
    }
}

/// Records held in memory, for tests and short traces.
#[derive(Debug, Clone)]
pub struct Memory {
    records: Vec<Record>,
    next: usize,
    block: usize,
}

impl Memory {
    /// A source that hands out `records` in blocks of `block` (at least 1).
    #[must_use]
    pub fn new(records: Vec<Record>, block: usize) -> Self {
        Self {
            records,
            next: 0,
            block: block.max(1),
        }
    }
}

impl Source for Memory {
    fn next_block(&mut self, out: &mut Vec<Record>) -> Result<bool, Error> {
        let end = (self.next + self.block).min(self.records.len());
        out.extend_from_slice(&self.records[self.next..end]);
        let some = end > self.next;
        self.next = end;
        Ok(some)
    }
}
