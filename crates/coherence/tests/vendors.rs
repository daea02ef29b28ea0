// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What one update costs under what vendors shipped, to the cycle: the initiator's cycles beyond
//! those of `ideal`, which writes the same page tables.

mod common;

use steady_coherence::compare::{Outcome, compare, jobs};
use steady_coherence::config::Mode;
use steady_coherence::record::{MapKind, Memory, Prot, Record};
use steady_coherence::scheme::{IDEAL, INVLPGB, RAR, invlpgb};
use steady_coherence::{MachineConfig, Options, Spec};

use common::BASE;

/// Four threads read `pages` pages again and again; half-way thread 0 unmaps them.
fn trace(pages: u64) -> Vec<Record> {
    let mut records = Vec::new();
    for turn in 0..4_000 {
        for thread in 0..4 {
            records.push(Record::Access {
                thread,
                vaddr: BASE + (turn % pages) * 4096,
                size: 8,
                write: false,
                instructions: 4,
            });
        }
        if turn == 2_000 {
            records.push(Record::Map {
                thread: 0,
                start: BASE,
                len: pages * 4096,
                prot: Prot::default(),
                kind: MapKind::Munmap,
            });
        }
    }
    records
}

/// What the scheme did in that trace, and the initiator's cycles that are its own.
fn update(spec: &'static Spec, pages: u64, change: impl Fn(&mut MachineConfig)) -> (Outcome, u64) {
    let mut machine = MachineConfig::default();
    machine.core.count = 4;
    machine.mode = Mode::Native;
    machine.hybrid.enabled = false;
    change(&mut machine);
    let options = Options {
        check: true,
        ..Options::default()
    };
    let source = Memory::new(trace(pages), 1_000);
    let jobs = jobs(&machine, &[&IDEAL, spec]);
    let mut all = compare(source, u64::MAX, &jobs, &options, 1)
        .expect("a valid run")
        .outcomes;
    let (own, ideal) = (all.pop().expect("two"), all.pop().expect("two"));
    assert!(own.is_sound() && own.counts.program_updates == 1);
    assert_eq!(own.counts.pages_revoked, pages);
    let cycles = own.counts.initiator_cycles - ideal.counts.initiator_cycles;
    (own, cycles)
}

#[test]
fn invlpgb_pays_for_each_eight_neighbours_and_one_wait_and_interrupts_no_core() {
    for (pages, broadcasts, flushed) in [(1, 1, 0), (8, 1, 0), (9, 2, 0), (33, 5, 0), (34, 1, 4)] {
        let (found, cycles) = update(&INVLPGB, pages, |_| {});
        assert_eq!(cycles, 100 * broadcasts + 8_000, "{pages} pages");
        assert_eq!(found.own["broadcasts"], broadcasts);
        assert_eq!(
            (found.counts.victims, found.counts.full_flushes),
            (0, flushed)
        );
    }
}

#[test]
fn a_guest_broadcasts_where_its_hypervisor_lets_it_and_sends_ipis_where_not() {
    let with = |lets: bool| {
        update(&INVLPGB, 1, |m| {
            m.mode = Mode::Virtualized;
            m.schemes.set(&invlpgb::IN_GUESTS, lets);
        })
    };
    let ((open, cycles), (closed, ipis)) = (with(true), with(false));
    assert_eq!((cycles, ipis), (8_100, 48_000));
    assert_eq!((open.counts.victims, closed.counts.victims), (0, 3));
}

#[test]
fn the_wait_for_answers_is_added_to_both() {
    let far = |m: &mut MachineConfig| m.network.hop_cycles = 10;
    // A square of four: two hops to the farthest and back, and two answers behind the first.
    assert_eq!(update(&INVLPGB, 1, far).1, 8_100 + 2 * 2 * 10 + 2);
    assert_eq!(update(&RAR, 1, far).1, 12_700 + 2 * 2 * 10 + 2);
}

#[test]
fn rar_stalls_each_victim_in_microcode_and_does_not_help_a_guest() {
    let (found, cycles) = update(&RAR, 33, |_| {});
    assert_eq!(
        (cycles, found.counts.victim_cycles, found.own["requests"]),
        (12_700, 3 * 500, 1)
    );
    assert_eq!(
        found.counts.full_flushes, 0,
        "33 neighbours are one entry of 64"
    );
    let (found, cycles) = update(&RAR, 1, |m| m.mode = Mode::Virtualized);
    assert_eq!((cycles, found.own["requests"]), (48_000, 0));
}
