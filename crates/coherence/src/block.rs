// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One decoded block of a trace, split by thread: what all simulations of a comparison share.
//!
//! A record counts an access's own instruction among its `instructions`, and gives 0 to the second
//! access of one instruction. The simulator counts the others only, so such a second access costs
//! it one dispatch slot more than the processor.

use crate::Error;
use crate::filler::Filler;
use crate::record::{MapKind, Prot, Source};

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
    filler: Filler,
}

impl<S: Source> Decoder<S> {
    /// Reads at most `limit` accesses of `source`.
    pub const fn new(source: S, limit: u64) -> Self {
        let filler = Filler::new(limit);
        Self { source, filler }
    }

    /// The source.
    pub const fn source(&self) -> &S {
        &self.source
    }

    /// The next block; `None` at the end.
    ///
    /// # Errors
    /// What the source reports, and [`Error::Record`] for an address beyond 48 bits or a range that
    /// wraps.
    pub fn next_block(&mut self) -> Result<Option<Block>, Error> {
        if self.filler.left() == 0 || !self.source.fill(&mut self.filler)? {
            return Ok(None);
        }
        self.filler.finish().map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Memory, Record};

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
