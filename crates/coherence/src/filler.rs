// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A block in the making: takes a trace's records in order and splits them by thread.
//!
//! Sources give their records straight to it, run by run of one thread: most of what reading a
//! trace costs is moving records, so each is moved once. Addresses are checked a run at a time.

use crate::Error;
use crate::block::{Block, Call, Kind, Packed};
use crate::num::ix;
use crate::record::{MapKind, Prot, Record, Run, Sink};

/// Addresses must fit the four-level page tables.
const ADDRESS_BITS: u32 = 48;
/// Fills room for records until they come.
const NOTHING: Packed = Packed {
    vaddr: 0,
    instructions: 0,
    kind: Kind::Marker,
};

/// The run taken last: where its records are, and the bits that some address of it has, all of them
/// for a range that is impossible.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    thread: usize,
    from: usize,
    count: usize,
    bits: u64,
    /// Accesses after which nothing of the run counts, where it has as many.
    last: Option<u64>,
}

/// A block being made, of at most this number of accesses in all blocks.
#[derive(Debug)]
pub struct Filler {
    block: Block,
    /// Records of each thread; its list may have room beyond.
    counts: Vec<usize>,
    taken: Taken,
    /// Records taken before that run, and accesses that may still come.
    read: u64,
    left: u64,
    /// Records of each thread in the block before: about as many will come.
    held: Vec<usize>,
    /// Records of a source that can only list them.
    listed: Vec<Record>,
    wrong: Option<Error>,
}

impl Filler {
    pub(crate) const fn new(limit: u64) -> Self {
        Self {
            block: Block {
                threads: Vec::new(),
                calls: Vec::new(),
            },
            counts: Vec::new(),
            taken: Taken {
                thread: 0,
                from: 0,
                count: 0,
                bits: 0,
                last: None,
            },
            read: 0,
            left: limit,
            held: Vec::new(),
            listed: Vec::new(),
            wrong: None,
        }
    }

    /// Accesses that may still come; those beyond are not taken.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// Takes the records that `list` appends, and gives its answer.
    ///
    /// # Errors
    /// Those of `list`.
    pub fn take_list(
        &mut self,
        list: impl FnOnce(&mut Vec<Record>) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let mut listed = std::mem::take(&mut self.listed);
        listed.clear();
        let more = list(&mut listed)?;
        for records in listed.chunk_by(|one, next| one.thread() == next.thread()) {
            let mut run = self.run(records[0].thread(), records.len());
            records.iter().for_each(|&record| run.other(record));
            run.end();
        }
        self.listed = listed;
        Ok(more)
    }

    /// The block, and room for the next.
    ///
    /// # Errors
    /// [`Error::Record`] for an address beyond 48 bits or a range that wraps.
    pub(crate) fn finish(&mut self) -> Result<Block, Error> {
        self.settle();
        if let Some(error) = self.wrong.take() {
            return Err(error);
        }
        let mut block = std::mem::take(&mut self.block);
        for (list, &count) in block.threads.iter_mut().zip(&self.counts) {
            list.truncate(count);
        }
        std::mem::swap(&mut self.held, &mut self.counts);
        self.counts.clear();
        Ok(block)
    }

    /// Makes room for threads up to `last`.
    #[cold]
    fn begin_threads(&mut self, last: usize) {
        for thread in self.counts.len()..=last {
            let expected = self.held.get(thread).map_or(0, |held| held + held / 8);
            self.block.threads.push(Vec::with_capacity(expected));
        }
        self.counts.resize(last + 1, 0);
    }

    /// Counts the run taken last, and looks at its addresses where one may be wrong.
    fn settle(&mut self) {
        let mut taken = std::mem::take(&mut self.taken);
        if taken.count == 0 {
            return;
        }
        if let Some(last) = taken.last {
            taken.count = self.cut(&taken, last);
        }
        let end = taken.from + taken.count;
        if taken.bits >> ADDRESS_BITS != 0 && self.wrong.is_none() {
            let run = &self.block.threads[taken.thread][taken.from..end];
            let ranges = (self.read..).zip(run.iter().map(|packed| self.range(packed)));
            let mut wrong =
                ranges.filter_map(|(index, (start, len))| check(index, start, len).err());
            self.wrong = wrong.next();
            let cut = taken.last.is_some();
            assert!(self.wrong.is_some() || cut, "some address has the bit");
        }
        self.counts[taken.thread] = end;
        self.read += taken.count as u64;
    }

