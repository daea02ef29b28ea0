// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a trace is made of, and where records come from.

use crate::Error;

/// Access rights of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prot {
    /// Readable.
    pub r: bool,
    /// Writable.
    pub w: bool,
    /// Executable.
    pub x: bool,
}

/// Which system call changed the mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MapKind {
    /// New pages.
    Mmap,
    /// Pages gone.
    Munmap,
    /// Rights changed.
    Mprotect,
    /// Contents given back; the range stays valid.
    Madvise,
    /// The heap grew or shrank.
    Brk,
}

/// One record of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Record {
    /// A load or a store.
    Access {
        /// The thread.
        thread: u16,
        /// Virtual address, below 2^48.
        vaddr: u64,
        /// Bytes.
        size: u8,
        /// A store.
        write: bool,
        /// Other instructions this thread retired since its previous record.
        instructions: u32,
    },
    /// A change of mapping or rights.
    Map {
        /// The thread that made it.
        thread: u16,
        /// First byte.
        start: u64,
        /// Bytes.
        len: u64,
        /// Rights after the change.
        prot: Prot,
        /// The system call.
        kind: MapKind,
    },
    /// A mark in the program, as the end of start-up.
    Marker {
        /// The thread.
        thread: u16,
        /// The mark's number.
        id: u32,
    },
}

impl Record {
    /// The record's thread.
    #[must_use]
    pub const fn thread(&self) -> u16 {
        match self {
            Self::Access { thread, .. }
            | Self::Map { thread, .. }
            | Self::Marker { thread, .. } => *thread,
        }
    }
}

/// Pages that exist before the first record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// The address space (VM) they belong to, from 0.
    pub vm: u16,
    /// First byte; a multiple of 2 MiB.
    pub start: u64,
    /// Number of 4 KiB pages.
    pub pages: u64,
    /// The first so many pages are in NVM in a steady start, the rest in DRAM.
    pub cold_pages: u64,
}

/// A stream of records, read as blocks so that memory does not grow with its length.
pub trait Source: Send {
    /// Appends the next block to `out`. False: nothing was appended and the stream has ended.
    ///
    /// # Errors
    /// [`Error::Source`] for damaged or unreadable input.
    fn next_block(&mut self, out: &mut Vec<Record>) -> Result<bool, Error>;

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
