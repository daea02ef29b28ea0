// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine that every scheme shares: cores' translation hardware, caches, memory, system
//! software, and the steps from an address to data.
//!
//! It knows no scheme. A scheme sees it through a [`View`], and does no more to it than that
//! allows.

mod fifth;
mod view;

pub use view::{Look, Lookup, Message, View, Walker};

use crate::cache::{Caches, Entry, Found};
use crate::config::{MachineConfig, Mode};
use crate::cores::CoreSet;
use crate::counts::Counts;
use crate::dram::Memory;
use crate::layout::{Key, LINE_SHIFT, PAGE_SHIFT};
use crate::mmu::{Dimension, Mmu, Recent, TlbEntry};
use crate::network::Network;
use crate::oracle::Oracle;
use crate::os::{Agent, Mapping, Os, Remap};
use fifth::Fifth;

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
    /// What Table 4 refuses is carried out: the write gives entries another frame, and erases
    /// pointers without following them.
    Ungated,
}

/// What an L2 TLB miss got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk {
    /// What the TLB will hold.
    pub entry: TlbEntry,
    /// Cycles from the request.
    pub cycles: u64,
}

/// Data read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Data {
    /// Cycles until it is there.
    pub cycles: u64,
    /// The frame of a page that has just earned its migration by this access.
    pub hot: Option<u64>,
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Its configuration.
    pub config: MachineConfig,
    /// Translation hardware, by core.
    pub mmu: Vec<Mmu>,
    /// All data caches.
    pub caches: Caches,
    /// DRAM and NVM.
    pub memory: Memory,
    /// What messages between cores cost.
    pub network: Network,
    /// The fifth level of page tables.
    pub fifth: Fifth,
    /// Guests and hypervisor.
    pub os: Os,
    /// Counters.
    pub counts: Counts,
    /// Present when accesses are checked.
    pub oracle: Option<Oracle>,
    /// Cores whose TLBs or page-walk caches may hold something of each VM.
    pub holders: Vec<CoreSet>,
    /// VM on each core; `None` when idle.
    pub running: Vec<Option<u16>>,
    /// Cycles each core owes because it was a victim.
    pub owed: Vec<u64>,
    /// Cycles until each vCPU of a VM that is not on a core runs again; see the scheduler.
    pub preempted_wait: Vec<u64>,
    /// A planted fault.
    pub fault: Option<Fault>,
    misses: Vec<Vec<u64>>,
}

impl Machine {
    /// A machine with empty caches and nothing mapped.
    pub fn new(config: &MachineConfig, vms: u16, seed: u64) -> Self {
        let cores = config.core.count as usize;
        Self {
            mmu: vec![Mmu::new(config); cores],
            caches: Caches::new(config),
            memory: Memory::new(config),
            network: Network::new(config),
            fifth: Fifth::new(config, vms),
            os: Os::new(config, vms, seed),
            counts: Counts::default(),
            oracle: None,
            holders: vec![CoreSet::default(); usize::from(vms)],
            running: vec![None; cores],
            owed: vec![0; cores],
            preempted_wait: vec![0; usize::from(vms)],
            fault: None,
            misses: vec![vec![0; config.core.misses_in_flight as usize]; cores],
            config: config.clone(),
        }
    }

    /// The trace says that the store succeeded, so the system software allowed it.
    pub fn write_fault(&mut self, core: usize, key: Key) {
        self.counts.protection_faults += 1;
        let id = self.os.page_of(key);
        self.os.page_mut(id).writable = true;
        let mapping = self.os.resolve(key);
        if let Some(oracle) = &mut self.oracle {
            oracle.walked(&mapping);
        }
        self.mmu[core].invalidate(key);
    }

    /// Sets the dirty bit of a page's table entry, for the first store to it; returns the cycles.
    pub fn set_dirty(&mut self, core: usize, key: Key, now: u64) -> u64 {
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
        at += self.read_fifth(core, Dimension::Guest, vm, first, at);
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
        at += self.read_fifth(core, Dimension::Host, vm, first, at);
        for (level, step) in path.iter().enumerate().take(depth).skip(first) {
            at += self.read_entry(core, step.address, at);
            if level + 1 < depth {
                self.mmu[core].walk_insert(Dimension::Host, level, vm, gpn);
            }
        }
        at
    }

    /// Reads the fifth-level entry where there is one and a walk whose first level is `first`, of
    /// the four below, needs it; returns the cycles.
    fn read_fifth(&mut self, core: usize, dim: Dimension, vm: u16, first: usize, now: u64) -> u64 {
        if first > 0 {
            return 0;
        }
        let address = self.fifth.learn(core, dim, vm);
        address.map_or(0, |address| self.read_entry(core, address, now))
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

    /// The translation in the L1 TLB, if it serves the access, which the oracle then checks.
    pub fn checked_recent(
        &mut self,
        core: usize,
        key: Key,
        write: bool,
        now: u64,
    ) -> Option<Recent> {
        let entry = self.mmu[core].l1_entry(key)?;
        if !entry.serves(write, now) {
            return None;
        }
        if let Some(oracle) = &mut self.oracle {
            oracle.check(core, key, entry, write, now);
            self.counts.checked += 1;
        }
        Some(Recent::of(key, entry))
    }

    /// Reads or writes a line of data.
    pub fn data(&mut self, core: usize, line: u64, write: bool, now: u64) -> Data {
        match self.caches.l1(core).find(line, write) {
            Found::Hit(cycles) => Data { cycles, hot: None },
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
    ) -> Data {
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
        let mut hot = None;
        if reply.from_memory && self.config.hybrid.enabled {
            let frame = line >> (PAGE_SHIFT - LINE_SHIFT);
            hot = self.os.touch_memory(frame).then_some(frame);
        }
        Data {
            cycles: start - now + reply.cycles,
            hot,
        }
    }

    /// Writes the changed page-table entries; returns the initiator's cycles.
    pub fn write_entries(&mut self, core: usize, remap: &Remap, now: u64) -> u64 {
        let mut cycles = 0;
        for change in &remap.changes {
            let address = match remap.agent {
                Agent::Guest => change.guest_entry,
                Agent::Host => change.host_entry,
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
}
