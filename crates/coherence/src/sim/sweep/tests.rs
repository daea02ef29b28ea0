// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `latr` leaves of a freed page, and for how long, by the clock: at 4 GHz a tick of 20 us is
//! 80,000 cycles. Three cores run VM 0 unless a test says otherwise.

use super::super::{Home, Options, Sim, State, Thread, translate};
use crate::block::Call;
use crate::config::{MachineConfig, Mode, Start};
use crate::layout::Key;
use crate::machine::Fault;
use crate::oracle::Wrong;
use crate::record::{MapKind, Prot};
use crate::scheme::{LATR, latr};

const KEY: Key = Key::small(0, 0x12345);
const OTHER: Key = Key::small(0, 0x23456);
const TICK: u64 = 80_000;
const SWEEP: u64 = 630;

fn sim_with(fault: Option<Fault>, change: impl FnOnce(&mut MachineConfig)) -> Sim {
    let mut config = MachineConfig::default();
    config.core.count = 3;
    config.mode = Mode::Native;
    config.hybrid.enabled = false;
    config.schemes.set(&latr::TICK, 20);
    change(&mut config);
    let options = Options {
        check: true,
        vms: 2,
        ..Options::default()
    };
    let mut sim = Sim::new(&config, &LATR, &options).expect("a possible machine");
    if let Some(fault) = fault {
        sim.plant(fault);
    }
    for core in 0..3 {
        sim.machine.running[core] = Some(0);
    }
    sim
}

fn sim() -> Sim {
    sim_with(None, |_| {})
}

/// One access; returns the frame that it used.
fn access(sim: &mut Sim, core: usize, key: Key, write: bool) -> u64 {
    let now = sim.cores[core].front.drain();
    if now >= sim.due(core) {
        sim.run_due(core, now);
    }
    let (machine, scheme) = (&mut sim.machine, sim.scheme.as_mut());
    let (entry, cycles) = translate(machine, scheme, core, key, write, now);
    sim.check_access(core, key, &entry, write, now);
    sim.stall(core, cycles);
    entry.spn
}

fn call(sim: &mut Sim, core: usize, key: Key, kind: MapKind) {
    let prot = Prot {
        read: true,
        write: false,
        exec: false,
    };
    let call = Call {
        start: key.first_vpn() << 12,
        len: 4096,
        prot,
        kind,
    };
    sim.call(core, key.vm(), &call);
}

/// Each core has a thread, which may leave it.
fn with_threads(sim: &mut Sim) {
    for core in 0..3 {
        sim.cores[core].thread = Some(core);
        sim.threads.push(Thread {
            vm: 0,
            state: State::Ready,
            home: Home::Last(core),
            block: 0,
            at: 0,
        });
    }
    sim.idle = 0;
}

/// A core does nothing until a cycle.
fn idle_until(sim: &mut Sim, core: usize, cycle: u64) {
    sim.cores[core].front.sleep_until(cycle);
}

fn wrongs(sim: &Sim) -> Vec<Wrong> {
    let oracle = sim.oracle().expect("it is on");
    oracle.first.iter().map(|found| found.wrong).collect()
}

#[test]
fn another_core_uses_a_freed_page_up_to_its_tick_and_the_initiator_no_longer() {
    let mut sim = sim();
    sim.machine.running[2] = None;
    let old = access(&mut sim, 0, KEY, false);
    access(&mut sim, 1, KEY, false);
    call(&mut sim, 0, KEY, MapKind::Munmap);
    let held = [0, 1].map(|core| sim.machine.mmu[core].holds(KEY));
    assert_eq!(held, [false, true]);
    idle_until(&mut sim, 1, TICK - 1);
    assert_eq!(access(&mut sim, 1, KEY, false), old);
    idle_until(&mut sim, 1, TICK);
    assert_ne!(access(&mut sim, 1, KEY, false), old, "it swept first");
    assert_eq!((wrongs(&sim), sim.counts().victims), (vec![], 0));
    assert_eq!(sim.counts().victim_cycles, SWEEP);
}

#[test]
fn no_page_gets_a_freed_frame_for_two_periods() {
    let mut sim = sim();
    let old = access(&mut sim, 0, KEY, false);
    access(&mut sim, 1, KEY, false);
    call(&mut sim, 0, KEY, MapKind::Munmap);
    // Freed shortly after cycle 0: the first tick two periods later is the third.
    for tick in 1..=2 {
        idle_until(&mut sim, 0, tick * TICK);
        let page = Key::small(0, OTHER.page() + tick);
        assert_ne!(access(&mut sim, 0, page, false), old, "tick {tick}");
        assert_eq!(sim.machine.os.frames_held(), 1);
    }
    idle_until(&mut sim, 0, 3 * TICK);
    assert_eq!(access(&mut sim, 0, OTHER, false), old);
    assert_eq!(wrongs(&sim), vec![]);
}

