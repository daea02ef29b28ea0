// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the paper's figures by workload come to: means beside each other, orders and counts.

use crate::number::{Kind, Of, Table};
use crate::runs::{WorkloadResults, mean};
use crate::shares::{Shootdown, hit_ratio, named, removed};

use super::order;

/// Hit ratio above which Figure 11 has several workloads, basis points.
const OVER: i64 = 9_900;
/// The workload whose shootdowns have few victims in Figure 7.
const FERRET: &str = "ferret";

/// What is recorded beside the measures of each workload.
pub(crate) const NUMBERS: &Table = &[
    ("fig10-1000", Of::Gain("attc@1000", "kvmtlb")),
    ("fig10-2000", Of::Gain("attc@2000", "kvmtlb")),
    ("fig10-5000", Of::Gain("attc@5000", "kvmtlb")),
    ("fig14-0", Of::Gain("attc@guest-0", "hatric@guest-0")),
    ("fig14-25", Of::Gain("attc", "hatric")),
    ("fig14-50", Of::Gain("attc@guest-50", "hatric@guest-50")),
    (
        "fig14-25-over-0",
        Of::Over(["attc", "hatric"], ["attc@guest-0", "hatric@guest-0"]),
    ),
    (
        "fig14-50-over-25",
        Of::Over(["attc@guest-50", "hatric@guest-50"], ["attc", "hatric"]),
    ),
    ("fig8-over-pom-tlb", Of::Gain("attc", "pom-tlb")),
    (
        "sec7-over-native",
        Of::Over(["attc", "kvmtlb"], ["attc@native", "ipi@native"]),
    ),
    (
        "sec7-over-dram",
        Of::Over(["attc", "kvmtlb"], ["attc@dram", "kvmtlb@dram"]),
    ),
    (
        "fig13-over-hatric",
        Of::Gain("attc@native", "hatric@native"),
    ),
    ("fig13-over-unitd", Of::Gain("attc@native", "unitd@native")),
    (
        "fig9-attc",
        Of::Other(Kind::Order, "attc", order::of_rate, None),
    ),
    (
        "fig9-hatric",
        Of::Other(Kind::Order, "hatric", order::of_rate, None),
    ),
    (
        "fig7c-ferret",
        Of::Other(
            Kind::Times,
            "kvmtlb",
            |all, label| victims(named(all, FERRET), label),
            None,
        ),
    ),
    (
        "fig7c-others",
        Of::Other(Kind::Times, "kvmtlb", fewest_victims, None),
    ),
    (
        "fig7d-one-page",
        Of::Other(
            Kind::Share,
            "kvmtlb",
            |all, label| mean(all, |w| Shootdown::of(w, label).one_page),
            None,
        ),
    ),
    (
        "fig7d-full-flush",
        Of::Other(
            Kind::Share,
            "kvmtlb",
            |all, label| mean(all, |w| Shootdown::of(w, label).full_flush),
            None,
        ),
    ),
    (
        "fig11-over-99-empty",
        Of::Other(Kind::Count, "attc@cold", over, None),
    ),
    (
        "fig11-over-99-steady",
        Of::Other(Kind::Count, "attc", over, None),
    ),
    (
        "sec4-freqmine-removed",
        Of::Other(
            Kind::Share,
            "attc",
            |all, label| removed(named(all, "freqmine"), label),
            None,
        ),
    ),
    ("sec26-size", Of::Gain("attc@invtbl-32", "attc")),
];

/// Victims of a shootdown; one is 10,000.
pub(super) fn victims(w: &WorkloadResults, label: &str) -> i64 {
    Shootdown::of(w, label).victims_of_100 * 100
}

/// Victims of a shootdown of the workload that has the fewest, ferret left out.
fn fewest_victims(all: &[WorkloadResults], label: &str) -> i64 {
    let others = all.iter().filter(|w| w.workload != FERRET);
    let each = others.map(|w| victims(w, label));
    each.min().expect("Table 3 has other workloads")
}

/// How many workloads have a hit ratio above the paper's.
fn over(all: &[WorkloadResults], label: &str) -> i64 {
    let counted = all.iter().filter(|w| hit_ratio(w, label) > OVER).count();
    i64::try_from(counted).unwrap_or(i64::MAX)
}
