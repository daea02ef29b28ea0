// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The numbers of the paper as the simulator has them, each by the word of its claim's row.
//!
//! Each is of a machine, whose conditions its claim is compared with.
//!
//! Left out: what the paper has and what it means. `evidence/papers/attc.toml` holds the paper's
//! numbers with their places, and `steady_evidence` compares.

use std::collections::BTreeMap;

use steady_coherence::config::{MachineConfig, Mode};

use crate::closed;
use crate::measured::{Measured, Seeds};
use crate::reproduction::jobs;
use crate::runs::{ACCESSES, WorkloadResults, mean};
use crate::shares::{
    cost_ratio, false_per_slot, guest_share, guest_time, hit_ratio, named, removed,
};

/// Storage of a 32 MiB inverse table in 16 GiB (footnote 3), basis points, rounded up.
pub(crate) const STORAGE: i64 = (32 * 10_000_i64 + 16 * 1024 - 1) / (16 * 1024);

/// One number, basis points (1/100 %).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Number {
    /// The measure, as rows of claims name it.
    pub measure: &'static str,
    /// Mean over seeds.
    pub measured: Measured,
    /// What a closed form gives from the events counted and Table 2; none where there is none.
    pub closed_bp: Option<i64>,
    /// Of each seed.
    pub by_seed: Vec<i64>,
    /// What it is a part or a multiple of.
    pub kind: Kind,
}

/// What a number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// How much faster than the base.
    Gain,
    /// How many times the base (1x = 10,000).
    Times,
    /// A part of a whole.
    Share,
}

