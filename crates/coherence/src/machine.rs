// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine that every scheme shares: cores' translation hardware, caches, memory, system
//! software, and the steps from an address to data.

use crate::cache::{Caches, Entry, Found};
use crate::config::{MachineConfig, Mode};
use crate::counts::Counts;
use crate::dram::Memory;
use crate::layout::{Key, LINE_SHIFT, PAGE_SHIFT};
use crate::mmu::{Dimension, Mmu, TlbEntry};
use crate::oracle::Oracle;
use crate::os::{Mapping, Os, Remap};
use crate::scheme::Scheme;

/// A fault planted to test the oracle. Never set in an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The inverse table forgets to store pointers.
    PointerLost,
    /// A TLB message does not look into the L2 TLB's set.
    SetMissed,
    /// The ATLB does not compare VM ids.
    VmIdIgnored,
    /// The last core is left out of every invalidation.
    VictimSkipped,
}

/// A translation with the addresses of the entries it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk {
    /// What the TLB will hold.
    pub entry: TlbEntry,
    /// Cycles from the request.
    pub cycles: u64,
}

/// The machine.
#[derive(Debug)]
pub struct Machine {
    /// Its configuration.
    pub config: MachineConfig,
    /// Translation hardware, by core.
    pub mmu: Vec<Mmu>,
    /// All data caches.
    pub caches: Caches,
    /// DRAM and NVM.
    pub memory: Memory,
    /// Guests and hypervisor.
    pub os: Os,
    /// Counters.
    pub counts: Counts,
    /// Present when accesses are checked.
    pub oracle: Option<Oracle>,
    /// VM on each core; `None` when idle.
    pub running: Vec<Option<u16>>,
    /// Cycles each core owes because it was a victim.
    pub owed: Vec<u64>,
    /// Cycles until each vCPU of a VM that is not on a core runs again; see the scheduler.
    pub preempted_wait: Vec<u64>,
    /// A planted fault.
    pub fault: Option<Fault>,
    /// Frame of a page that has just earned its migration.
    pub hot_frame: Option<u64>,
    misses: Vec<Vec<u64>>,
}

impl Machine {
    /// A machine with empty caches and nothing mapped.
    #[must_use]
    pub fn new(config: &MachineConfig, vms: u16, seed: u64) -> Self {
        let cores = config.core.count as usize;
        Self {
            mmu: vec![Mmu::new(config); cores],
            caches: Caches::new(config),
            memory: Memory::new(config),
            os: Os::new(config, vms, seed),
            counts: Counts::default(),
            oracle: None,
            running: vec![None; cores],
            owed: vec![0; cores],
            preempted_wait: vec![0; usize::from(vms)],
            fault: None,
            hot_frame: None,
            misses: vec![vec![0; config.core.misses_in_flight as usize]; cores],
            config: config.clone(),
        }
    }

    /// Translates an access at cycle `now`; returns the entry used and the cycles it added.
    pub fn translate(
        &mut self,
        scheme: &mut dyn Scheme,
        core: usize,
        key: Key,
        write: bool,
        now: u64,
    ) -> (TlbEntry, u64) {
        if let Some(&entry) = self.mmu[core].l1_entry(key) {
            if entry.serves(write, now) {
                return (entry, 0);
            }
        }
        self.translate_slowly(scheme, core, key, write, now)
    }