#[test]
fn a_frame_that_is_given_out_before_the_sweep_is_a_violation() {
    let mut sim = sim_with(Some(Fault::FrameReused), |_| {});
    let old = access(&mut sim, 0, KEY, false);
    access(&mut sim, 1, KEY, false);
    call(&mut sim, 0, KEY, MapKind::Munmap);
    assert_eq!(access(&mut sim, 0, OTHER, false), old);
    assert_eq!(wrongs(&sim), [Wrong::Reused]);
}

/// The update of the last page is not put off, and that of another was.
#[test]
fn a_frame_with_two_pages_is_kept_for_the_one_that_was_put_off() {
    let mut sim = sim();
    let old = access(&mut sim, 0, KEY, false);
    sim.alias(OTHER, KEY);
    access(&mut sim, 1, KEY, false);
    call(&mut sim, 0, KEY, MapKind::Munmap);
    call(&mut sim, 0, OTHER, MapKind::Mmap);
    assert_eq!(sim.machine.os.frames_held(), 1);
    assert_ne!(access(&mut sim, 0, Key::small(0, 9), false), old);
    assert_eq!(wrongs(&sim), vec![]);
}

#[test]
fn a_page_that_is_touched_again_before_the_sweep_ends_the_wait_by_ipis() {
    for (fault, found) in [
        (None, vec![]),
        (Some(Fault::MappedAgainUntold), vec![Wrong::Frame]),
    ] {
        let mut sim = sim_with(fault, |_| {});
        let old = access(&mut sim, 0, KEY, false);
        access(&mut sim, 1, KEY, false);
        call(&mut sim, 0, KEY, MapKind::Madvise);
        assert_ne!(access(&mut sim, 0, KEY, false), old);
        access(&mut sim, 1, KEY, false);
        assert_eq!(wrongs(&sim), found);
        let owed = if fault.is_none() { 3_500 } else { 0 };
        assert_eq!(sim.machine.owed, [0, owed, owed]);
    }
}

/// The page tables have no page for the store, so that it is mapped again.
#[test]
fn a_store_through_a_clean_stale_translation_finds_that_the_page_is_gone() {
    let mut sim = sim();
    access(&mut sim, 0, KEY, false);
    let old = access(&mut sim, 1, KEY, false);
    call(&mut sim, 0, KEY, MapKind::Madvise);
    assert_ne!(access(&mut sim, 1, KEY, true), old);
    assert_eq!(wrongs(&sim), vec![]);
}

#[test]
fn lost_rights_reach_every_core_at_once() {
    for (fault, found) in [
        (None, vec![]),
        (Some(Fault::RightsPutOff), vec![Wrong::Right]),
    ] {
        let mut sim = sim_with(fault, |_| {});
        for core in 0..2 {
            access(&mut sim, core, KEY, true);
        }
        call(&mut sim, 0, KEY, MapKind::Mprotect);
        assert_eq!(sim.machine.mmu[1].holds(KEY), fault.is_some());
        access(&mut sim, 1, KEY, true);
        assert_eq!(wrongs(&sim), found);
    }
}

#[test]
fn an_update_that_finds_the_ring_full_is_made_by_ipis() {
    // Two slots, of which one stays empty.
    let mut sim = sim_with(None, |m| m.schemes.set(&latr::RING, 2));
    for key in [KEY, OTHER] {
        for core in 0..2 {
            access(&mut sim, core, key, false);
        }
        call(&mut sim, 0, key, MapKind::Munmap);
    }
    let held = [KEY, OTHER].map(|key| sim.machine.mmu[1].holds(key));
    assert_eq!(held, [true, false]);
    assert_eq!(sim.own_counts()["full_rings"], 1);
    assert_eq!(sim.machine.owed, [0, 3_500, 3_500]);
    assert_eq!(
        sim.machine.os.frames_held(),
        1,
        "the second is free at once"
    );
}

/// The owner frees its slots at its own sweep, when the others have swept.
#[test]
fn a_ring_has_room_again_after_everybody_s_tick() {
    let mut sim = sim_with(None, |m| m.schemes.set(&latr::RING, 2));
    let free = |sim: &mut Sim, key| {
        access(sim, 0, key, false);
        access(sim, 1, key, false);
        call(sim, 0, key, MapKind::Munmap);
    };
    free(&mut sim, KEY);
    for core in [1, 2, 0] {
        idle_until(&mut sim, core, TICK);
        access(&mut sim, core, Key::small(0, 1), false);
    }
    free(&mut sim, OTHER);
    assert_eq!(sim.own_counts()["full_rings"], 0);
    assert_eq!(sim.counts().victim_cycles, 2 * SWEEP);
}

#[test]
fn cores_that_do_not_run_the_vm_drop_the_page_at_once_and_sweep_nothing() {
    let mut sim = sim();
    for core in 0..3 {
        access(&mut sim, core, KEY, false);
    }
    sim.machine.running[2] = Some(1);
    call(&mut sim, 0, KEY, MapKind::Munmap);
    let held = [1, 2].map(|core| sim.machine.mmu[core].holds(KEY));
    assert_eq!(held, [true, false]);
    idle_until(&mut sim, 2, TICK);
    access(&mut sim, 2, Key::small(1, 5), false);
    assert_eq!(sim.counts().victim_cycles, 0);
}

