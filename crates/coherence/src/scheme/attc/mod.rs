// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ATTC: the addressable TLB as the point of coherence for guest and host updates.
//!
//! A guest's update writes the ATLB set of the page (paper Figure 5): the walker reads the set, drops
//! the entries of the writing VM, writes it back, and the write reaches every private TLB as a
//! message with the set's address. A host's update writes the inverse table at the old frame
//! (Figure 6): the walker follows its pointers, drops exactly the entries of that frame, and the
//! same messages follow. A TLB rebuilds from the set's address which of its own sets to inspect and
//! compares what the address says of the page; nothing is added to its entries.
//!
//! Messages go to every core: a TLB may hold a translation whose line its caches have lost. A pointer
//! outlives its ATLB entry for the same reason; it goes only with an update or by replacement,
//! and then the set is written as for an update. Natively there is no inverse table.

mod invtbl;
mod rights;
#[cfg(test)]
mod tests;

pub use invtbl::{Invtbl, Pointer};
pub use rights::{Actor, Decision, Gate, Operation, Target, decide};

use super::{Atlb, Scheme, set_index};
use crate::cache::Entry;
use crate::config::{Flush, MachineConfig, Mode};
use crate::layout::Key;
use crate::machine::{Fault, Machine, Walk};
use crate::mmu::TlbEntry;
use crate::os::{Agent, Mapping, Remap};
use std::collections::BTreeMap;

/// ATTC.
#[derive(Debug)]
pub struct Attc {
    atlb: Atlb,
    /// None natively.
    invtbl: Option<Invtbl>,
    /// The gate that guests and hypervisor pass (Table 4).
    pub gate: Gate,
    /// Index bits that private TLBs compare, by page size.
    match_mask: [u64; 2],
    host_cycles: u64,
    guest_cycles: u64,
    flush: Flush,
    flush_ceiling: usize,
    pointer_evictions: u64,
    whole_flushes: u64,
    bystanders: u64,
    most_pointers: u64,
}

impl Attc {
    /// ATTC with empty tables.
    #[must_use]
    pub fn new(config: &MachineConfig, _vms: u16) -> Self {
        let a = &config.attc;
        let mask = |sets: u64| match a.match_bits {
            0 => sets - 1,
            bits => (sets - 1) & ((1 << bits) - 1),
        };
        Self {
            atlb: Atlb::new(config),
            invtbl: (config.mode == Mode::Virtualized).then(|| Invtbl::new(config)),
            gate: Gate::default(),
            match_mask: [mask(config.atlb_sets()), mask(config.large_atlb_sets())],
            host_cycles: a.host_update_cycles.into(),
            guest_cycles: a.guest_update_cycles.into(),
            flush: a.flush,
            flush_ceiling: a.flush_ceiling_pages as usize,
            pointer_evictions: 0,
            whole_flushes: 0,
            bystanders: 0,
            most_pointers: 0,
        }
    }

    /// Stores the pointer that every ATLB entry needs.
    fn point(&mut self, m: &mut Machine, core: usize, key: Key, spn: u64, now: u64) {
        if self.invtbl.is_none() || m.fault == Some(Fault::PointerLost) {
            return;
        }
        let pointer = Pointer {
            set: self.atlb.index(key),
            large: key.is_large(),
        };
        let table = self.invtbl.as_mut().expect("checked above");
        let line = table.line(spn, pointer.large);
        let evicted = table.insert(spn, pointer);
        m.caches
            .access(core, line, true, Entry::L2, now, &mut m.memory);
        if let Some((old_spn, old)) = evicted {
            self.pointer_evictions += 1;
            // The entries that the lost pointer stood for go with it, from ATLB and TLBs.
            self.write_set(m, core, old, |_, spn| spn == old_spn, &[], now);
        }
    }

    /// Reads and rewrites an ATLB set without the doomed entries, and tells every private TLB.
    /// Returns the cycles of the two accesses.
    fn write_set(
        &mut self,
        m: &mut Machine,
        core: usize,
        pointer: Pointer,
        doomed: impl Fn(Key, u64) -> bool,
        revoked: &[Key],
        now: u64,
    ) -> u64 {
        let line = Atlb::line(pointer.set, pointer.large);
        let read = m
            .caches
            .access(core, line, false, Entry::L2, now, &mut m.memory)
            .cycles;
        self.bystanders += self.atlb.clear_set(pointer.set, pointer.large, |key, spn| {
            doomed(key, spn) && !revoked.contains(&key)
        });
        self.atlb.clear_set(pointer.set, pointer.large, doomed);
        let write = m
            .caches
            .access(core, line, true, Entry::L2, now + read, &mut m.memory)
            .cycles;
        self.tell_tlbs(m, pointer, revoked);
        read + write
    }

