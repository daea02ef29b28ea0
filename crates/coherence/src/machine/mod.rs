// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machine that every scheme shares: cores' translation hardware, caches, memory, system
//! software, and the steps from an address to data.
//!
//! It knows no scheme. A scheme sees it through a [`View`], and does no more to it than that
//! allows.

mod fault;
mod fifth;
mod view;
mod walk;

pub use fault::Fault;
pub use view::{Look, Lookup, Message, View, Walker};

use crate::cache::{Caches, Entry, Found};
use crate::config::MachineConfig;
use crate::cores::CoreSet;
use crate::counts::Counts;
use crate::dram::Memory;
use crate::layout::{Key, LINE_SHIFT, PAGE_SHIFT};
use crate::mmu::{Mmu, Recent, TlbEntry};
use crate::network::Network;
use crate::oracle::Oracle;
use crate::os::{Agent, Mapping, Os, Remap};
use fifth::Fifth;

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
    /// For each VM: threads that are on no core now, since they wait for one or have no record.
    pub away: Vec<u64>,
    /// A planted fault.
    pub fault: Option<Fault>,
    /// Table pages may move in this run, so that a scheme must follow them.
    pub tables_move: bool,
    /// Frames of guest table pages that the last walk put into a nested TLB.
    pub nested_filled: Vec<u64>,
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
            away: vec![0; usize::from(vms)],
            fault: None,
            tables_move: false,
            nested_filled: Vec::new(),
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

    /// The mapping that a walk of a core finds at cycle `now`, made known to the oracle.
    pub fn resolve(&mut self, core: usize, key: Key, now: u64) -> Mapping {
        let before = self.os.mapped_pages();
        let mapping = self.os.resolve(key);
        let new = self.os.mapped_pages() != before;
        self.counts.first_touches += u64::from(new);
        if let Some(oracle) = &mut self.oracle {
            if new {
                oracle.given(core, key, mapping.spn, now);
            }
            oracle.walked(&mapping);
        }
        mapping
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
        let leaves = remap.changes.iter().map(|change| match remap.agent {
            Agent::Guest => change.guest_entry,
            Agent::Host => change.host_entry,
        });
        for address in leaves.chain(remap.tables.iter().map(|table| table.entry)) {
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
