// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Section 5 in a run: attempts that Table 4 refuses, synonyms, and dirty bits that a guest clears.
//!
//! Two VMs run one small workload under ATTC with the oracle on. Pages of its working set have up
//! to nine names, more than the inverse table has ways. After each block of records somebody makes
//! each of Table 4's twelve attempts, at the set or the frame of a page that the other VM uses, and
//! each guest cleans a few pages as writeback does. What was refused must have changed nothing:
//! with a gate that lets it through, the oracle finds accesses to wrong frames.

use std::sync::Arc;

use steady_coherence::block::Decoder;
use steady_coherence::config::MachineConfig;
use steady_coherence::layout::Key;
use steady_coherence::os::Bit;
use steady_coherence::record::{Resident, Source};
use steady_coherence::scheme::attc::invtbl;
use steady_coherence::scheme::rights::{Actor, Attempt, Decision, Operation, Target};
use steady_coherence::scheme::{ATTC, atlb, set_index};
use steady_coherence::sim::{Options, Sim};
use steady_coherence::workload::{Generator, GeneratorOptions, find};
use steady_coherence::{Error, Fault};
use steady_random::Stream;

use crate::reproduction::Figure;
use crate::runs::Settings;
use crate::shares::signed;

/// Bodytrack's footprint is the smallest of Table 3, so that pages are used again soon.
const WORKLOAD: &str = "bodytrack";
const VMS: u16 = 2;
const ACCESSES: u64 = 1_500_000;
/// A hundred times the calibrated rate of page moves: the run is short.
const HASTE: u32 = 100;
/// Names of a page, and how many pages have that number.
const NAMES: [u64; 3] = [2, 4, 9];
const PAGES_OF_EACH: u64 = 8;
/// Pages that a guest cleans after a block.
const CLEANED: u32 = 32;

const ACTORS: [Actor; 3] = [Actor::GuestProcess, Actor::GuestOs, Actor::Hypervisor];
const TARGETS: [Target; 2] = [Target::Atlb, Target::Invtbl];
const OPERATIONS: [Operation; 2] = [Operation::Read, Operation::Write];
/// The attempts in the order of the loops over those three.
const ATTEMPTS: [&str; 12] = [
    "process, ATLB r",
    "process, ATLB w",
    "process, INV r",
    "process, INV w",
    "guest, ATLB r",
    "guest, ATLB w",
    "guest, INV r",
    "guest, INV w",
    "host, ATLB r",
    "host, ATLB w",
    "host, INV r",
    "host, INV w",
];

/// What became of one kind of attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tried {
    /// Attempts.
    pub times: u64,
    /// Refused: reads gave zero, writes did nothing.
    pub refused: u64,
    /// Passed to the walker, which drops the asker's own entries.
    pub filtered: u64,
    /// Carried out.
    pub allowed: u64,
    /// ATLB entries of the asker's VM dropped (of the hypervisor: those of the frame it named).
    pub own_dropped: u64,
    /// ATLB entries of others dropped.
    pub others_dropped: u64,
}

/// What a run showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protection {
    /// By attempt, in the order of [`Protection::names`].
    pub tried: [Tried; 12],
    /// Pages with several names.
    pub pages_with_synonyms: u64,
    /// Pointers of one frame that one update followed, at most.
    pub pointers_followed_at_most: u64,
    /// Pointers displaced, each with a write of its set: a page had more names than ways.
    pub pointer_evictions: u64,
    /// Dirty bits that guests cleared.
    pub cleaned: u64,
    /// Dirty bits that stores set, cleaned ones among them.
    pub set_dirty: u64,
    /// Accesses checked.
    pub checked: u64,
    /// Accesses through revoked or wrong translations.
    pub violations: u64,
    /// A broken invariant at the end.
    pub broken: Option<String>,
}

impl Protection {
    /// What was tried: actor, table, read or write.
    #[must_use]
    pub const fn names() -> [&'static str; 12] {
        ATTEMPTS
    }
}

/// Runs the workload; `fault` is planted for tests.
///
/// # Errors
/// As the simulation.
pub fn protection(settings: &Settings, fault: Option<Fault>) -> Result<Protection, Error> {
    let machine = MachineConfig::default();
    let workload = find(WORKLOAD)?;
    let source = Generator::new(
        workload,
        &GeneratorOptions {
            seed: settings.seed,
            sweep_rate: settings.rate.saturating_mul(HASTE),
            vms: VMS,
            accesses: ACCESSES,
            dram_percent: machine.hybrid.dram_percent,
        },
    )?;
    let options = Options {
        seed: settings.seed,
        check: true,
        vms: VMS,
        threads_per_vm: workload.threads,
        ..Options::default()
    };
    let mut sim = Sim::new(&machine, &ATTC, &options)?;
    let residents = source.residents();
    let footprints: Vec<Resident> = (0..VMS)
        .filter_map(|vm| residents.iter().find(|one| one.vm == vm).copied())
        .collect();
    assert!(footprints.len() == usize::from(VMS), "each VM has pages");
    let named = footprints.iter().map(|at| alias(&mut sim, at)).sum();
    sim.populate(&residents);
    if let Some(fault) = fault {
        sim.plant(fault);
    }
    let mut intruder = Intruder {
        draws: Stream::new(settings.seed, 0x5EC5),
        footprints,
        tried: [Tried::default(); 12],
        cleaned: 0,
    };
    let mut decoder = Decoder::new(source, ACCESSES);
    while let Some(block) = decoder.next_block()? {
        sim.feed(Arc::new(block));
        intruder.turn(&mut sim);
    }
    sim.finish();
    Ok(intruder.shown(&sim, named))
}