#[test]
fn a_core_sweeps_as_its_thread_leaves_it_and_pays_for_it() {
    let mut sim = sim();
    with_threads(&mut sim);
    access(&mut sim, 0, KEY, false);
    access(&mut sim, 1, KEY, false);
    call(&mut sim, 0, KEY, MapKind::Munmap);
    sim.take_off(1);
    assert!(!sim.machine.mmu[1].holds(KEY));
    assert_eq!(sim.counts().victim_cycles, SWEEP);
}

/// Clocks are apart a little: what is freed at a cycle before its last tick it would have swept.
#[test]
fn a_core_that_has_had_the_tick_drops_the_page_at_once() {
    let mut sim = sim();
    access(&mut sim, 0, KEY, false);
    idle_until(&mut sim, 1, TICK + 10);
    access(&mut sim, 1, KEY, false);
    call(&mut sim, 0, KEY, MapKind::Munmap);
    assert!(!sim.machine.mmu[1].holds(KEY));
    assert_eq!(sim.own_counts()["published"], 1, "for the third core");
}

/// The frame's other page has been freed, and that update was put off.
#[test]
fn a_frame_moves_only_when_no_core_has_a_translation_to_it() {
    let mut sim = sim_with(None, |m| {
        (m.hybrid.enabled, m.hybrid.start) = (true, Start::Nvm);
        m.schemes.set(&latr::RING, 2);
    });
    let old = access(&mut sim, 0, KEY, false);
    sim.alias(OTHER, KEY);
    access(&mut sim, 1, KEY, false);
    call(&mut sim, 0, KEY, MapKind::Munmap);
    assert!(sim.machine.mmu[1].holds(KEY));
    // The ring is full, so that the page does not wait for the tick.
    sim.migrate(0, old);
    assert_ne!(sim.mapping(OTHER).expect("it is there").spn, old);
    assert!(!sim.machine.mmu[1].holds(KEY));
}

#[test]
fn a_core_alone_puts_nothing_off() {
    let mut sim = sim();
    access(&mut sim, 0, KEY, false);
    (sim.machine.running[1], sim.machine.running[2]) = (None, None);
    call(&mut sim, 0, KEY, MapKind::Munmap);
    assert_eq!(sim.own_counts()["published"], 0);
    assert_eq!(sim.machine.os.frames_held(), 0);
}

/// Found by a run with a tick shorter than a stall: a core whose thread left before the tick, and
/// that had another after it, had no tick to sweep at.
#[test]
fn a_core_with_another_thread_since_a_tick_sweeps_before_its_next_access() {
    let mut sim = sim_with(None, |m| {
        (m.hybrid.enabled, m.hybrid.start) = (true, Start::Nvm);
    });
    let old = access(&mut sim, 0, KEY, false);
    access(&mut sim, 1, KEY, false);
    sim.migrate(0, old);
    with_threads(&mut sim);
    let thread = sim.take_off(1);
    sim.queue.push_back(thread);
    idle_until(&mut sim, 1, TICK + 5);
    sim.schedule();
    assert_eq!(sim.cores[1].thread, Some(1));
    assert_ne!(access(&mut sim, 1, KEY, false), old);
    assert_eq!(wrongs(&sim), vec![]);
}

#[test]
fn a_migration_that_is_planned_at_the_end_makes_no_core_wait_for_its_tick() {
    let mut sim = sim_with(None, |m| {
        (m.hybrid.enabled, m.hybrid.start) = (true, Start::Nvm);
    });
    let old = access(&mut sim, 0, KEY, false);
    sim.migrate(0, old);
    sim.finish();
    assert_eq!(sim.counts().guest_migrations, 1);
    assert!(sim.counts().initiator_cycles < TICK / 8);
}

#[test]
fn a_migration_waits_for_the_tick_and_interrupts_no_core() {
    for mode in [Mode::Native, Mode::Virtualized] {
        let mut sim = sim_with(None, |m| {
            (m.mode, m.hybrid.enabled, m.hybrid.start) = (mode, true, Start::Nvm);
            m.hybrid.guest_percent = 0;
        });
        let old = access(&mut sim, 0, KEY, false);
        access(&mut sim, 1, KEY, false);
        sim.migrate(0, old);
        idle_until(&mut sim, 1, TICK - 1);
        assert_eq!(access(&mut sim, 1, KEY, false), old);
        idle_until(&mut sim, 1, TICK);
        let new = access(&mut sim, 1, KEY, false);
        assert_ne!(new, old, "{mode:?}");
        idle_until(&mut sim, 0, TICK);
        assert_eq!(access(&mut sim, 0, KEY, false), new);
        assert_eq!((wrongs(&sim), sim.counts().victims), (vec![], 0));
        assert_eq!(sim.counts().victim_cycles, 2 * SWEEP);
        assert_eq!(
            sim.counts().guest_migrations + sim.counts().host_migrations,
            1
        );
    }
}
