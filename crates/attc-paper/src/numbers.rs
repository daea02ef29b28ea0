// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The numbers of the paper as the simulator has them, each by the word of its claim's row.
//!
//! Left out: what the paper has and what it means. `evidence/papers/attc.toml` holds the paper's
//! numbers with their places, and `steady_evidence` compares.

use std::collections::BTreeMap;

use crate::measured::Seeds;
use crate::number::{self, Kind, Number, Of, Words};
use crate::runs::mean;
use crate::shares::{
    cost_ratio, false_per_slot, guest_share, guest_time, hit_ratio, named, removed,
};
use crate::{closed, jobs};

/// Storage of a 32 MiB inverse table in 16 GiB (footnote 3), basis points, rounded up.
pub(crate) const STORAGE: i64 = (32 * 10_000_i64 + 16 * 1024 - 1) / (16 * 1024);

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

/// All measures by their names, each with the conditions that it is simulated under.
pub(crate) fn measures() -> BTreeMap<String, Words> {
    number::measures(&NUMBERS, &jobs::stated())
}

/// The numbers that are `wanted`, of results by seed; `warmup`: accesses before counting.
pub(crate) fn numbers(seeds: &Seeds, warmup: u64, wanted: impl Fn(&str) -> bool) -> Vec<Number> {
    let wanted = NUMBERS.iter().filter(|(name, _)| wanted(name));
    number::of_table(wanted, seeds, Some(warmup))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_has_the_conditions_of_its_jobs_machine_and_of_its_base_s() {
        let jobs = jobs::stated();
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
                Of::Over(..) | Of::Constant(..) => {}
            }
        }
        let found = number::measures(&NUMBERS, &jobs);
        let value = |name: &str, key: &str| found[name][key].clone();
        assert_eq!(value("fig13-over-ipis", "mode"), "native");
        assert_eq!(value("fig8-over-kvmtlb", "mode"), "virtualized");
        assert_eq!(value("fig12-dram-only", "memory"), "DRAM");
        assert_eq!(value("fig14-guest-0", "migrations"), "0 % by the guest");
        assert_eq!(value("sec25-cost", "migrations"), "25 % by the guest");
        assert!(found["footnote3-storage"].is_empty());
    }
}