    /// The coherence message: every TLB drops what its set address names.
    fn tell_tlbs(&self, m: &mut Machine, pointer: Pointer, revoked: &[Key]) {
        m.counts.tlb_messages += m.mmu.len() as u64;
        let mask = self.match_mask[usize::from(pointer.large)];
        let sets = self.atlb.sets(pointer.large);
        let (mut meant, mut unmeant) = (0, 0);
        for core in 0..m.mmu.len() {
            if m.is_skipped(core) {
                continue;
            }
            let skip_l2 = m.fault == Some(Fault::SetMissed);
            let mmu = &mut m.mmu[core];
            let l1 = if pointer.large {
                &mut mmu.l1_2m
            } else {
                &mut mmu.l1_4k
            };
            let levels = [Some(l1), (!skip_l2).then_some(&mut mmu.l2)];
            for tlb in levels.into_iter().flatten() {
                // The low 14 bits of the set's index are the page's: enough for either TLB.
                let set = tlb.set_of(pointer.set & 0x3FFF);
                for slot in tlb.table.slots(set) {
                    let raw = tlb.table.key(slot);
                    if raw == 0 || Key::from_raw(raw).is_large() != pointer.large {
                        continue;
                    }
                    let key = Key::from_raw(raw);
                    let own = set_index(key.page(), key.vm_id(), sets);
                    if (own ^ pointer.set) & mask == 0 {
                        tlb.table.remove(slot);
                        if revoked.contains(&key) {
                            meant += 1;
                        } else {
                            unmeant += 1;
                        }
                    }
                }
            }
        }
        m.counts.true_invalidations += meant;
        m.counts.false_invalidations += unmeant;
    }

    /// Figure 5: one write to the ATLB for each page, filtered by the writer's VM.
    fn guest_update(&mut self, m: &mut Machine, remap: &Remap, core: usize, now: u64) -> u64 {
        if remap.changes.len() > self.flush_ceiling {
            return self.flush_all(m, remap, core, now);
        }
        let revoked: Vec<Key> = remap.changes.iter().map(|change| change.key).collect();
        let mut cycles = 0;
        for change in &remap.changes {
            let decision = self
                .gate
                .attempt(Actor::GuestOs, Target::Atlb, Operation::Write);
            assert!(
                decision == Decision::Filtered,
                "the walker intercepts a guest's write"
            );
            let pointer = Pointer {
                set: self.atlb.index(change.key),
                large: change.key.is_large(),
            };
            let vm = remap.vm;
            let own = move |key: Key, _| key.vm() == vm;
            cycles += self.write_set(m, core, pointer, own, &revoked, now + cycles);
        }
        match self.guest_cycles {
            0 => cycles,
            fixed => fixed * remap.changes.len() as u64,
        }
    }

    /// Figure 6: the inverse table's pointers lead to the ATLB sets of each old frame.
    fn host_update(&mut self, m: &mut Machine, remap: &Remap, core: usize, now: u64) -> u64 {
        let revoked: Vec<Key> = remap.changes.iter().map(|change| change.key).collect();
        let mut frames: Vec<(u64, bool)> = remap
            .changes
            .iter()
            .map(|change| (change.old_spn, change.key.is_large()))
            .collect();
        frames.sort_unstable();
        frames.dedup();
        let mut cycles = 0;
        for &(spn, large) in &frames {
            let table = self
                .invtbl
                .as_mut()
                .expect("only a virtualized machine has host updates");
            self.gate
                .attempt(Actor::Hypervisor, Target::Invtbl, Operation::Write);
            let line = table.line(spn, large);
            let pointers = table.take(spn, large);
            self.most_pointers = self.most_pointers.max(pointers.len() as u64);
            cycles += m
                .caches
                .access(core, line, true, Entry::L2, now + cycles, &mut m.memory)
                .cycles;
            for pointer in pointers {
                let exact = move |_, held| held == spn;
                cycles += self.write_set(m, core, pointer, exact, &revoked, now + cycles);
            }
        }
        match self.host_cycles {
            0 => cycles,
            fixed => fixed * frames.len() as u64,
        }
    }

