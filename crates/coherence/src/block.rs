// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One decoded block of a trace, split by thread: what all simulations of a comparison share.
//!
//! A record counts an access's own instruction among its `instructions`, and gives 0 to the second
//! access of one instruction. The simulator counts the others only, so such a second access costs
//! it one dispatch slot more than the processor.

use crate::Error;
use crate::record::{MapKind, Prot, Record, Source};

/// Addresses must fit the four-level page tables.
const ADDRESS_BITS: u32 = 48;

/// What a packed record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Load,
    Store,
    Map,
    Marker,
}

/// A record in 16 bytes; `instructions` are those between it and the one before. For `Map` the
/// address is an index into the block's calls, for `Marker` the mark's number.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packed {
    pub vaddr: u64,
    pub instructions: u32,
    pub kind: Kind,
}

/// A mapping call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub start: u64,
    pub len: u64,
    pub prot: Prot,
    pub kind: MapKind,
}

/// A decoded block.
#[derive(Debug, Default)]
pub struct Block {
    pub(crate) threads: Vec<Vec<Packed>>,
    pub(crate) calls: Vec<Call>,
}

/// Reads a source block by block.
#[derive(Debug)]
pub struct Decoder<S> {
    source: S,
    raw: Vec<Record>,
    read: u64,
    left: u64,
    /// Records of each thread in the block before: about as many will come.
    held: Vec<usize>,
}

impl<S: Source> Decoder<S> {
    /// Reads at most `limit` accesses of `source`.
    pub const fn new(source: S, limit: u64) -> Self {
        Self {
            source,
            raw: Vec::new(),
            read: 0,
            left: limit,
            held: Vec::new(),
        }
    }

    /// The source.
    pub const fn source(&self) -> &S {
        &self.source
    }

    /// Makes room for threads up to `last`.
    #[cold]
    fn begin_threads(&self, block: &mut Block, last: usize) {
        for thread in block.threads.len()..=last {
            let expected = self.held.get(thread).map_or(0, |held| held + held / 8);
            block.threads.push(Vec::with_capacity(expected));
        }
    }

    /// The next block; `None` at the end.
    ///
    /// # Errors
    /// What the source reports, and [`Error::Record`] for an address beyond 48 bits or a range that
    /// wraps.
    pub fn next_block(&mut self) -> Result<Option<Block>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.raw.clear();
        if !self.source.next_block(&mut self.raw)? {
            return Ok(None);
        }
        let mut block = Block::default();
        for record in &self.raw {
            if self.left == 0 {
                break;
            }
            let packed = match *record {
                Record::Access {
                    vaddr,
                    write,
                    instructions,
                    ..
                } => {
                    if vaddr >= 1 << ADDRESS_BITS {
                        check_range(self.read, vaddr, 1)?;
                    }
                    self.left -= 1;
                    Packed {
                        vaddr,
                        instructions: instructions.saturating_sub(1),
                        kind: if write { Kind::Store } else { Kind::Load },
                    }
                }
                Record::Map {
                    start,
                    len,
                    prot,
                    kind,
                    ..
                } => {
                    check_range(self.read, start, len)?;
                    block.calls.push(Call {
                        start,
                        len,
                        prot,
                        kind: effect(kind, prot),
                    });
                    Packed {
                        vaddr: block.calls.len() as u64 - 1,
                        instructions: 0,
                        kind: Kind::Map,
                    }
                }
                Record::Marker { id, .. } => Packed {
                    vaddr: id.into(),
                    instructions: 0,
                    kind: Kind::Marker,
                },
            };
            let thread = usize::from(record.thread());
            if block.threads.len() <= thread {
                self.begin_threads(&mut block, thread);
            }
            block.threads[thread].push(packed);
            self.read += 1;
        }
        self.held.clear();
        self.held.extend(block.threads.iter().map(Vec::len));
        Ok(Some(block))
    }
}

/// A heap that shrinks gives its pages back: a `Brk` without rights.
fn effect(kind: MapKind, prot: Prot) -> MapKind {
    if kind == MapKind::Brk && prot == Prot::default() {
        MapKind::Munmap
    } else {
        kind
    }
}

#[inline]
fn check_range(index: u64, start: u64, len: u64) -> Result<(), Error> {
    let end = start
        .checked_add(len)
        .filter(|end| *end <= 1 << ADDRESS_BITS);
    if end.is_some() {
        return Ok(());
    }
    Err(Error::Record {
        index,
        what: format!(
            "{len} bytes at {start:#x} leave the {ADDRESS_BITS}-bit address space; \
             expected user addresses"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Memory;

    fn brk(write: bool) -> Record {
        Record::Map {
            thread: 0,
            start: 4096,
            len: 4096,
            prot: Prot {
                read: write,
                write,
                exec: false,
            },
            kind: MapKind::Brk,
        }
    }

    #[test]
    fn a_heap_that_shrinks_unmaps_and_one_that_grows_does_not() {
        let source = Memory::new(vec![brk(true), brk(false)], 2);
        let block = Decoder::new(source, 1).next_block().unwrap().unwrap();
        let kinds: Vec<MapKind> = block.calls.iter().map(|call| call.kind).collect();
        assert_eq!(kinds, [MapKind::Brk, MapKind::Munmap]);
    }
}
