// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The numbers that ATTC's paper claims first, which the full and the short form both print.

use steady_coherence::num::basis_points;

use crate::closed;
use crate::measured::{Measured, Seeds};
use crate::runs::{WorkloadResults, mean};
use crate::table::{Basis, Row};

/// What software coherence costs; the generators are calibrated to it.
pub(crate) fn overhead(seeds: &Seeds) -> Row {
    let what = "shootdown overhead, virtualized";
    gain_row(seeds, "Figure 1", what, 3_700, ("ideal", "kvmtlb")).basis(Basis::Calibrated)
}

/// A row for the mean gain of one label over another, with its closed form.
pub(crate) fn gain_row(
    seeds: &Seeds,
    source: &'static str,
    what: &str,
    paper_bp: i64,
    pair: (&str, &str),
) -> Row {
    let (label, base) = pair;
    let closed = Measured::over(seeds, |all| closed::gain(all, label, base));
    Row::value(source, what, paper_bp, gain(seeds, label, base)).closed(closed.bp)
}

pub(crate) fn over_kvmtlb(seeds: &Seeds) -> Row {
    gain_row(
        seeds,
        "Figure 8",
        "ATTC over kvmtlb",
        3_570,
        ("attc", "kvmtlb"),
    )
}

pub(crate) fn over_hatric(seeds: &Seeds) -> Row {
    gain_row(
        seeds,
        "Figure 8",
        "ATTC over HATRIC",
        740,
        ("attc", "hatric"),
    )
}

/// What section 4 says of ATTC beside the ideal: two bounds on the gap, one on the cycles spared,
/// which follows from Table 2 and section 3.3 whatever is simulated.
pub(crate) fn beside_ideal(seeds: &Seeds) -> [Row; 3] {
    let below = |label: &str, what: &str| {
        let form = Measured::over(seeds, |all| closed::gain(all, "ideal", "attc"));
        Row::at_most("Section 4", what, 100, gain(seeds, label, "attc")).closed(form.bp)
    };
    let spared = Measured::over(seeds, |all| mean(all, removed));
    [
        below("ideal-atlb", "ATTC below ideal (same ATLB)"),
        below("ideal", "ATTC below ideal (no ATLB)"),
        Row::at_least(
            "Section 4",
            "coherence cycles removed by ATTC",
            9_900,
            spared,
        )
        .basis(Basis::Input),
    ]
}

/// Share of kvmtlb's coherence cycles that ATTC does not spend, basis points.
pub(crate) fn removed(w: &WorkloadResults) -> i64 {
    let cycles = |label: &str| {
        let counts = &w.get(label).counts;
        counts.initiator_cycles + counts.victim_cycles
    };
    let kept = basis_points(cycles("attc"), cycles("kvmtlb"));
    10_000 - i64::try_from(kept).unwrap_or(i64::MAX)
}

/// Mean gain of one label over another.
pub(crate) fn gain(seeds: &Seeds, label: &str, base: &str) -> Measured {
    Measured::over(seeds, |all| mean(all, |w| w.gain(label, base)))
}