    /// Drops every translation of a VM in one of the paper's three ways.
    fn flush_all(&mut self, m: &mut Machine, remap: &Remap, core: usize, now: u64) -> u64 {
        self.whole_flushes += 1;
        let vm = remap.vm;
        let lines = self.atlb.sets(false) + self.atlb.sets(true);
        let burst = u64::from(m.config.dram.burst_clocks) * u64::from(m.config.core.mhz) * 2
            / u64::from(m.config.dram.mts);
        let pass = lines * burst / u64::from(m.config.dram.channels);
        let how = if self.flush == Flush::Stamp && !self.atlb.restamp(vm) {
            // Every stamp has been used once: old entries must really go.
            Flush::Walker
        } else {
            self.flush
        };
        match how {
            Flush::Stamp => {}
            Flush::Walker => {
                self.atlb.remove_where(|key| key.vm() == vm);
                m.memory.occupy_dram(now, 2 * pass);
            }
            Flush::Dma => {
                self.atlb.remove_where(|_| true);
                m.memory.occupy_dram(now, pass);
            }
        }
        m.flush_everywhere(remap);
        // One write starts it; the rest is in the background.
        let line = Atlb::line(0, false);
        m.caches
            .access(core, line, true, Entry::L2, now, &mut m.memory)
            .cycles
    }
}

impl Scheme for Attc {
    fn forget(&mut self, key: Key) {
        self.atlb.remove(key);
    }

    fn warm(&mut self, m: &Machine, mapping: &Mapping) {
        let pointer = Pointer {
            set: self.atlb.index(mapping.key),
            large: mapping.key.is_large(),
        };
        if let Some(table) = self.invtbl.as_mut() {
            if m.fault == Some(Fault::PointerLost) {
                // The planted fault: an entry without its pointer.
            } else if let Some((old_spn, old)) = table.insert(mapping.spn, pointer) {
                self.atlb
                    .clear_set(old.set, old.large, |_, spn| spn == old_spn);
            }
        }
        self.atlb.warm(mapping);
    }

    fn miss(&mut self, m: &mut Machine, core: usize, key: Key, now: u64, _issued: u64) -> Walk {
        let served = self.atlb.serve(m, core, key, now);
        if served.inserted {
            let done = now + served.walk.cycles;
            self.point(m, core, key, served.walk.entry.spn, done);
        }
        served.walk
    }

    fn revoke(&mut self, m: &mut Machine, remap: &Remap, core: usize, now: u64) -> u64 {
        match remap.agent {
            Agent::Guest => self.guest_update(m, remap, core, now),
            Agent::Host => self.host_update(m, remap, core, now),
        }
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::from([
            ("atlb_bystanders_dropped", self.bystanders),
            ("attempts_allowed", self.gate.allowed),
            ("attempts_filtered", self.gate.filtered),
            ("attempts_refused", self.gate.refused),
            ("pointer_evictions", self.pointer_evictions),
            ("pointers_followed_at_most", self.most_pointers),
            ("whole_flushes", self.whole_flushes),
        ])
    }

    fn check(&self, m: &Machine) -> Result<(), String> {
        let Some(table) = &self.invtbl else {
            return Ok(());
        };
        let missing = |what: &str, key: Key, spn: u64| {
            let vpn = key.first_vpn();
            format!(
                "{what} of VM {} page {vpn:#x} -> frame {spn:#x} has no pointer",
                key.vm()
            )
        };
        let points = |key: Key, spn: u64| {
            let pointer = Pointer {
                set: self.atlb.index(key),
                large: key.is_large(),
            };
            table.points(spn, pointer)
        };
        for (key, spn) in self.atlb.entries() {
            if !points(key, spn) {
                return Err(missing("the ATLB entry", key, spn));
            }
        }
        let held = |mmu: &crate::mmu::Mmu| -> Vec<(Key, TlbEntry)> {
            mmu.entries().map(|(key, entry)| (key, *entry)).collect()
        };
        for (key, entry) in m.mmu.iter().flat_map(held) {
            if !points(key, entry.spn) {
                return Err(missing("a TLB entry", key, entry.spn));
            }
        }
        Ok(())
    }
}
