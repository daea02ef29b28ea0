// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Caches, walks and page moves of the paper's machine, to the cycle and to the read.

use steady_coherence::MachineConfig;
use steady_coherence::cache::{Caches, Entry};
use steady_coherence::config::{Mode, Protocol};
use steady_coherence::dram::Memory;
use steady_coherence::layout::{Key, NVM_FRAMES};
use steady_coherence::machine::Machine;
use steady_coherence::os::Agent;
use steady_coherence::{SchemeKind, scheme::Scheme};

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
    assert_eq!(rig.load(2, LINE), 42, "nobody owns it now");
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
    assert_eq!(rig.load(1, LINE), 4, "a hit asks nobody");
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

fn machine(change: impl FnOnce(&mut MachineConfig)) -> (Machine, Box<dyn Scheme>) {
    let mut config = MachineConfig::default();
    change(&mut config);
    config.validate().expect("a possible machine");
    let scheme = SchemeKind::Ideal
        .build(&config, 1)
        .expect("it runs in both modes");
    (Machine::new(&config, 1, 1), scheme)
}

fn translate(m: &mut Machine, scheme: &mut dyn Scheme, page: u64) -> u64 {
    m.translate(scheme, 0, Key::small(0, page), false, 0).1
}

#[test]
fn a_native_walk_reads_four_entries_and_the_next_page_s_one() {
    let (mut m, mut scheme) = machine(|m| m.mode = Mode::Native);
    translate(&mut m, scheme.as_mut(), 0x12345);
    assert_eq!(m.counts.walk_reads, 4);
    translate(&mut m, scheme.as_mut(), 0x12346);
    assert_eq!(m.counts.walk_reads, 5, "the walk cache has the table");
}

#[test]
fn a_nested_walk_reads_twenty_four_entries_less_what_walk_caches_know() {
    let (mut m, mut scheme) = machine(|_| {});
    translate(&mut m, scheme.as_mut(), 0x12345);
    // The first guest table: 4 + 1. Three more in its neighbourhood: 1 + 1 each. The page: 4.
    assert_eq!(m.counts.walk_reads, 5 + 6 + 4);
    let before = m.counts.walk_reads;
    let cycles = translate(&mut m, scheme.as_mut(), 0x12346);
    assert_eq!(m.counts.walk_reads - before, 2, "a leaf of each dimension");
    // The lines of both leaves are in L1: 4 cycles each after both TLBs.
    assert_eq!(cycles, 9 + 17 + 4 + 4);
}

#[test]
fn an_l1_miss_that_the_l2_tlb_serves_costs_nine_cycles() {
    let (mut m, mut scheme) = machine(|_| {});
    translate(&mut m, scheme.as_mut(), 0x12340);
    // Four more pages of the same of 16 sets; XOR-7 spreads them in the L2.
    for other in 1..=4 {
        translate(&mut m, scheme.as_mut(), 0x12340 + 16 * other);
    }
    assert_eq!(translate(&mut m, scheme.as_mut(), 0x12340), 9);
    assert_eq!(translate(&mut m, scheme.as_mut(), 0x12340), 0);
}

#[test]
fn a_third_walk_at_once_waits_for_one_of_two_walkers() {
    let (mut m, mut scheme) = machine(|m| m.mmu.walk_cycles = 100);
    for (at, cycles) in [100, 100, 200, 200, 300].into_iter().enumerate() {
        let cost = translate(&mut m, scheme.as_mut(), 0x1000 + at as u64);
        assert_eq!(cost, 9 + 17 + cycles);
    }
}

#[test]
fn a_page_moves_when_its_accesses_to_nvm_exceed_the_threshold_of_ten() {
    let (mut m, _) = machine(|_| {});
    let frame = m.resolve(Key::small(0, 0x12345)).spn;
    assert!(frame >= NVM_FRAMES, "every page begins in NVM");
    let earned: Vec<bool> = (0..12).map(|_| m.os.touch_memory(frame)).collect();
    assert_eq!(earned.iter().position(|&moves| moves), Some(10));
    assert!(!earned[11], "once is enough");
    let plan = m.os.plan_migration(frame).unwrap();
    m.os.describe_migration(&plan).unwrap();
    m.os.apply_migration(&plan);
    assert!(m.resolve(Key::small(0, 0x12345)).spn < NVM_FRAMES);
}

/// Pages 0 to 20, all but the last in DRAM, which has room for 95 % of 21: 19.
#[test]
fn clock_sends_away_the_first_page_not_used_since_the_hand_passed() {
    let (mut m, _) = machine(|_| {});
    let move_in = |m: &mut Machine, page: u64| {
        let frame = m.resolve(Key::small(0, page)).spn;
        let plan = m.os.plan_migration(frame).unwrap();
        let remap = m.os.describe_migration(&plan).unwrap();
        m.os.apply_migration(&plan);
        remap
    };
    for page in 0..21 {
        m.resolve(Key::small(0, page));
    }
    for page in 0..19 {
        assert_eq!(move_in(&mut m, page).changes.len(), 1, "there is room");
    }
    // All are referenced: the first round clears every bit, the second takes page 0.
    let first = move_in(&mut m, 19);
    assert_eq!(first.changes[1].key, Key::small(0, 0));
    // Page 1 is used again, so page 2 must leave.
    m.resolve(Key::small(0, 1));
    let second = move_in(&mut m, 20);
    assert_eq!(second.changes[1].key, Key::small(0, 2));
}

#[test]
fn the_guest_makes_a_quarter_of_the_moves() {
    let (mut m, _) = machine(|m| m.hybrid.dram_percent = 100);
    let mut guest = 0;
    for page in 0..4_000 {
        let frame = m.resolve(Key::small(0, page)).spn;
        let plan = m.os.plan_migration(frame).unwrap();
        let remap = m.os.describe_migration(&plan).unwrap();
        guest += u32::from(remap.agent == Agent::Guest);
        m.os.apply_migration(&plan);
    }
    assert!((900..=1_100).contains(&guest), "{guest} of 4,000");
}
