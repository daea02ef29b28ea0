// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One core's turn: its records, one after the other.
//!
//! Nearly every access finds its translation in the L1 TLB. Those run in a loop of their own,
//! [`Sim::run_hits`], which keeps the core's front end in registers and leaves as soon as a record
//! needs more; what it has done is what the long way would have done.

use super::pace::Pace;
use super::{Sim, Stop, Thread, translate};
use crate::block::{Kind, Packed};
use crate::cache::Found;
use crate::layout::{Key, LINE_SHIFT, PAGE_SHIFT, data_line};
use crate::machine::Data;
use crate::mmu::{Recent, TlbEntry};
use std::sync::Arc;

/// Why the loop of hits ended.
#[derive(Debug, Clone, Copy)]
enum Left {
    /// The records asked for are done, or the core is ahead.
    Done,
    /// The next record is not an access.
    Other,
    /// The next record has been dispatched and goes the long way.
    Dispatched,
    /// The last access has earned its frame a migration.
    Hot(u64),
}

/// What the last hit used. The next access to the same page or line would find it again, most
/// recent in its set already, so it need not look; nothing else happens between two hits of a loop.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// Number of the 4 KiB page, and the line's by virtual address.
    page: u64,
    line: u64,
    /// The line of the page's first byte.
    first_line: u64,
    /// Stores need no fault and no dirty bit.
    stores: bool,
    /// The line has been written.
    written: bool,
}

/// The line's number in its page.
const LINES_MASK: u64 = (1 << (PAGE_SHIFT - LINE_SHIFT)) - 1;
/// No address has this page or line.
const NOWHERE: u64 = u64::MAX;

impl Last {
    const NONE: Self = Self {
        page: NOWHERE,
        line: NOWHERE,
        first_line: 0,
        stores: false,
        written: false,
    };

    #[inline]
    fn of(page: u64, key: Key, found: Recent) -> Self {
        Self {
            page,
            first_line: data_line(key, found.spn(), page << PAGE_SHIFT),
            stores: found.stores(),
            ..Self::NONE
        }
    }
}

/// Cycles until an access whose data takes `cycles` leaves the buffer: a store does once its
/// address is known; the store buffer does the rest.
#[inline]
const fn took(write: bool, cycles: u64) -> u64 {
    if write { 1 } else { cycles }
}

impl Sim {
    /// Runs one core until it is ahead of the others, its slice ends, or records run out.
    pub(super) fn run_core(&mut self, core: usize, limit: u64) -> Stop {
        let owed = std::mem::take(&mut self.machine.owed[core]);
        if owed > 0 {
            self.stall(core, owed);
        }
        let thread = self.cores[core].thread.expect("only a busy core runs");
        loop {
            let Thread { vm, block, at, .. } = self.threads[thread];
            let Some(held) = self.blocks.get(crate::num::ix(block - self.first_block)) else {
                return Stop::Dry;
            };
            let held = Arc::clone(held);
            let records: &[Packed] = held.threads.get(thread).map_or(&[], |list| list);
            let mut at = at;
            while let Some(record) = records.get(at) {
                let done = match record.kind {
                    Kind::Load | Kind::Store => self.run_accesses(core, vm, &records[at..], limit),
                    Kind::Map => {
                        let call = held.calls[crate::num::ix(record.vaddr)];
                        self.call(core, vm, &call);
                        1
                    }
                    Kind::Marker => {
                        self.marker(core, record.vaddr);
                        1
                    }
                };
                at += done;
                let core = &mut self.cores[core];
                core.slice_left -= crate::num::id32(done);
                let over = core.slice_left == 0;
                if over || core.front.cycle() > limit {
                    self.threads[thread].at = at;
                    return if over { Stop::SliceOver } else { Stop::Ahead };
                }
            }
            self.threads[thread].block += 1;
            self.threads[thread].at = 0;
        }
    }

    /// Runs accesses from the front of `records`, at least one, up to one that does not hit;
    /// returns how many.
    fn run_accesses(&mut self, core: usize, vm: u16, records: &[Packed], limit: u64) -> usize {
        let mut most = self.cores[core].slice_left as usize;
        if self.base.is_none() && self.options.start_marker.is_none() {
            // Counting begins after exactly that many.
            let left = self.options.warmup - self.machine.counts.accesses;
            most = most.min(usize::try_from(left).unwrap_or(usize::MAX));
        }
        let records = &records[..most.min(records.len())];
        let (mut done, left) = if self.machine.oracle.is_some() || self.expires {
            self.run_hits::<true>(core, vm, records, limit)
        } else {
            self.run_hits::<false>(core, vm, records, limit)
        };
        match left {
            Left::Done | Left::Other => {}
            Left::Dispatched => {
                let now = self.cores[core].front.cycle();
                self.access(core, vm, &records[done], now);
                done += 1;
            }
            Left::Hot(frame) => self.migrate(core, frame),
        }
        if self.base.is_none()
            && self.options.start_marker.is_none()
            && self.machine.counts.accesses >= self.options.warmup
        {
            self.begin();
        }
        done
    }

