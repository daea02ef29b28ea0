// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `latr` beside `kvmtlb` on whole traces: what an update costs to the cycle, and that what is put
//! off is made up for.

mod common;

use steady_coherence::compare::{Outcome, compare, jobs};
use steady_coherence::config::Mode;
use steady_coherence::layout::Key;
use steady_coherence::record::{MapKind, Memory, Prot, Record};
use steady_coherence::scheme::{IDEAL, KVMTLB, LATR, latr};
use steady_coherence::sim::Sim;
use steady_coherence::{MachineConfig, Options, Registry, Spec};
use steady_random::Stream;

use common::{
    BASE, Meddler, busy_machine, busy_trace, run_checked, run_with, violations, with_spans_unmapped,
};

/// Four threads read four pages; half-way thread 0 gives the first back. No thread reads it again.
fn trace(kind: MapKind) -> Vec<Record> {
    let mut records = Vec::new();
    for turn in 0..8_000 {
        let pages = if turn < 4_000 { 0..4 } else { 1..4 };
        for thread in 0..4 {
            records.push(Record::Access {
                thread,
                vaddr: BASE + (pages.start + turn % (pages.end - pages.start)) * 4096,
                size: 8,
                write: false,
                instructions: 4,
            });
        }
        if turn == 4_000 {
            records.push(Record::Map {
                thread: 0,
                start: BASE,
                len: 4096,
                prot: Prot::default(),
                kind,
            });
        }
    }
    records
}

/// What a scheme did in that trace, and the initiator's cycles that are its own.
fn update(spec: &'static Spec, kind: MapKind, mode: Mode) -> (Outcome, u64) {
    let mut machine = MachineConfig::default();
    machine.core.count = 4;
    machine.mode = mode;
    machine.hybrid.enabled = false;
    machine.schemes.set(&latr::TICK, 1);
    let options = Options {
        check: true,
        ..Options::default()
    };
    let source = Memory::new(trace(kind), 1_000);
    let jobs = jobs(&machine, &[&IDEAL, spec]);
    let mut all = compare(source, u64::MAX, &jobs, &options, 1)
        .expect("a valid run")
        .outcomes;
    let (own, ideal) = (all.pop().expect("two"), all.pop().expect("two"));
    assert!(own.is_sound() && own.counts.pages_revoked == 1);
    let cycles = own.counts.initiator_cycles - ideal.counts.initiator_cycles;
    (own, cycles)
}

#[test]
fn a_freed_page_costs_its_initiator_a_state_and_three_others_a_sweep_in_guests_too() {
    for (kind, mode) in [
        (MapKind::Munmap, Mode::Native),
        (MapKind::Madvise, Mode::Native),
        (MapKind::Madvise, Mode::Virtualized),
    ] {
        let (found, cycles) = update(&LATR, kind, mode);
        assert_eq!(cycles, 930, "{kind:?}, {mode:?}");
        assert_eq!((found.own["published"], found.own["swept"]), (1, 3));
        let counts = found.counts;
        assert_eq!((counts.victims, counts.victim_cycles), (0, 3 * 630));
        assert_eq!(
            counts.true_invalidations,
            update(&KVMTLB, kind, mode).0.counts.true_invalidations
        );
    }
}

#[test]
fn what_latr_does_not_put_off_costs_what_kvmtlb_s_ipis_cost() {
    for mode in [Mode::Native, Mode::Virtualized] {
        let (found, cycles) = update(&LATR, MapKind::Mmap, mode);
        assert_eq!(cycles, update(&KVMTLB, MapKind::Mmap, mode).1, "{mode:?}");
        assert_eq!((found.own["published"], found.counts.victims), (0, 3));
    }
}