    /// L1 misses, expired entries, and the first store to a page.
    fn translate_slowly(
        &mut self,
        scheme: &mut dyn Scheme,
        core: usize,
        key: Key,
        write: bool,
        now: u64,
    ) -> (TlbEntry, u64) {
        let mut cycles = 0;
        // At most: expired, refilled, write fault, refilled, dirty bit.
        for _ in 0..4 {
            let (entry, added) = self.look_up(scheme, core, key, now, now + cycles);
            cycles += added;
            if entry.expires <= now {
                self.mmu[core].invalidate(key);
            } else if write && !entry.writable {
                self.write_fault(core, key);
                scheme.forget(key);
            } else if write && !entry.dirty {
                cycles += self.set_dirty(core, key, now + cycles);
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
            self.fault.is_some(),
            "a fresh translation has the right asked for and a life"
        );
        let (entry, _) = self.look_up(scheme, core, key, now, now + cycles);
        (entry, cycles)
    }

    /// One pass through the TLBs; `issued` is when the access was, `now` how far it has come.
    fn look_up(
        &mut self,
        scheme: &mut dyn Scheme,
        core: usize,
        key: Key,
        issued: u64,
        now: u64,
    ) -> (TlbEntry, u64) {
        if let Some(&entry) = self.mmu[core].l1_entry(key) {
            return (entry, 0);
        }
        self.counts.l1_tlb_misses += 1;
        let mmu = &self.config.mmu;
        let l1 = if key.is_large() {
            &mmu.l1_2m
        } else {
            &mmu.l1_4k
        };
        let mut cycles = u64::from(l1.miss_cycles);
        if let Some(entry) = self.mmu[core].l2_entry(key) {
            return (entry, cycles);
        }
        self.counts.l2_tlb_misses += 1;
        cycles += u64::from(self.config.mmu.l2.miss_cycles);
        let walk = scheme.miss(self, core, key, now + cycles, issued);
        self.counts.miss_cycles += walk.cycles;
        self.mmu[core].fill(key, walk.entry);
        scheme.filled(self, core, key);
        (walk.entry, cycles + walk.cycles)
    }

    /// The trace says that the store succeeded, so the system software allowed it.
    fn write_fault(&mut self, core: usize, key: Key) {
        self.counts.protection_faults += 1;
        let id = self.os.page_of(key);
        self.os.page_mut(id).writable = true;
        let mapping = self.os.resolve(key);
        if let Some(oracle) = &mut self.oracle {
            oracle.walked(&mapping);
        }
        self.mmu[core].invalidate(key);
    }

    fn set_dirty(&mut self, core: usize, key: Key, now: u64) -> u64 {
        self.counts.dirty_updates += 1;
        self.os.set_dirty(key);
        self.mmu[core].mark_dirty(key);
        let (path, depth) = self.os.guest_path(key);
        let line = path[depth - 1].address >> LINE_SHIFT;
        self.caches
            .access(core, line, true, Entry::L1, now, &mut self.memory)
            .cycles
    }

    /// The mapping a walk would find, made known to the oracle.
    pub fn resolve(&mut self, key: Key) -> Mapping {
        let before = self.os.mapped_pages();
        let mapping = self.os.resolve(key);
        self.counts.first_touches += u64::from(self.os.mapped_pages() != before);
        if let Some(oracle) = &mut self.oracle {
            oracle.walked(&mapping);
        }
        mapping
    }

    /// Walks the page tables for `key`, waiting for a free walker first.
    pub fn walk(&mut self, core: usize, key: Key, now: u64) -> (Walk, Mapping) {
        let (walker, start) = self.mmu[core].walker(now);
        let (mapping, end) = self.walk_tables(core, key, start);
        self.mmu[core].hold_walker(walker, end);
        let entry = TlbEntry {
            spn: mapping.spn,
            tag: 0,
            expires: u64::MAX,
            writable: mapping.writable,
            dirty: mapping.dirty,
        };
        (
            Walk {
                entry,
                cycles: end - now,
            },
            mapping,
        )
    }

    /// The reads of one walk, from cycle `start`; returns the mapping and the last read's cycle.
    pub fn walk_tables(&mut self, core: usize, key: Key, start: u64) -> (Mapping, u64) {
        let mapping = self.resolve(key);
        if self.config.mmu.walk_cycles > 0 {
            let fixed = u64::from(self.config.mmu.walk_cycles);
            self.counts.walks += 1;
            self.counts.walk_cycles += fixed;
            return (mapping, start + fixed);
        }
        let vm = key.vm();
        let page = key.first_vpn();
        let mut at = start;
        let (path, depth) = self.os.guest_path(key);
        let first = self.mmu[core].walk_start(Dimension::Guest, vm, page, depth);
        for (level, step) in path.iter().enumerate().take(depth).skip(first) {
            if self.config.mode == Mode::Virtualized && !self.mmu[core].nested_hit(vm, step.frame) {
                at = self.nested_walk(core, vm, step.frame, false, at);
            }
            at += self.read_entry(core, step.address, at);
            if level + 1 < depth {
                self.mmu[core].walk_insert(Dimension::Guest, level, vm, page);
            }
        }
        if self.config.mode == Mode::Virtualized {
            at = self.nested_walk(core, vm, mapping.gpn, key.is_large(), at);
        }
        self.counts.walks += 1;
        self.counts.walk_cycles += at - start;
        (mapping, at)
    }

    /// Walks the nested table for guest frame `gpn`; returns the cycle it ends.
    fn nested_walk(&mut self, core: usize, vm: u16, gpn: u64, large: bool, start: u64) -> u64 {
        let mut at = start;
        let (path, depth) = self.os.host_path(vm, gpn, large);
        let first = self.mmu[core].walk_start(Dimension::Host, vm, gpn, depth);
        for (level, step) in path.iter().enumerate().take(depth).skip(first) {
            at += self.read_entry(core, step.address, at);
            if level + 1 < depth {
                self.mmu[core].walk_insert(Dimension::Host, level, vm, gpn);
            }
        }
        at
    }

    fn read_entry(&mut self, core: usize, address: u64, now: u64) -> u64 {
        self.counts.walk_reads += 1;
        self.caches
            .access(
                core,
                address >> LINE_SHIFT,
                false,
                Entry::L1,
                now,
                &mut self.memory,
            )
            .cycles
    }

    /// Reads or writes a line of data; returns the cycles.
    pub fn data(&mut self, core: usize, line: u64, write: bool, now: u64) -> u64 {
        match self.caches.l1(core).find(line, write) {
            Found::Hit(cycles) => cycles,
            found => self.data_miss(core, line, write, now, found),
        }
    }

    /// What [`Machine::data`] does when its L1 look-up gave `found`, not a hit.
    pub fn data_miss(
        &mut self,
        core: usize,
        line: u64,
        write: bool,
        now: u64,
        found: Found,
    ) -> u64 {
        let slot = self.misses[core]
            .iter_mut()
            .min_by_key(|free| **free)
            .expect("a core has miss buffers");
        let start = now.max(*slot);
        let (caches, memory) = (&mut self.caches, &mut self.memory);
        let reply = match found {
            Found::Absent => caches.access_l2(core, line, write, Entry::L1, start, memory),
            _ => caches.access(core, line, write, Entry::L1, start, memory),
        };
        *slot = start + reply.cycles;
        if reply.from_memory {
            let frame = line >> (PAGE_SHIFT - LINE_SHIFT);
            if self.config.hybrid.enabled && self.os.touch_memory(frame) {
                self.hot_frame = Some(frame);
            }
        }
        start - now + reply.cycles
    }

    /// Writes the changed page-table entries; returns the initiator's cycles.
    pub fn write_entries(&mut self, core: usize, remap: &Remap, now: u64) -> u64 {
        let mut cycles = 0;
        for change in &remap.changes {
            let address = match remap.agent {
                crate::os::Agent::Guest => change.guest_entry,
                crate::os::Agent::Host => change.host_entry,
            };
            cycles += self
                .caches
                .access(
                    core,
                    address >> LINE_SHIFT,
                    true,
                    Entry::L1,
                    now + cycles,
                    &mut self.memory,
                )
                .cycles;
        }
        cycles
    }

    /// Cores a planted fault leaves alone.
    #[must_use]
    pub fn is_skipped(&self, core: usize) -> bool {
        self.fault == Some(Fault::VictimSkipped) && core + 1 == self.mmu.len()
    }

    /// Drops one revoked translation from every core.
    pub fn invalidate_everywhere(&mut self, key: Key) {
        for core in 0..self.mmu.len() {
            if !self.is_skipped(core) && self.mmu[core].invalidate(key) {
                self.counts.true_invalidations += 1;
            }
        }
    }

    /// Drops all translations of a VM from every core; those not in `remap` were dropped needlessly.
    pub fn flush_everywhere(&mut self, remap: &Remap) {
        let revoked: Vec<Key> = remap.changes.iter().map(|change| change.key).collect();
        for core in 0..self.mmu.len() {
            if self.is_skipped(core) {
                continue;
            }
            let held = revoked
                .iter()
                .filter(|&&key| self.mmu[core].holds(key))
                .count() as u64;
            let gone = self.mmu[core].flush_vm(remap.vm);
            self.counts.full_flushes += 1;
            self.counts.true_invalidations += held;
            self.counts.false_invalidations += gone.saturating_sub(held);
        }
    }

    /// Interrupts every other core that runs the VM; each owes `cost` cycles. Returns how many.
    pub fn interrupt_victims(&mut self, initiator: usize, vm: u16, cost: u64) -> u64 {
        let mut victims = 0;
        for core in 0..self.running.len() {
            if core != initiator && self.running[core] == Some(vm) {
                self.owed[core] += cost;
                self.counts.victim_cycles += cost;
                victims += 1;
            }
        }
        self.counts.victims += victims;
        victims
    }
}
