// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs whose inputs are other people's numbers: what they say of numbers that differ.
//!
//! The inputs are from publications, and were written down before any of these runs was made; none
//! was chosen for its result. Three: the mean costs of a walk that Victima's authors give (MICRO
//! 2023: 275 cycles virtualized, 137 native, data-intensive programs); dedup's guest updates so
//! often that they take Figure 2's 28 % of its time; and Figure 7's victims and pages of a
//! shootdown, as far as the text has numbers. One seed, the base length.

use steady_coherence::compare::Job;
use steady_coherence::config::{MachineConfig, Mode};
use steady_coherence::num::{basis_points, low32};
use steady_coherence::scheme::{ATTC, HATRIC, IDEAL, IPI, KVMTLB, POM_TLB};
use steady_coherence::workload::{Mix, Workload};

use crate::closed;
use crate::reproduction::Figure;
use crate::runs::{Settings, Stream, WorkloadResults, job, mean};
use crate::sensitivity::{gain_in, share};
use crate::shares::{named, signed};

/// Mean cycles of a walk, virtualized and native (Victima; read in a summary).
pub const VICTIMA_WALK: (u32, u32) = (275, 137);
/// L2 TLB misses per 1000 instructions, same source.
pub(crate) const VICTIMA_MPKI: i64 = 39;
/// Figure 2: dedup's time in guest shootdowns, per cent.
const FIGURE_2: u64 = 28;
/// Figure 7 (c): cores interrupted in ferret (4.1).
const FERRET_VICTIMS: u32 = 4;
/// Figure 7 (d): two thirds of shootdowns have one page (the text); that the others halve into some
/// pages and all is assumed, since the figure has no numbers.
const FIGURE_7: Mix = Mix {
    many_percent: 17,
    whole_percent: 17,
};

const WALK: &str = "published-walk";
const NATIVE_WALK: &str = "native-published-walk";
const DRAM_WALK: &str = "dram-published-walk";
const DEDUP: &str = "dram-figure-2";
const DEDUP_WALK: &str = "dram-figure-2-walk";
const SHOOTDOWNS: &str = "figure-7";

fn changed(change: impl FnOnce(&mut MachineConfig)) -> MachineConfig {
    let mut machine = MachineConfig::default();
    change(&mut machine);
    machine
}

fn dram(walk_cycles: u32) -> MachineConfig {
    changed(|m| {
        m.hybrid.enabled = false;
        m.mmu.walk_cycles = walk_cycles;
    })
}

/// Simulations over the stream that everything else uses.
pub(crate) fn jobs() -> Vec<Job> {
    let (virtualized, native) = VICTIMA_WALK;
    let guest = changed(|m| m.mmu.walk_cycles = virtualized);
    let bare = changed(|m| {
        m.mode = Mode::Native;
        m.mmu.walk_cycles = native;
    });
    let mut jobs = [&KVMTLB, &POM_TLB, &ATTC]
        .map(|scheme| job(scheme, WALK, &guest))
        .to_vec();
    jobs.extend([&IPI, &HATRIC, &ATTC, &IDEAL].map(|scheme| job(scheme, NATIVE_WALK, &bare)));
    jobs.extend([&KVMTLB, &ATTC].map(|scheme| job(scheme, DRAM_WALK, &dram(virtualized))));
    jobs
}

/// Streams that differ from the one that everything else uses; `seen` has the workload's results
/// of the first seed.
pub(crate) fn streams(
    settings: &Settings,
    workload: Workload,
    seen: &WorkloadResults,
) -> Vec<Stream> {
    let stream = |workload, jobs| Stream {
        settings: settings.clone(),
        workload,
        jobs,
    };
    let shot = changed(|m| {
        if workload.name == "ferret" {
            m.shootdown.victims_at_most = FERRET_VICTIMS;
        }
    });
    let mixed = Workload {
        updates: FIGURE_7,
        ..workload
    };
    let mut all = vec![stream(
        mixed,
        [&KVMTLB, &ATTC]
            .map(|scheme| job(scheme, SHOOTDOWNS, &shot))
            .to_vec(),
    )];
    if workload.name == "dedup" {
        let often = Workload {
            guest_share_percent: share(updates_for(settings, &workload, seen)),
            ..workload
        };
        let mut jobs = Vec::new();
        for (name, walk) in [(DEDUP, 0), (DEDUP_WALK, VICTIMA_WALK.0)] {
            jobs.extend([&KVMTLB, &ATTC].map(|scheme| job(scheme, name, &dram(walk))));
        }
        all.push(stream(often, jobs));
    }
    all
}

