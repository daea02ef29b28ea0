// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each planted fault is found by a test that has its name, and by no run without it.
//!
//! What finds it is the oracle, or a scheme's invariants. A fault that nothing can find says why.

mod common;

use steady_coherence::config::{MachineConfig, Mode};
use steady_coherence::layout::Key;
use steady_coherence::record::Record;
use steady_coherence::scheme::rights::{Actor, Attempt, Operation, Target};
use steady_coherence::scheme::{self, attc, didi, latr, site};
use steady_coherence::sim::Sim;
use steady_coherence::{Fault, Spec};

use common::{BASE, Meddler, busy_machine, busy_trace, run_with, violations, with_spans_unmapped};

/// A run that a fault may be planted in.
struct Run {
    spec: &'static Spec,
    machine: MachineConfig,
    pages: u32,
    threads: u16,
    vms: u16,
    names: u64,
    /// No agent moves a table page.
    tables_stay: bool,
    /// Instead of the busy trace, and then nothing happens between its blocks.
    records: Option<Vec<Record>>,
}

impl Run {
    fn of(spec: &'static Spec) -> Self {
        let mut machine = busy_machine();
        if let Some(mode) = [Mode::Virtualized, Mode::Native]
            .into_iter()
            .find(|&mode| spec.refuses(mode).is_none())
        {
            machine.mode = mode;
        }
        Self {
            spec,
            machine,
            pages: 96,
            threads: 4,
            vms: 1,
            names: 0,
            tables_stay: false,
            records: None,
        }
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Whether the oracle or an invariant objects.
    fn objects(&self, fault: Option<Fault>) -> bool {
        let (sim, broken) = self.end(fault);
        violations(&sim) > 0 || broken
    }

    /// What is at the end, and whether an invariant was broken.
    fn end(&self, fault: Option<Fault>) -> (Sim, bool) {
        let mut meddler = Meddler::new(5, self.pages, self.vms);
        meddler.moves = !self.tables_stay;
        let records = self.records.clone().unwrap_or_else(|| {
            with_spans_unmapped(
                busy_trace(3, self.threads, self.pages, 12_000),
                self.pages,
                500,
            )
        });
        let per = if self.vms > 1 {
            self.threads / self.vms
        } else {
            0
        };
        let prepare = |sim: &mut Sim| {
            sim.let_tables_move();
            let target = Key::small(0, BASE >> 12);
            for name in 1..=self.names {
                sim.alias(Key::small(0, target.page() + name), target);
            }
            if let Some(fault) = fault {
                sim.plant(fault);
            }
        };
        let mut broken = false;
        let vms = (self.vms, per);
        let sim = run_with(
            &self.machine,
            self.spec,
            (records, 100),
            vms,
            prepare,
            |sim| {
                broken |= sim.check().is_err();
                meddler.turn(sim);
                intrude(sim);
            },
        );
        (sim, broken)
    }

    /// Asserts that the fault is found and that without it there is nothing to find.
    fn kills(&self, fault: Fault) {
        assert!(!self.objects(None), "{fault:?} is not needed");
        assert!(self.objects(Some(fault)), "{fault:?} survives");
    }
}

/// A process writes to the ATLB set of a page, which is refused.
fn intrude(sim: &mut Sim) {
    let key = Key::small(0, (BASE >> 12) + 7);
    sim.attempt(
        0,
        &Attempt {
            actor: Actor::GuestProcess,
            vm: 0,
            target: Target::Atlb,
            operation: Operation::Write,
            place: scheme::set_index(key.page(), key.vm_id(), 1 << 14),
        },
    );
}

/// Four threads, of which one has no records for so long that its core is idle, and then has some.
fn one_sleeps() -> Vec<Record> {
    let part = |threads: u16, length| busy_trace(threads.into(), threads, 1_500, length);
    [part(4, 9_000), part(3, 8_000), part(4, 9_000)].concat()
}

/// Updates that are put off, and no migrations of the host, which flush every TLB at each tick.
fn lazy() -> Run {
    Run::of(&scheme::LATR).with(|run| {
        run.machine.hybrid.enabled = false;
        run.machine.schemes.set(&latr::TICK, 50);
    })
}

/// Table pages change only as they are freed, several at once: one that is freed alone would come
/// back in its frame. No host and no long range flushes everything, which would hide what is stale.
fn freed(spec: &'static Spec) -> Run {
    Run::of(spec).with(|run| {
        run.machine.hybrid.enabled = false;
        run.machine.shootdown.flush_ceiling_pages = 4_096;
        (run.pages, run.tables_stay) = (1_500, true);
    })
}

macro_rules! mutants {
    ($($name:ident: $fault:ident by $run:expr;)*) => {
        $(
            #[test]
            fn $name() {
                $run.kills(Fault::$fault);
            }
        )*
        /// The faults that the tests above find.
        const KILLED: &[Fault] = &[$(Fault::$fault),*];
    };
}

mutants! {
    pointer_lost: PointerLost by Run::of(&scheme::ATTC);
    evict_silent: EvictSilent by Run::of(&scheme::ATTC).with(|run| run.pages = 600);
    evict_untold: EvictUntold by Run::of(&scheme::ATTC).with(|run| run.pages = 600);
    synonym_missed: SynonymMissed by Run::of(&scheme::ATTC).with(|run| run.names = 3);
    write_if_present: WriteIfPresent by Run::of(&scheme::ATTC).with(|run| {
        // What one VM's flush wipes from the ATLB stays in the other's TLBs.
        run.machine.schemes.set(&attc::FLUSH, "dma");
        run.machine.schemes.set(&attc::FLUSH_CEILING, 8);
        run.vms = 2;
    });
    set_missed: SetMissed by Run::of(&scheme::ATTC);
    l1_missed: L1Missed by Run::of(&scheme::ATTC);
    large_missed: LargeMissed by Run::of(&scheme::ATTC)
        .with(|run| run.machine.mmu.large_page_percent = 100);
    vm_id_ignored: VmIdIgnored by Run::of(&scheme::ATTC).with(|run| run.vms = 2);
    vm_id_ignored_by_pom_tlb: VmIdIgnored by Run::of(&scheme::POM_TLB).with(|run| run.vms = 2);
    vm_id_ignored_with_invlpgb: VmIdIgnored by
        Run::of(&scheme::INVLPGB_ATLB).with(|run| run.vms = 2);
    vm_id_ignored_by_an_ideal: VmIdIgnored by Run::of(&scheme::IDEAL_ATLB).with(|run| run.vms = 2);
    atlb_dirty: AtlbDirty by Run::of(&scheme::ATTC);
    atlb_dirty_in_pom_tlb: AtlbDirty by Run::of(&scheme::POM_TLB);
    atlb_dirty_with_invlpgb: AtlbDirty by Run::of(&scheme::INVLPGB_ATLB);
    rights_kept: RightsKept by Run::of(&scheme::ATTC);
    stamp_kept: StampKept by Run::of(&scheme::ATTC)
        .with(|run| run.machine.schemes.set(&attc::FLUSH_CEILING, 8));
    ungated: Ungated by Run::of(&scheme::ATTC);
    idle_skipped: IdleSkipped by Run::of(&scheme::HATRIC)
        .with(|run| {
            run.records = Some(one_sleeps());
            run.machine.shootdown.flush_ceiling_pages = 4_096;
        });
    preempted_forgotten: PreemptedForgotten by Run::of(&scheme::KVMTLB).with(|run| {
        (run.vms, run.threads) = (2, 12);
    });
    last_untold: LastUntold by Run::of(&scheme::KVMTLB);
    cold_untold: ColdUntold by Run::of(&scheme::IDEAL);
    clean_untold: CleanUntold by Run::of(&scheme::IDEAL);
    clean_untold_under_attc: CleanUntold by Run::of(&scheme::ATTC);
    age_untold: AgeUntold by Run::of(&scheme::IDEAL);
    age_untold_under_attc: AgeUntold by Run::of(&scheme::ATTC);
    other_tag: OtherTag by Run::of(&scheme::HATRIC);
    directory_forgets: DirectoryForgets by Run::of(&scheme::DIDI)
        .with(|run| run.machine.schemes.set(&didi::ENTRIES, 64));
    lease_lost: LeaseLost by Run::of(&scheme::SITE)
        .with(|run| run.machine.schemes.set(&site::LEASE, 20));
    walk_caches_kept: WalkCachesKept by Run::of(&scheme::KVMTLB);
    walk_caches_kept_under_attc: WalkCachesKept by Run::of(&scheme::ATTC);
    walk_caches_kept_under_hatric: WalkCachesKept by Run::of(&scheme::HATRIC);
    freed_tables_kept: FreedTablesKept by freed(&scheme::KVMTLB);
    freed_tables_kept_under_attc: FreedTablesKept by freed(&scheme::ATTC);
    freed_tables_kept_under_unitd: FreedTablesKept by freed(&scheme::UNITD);
    freed_tables_kept_under_didi: FreedTablesKept by freed(&scheme::DIDI);
    freed_tables_kept_by_an_ideal: FreedTablesKept by freed(&scheme::IDEAL);
    flush_leaves_walk_caches: FlushLeavesWalkCaches by Run::of(&scheme::KVMTLB);
    nested_kept: NestedKept by Run::of(&scheme::ATTC);
    nested_kept_under_hatric: NestedKept by Run::of(&scheme::HATRIC);
    host_walks_kept: HostWalksKept by Run::of(&scheme::ATTC);
    host_walks_kept_under_hatric: HostWalksKept by Run::of(&scheme::HATRIC);
    table_pointer_lost: TablePointerLost by Run::of(&scheme::ATTC);
    other_walk_line: OtherWalkLine by Run::of(&scheme::ATTC).with(|run| run.vms = 2);
    frame_reused: FrameReused by lazy();
    rights_put_off: RightsPutOff by lazy();
    mapped_again_untold: MappedAgainUntold by lazy();
    ring_overrun: RingOverrun by lazy()
        .with(|run| {
            // A host that moves table pages would flush what is stale.
            run.machine.mode = Mode::Native;
            run.machine.schemes.set(&latr::RING, 2);
        });
}

/// Found elsewhere: the fault and the test.
const ELSEWHERE: &[(Fault, &str)] = &[
    (
        Fault::VictimSkipped,
        "a_skipped_victim_is_caught_in_every_virtualized_scheme",
    ),
    (
        Fault::FrameNotPurged,
        "no_cache_has_a_line_of_a_frame_whose_page_has_moved",
    ),
    (
        Fault::FlushSparesWalkCaches,
        "the_walk_after_a_flush_begins_at_the_roots",
    ),
    (
        Fault::PointersKept,
        "a_frame_s_pointers_go_with_the_update_that_follows_them",
    ),
];

#[test]
fn every_fault_is_killed() {
    let named = |list: &[(Fault, &str)], fault| list.iter().any(|&(known, _)| known == fault);
    for fault in Fault::ALL {
        let places = [KILLED.contains(&fault), named(ELSEWHERE, fault)];
        let listed = places.iter().filter(|&&listed| listed).count();
        assert_eq!(listed, 1, "{fault:?} is listed {listed} times");
    }
    assert!(Fault::ALL.len() >= 20);
    let sources = [
        include_str!("mutants.rs"),
        include_str!("oracle.rs"),
        include_str!("../src/sim/tests.rs"),
    ];
    for (fault, test) in ELSEWHERE {
        let held = |text: &&str| {
            text.contains(&format!("fn {test}(")) && text.contains(&format!("Fault::{fault:?}"))
        };
        assert!(sources.iter().any(held), "{fault:?}: {test}");
    }
}

/// A pointer that stays makes later updates of the frame follow more, and what they lead to goes
/// needlessly. It is not stale, so no oracle sees it.
#[test]
fn a_frame_s_pointers_go_with_the_update_that_follows_them() {
    let needless = |fault| {
        let (sim, broken) = Run::of(&scheme::ATTC).end(fault);
        assert!(!broken && violations(&sim) == 0, "{fault:?}");
        sim.measured().0.false_invalidations
    };
    let (few, more) = (needless(None), needless(Some(Fault::PointersKept)));
    assert!(
        few * 3 < more * 2,
        "{few} translations, with the fault {more}"
    );
}
