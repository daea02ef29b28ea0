// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an update costs under each scheme, to the cycle, and what it removes. Four cores run VM 0,
//! and each has loaded from the pages.

use super::*;
use crate::config::{MachineConfig, Mode};
use crate::layout::Key;
use crate::machine::{Machine, View};
use crate::os::{Agent, Cause, Remap};
use crate::sim::translate;

const PAGE: u64 = 0x1_2340;
const CORES: usize = 4;

struct Rig {
    m: Machine,
    scheme: Box<dyn Scheme>,
}

impl Rig {
    fn new(kind: &'static Spec, change: impl FnOnce(&mut MachineConfig)) -> Self {
        let mut config = MachineConfig::default();
        config.core.count = 4;
        change(&mut config);
        config.validate().expect("a possible machine");
        let scheme = kind.build(&config).expect("the mode suits the scheme");
        let mut m = Machine::new(&config, 2, 1);
        m.running = vec![Some(0); CORES];
        Self { m, scheme }
    }

    /// Every core loads from `pages` pages of VM 0 from [`PAGE`].
    fn with(kind: &'static Spec, pages: u64, change: impl FnOnce(&mut MachineConfig)) -> Self {
        let mut rig = Self::new(kind, change);
        for page in 0..pages {
            for core in 0..CORES {
                rig.load(core, PAGE + page);
            }
        }
        rig
    }

    fn load(&mut self, core: usize, page: u64) {
        let key = Key::small(0, page);
        translate(&mut self.m, self.scheme.as_mut(), core, key, false, 0);
    }

    fn held(&self, page: u64) -> usize {
        let key = Key::small(0, page);
        self.m.mmu.iter().filter(|mmu| mmu.holds(key)).count()
    }

    fn remap(&mut self, agent: Agent, pages: u64) -> Remap {
        let changes = (PAGE..PAGE + pages)
            .map(|page| {
                let id = self.m.os.page_of(Key::small(0, page));
                self.m.os.describe(id)
            })
            .collect();
        Remap {
            vm: 0,
            agent,
            cause: Cause::Migration,
            changes,
            tables: Vec::new(),
            frees: false,
            victims: None,
        }
    }

    /// Revokes the first `pages` pages from core 0; returns the initiator's cycles.
    fn update(&mut self, agent: Agent, pages: u64) -> u64 {
        let remap = self.remap(agent, pages);
        self.scheme.revoke(&mut View::of(&mut self.m), &remap, 0, 0)
    }
}

#[test]
fn kvmtlb_costs_table_2_s_cycles_for_guest_and_host() {
    for agent in [Agent::Guest, Agent::Host] {
        let mut rig = Rig::with(&KVMTLB, 2, |_| {});
        assert_eq!(rig.update(agent, 1), 48_000);
        assert_eq!(rig.m.owed, [0, 10_300, 10_300, 10_300]);
        assert_eq!(rig.held(PAGE), 0);
        let neighbour = if agent == Agent::Guest { CORES } else { 0 };
        assert_eq!(rig.held(PAGE + 1), neighbour, "the host flushes the VM");
    }
}

#[test]
fn a_native_ipi_costs_table_2_s_other_cycles() {
    let mut rig = Rig::with(&IPI, 1, |m| m.mode = Mode::Native);
    assert_eq!(rig.update(Agent::Guest, 1), 16_200);
    assert_eq!(rig.m.owed, [0, 3_500, 3_500, 3_500]);
}

#[test]
fn cores_that_do_not_run_the_vm_are_not_interrupted_but_lose_the_page() {
    let mut rig = Rig::with(&KVMTLB, 1, |_| {});
    rig.m.running = vec![Some(0), Some(1), None, Some(0)];
    assert_eq!(rig.update(Agent::Guest, 1), 48_000);
    assert_eq!(rig.m.owed, [0, 0, 0, 10_300]);
    assert_eq!(rig.held(PAGE), 0);
}

#[test]
fn no_more_cores_are_interrupted_than_the_machine_allows_but_all_lose_the_page() {
    let mut rig = Rig::with(&KVMTLB, 1, |m| m.shootdown.victims_at_most = 2);
    assert_eq!(rig.update(Agent::Guest, 1), 48_000);
    assert_eq!(rig.m.owed, [0, 10_300, 10_300, 0]);
    assert_eq!(rig.held(PAGE), 0);
}