/// Gives pages at the end of a footprint, where the working set is, more names; returns how many.
fn alias(sim: &mut Sim, at: &Resident) -> u64 {
    let mut next = (at.start >> 12) + at.pages;
    for names in NAMES {
        for _ in 0..PAGES_OF_EACH {
            next -= names;
            for name in 1..names {
                sim.alias(Key::small(at.vm, next + name), Key::small(at.vm, next));
            }
        }
    }
    NAMES.len() as u64 * PAGES_OF_EACH
}

/// The agent that attempts what Table 4 is about, and cleans pages.
struct Intruder {
    draws: Stream,
    footprints: Vec<Resident>,
    tried: [Tried; 12],
    cleaned: u64,
}

impl Intruder {
    fn page_of(&mut self, vm: u16) -> Key {
        let at = self.footprints[usize::from(vm)];
        let page = self.draws.below(steady_coherence::num::low32(at.pages));
        Key::small(vm, (at.start >> 12) + u64::from(page))
    }

    /// Each attempt once by each VM, then each guest's writeback.
    fn turn(&mut self, sim: &mut Sim) {
        for vm in 0..VMS {
            let mut at = 0;
            for actor in ACTORS {
                for target in TARGETS {
                    for operation in OPERATIONS {
                        self.attempt(sim, vm, at, (actor, target, operation));
                        at += 1;
                    }
                }
            }
            let pages: Vec<Key> = (0..CLEANED).map(|_| self.page_of(vm)).collect();
            self.cleaned += sim.clear(usize::from(vm), Bit::Dirty, &pages);
        }
    }

    fn attempt(
        &mut self,
        sim: &mut Sim,
        vm: u16,
        at: usize,
        (actor, target, operation): (Actor, Target, Operation),
    ) {
        let page = self.page_of((vm + 1) % VMS);
        let frame = sim.mapping(page).expect("a footprint is mapped").spn;
        let kib = MachineConfig::default().schemes.number(&atlb::KIB);
        let place = match target {
            Target::Atlb => set_index(page.page(), page.vm_id(), u64::from(kib) * 16),
            Target::Invtbl => frame,
        };
        let effect = sim.attempt(
            usize::from(vm),
            &Attempt {
                actor,
                vm,
                target,
                operation,
                place,
            },
        );
        let tried = &mut self.tried[at];
        tried.times += 1;
        match effect.decision {
            Decision::Refused => tried.refused += 1,
            Decision::Filtered => tried.filtered += 1,
            Decision::Allowed => tried.allowed += 1,
        }
        tried.own_dropped += effect.own_dropped;
        tried.others_dropped += effect.others_dropped;
    }

    fn shown(self, sim: &Sim, pages_with_synonyms: u64) -> Protection {
        let own = sim.own_counts();
        let counts = sim.counts();
        Protection {
            tried: self.tried,
            pages_with_synonyms,
            pointers_followed_at_most: own["pointers_followed_at_most"],
            pointer_evictions: own["pointer_evictions"],
            cleaned: self.cleaned,
            set_dirty: counts.dirty_updates,
            checked: counts.checked,
            violations: sim.oracle().map_or(0, |oracle| oracle.violations),
            broken: sim.check().err(),
        }
    }
}

/// A run as two tables.
pub(crate) fn figures(found: &Protection) -> Vec<Figure> {
    let line = |(name, tried): (&'static str, &Tried)| {
        let values = [
            tried.times,
            tried.refused,
            tried.filtered,
            tried.allowed,
            tried.own_dropped,
            tried.others_dropped,
        ];
        (name, values.map(signed).to_vec())
    };
    let columns = [
        "per run, tried",
        "per run, refused",
        "per run, filtered",
        "per run, allowed",
        "per run, own gone",
        "per run, others gone",
    ];
    let ways = u64::from(MachineConfig::default().schemes.number(&invtbl::WAYS));
    let rest = [
        ("pages named so", found.pages_with_synonyms),
        ("INVTBL ways", ways),
        ("most followed", found.pointers_followed_at_most),
        ("displaced", found.pointer_evictions),
        ("cleaned", found.cleaned),
        ("dirtied", found.set_dirty),
        ("checked", found.checked),
        ("violations", found.violations),
    ];
    vec![
        Figure::without_intervals(
            "Table 4",
            "attempts at the other VM's ATLB sets and frames, two VMs (entries dropped are ATLB's)",
            &columns,
            Protection::names()
                .into_iter()
                .zip(&found.tried)
                .map(line)
                .collect(),
        ),
        Figure::without_intervals(
            "Section 5",
            "the same run: pages of 2, 4 and 9 names, dirty bits cleared by the guests, the oracle",
            &["per run"],
            rest.map(|(name, value)| (name, vec![signed(value)]))
                .to_vec(),
        ),
    ]
}
