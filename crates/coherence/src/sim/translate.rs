// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From an address to a translation: the machine's TLBs first, then the scheme.

use crate::layout::Key;
use crate::machine::{Fault, Machine, View};
use crate::mmu::TlbEntry;
use crate::scheme::Scheme;

/// Translates an access at cycle `now`; returns the entry used and the cycles it added.
pub(crate) fn translate(
    m: &mut Machine,
    scheme: &mut dyn Scheme,
    core: usize,
    key: Key,
    write: bool,
    now: u64,
) -> (TlbEntry, u64) {
    if let Some(&entry) = m.mmu[core].l1_entry(key)
        && entry.serves(write, now)
    {
        return (entry, 0);
    }
    translate_slowly(m, scheme, core, key, write, now)
}

/// L1 misses, expired entries, and the first store to a page.
fn translate_slowly(
    m: &mut Machine,
    scheme: &mut dyn Scheme,
    core: usize,
    key: Key,
    write: bool,
    now: u64,
) -> (TlbEntry, u64) {
    let mut cycles = 0;
    // At most: gone or expired, refilled, write fault, refilled, dirty bit.
    for _ in 0..5 {
        let (entry, added) = look_up(m, scheme, core, key, now, now + cycles);
        cycles += added;
        if entry.expires <= now {
            m.mmu[core].invalidate(key);
        } else if write && !(entry.writable && entry.dirty) && m.os.may_be_stale(key) {
            // The write looks at the page tables, which have lost the page.
            m.mmu[core].invalidate(key);
        } else if write && !entry.writable {
            m.write_fault(core, key);
            if m.fault != Some(Fault::RightsKept) {
                scheme.forget(key);
            }
        } else if write && !entry.dirty {
            cycles += m.set_dirty(core, key, now + cycles);
            scheme.dirtied(&mut View::of(m), core, key, now + cycles);
            let entry = TlbEntry {
                dirty: true,
                ..entry
            };
            return (entry, cycles);
        } else {
            return (entry, cycles);
        }
    }
    assert!(
        m.fault.is_some(),
        "a fresh translation has the right asked for and a life"
    );
    let (entry, _) = look_up(m, scheme, core, key, now, now + cycles);
    (entry, cycles)
}

/// One pass through the TLBs; `issued` is when the access was, `now` how far it has come.
fn look_up(
    m: &mut Machine,
    scheme: &mut dyn Scheme,
    core: usize,
    key: Key,
    issued: u64,
    now: u64,
) -> (TlbEntry, u64) {
    if let Some(&entry) = m.mmu[core].l1_entry(key) {
        return (entry, 0);
    }
    m.counts.l1_tlb_misses += 1;
    let mmu = &m.config.mmu;
    let l1 = if key.is_large() {
        &mmu.l1_2m
    } else {
        &mmu.l1_4k
    };
    let mut cycles = u64::from(l1.miss_cycles);
    if let Some(entry) = m.mmu[core].l2_entry(key) {
        return (entry, cycles);
    }
    m.counts.l2_tlb_misses += 1;
    cycles += u64::from(m.config.mmu.l2.miss_cycles);
    let walk = scheme.miss(&mut View::of(m), core, key, now + cycles, issued);
    m.counts.miss_cycles += walk.cycles;
    m.holders[usize::from(key.vm())].insert(core);
    m.mmu[core].fill(key, walk.entry);
    scheme.filled(&mut View::of(m), core, key);
    (walk.entry, cycles + walk.cycles)
}