#[test]
fn an_initiator_alone_invalidates_for_itself_only() {
    let mut rig = Rig::with(&KVMTLB, 1, |_| {});
    rig.m.running = vec![Some(0), None, None, None];
    assert_eq!(rig.update(Agent::Guest, 1), 10_300);
    assert_eq!(rig.m.counts.ipi_shootdowns, 0);
}

#[test]
fn a_guest_flushes_everything_above_33_pages() {
    for (pages, flushes) in [(33, 0), (34, 4)] {
        let mut rig = Rig::with(&KVMTLB, 40, |_| {});
        rig.update(Agent::Guest, pages);
        assert_eq!(rig.m.counts.full_flushes, flushes, "{pages} pages");
        assert_eq!(rig.held(PAGE + 39), if flushes > 0 { 0 } else { CORES });
    }
}

#[test]
fn ipi_waits_for_preempted_vcpus_and_kvmtlb_and_shoot4u_do_not() {
    for (kind, cycles) in [
        (&IPI, 48_000 + 5_000),
        (&KVMTLB, 48_000),
        (&SHOOT4U, 11_016),
    ] {
        let mut rig = Rig::with(kind, 1, |_| {});
        rig.m.preempted_wait[0] = 5_000;
        assert_eq!(rig.update(Agent::Guest, 1), cycles, "{}", kind.name);
    }
}

#[test]
fn shoot4u_spares_guests_the_interrupt_of_a_vcpu_and_is_kvmtlb_for_the_host() {
    let mut rig = Rig::with(&SHOOT4U, 1, |_| {});
    rig.update(Agent::Guest, 1);
    assert_eq!(rig.m.owed, [0, 3_500, 3_500, 3_500]);
    assert_eq!(rig.held(PAGE), 0);
    assert_eq!(rig.update(Agent::Host, 1), 48_000);
}

#[test]
fn pom_tlb_costs_what_kvmtlb_costs_and_its_atlb_forgets_the_page() {
    let mut rig = Rig::with(&POM_TLB, 1, |_| {});
    assert_eq!(rig.update(Agent::Host, 1), 48_000);
    assert_eq!(rig.held(PAGE), 0);
    let walks = rig.m.counts.walks;
    rig.load(0, PAGE);
    assert_eq!(rig.m.counts.walks, walks + 1, "the ATLB does not serve it");
}

#[test]
fn invlpgb_with_an_atlb_costs_what_invlpgb_costs_and_its_atlb_forgets_what_the_update_names() {
    for agent in [Agent::Guest, Agent::Host] {
        let cost = Rig::with(&INVLPGB, 2, |_| {}).update(agent, 1);
        for (precise, walks) in [(true, 1), (false, 1 + u64::from(agent == Agent::Host))] {
            let mut rig = Rig::with(&INVLPGB_ATLB, 2, |config| {
                config.schemes.set(&pom_tlb::PRECISE, precise);
            });
            assert_eq!(rig.update(agent, 1), cost, "{agent:?}");
            assert_eq!((rig.held(PAGE), rig.m.counts.victims), (0, 0));
            for page in [PAGE, PAGE + 1] {
                rig.m.mmu[0].invalidate(Key::small(0, page));
            }
            let before = rig.m.counts.walks;
            rig.load(0, PAGE);
            rig.load(0, PAGE + 1);
            assert_eq!(rig.m.counts.walks - before, walks, "{agent:?} {precise}");
        }
    }
}

#[test]
fn an_atlb_learns_the_dirty_bit_and_serves_a_store_after_a_refill_as_it_is() {
    for kind in [&POM_TLB, &INVLPGB_ATLB, &ATTC, &IDEAL_ATLB] {
        let mut rig = Rig::new(kind, |_| {});
        let key = Key::small(0, PAGE);
        let store = |rig: &mut Rig, core| {
            translate(&mut rig.m, rig.scheme.as_mut(), core, key, true, 0);
        };
        rig.load(0, PAGE);
        store(&mut rig, 0);
        assert_eq!(rig.m.counts.dirty_updates, 1);
        rig.m.mmu[0].invalidate(key);
        store(&mut rig, 0);
        store(&mut rig, 1);
        assert_eq!(rig.m.counts.dirty_updates, 1, "{}", kind.name);
        assert_eq!(rig.m.counts.walks, 1, "the ATLB served both");
        assert_eq!(rig.m.counts.tlb_messages, 0, "it is not a message");
    }
}