/// How a number follows from the results of one seed.
#[derive(Clone, Copy)]
enum Of {
    /// Mean gain of one label over another.
    Gain(&'static str, &'static str),
    /// The same of one workload.
    One(&'static str, &'static str, &'static str),
    /// Something else of this label's runs, and its closed form from results and accesses before
    /// counting.
    Other(Kind, &'static str, Simulated, Option<Closed>),
    /// What follows by arithmetic from no run.
    Constant(Kind, i64),
}

type Simulated = fn(&[WorkloadResults], &str) -> i64;
type Closed = fn(&[WorkloadResults], u64) -> i64;

/// Every number: of the full form, and of a claim's seeds.
const NUMBERS: [(&str, Of); 23] = [
    ("fig1-virtualized", Of::Gain("ideal", "kvmtlb")),
    ("fig8-over-kvmtlb", Of::Gain("attc", "kvmtlb")),
    ("fig1-native", Of::Gain("ideal@native", "ipi@native")),
    ("sec1-over-kvmtlb", Of::Gain("attc", "kvmtlb")),
    ("fig8-pom-tlb", Of::Gain("pom-tlb", "kvmtlb")),
    ("fig8-over-hatric", Of::Gain("attc", "hatric")),
    ("sec1-over-hatric", Of::Gain("attc", "hatric")),
    ("fig14-guest-0", Of::Gain("attc@guest-0", "hatric@guest-0")),
    ("sec4-below-ideal-same-atlb", Of::Gain("ideal-atlb", "attc")),
    ("sec4-below-ideal-no-atlb", Of::Gain("ideal", "attc")),
    (
        "sec4-cycles-removed",
        Of::Other(
            Kind::Share,
            "attc",
            |all, attc| mean(all, |w| removed(w, attc)),
            None,
        ),
    ),
    ("sec4-freqmine", Of::One("freqmine", "attc", "kvmtlb")),
    ("sec4-wordcount", Of::One("wordcount", "attc", "hatric")),
    (
        "fig2-dedup",
        Of::Other(
            Kind::Share,
            "kvmtlb",
            |all, label| guest_time(named(all, "dedup"), label),
            Some(|all, _| closed::guest_time(named(all, "dedup"))),
        ),
    ),
    // Misses: a ratio near 100 % hides how far two numbers are apart.
    (
        "fig11-misses-empty",
        Of::Other(
            Kind::Share,
            "attc@cold",
            |all, label| mean(all, |w| 10_000 - hit_ratio(w, label)),
            Some(|all, warmup| mean(all, |w| closed::cold_misses(w, warmup))),
        ),
    ),
    (
        "fig11-misses-steady",
        Of::Other(
            Kind::Share,
            "attc",
            |all, label| mean(all, |w| 10_000 - hit_ratio(w, label)),
            Some(|all, _| mean(all, closed::steady_misses)),
        ),
    ),
    ("fig12-dram-only", Of::Gain("attc@dram", "kvmtlb@dram")),
    ("fig13-over-ipis", Of::Gain("attc@native", "ipi@native")),
    (
        "fig13-hatric-apart",
        Of::Other(
            Kind::Share,
            "attc@native",
            |all, label| mean(all, |w| w.gain(label, "hatric@native")).abs(),
            Some(|all, _| closed::gain(all, "attc@native", "hatric@native").abs()),
        ),
    ),
    (
        "sec4-false-invalidations",
        Of::Other(
            Kind::Share,
            "attc",
            false_per_slot,
            Some(|_, _| closed::false_per_slot()),
        ),
    ),
    (
        "sec4-wordcount-guest-share",
        Of::Other(
            Kind::Share,
            "kvmtlb",
            |all, label| guest_share(named(all, "wordcount"), label),
            None,
        ),
    ),
    (
        "sec25-cost",
        Of::Other(Kind::Times, "attc", cost_ratio, None),
    ),
    ("footnote3-storage", Of::Constant(Kind::Share, STORAGE)),
];

impl Of {
    const fn kind(self) -> Kind {
        match self {
            Self::Gain(..) | Self::One(..) => Kind::Gain,
            Self::Other(kind, ..) | Self::Constant(kind, _) => kind,
        }
    }

    fn measured(self, all: &[WorkloadResults]) -> i64 {
        match self {
            Self::Gain(label, base) => mean(all, |w| w.gain(label, base)),
            Self::One(workload, label, base) => named(all, workload).gain(label, base),
            Self::Other(_, label, of, _) => of(all, label),
            Self::Constant(_, value) => value,
        }
    }

    fn closed(self, all: &[WorkloadResults], warmup: u64) -> Option<i64> {
        Some(match self {
            Self::Gain(label, base) => closed::gain(all, label, base),
            Self::One(workload, label, base) => closed::gain_of(named(all, workload), label, base),
            Self::Other(.., form) => form?(all, warmup),
            Self::Constant(..) => return None,
        })
    }

    /// The label whose machine it is of; the base's is the same.
    const fn label(self) -> Option<&'static str> {
        match self {
            Self::Gain(label, _) | Self::One(_, label, _) | Self::Other(_, label, ..) => {
                Some(label)
            }
            Self::Constant(..) => None,
        }
    }
}

/// The conditions of what is simulated on a machine, by their words.
fn conditions(machine: &MachineConfig) -> BTreeMap<String, String> {
    let mode = match machine.mode {
        Mode::Native => "native",
        Mode::Virtualized => "virtualized",
    };
    let (memory, moved) = match (machine.hybrid.enabled, machine.mode) {
        (false, _) => ("DRAM", "none".to_owned()),
        (true, Mode::Native) => ("DRAM and NVM", "by the OS".to_owned()),
        (true, Mode::Virtualized) => {
            let percent = machine.hybrid.guest_percent;
            ("DRAM and NVM", format!("{percent} % by the guest"))
        }
    };
    [
        ("accesses", ACCESSES.to_owned()),
        ("cores", machine.core.count.to_string()),
        ("memory", memory.to_owned()),
        ("migrations", moved),
        ("mode", mode.to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

/// All measures by their names, each with the conditions that it is simulated under; none of what
/// follows by arithmetic.
#[must_use]
pub fn measures() -> BTreeMap<String, BTreeMap<String, String>> {
    let jobs = jobs();
    let of = |label: &str| jobs.iter().find(|job| job.label == label);
    let measures = NUMBERS.iter().map(|(name, number)| {
        let job = number.label().and_then(of);
        let found = job.map(|job| conditions(&job.machine));
        ((*name).to_owned(), found.unwrap_or_default())
    });
    measures.collect()
}

/// The numbers that are `wanted`, of results by seed; `warmup`: accesses before counting.
pub(crate) fn numbers(seeds: &Seeds, warmup: u64, wanted: impl Fn(&str) -> bool) -> Vec<Number> {
    let number = |&(measure, of): &(&'static str, Of)| {
        let by_seed: Vec<i64> = seeds.iter().map(|all| of.measured(all)).collect();
        let closed: Option<Vec<i64>> = seeds.iter().map(|all| of.closed(all, warmup)).collect();
        Number {
            measure,
            measured: Measured::of(&by_seed),
            closed_bp: closed.map(|values| Measured::of(&values).bp),
            by_seed,
            kind: of.kind(),
        }
    };
    let wanted = NUMBERS.iter().filter(|(name, _)| wanted(name));
    wanted.map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_has_the_conditions_of_its_jobs_machine_and_of_its_base_s() {
        let jobs = jobs();
        let machine = |label: &str| {
            let job = jobs.iter().find(|job| job.label == label);
            &job.unwrap_or_else(|| panic!("no job {label}")).machine
        };
        for (name, of) in NUMBERS {
            match of {
                Of::Gain(label, base) | Of::One(_, label, base) => {
                    assert_eq!(machine(label), machine(base), "{name}");
                }
                Of::Other(_, label, ..) => _ = machine(label),
                Of::Constant(..) => {}
            }
        }
        let found = measures();
        let value = |name: &str, key: &str| found[name][key].clone();
        assert_eq!(value("fig13-over-ipis", "mode"), "native");
        assert_eq!(value("fig8-over-kvmtlb", "mode"), "virtualized");
        assert_eq!(value("fig12-dram-only", "memory"), "DRAM");
        assert_eq!(value("fig14-guest-0", "migrations"), "0 % by the guest");
        assert_eq!(value("sec25-cost", "migrations"), "25 % by the guest");
        assert!(found["footnote3-storage"].is_empty());
    }
}
