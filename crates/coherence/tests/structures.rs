// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Caches, walks and page moves of the paper's machine, to the cycle and to the read.

use steady_coherence::MachineConfig;
use steady_coherence::cache::{Caches, Entry};
use steady_coherence::config::Protocol;
use steady_coherence::dram::Memory;

/// A closed row of DDR4-2133 under 4 GHz: tRCD, tCAS and a burst.
const DRAM: u64 = 53 + 53 + 16;
const LINE: u64 = 0x1000;

struct Rig {
    caches: Caches,
    memory: Memory,
}

impl Rig {
    fn new(change: impl FnOnce(&mut MachineConfig)) -> Self {
        let mut config = MachineConfig::default();
        change(&mut config);
        Self {
            caches: Caches::new(&config),
            memory: Memory::new(&config),
        }
    }

    fn load(&mut self, core: usize, line: u64) -> u64 {
        self.access(core, line, false, Entry::L1)
    }

    fn store(&mut self, core: usize, line: u64) -> u64 {
        self.access(core, line, true, Entry::L1)
    }

    fn access(&mut self, core: usize, line: u64, write: bool, entry: Entry) -> u64 {
        let reply = self
            .caches
            .access(core, line, write, entry, 0, &mut self.memory);
        reply.cycles
    }
}

#[test]
fn a_load_costs_what_the_level_that_has_the_line_costs() {
    let mut rig = Rig::new(|_| {});
    assert_eq!(rig.load(0, LINE), 42 + DRAM);
    assert_eq!(rig.load(0, LINE), 4);
    // Eight more lines of the same of 64 sets displace it from L1; L2 has 1,024 sets of four.
    for other in 1..=8 {
        rig.load(0, LINE + 64 * other);
    }
    assert_eq!(rig.load(0, LINE), 12);
    // L3 has 8,192 sets: lines 1,024 apart share one of L2.
    for other in 1..=4 {
        rig.load(0, LINE + 1024 * other);
    }
    assert_eq!(rig.load(0, LINE), 42);
}

#[test]
fn a_table_s_line_is_served_by_the_l2_and_stays_out_of_the_l1() {
    let mut rig = Rig::new(|_| {});
    rig.access(0, LINE, false, Entry::L2);
    assert_eq!(rig.access(0, LINE, false, Entry::L2), 12);
    assert_eq!(rig.load(0, LINE), 12, "the L1 does not have it");
    assert_eq!(rig.load(0, LINE), 4);
}

#[test]
fn a_directory_asks_the_owner_only_and_a_write_removes_every_copy() {
    let mut rig = Rig::new(|_| {});
    rig.store(0, LINE);
    assert_eq!(rig.load(1, LINE), 42 + 20, "the owner is asked");
    assert_eq!(rig.load(2, LINE), 42, "no core owns it now");
    assert_eq!(rig.store(2, LINE), 42 + 20, "two copies go");
    assert_eq!(rig.store(2, LINE), 4);
    assert_eq!(rig.caches.counts.copies_invalidated, 2);
    assert_eq!(rig.load(0, LINE), 42 + 20);
    assert_eq!(rig.caches.counts.snoops, 0);
}

#[test]
fn snooping_asks_all_seven_others_at_once_and_waits_as_long_for_none() {
    let mut rig = Rig::new(|m| m.protocol = Protocol::Snoop);
    assert_eq!(rig.store(0, LINE), 42 + DRAM);
    // The owner's L2 answers in 12 + 20 cycles, while the L3 takes 42.
    assert_eq!(rig.load(1, LINE), 42);
    assert_eq!(rig.store(1, LINE), 42);
    assert_eq!(rig.load(1, LINE), 4, "a hit asks no core");
    assert_eq!(rig.caches.counts.snoops, 3 * 7);
    let mut slow = Rig::new(|m| {
        m.protocol = Protocol::Snoop;
        m.core.cache_to_cache_cycles = 50;
    });
    assert_eq!(slow.load(0, LINE), 12 + 50 + DRAM);
    assert_eq!(slow.load(1, LINE), 12 + 50);
}

#[test]
fn a_line_that_leaves_the_l3_leaves_every_private_cache() {
    let mut rig = Rig::new(|_| {});
    rig.load(0, LINE);
    // Sixteen more lines of its L3 set, by another core.
    for other in 1..=16 {
        rig.load(1, LINE + 8192 * other);
    }
    assert!(!rig.caches.holds(LINE));
    assert!(rig.load(0, LINE) > 42, "memory serves it again");
}