/// Program updates for each 100 page moves that take Figure 2's share of the time without
/// migrations, by Table 2 and the cycles that the workload's own instructions took.
fn updates_for(settings: &Settings, workload: &Workload, seen: &WorkloadResults) -> u32 {
    let counts = &seen.get("kvmtlb@dram").counts;
    let work = counts.core_cycles - counts.initiator_cycles - counts.victim_cycles;
    let coherence = u128::from(work) * u128::from(FIGURE_2) / u128::from(100 - FIGURE_2);
    let updates = coherence / u128::from(closed::ipi_cycles(&MachineConfig::default()));
    let moves = u128::from(settings.rate) * u128::from(workload.footprint_mib);
    let per_100 = updates * 100_000_000_000 * 100 / (u128::from(counts.instructions) * moves);
    assert!(
        per_100 < 10_000,
        "an update of a page takes longer than its use"
    );
    low32(u64::try_from(per_100).unwrap_or(u64::MAX))
}

/// What the runs show.
pub(crate) struct Published<'a> {
    all: &'a [WorkloadResults],
}

impl<'a> Published<'a> {
    pub(crate) const fn of(all: &'a [WorkloadResults]) -> Self {
        Self { all }
    }

    /// DRAM only, with dedup as Figure 2 has it; the other workloads as they are in `others`.
    fn dram_only(&self, dedup: &str, others: &str) -> i64 {
        mean(self.all, |w| {
            let name = if w.workload == "dedup" { dedup } else { others };
            gain_in(w, &ATTC, &KVMTLB, name)
        })
    }

    /// The runs as tables.
    pub(crate) fn figures(&self) -> Vec<Figure> {
        vec![self.walks_table(), self.dram_table(), self.shootdowns()]
    }

    fn walks_table(&self) -> Figure {
        let line = |name, scheme, base, here, there| {
            let at = |at| mean(self.all, |w| gain_in(w, scheme, base, at));
            (name, [here, there].map(at).to_vec())
        };
        let freqmine = |at| gain_in(named(self.all, "freqmine"), &ATTC, &KVMTLB, at);
        let native = |name, scheme, base| line(name, scheme, base, "native", NATIVE_WALK);
        Figure::without_intervals(
            "Published",
            "walks of 275 cycles (native: 137), the means that Victima's authors give",
            &["simulated walks", "published walks"],
            vec![
                line("POM-TLB", &POM_TLB, &KVMTLB, "", WALK),
                line("ATTC", &ATTC, &KVMTLB, "", WALK),
                ("ATTC, freqmine", ["", WALK].map(freqmine).to_vec()),
                native("Fig. 1 native", &IDEAL, &IPI),
                native("ATTC native", &ATTC, &IPI),
                native("less HATRIC", &ATTC, &HATRIC),
                line("DRAM only", &ATTC, &KVMTLB, "dram", DRAM_WALK),
            ],
        )
    }

    fn dram_table(&self) -> Figure {
        let values = [
            self.dram_only("dram", "dram"),
            self.dram_only(DEDUP, "dram"),
            self.dram_only(DEDUP_WALK, DRAM_WALK),
        ];
        Figure::without_intervals(
            "Published",
            "DRAM only, ATTC over kvmtlb, with dedup's guest updates as Figure 2 has them",
            &["as elsewhere", "Figure 2", "and published walks"],
            vec![("mean", values.to_vec())],
        )
    }

    /// What Figure 7's victims and pages do, by workload.
    fn shootdowns(&self) -> Figure {
        let line = |w: &WorkloadResults| {
            let (usual, mixed) = (&w.get("kvmtlb").counts, &w.get("kvmtlb@figure-7").counts);
            let of = |part: u64, c: &steady_coherence::counts::Counts| {
                let (guest, host) = closed::by_agent(c);
                signed(part * 100 / (guest + host).max(1))
            };
            let flushes = mixed.full_flushes / u64::from(MachineConfig::default().core.count);
            let (guest, host) = closed::by_agent(mixed);
            let values = vec![
                of(usual.victims, usual),
                of(mixed.victims, mixed),
                of(usual.pages_revoked, usual),
                of(mixed.pages_revoked, mixed),
                signed(basis_points(flushes, guest + host)),
                w.gain("attc", "kvmtlb"),
                w.gain("attc@figure-7", "kvmtlb@figure-7"),
            ];
            (w.workload, values)
        };
        Figure::without_intervals(
            "Published",
            "Figure 7: 4 victims in ferret; of program updates 66 % of one page, 17 % of 8 in one \
             batch, 17 % of all",
            &[
                "per 100, victims",
                "per 100, by Fig. 7",
                "per 100, pages",
                "per 100, by Fig. 7 (d)",
                "full flushes, Fig. 7",
                "ATTC over kvmtlb",
                "the same, Fig. 7",
            ],
            self.all.iter().map(line).collect(),
        )
    }
}