    /// Takes back what follows access number `last` of a run; returns how many records stay.
    #[cold]
    fn cut(&mut self, taken: &Taken, last: u64) -> usize {
        let run = &self.block.threads[taken.thread][taken.from..taken.from + taken.count];
        let mut accesses = 0;
        let is_last = |packed: &Packed| {
            accesses += u64::from(matches!(packed.kind, Kind::Load | Kind::Store));
            accesses == last
        };
        let stays = run.iter().position(is_last).map_or(run.len(), |at| at + 1);
        let is_call = |packed: &&Packed| packed.kind == Kind::Map;
        let calls = run[stays..].iter().filter(is_call).count();
        self.block.calls.truncate(self.block.calls.len() - calls);
        stays
    }

    /// The addresses a record names: first byte and length.
    fn range(&self, packed: &Packed) -> (u64, u64) {
        match packed.kind {
            Kind::Load | Kind::Store => (packed.vaddr, 1),
            Kind::Map => {
                let call = self.block.calls[ix(packed.vaddr)];
                (call.start, call.len)
            }
            Kind::Marker => (0, 0),
        }
    }
}

/// A run of one thread being taken.
#[derive(Debug)]
pub struct Filling<'a> {
    slots: std::slice::IterMut<'a, Packed>,
    count: usize,
    calls: &'a mut Vec<Call>,
    /// Kept here until the run ends: the loop of a source holds it in a register.
    bits: u64,
    /// Records that are not accesses.
    others: u64,
    taken: &'a mut Taken,
    left: &'a mut u64,
}

impl Filling<'_> {
    #[inline]
    fn push(&mut self, vaddr: u64, instructions: u32, kind: Kind) {
        let Some(slot) = self.slots.next() else {
            assert!(
                self.count == 0,
                "a run has as many records as it said at most"
            );
            return;
        };
        *slot = Packed {
            vaddr,
            instructions,
            kind,
        };
    }
}

impl Sink for Filler {
    type Run<'a> = Filling<'a>;

    fn run(&mut self, thread: u16, count: usize) -> Filling<'_> {
        self.settle();
        let thread = usize::from(thread);
        // A thread of which nothing is taken is not there.
        if self.left > 0 && self.counts.len() <= thread {
            self.begin_threads(thread);
        }
        let from = self.counts.get(thread).copied().unwrap_or(0);
        let slots = if self.left > 0 {
            let list = &mut self.block.threads[thread];
            if list.len() < from + count {
                list.resize(from + count, NOTHING);
            }
            &mut list[from..from + count]
        } else {
            &mut []
        };
        self.taken = Taken {
            thread,
            from,
            ..Taken::default()
        };
        Filling {
            count: slots.len(),
            slots: slots.iter_mut(),
            calls: &mut self.block.calls,
            bits: 0,
            others: 0,
            taken: &mut self.taken,
            left: &mut self.left,
        }
    }
}

impl Run for Filling<'_> {
    #[inline]
    fn access(&mut self, vaddr: u64, _size: u8, write: bool, instructions: u32) {
        self.bits |= vaddr;
        let kind = if write { Kind::Store } else { Kind::Load };
        self.push(vaddr, instructions.saturating_sub(1), kind);
    }

    // In place, or the run would be lent and lie in memory, also for every access.
    #[inline(always)]
    fn other(&mut self, record: Record) {
        match record {
            Record::Access {
                vaddr,
                size,
                write,
                instructions,
                ..
            } => self.access(vaddr, size, write, instructions),
            _ if self.count == 0 => {}
            Record::Map {
                start,
                len,
                prot,
                kind,
                ..
            } => {
                self.others += 1;
                if check(0, start, len).is_err() {
                    self.bits = u64::MAX;
                }
                self.calls.push(Call {
                    start,
                    len,
                    prot,
                    kind: effect(kind, prot),
                });
                self.push(self.calls.len() as u64 - 1, 0, Kind::Map);
            }
            Record::Marker { id, .. } => {
                self.others += 1;
                self.push(id.into(), 0, Kind::Marker);
            }
        }
    }

    fn end(self) {
        self.taken.bits = self.bits;
        self.taken.count = self.count - self.slots.len();
        let accesses = self.taken.count as u64 - self.others;
        self.taken.last = (accesses >= *self.left).then_some(*self.left);
        *self.left = self.left.saturating_sub(accesses);
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

fn check(index: u64, start: u64, len: u64) -> Result<(), Error> {
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