#[test]
fn hatric_follows_the_host_for_nothing_and_shoots_the_guest_s_updates_down() {
    // Eight entries of the nested table share a line and so a co-tag; the ninth does not.
    let mut rig = Rig::with(&HATRIC, 24, |_| {});
    assert_eq!(rig.update(Agent::Host, 1), 0);
    let gone = (PAGE..PAGE + 24).filter(|&page| rig.held(page) == 0);
    assert!((1..=8).contains(&gone.count()), "one line's pages");
    assert_eq!(rig.held(PAGE + 23), CORES);
    assert_eq!(
        rig.m.counts.true_invalidations, 8,
        "L1 and L2 of four cores"
    );
    assert_eq!(rig.m.counts.victim_cycles, 0);
    assert_eq!(rig.update(Agent::Guest, 1), 48_000);
}

#[test]
fn unitd_follows_the_native_table_for_nothing() {
    let mut rig = Rig::with(&UNITD, 9, |m| m.mode = Mode::Native);
    assert_eq!(rig.update(Agent::Guest, 1), 0);
    // PAGE is a multiple of 8: its line holds eight entries.
    assert!((PAGE..PAGE + 8).all(|page| rig.held(page) == 0));
    assert_eq!(rig.held(PAGE + 8), CORES);
    assert_eq!(rig.m.counts.tlb_messages, 4);
}

#[test]
fn didi_messages_the_holders_and_waits_only_where_others_hold_the_page() {
    let mut rig = Rig::new(&DIDI, |m| m.mode = Mode::Native);
    rig.load(0, PAGE);
    assert_eq!(rig.update(Agent::Guest, 1), 0, "no other core has it");
    for core in [0, 2] {
        rig.load(core, PAGE);
    }
    let before = rig.m.counts.tlb_messages;
    assert_eq!(rig.update(Agent::Guest, 1), 12_700);
    assert_eq!(rig.m.counts.tlb_messages - before, 2);
    assert_eq!((rig.held(PAGE), rig.m.counts.victim_cycles), (0, 0));
}

#[test]
fn a_page_that_leaves_didi_s_directory_leaves_the_tlbs() {
    let change = |m: &mut MachineConfig| {
        m.mode = Mode::Native;
        m.schemes.set(&didi::ENTRIES, 16);
    };
    let mut rig = Rig::new(&DIDI, change);
    for page in 0..17 {
        rig.load(0, PAGE + page);
    }
    assert_eq!((rig.held(PAGE), rig.held(PAGE + 1)), (0, 1));
    assert_eq!(rig.m.counts.false_invalidations, 1);
}

#[test]
fn site_s_entries_serve_until_their_lease_ends_and_a_migration_waits_for_it() {
    let mut rig = Rig::with(&SITE, 1, |m| m.mode = Mode::Native);
    // 100 microseconds at 4 GHz, from the access.
    let lease = 400_000;
    let entry = *rig.m.mmu[0].l1_entry(Key::small(0, PAGE)).expect("loaded");
    assert!(entry.serves(false, lease - 1) && !entry.serves(false, lease));
    let remap = rig.remap(Agent::Guest, 1);
    assert_eq!(rig.scheme.ready_at(&remap, 0, 1_000), lease);
    assert_eq!(
        rig.scheme
            .revoke(&mut View::of(&mut rig.m), &remap, 0, lease),
        0
    );
    assert_eq!(rig.m.counts.victim_cycles, 0);
}

#[test]
fn a_program_s_update_under_site_waits_for_a_short_lease_and_interrupts_for_a_long_one() {
    let mut rig = Rig::with(&SITE, 1, |m| m.mode = Mode::Native);
    let mut remap = rig.remap(Agent::Guest, 1);
    remap.cause = Cause::Program;
    let (late, early) = (400_000 - 16_200, 1_000);
    assert_eq!(rig.scheme.ready_at(&remap, 0, late), 400_000);
    assert_eq!(rig.scheme.ready_at(&remap, 0, early), early);
    assert_eq!(
        rig.scheme
            .revoke(&mut View::of(&mut rig.m), &remap, 0, early),
        16_200
    );
}

#[test]
fn the_ideals_cost_nothing_and_remove_the_page_and_no_other() {
    for kind in [&IDEAL, &IDEAL_ATLB] {
        let mut rig = Rig::with(kind, 2, |_| {});
        assert_eq!(rig.update(Agent::Host, 1), 0);
        assert_eq!((rig.held(PAGE), rig.held(PAGE + 1)), (0, CORES));
        assert_eq!(rig.m.owed, [0; CORES]);
    }
}