#[test]
fn short_and_long_ticks_small_and_large_rings_are_sound_with_vcpus_that_wait() {
    for (tick, ring) in [(1, 2), (5, 3), (20, 256), (2_000, 16)] {
        for mode in [Mode::Native, Mode::Virtualized] {
            let mut machine = busy_machine();
            machine.mode = mode;
            machine.schemes.set(&latr::TICK, tick);
            machine.schemes.set(&latr::RING, ring);
            let sim = run_checked(&machine, &LATR, busy_trace(11, 8, 96, 40_000), 2, 4, |_| {});
            let first = sim.oracle().expect("it is on").first.first();
            assert_eq!(violations(&sim), 0, "{tick} us, {ring} slots: {first:?}");
            assert_eq!(sim.check(), Ok(()));
            let own = sim.own_counts();
            assert!(own["swept"] > 100 && own["mapped_again"] > 10, "{own:?}");
            assert_eq!(own["full_rings"] > 0, ring < 256, "{tick} us: {own:?}");
        }
    }
}

/// A machine of a draw: any mix of ticks, rings, locks, migrations, sizes of pages and cores.
fn any_machine(draw: &mut Stream) -> MachineConfig {
    let mut one_of = |choices: &[u32]| {
        let count = u32::try_from(choices.len()).expect("a few");
        choices[draw.below(count) as usize]
    };
    let mut m = busy_machine();
    m.core.count = one_of(&[1, 2, 3, 4, 6]);
    m.core.slice_records = one_of(&[20, 200, 5_000]);
    m.mode = [Mode::Native, Mode::Virtualized][one_of(&[0, 1]) as usize];
    m.mmu.large_page_percent = one_of(&[0, 0, 0, 0, 0, 0, 0, 50]);
    m.hybrid.enabled = one_of(&[0, 1, 1]) == 1;
    m.hybrid.threshold = one_of(&[1, 2, 5]);
    m.hybrid.dram_percent = one_of(&[10, 50, 95]);
    m.hybrid.guest_percent = one_of(&[0, 50, 100]);
    m.shootdown.serialize = one_of(&[0, 0, 1]) == 1;
    m.shootdown.victims_at_most = one_of(&[0, 0, 1, 2]);
    m.schemes
        .set(&latr::TICK, one_of(&[1, 2, 5, 20, 100, 1_000]));
    m.schemes.set(&latr::RING, one_of(&[2, 3, 10, 256]));
    m
}

#[test]
fn no_machine_makes_a_core_use_what_it_should_have_swept_or_a_frame_come_too_early() {
    let mut draw = Stream::new(77, 1);
    let mut swept = 0;
    for case in 0..80 {
        let machine = any_machine(&mut draw);
        let threads = u16::try_from(1 + draw.below(8)).expect("a few");
        let vms = u16::try_from(1 + draw.below(3)).expect("a few");
        let pages = 8 + draw.below(300);
        let names = u64::from(draw.below(3));
        let records = busy_trace(case, threads * vms, pages, 2_500);
        let records = (with_spans_unmapped(records, pages, 400), 100);
        let mut meddler = Meddler::new(case, pages, vms);
        let prepare = |sim: &mut Sim| {
            sim.let_tables_move();
            for name in 1..=names {
                let target = sim.key_of(0, BASE >> 12);
                let alias = Key::small(0, target.first_vpn() + name);
                if !target.is_large() {
                    sim.alias(alias, target);
                }
            }
        };
        let odd = case % 2 == 1;
        let sim = run_with(&machine, &LATR, records, (vms, threads), prepare, |sim| {
            if odd {
                meddler.turn(sim);
            }
        });
        let first = sim.oracle().expect("it is on").first.first();
        assert_eq!(violations(&sim), 0, "{case}: {first:?}, {machine:?}");
        assert_eq!(sim.check(), Ok(()), "{case}");
        swept += sim.own_counts()["swept"];
    }
    assert!(swept > 5_000, "{swept}");
}

#[test]
fn a_tick_shorter_than_the_cores_lead_is_refused_with_what_to_do() {
    let registry = Registry::shipped();
    let text = "rivals.latr_tick_us = 1\ncore.lead_cycles = 4001\n";
    let said = registry
        .load(text, "m.toml")
        .expect_err("too short")
        .to_string();
    assert!(
        said.contains("`rivals.latr_tick_us` is 4000 cycles: expected at least `core.lead_cycles`"),
        "{said}"
    );
}
