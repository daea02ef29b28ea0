// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One core's turn: its records, one after the other.
//!
//! Nearly every access finds its translation in the L1 TLB and its line in the L1 cache. Those run
//! in a loop of their own, [`Sim::run_hits`], which holds the core's structures and leaves as soon
//! as a record needs more; what it has done is what the long way would have done.

use super::{Sim, Stop, Thread, translate};
use crate::block::{Kind, Packed};
use crate::cache::Found;
use crate::layout::{Key, LINE_SHIFT, PAGE_SHIFT, data_line};
use crate::machine::Data;
use crate::mmu::TlbEntry;
use std::sync::Arc;

/// Why the loop of hits ended.
#[derive(Debug, Clone, Copy)]
enum Left {
    /// The records asked for are done, or the core is ahead.
    Done,
    /// The next record is no access.
    Other,
    /// The next record has been dispatched at a cycle and goes the long way.
    Dispatched(u64),
    /// As before, and it has been translated; its line needs more than the L1.
    Translated(u64, Key, TlbEntry, Found),
}

/// What the last hit used. The next access to the same page or line would find it again, most
/// recent in its set already, so it need not look; nothing else happens between two hits of a loop.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// Number of the 4 KiB page, and the line's by virtual address.
    page: u64,
    line: u64,
    key: Key,
    entry: TlbEntry,
    /// The line has been written.
    written: bool,
    /// Cycles of a hit.
    cycles: u64,
}

/// No address has this page or line.
const NOWHERE: u64 = u64::MAX;

impl Last {
    const fn of(page: u64, key: Key, entry: TlbEntry) -> Self {
        Self {
            page,
            line: NOWHERE,
            key,
            entry,
            written: false,
            cycles: 0,
        }
    }
}

impl Default for Last {
    fn default() -> Self {
        Self::of(NOWHERE, Key::small(0, 0), TlbEntry::default())
    }
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
                        self.mark(record.vaddr);
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
        let (mut done, left) = if self.machine.oracle.is_some() {
            self.run_hits::<true>(core, vm, records, limit)
        } else {
            self.run_hits::<false>(core, vm, records, limit)
        };
        match left {
            Left::Done | Left::Other => {}
            Left::Dispatched(now) => {
                self.access(core, vm, &records[done], now);
                done += 1;
            }
            Left::Translated(now, key, entry, found) => {
                let record = &records[done];
                let write = record.kind == Kind::Store;
                let line = data_line(key, entry.spn, record.vaddr);
                self.check_access(core, key, &entry, write, now);
                let data = self.machine.data_miss(core, line, write, now, found);
                self.complete(core, record, 0, data);
                done += 1;
            }
        }
        if self.base.is_none()
            && self.options.start_marker.is_none()
            && self.machine.counts.accesses >= self.options.warmup
        {
            self.begin();
        }
        done
    }

    /// Runs accesses as long as they hit the L1 TLB and the L1 cache; returns how many.
    #[inline(never)]
    fn run_hits<const CHECK: bool>(
        &mut self,
        core: usize,
        vm: u16,
        records: &[Packed],
        limit: u64,
    ) -> (usize, Left) {
        let m = &mut self.machine;
        let front = &mut self.cores[core].front;
        let mmu = &mut m.mmu[core];
        let mut l1 = m.caches.l1(core);
        let (mut done, mut instructions, mut left) = (0, 0, Left::Done);
        let mut last = Last::default();
        for record in records {
            let write = match record.kind {
                Kind::Load => false,
                Kind::Store => true,
                Kind::Map | Kind::Marker => {
                    left = Left::Other;
                    break;
                }
            };
            let now = front.dispatch(record.instructions);
            if now >= self.next_deferred {
                left = Left::Dispatched(now);
                break;
            }
            if last.page != record.vaddr >> PAGE_SHIFT {
                let page = record.vaddr >> PAGE_SHIFT;
                let key = m.os.key_of(vm, page);
                let Some(entry) = mmu.l1_entry(key) else {
                    left = Left::Dispatched(now);
                    break;
                };
                last = Last::of(page, key, *entry);
            }
            let (key, entry) = (last.key, &last.entry);
            if !entry.serves(write, now) {
                left = Left::Dispatched(now);
                break;
            }
            let line = record.vaddr >> LINE_SHIFT;
            if last.line != line || (write && !last.written) {
                let found = l1.find(data_line(key, entry.spn, record.vaddr), write);
                let Found::Hit(cycles) = found else {
                    left = Left::Translated(now, key, *entry, found);
                    break;
                };
                (last.line, last.written, last.cycles) = (line, write, cycles);
            }
            let cycles = last.cycles;
            if CHECK {
                if let Some(oracle) = &mut m.oracle {
                    oracle.check(core, key, entry, write, now);
                }
            }
            // A store leaves the buffer once its address is known; the store buffer does the rest.
            front.complete(record.instructions, if write { 1 } else { cycles });
            instructions += u64::from(record.instructions) + 1;
            done += 1;
            if front.cycle() > limit {
                break;
            }
        }
        m.counts.accesses += done as u64;
        m.counts.instructions += instructions;
        m.counts.checked += if CHECK { done as u64 } else { 0 };
        (done, left)
    }

    /// One load or store the long way, dispatched at cycle `now`.
    fn access(&mut self, core: usize, vm: u16, record: &Packed, now: u64) {
        if now >= self.next_deferred {
            self.run_deferred(core, now);
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

    /// Ends an access whose translation and data took so many cycles.
    fn complete(&mut self, core: usize, record: &Packed, translated: u64, data: Data) {
        let cycles = translated
            + if record.kind == Kind::Store {
                1
            } else {
                data.cycles
            };
        self.cores[core].front.complete(record.instructions, cycles);
        let m = &mut self.machine;
        m.counts.accesses += 1;
        m.counts.instructions += u64::from(record.instructions) + 1;
        if let Some(frame) = data.hot {
            self.migrate(core, frame);
        }
    }
}
