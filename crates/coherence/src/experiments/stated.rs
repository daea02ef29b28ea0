// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The numbers that ATTC's paper claims first, which the full and the short form both print.

use super::{Basis, Row, WorkloadResults, mean};
use crate::num::basis_points;

/// What software coherence costs; the generators are calibrated to it.
pub(super) fn overhead(all: &[WorkloadResults]) -> Row {
    let gain = gain(all, "ideal", "kvmtlb");
    Row::value("Figure 1", "shootdown overhead, virtualized", 3_700, gain).basis(Basis::Calibrated)
}

pub(super) fn over_kvmtlb(all: &[WorkloadResults]) -> Row {
    let gain = gain(all, "attc", "kvmtlb");
    Row::value("Figure 8", "ATTC over kvmtlb", 3_570, gain)
}

pub(super) fn over_hatric(all: &[WorkloadResults]) -> Row {
    let gain = gain(all, "attc", "hatric");
    Row::value("Figure 8", "ATTC over HATRIC", 740, gain)
}

/// What section 4 says of ATTC beside the ideal: two bounds on the gap, one on the cycles spared.
pub(super) fn beside_ideal(all: &[WorkloadResults]) -> [Row; 3] {
    let same = gain(all, "ideal-atlb", "attc");
    let without = gain(all, "ideal", "attc");
    let spared = mean(all, removed);
    [
        Row::at_most("Section 4", "ATTC below ideal (same ATLB)", 100, same),
        Row::at_most("Section 4", "ATTC below ideal (no ATLB)", 100, without),
        Row::at_least(
            "Section 4",
            "coherence cycles removed by ATTC",
            9_900,
            spared,
        ),
    ]
}

/// Share of kvmtlb's coherence cycles that ATTC does not spend, basis points.
pub(super) fn removed(w: &WorkloadResults) -> i64 {
    let cycles = |label: &str| {
        let counts = &w.get(label).counts;
        counts.initiator_cycles + counts.victim_cycles
    };
    let kept = basis_points(cycles("attc"), cycles("kvmtlb"));
    10_000 - i64::try_from(kept).unwrap_or(i64::MAX)
}

fn gain(all: &[WorkloadResults], label: &str, base: &str) -> i64 {
    mean(all, |w| w.gain(label, base))
}
