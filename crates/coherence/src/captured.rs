// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Captured traces as a source of records: what `steady coherence capture` wrote.
//!
//! A trace counts an access's own instruction among its `instructions`, and gives 0 to the second
//! access of one instruction. The simulator counts the others only, so such a second access costs
//! it one dispatch slot more than the processor.

use crate::Error;
use crate::record::{MapKind, Prot, Record, Source};
use std::io::Read;
use std::path::Path;

/// A captured trace.
#[derive(Debug)]
pub struct Captured<R: Read> {
    reader: steady_memtrace::Reader<R>,
    block: Vec<steady_memtrace::Record>,
}

/// Opens a trace file.
///
/// # Errors
/// [`Error::Source`] when the file cannot be read or is no trace; the text says where and why.
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

fn convert(record: &steady_memtrace::Record) -> Record {
    use steady_memtrace::{MapKind as Kind, Record as From};
    match *record {
        From::Access {
            thread,
            vaddr,
            size,
            write,
            instructions,
        } => Record::Access {
            thread,
            vaddr,
            size,
            write,
            instructions: instructions.saturating_sub(1),
        },
        From::Map {
            thread,
            start,
            len,
            prot,
            kind,
        } => Record::Map {
            thread,
            start,
            len,
            prot: Prot {
                r: prot.read,
                w: prot.write,
                x: prot.exec,
            },
            kind: match (kind, prot.bits()) {
                // A shrinking heap gives its pages back.
                (Kind::Munmap, _) | (Kind::Brk, 0) => MapKind::Munmap,
                (Kind::Mmap, _) => MapKind::Mmap,
                (Kind::Mprotect, _) => MapKind::Mprotect,
                (Kind::Madvise, _) => MapKind::Madvise,
                (Kind::Brk, _) => MapKind::Brk,
            },
        },
        From::Marker { thread, id } => Record::Marker { thread, id },
    }
}

impl<R: Read + Send> Source for Captured<R> {
    fn next_block(&mut self, out: &mut Vec<Record>) -> Result<bool, Error> {
        self.block.clear();
        let more = self
            .reader
            .next_block(&mut self.block)
            .map_err(|e| Error::Source(e.to_string()))?;
        out.extend(self.block.iter().map(convert));
        Ok(more)
    }
}
