// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a translation costs, to the cycle, and which pages move.

use super::{Options, Sim};
use crate::config::{MachineConfig, Mode, Start};
use crate::layout::{Key, LINE_SHIFT, NVM_FRAMES, PAGE_SHIFT};
use crate::machine::{Fault, Machine, View};
use crate::os::{Agent, Cause, Remap, TablePage};
use crate::scheme::{IDEAL, Scheme};

fn machine(change: impl FnOnce(&mut MachineConfig)) -> (Machine, Box<dyn Scheme>) {
    let mut config = MachineConfig::default();
    change(&mut config);
    config.validate().expect("a possible machine");
    let scheme = IDEAL.build(&config).expect("it runs in both modes");
    (Machine::new(&config, 1, 1), scheme)
}

fn translate(m: &mut Machine, scheme: &mut dyn Scheme, page: u64) -> u64 {
    super::translate(m, scheme, 0, Key::small(0, page), false, 0).1
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
    // Neighbours in the guest's memory, so that their nested entries share a line.
    let (mut m, mut scheme) = machine(|config| config.mmu.scattered_frames_percent = 0);
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
    let frame = m.resolve(0, Key::small(0, 0x12345), 0).spn;
    assert!(frame >= NVM_FRAMES, "every page begins in NVM");
    let earned: Vec<bool> = (0..12).map(|_| m.os.touch_memory(frame)).collect();
    assert_eq!(earned.iter().position(|&moves| moves), Some(10));
    assert!(!earned[11], "once is enough");
    let plan = m.os.plan_migration(frame).unwrap();
    m.os.describe_migration(&plan).unwrap();
    m.os.apply_migration(&plan);
    assert!(m.resolve(0, Key::small(0, 0x12345), 0).spn < NVM_FRAMES);
}

/// Pages 0 to 20, all but the last in DRAM, which has room for 95 % of 21: 19.
#[test]
fn clock_sends_away_the_first_page_not_used_since_the_hand_passed() {
    let (mut m, _) = machine(|_| {});
    let move_in = |m: &mut Machine, page: u64| {
        let frame = m.resolve(0, Key::small(0, page), 0).spn;
        let plan = m.os.plan_migration(frame).unwrap();
        let remap = m.os.describe_migration(&plan).unwrap();
        m.os.apply_migration(&plan);
        remap
    };
    for page in 0..21 {
        m.resolve(0, Key::small(0, page), 0);
    }
    for page in 0..19 {
        assert_eq!(move_in(&mut m, page).changes.len(), 1, "there is room");
    }
    // All are referenced: the first round clears every bit, the second takes page 0.
    let first = move_in(&mut m, 19);
    assert_eq!(first.changes[1].key, Key::small(0, 0));
    // Page 1 is used again, so page 2 must leave.
    m.resolve(0, Key::small(0, 1), 0);
    let second = move_in(&mut m, 20);
    assert_eq!(second.changes[1].key, Key::small(0, 2));
}

#[test]
fn the_guest_makes_a_quarter_of_the_moves() {
    let (mut m, _) = machine(|m| m.hybrid.dram_percent = 100);
    let mut guest = 0;
    for page in 0..4_000 {
        let frame = m.resolve(0, Key::small(0, page), 0).spn;
        let plan = m.os.plan_migration(frame).unwrap();
        let remap = m.os.describe_migration(&plan).unwrap();
        guest += u32::from(remap.agent == Agent::Guest);
        m.os.apply_migration(&plan);
    }
    assert!((900..=1_100).contains(&guest), "{guest} of 4,000");
}

#[test]
fn no_cache_has_a_line_of_a_frame_whose_page_has_moved() {
    for fault in [None, Some(Fault::FrameNotPurged)] {
        let mut config = MachineConfig::default();
        config.hybrid.start = Start::Nvm;
        let mut sim = Sim::new(&config, &IDEAL, &Options::default()).expect("a possible machine");
        if let Some(fault) = fault {
            sim.plant(fault);
        }
        let frame = sim.machine.resolve(0, Key::small(0, 0x12345), 0).spn;
        let line = frame << (PAGE_SHIFT - LINE_SHIFT);
        sim.machine.data(0, line, true, 0);
        assert!(sim.machine.caches.holds(line));
        sim.migrate(0, frame);
        assert_ne!(sim.machine.resolve(0, Key::small(0, 0x12345), 0).spn, frame);
        assert_eq!(sim.machine.caches.holds(line), fault.is_some());
    }
}

#[test]
fn no_cache_has_a_line_of_a_frame_that_a_table_page_has_left() {
    for fault in [None, Some(Fault::FrameNotPurged)] {
        let config = MachineConfig::default();
        let mut sim = Sim::new(&config, &IDEAL, &Options::default()).expect("a possible machine");
        sim.let_tables_move();
        if let Some(fault) = fault {
            sim.plant(fault);
        }
        translate(&mut sim.machine, sim.scheme.as_mut(), 0x12345);
        let key = Key::small(0, 0x12345);
        let (path, depth) = sim.machine.os.guest_path(key);
        let line = path[depth - 1].address >> LINE_SHIFT;
        assert!(sim.machine.caches.holds(line), "the walk has read it");
        assert!(sim.move_table(0, TablePage::Guest, key, depth - 1));
        assert_eq!(sim.machine.caches.holds(line), fault.is_some());
    }
}

/// The nested TLB is left, so that behind the guest's four entries is one nested walk, the page's.
#[test]
fn the_walk_after_a_flush_begins_at_the_roots() {
    type Flush = fn(&mut View<'_>);
    let flushes: [Flush; 2] = [
        |view| {
            view.flush_vm(&Remap {
                vm: 0,
                agent: Agent::Host,
                cause: Cause::Migration,
                changes: Vec::new(),
                tables: Vec::new(),
                frees: false,
                victims: None,
            });
        },
        |view| view.drop_at(0, 0, &[], true),
    ];
    for (mode, all, leaves) in [(Mode::Native, 4, 1), (Mode::Virtualized, 4 + 4, 2)] {
        for flush in flushes {
            for (fault, reads) in [(None, all), (Some(Fault::FlushSparesWalkCaches), leaves)] {
                let (mut m, mut scheme) = machine(|config| config.mode = mode);
                m.fault = fault;
                translate(&mut m, scheme.as_mut(), 0x12345);
                let before = m.counts.walk_reads;
                flush(&mut View::of(&mut m));
                translate(&mut m, scheme.as_mut(), 0x12345);
                assert_eq!(m.counts.walk_reads - before, reads, "{mode:?} {fault:?}");
            }
        }
    }
}