    /// Runs accesses as long as they hit the L1 TLB and earn no page a migration; returns how many.
    /// `EACH`: the oracle or a lease wants to see the translation of each.
    #[inline(never)]
    fn run_hits<const EACH: bool>(
        &mut self,
        core: usize,
        vm: u16,
        records: &[Packed],
        limit: u64,
    ) -> (usize, Left) {
        let due = self.due(core);
        let m = &mut self.machine;
        let front = &mut self.cores[core].front;
        let mut pace = Pace::new(front, limit, due);
        let hit = m.caches.l1_cycles();
        let (mut done, mut instructions, mut left) = (0, 0, Left::Done);
        let mut last = Last::NONE;
        for record in records {
            let write = match record.kind {
                Kind::Load => false,
                Kind::Store => true,
                Kind::Map | Kind::Marker => {
                    left = Left::Other;
                    break;
                }
            };
            if !pace.dispatch(front, record.instructions) {
                left = Left::Dispatched;
                break;
            }
            let page = record.vaddr >> PAGE_SHIFT;
            if EACH || last.page != page {
                let key = m.os.key_of(vm, page);
                let found = if EACH {
                    m.checked_recent(core, key, write, pace.cycle(front))
                } else {
                    m.mmu[core].l1_recent(key)
                };
                last = found.map_or(Last::NONE, |found| Last::of(page, key, found));
            }
            if last.page != page || (write && !last.stores) {
                left = Left::Dispatched;
                break;
            }
            instructions += u64::from(record.instructions) + 1;
            done += 1;
            let virtual_line = record.vaddr >> LINE_SHIFT;
            let mut cycles = hit;
            if last.line != virtual_line || (write && !last.written) {
                (last.line, last.written) = (virtual_line, write);
                let line = last.first_line | (virtual_line & LINES_MASK);
                let found = m.caches.l1(core).find(line, write);
                if !matches!(found, Found::Hit(_)) {
                    let data = m.data_miss(core, line, write, pace.cycle(front), found);
                    cycles = data.cycles;
                    if let Some(frame) = data.hot {
                        left = Left::Hot(frame);
                        pace.complete(front, took(write, cycles));
                        break;
                    }
                }
            }
            if !pace.complete(front, took(write, cycles)) {
                break;
            }
        }
        pace.end(front);
        m.counts.accesses += done as u64;
        m.counts.instructions += instructions;
        (done, left)
    }

    /// One load or store the long way, dispatched at cycle `now`.
    fn access(&mut self, core: usize, vm: u16, record: &Packed, now: u64) {
        if now >= self.due(core) {
            self.cores[core]
                .front
                .hold(u64::from(record.instructions) + 1);
            self.run_due(core, now);
            self.cores[core].front.hold(0);
        }
        let write = record.kind == Kind::Store;
        let m = &mut self.machine;
        let key = m.os.key_of(vm, record.vaddr >> PAGE_SHIFT);
        let (entry, translated) = translate(m, self.scheme.as_mut(), core, key, write, now);
        self.check_access(core, key, &entry, write, now);
        let line = data_line(key, entry.spn, record.vaddr);
        let data = self.machine.data(core, line, write, now + translated);
        self.complete(core, record, translated, data);
    }

    pub(super) fn check_access(
        &mut self,
        core: usize,
        key: Key,
        entry: &TlbEntry,
        write: bool,
        now: u64,
    ) {
        let m = &mut self.machine;
        if let Some(oracle) = &mut m.oracle {
            oracle.check(core, key, entry, write, now);
            m.counts.checked += 1;
        }
    }

    /// Ends an access whose translation and data took this number of cycles.
    fn complete(&mut self, core: usize, record: &Packed, translated: u64, data: Data) {
        let cycles = translated + took(record.kind == Kind::Store, data.cycles);
        self.cores[core].front.complete(cycles);
        let m = &mut self.machine;
        m.counts.accesses += 1;
        m.counts.instructions += u64::from(record.instructions) + 1;
        if let Some(frame) = data.hot {
            self.migrate(core, frame);
        }
    }
}
