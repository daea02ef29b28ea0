// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The short form of the reproduction: what ATTC claims first, on all workloads at full length.
//!
//! Its runs are those of the full form, fewer of them: the schemes that these numbers need and
//! the paper's machine only. So each number is the full form's, to the digit. Left out: the other
//! schemes, machines and figures.

use super::attc::{Figure, Reproduction};
use super::{Basis, Row, Settings, WorkloadResults, job, mean, run_table_3};
use crate::config::MachineConfig;
use crate::num::basis_points;
use crate::{Error, SchemeKind};
use SchemeKind::{Attc, Hatric, Ideal, IdealAtlb, Kvmtlb};

/// Runs the short form. `done` hears how many workloads of how many have finished.
///
/// # Errors
/// As the simulations.
pub fn headline(
    settings: &Settings,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<Reproduction, Error> {
    let paper = MachineConfig::default();
    let jobs = [Kvmtlb, Hatric, Attc, Ideal, IdealAtlb].map(|scheme| job(scheme, "", &paper));
    let results = run_table_3(settings, &jobs, done)?;
    let outcomes = || results.iter().flat_map(|w| &w.outcomes);
    Ok(Reproduction {
        settings: settings.clone(),
        rows: rows(&results),
        figures: vec![figure(&results)],
        violations: outcomes().filter_map(|outcome| outcome.violations).sum(),
        results,
    })
}

fn rows(all: &[WorkloadResults]) -> Vec<Row> {
    let gain = |label: &str, base: &str| mean(all, |w| w.gain(label, base));
    vec![
        Row::value(
            "Figure 1",
            "shootdown overhead, virtualized",
            3_700,
            gain("ideal", "kvmtlb"),
        )
        .basis(Basis::Calibrated),
        Row::value(
            "Figure 8",
            "ATTC over kvmtlb",
            3_570,
            gain("attc", "kvmtlb"),
        ),
        Row::value("Figure 8", "ATTC over HATRIC", 740, gain("attc", "hatric")),
        Row::at_most(
            "Section 4",
            "ATTC below ideal (same ATLB)",
            100,
            gain("ideal-atlb", "attc"),
        ),
        Row::at_most(
            "Section 4",
            "ATTC below ideal (no ATLB)",
            100,
            gain("ideal", "attc"),
        ),
        Row::at_least(
            "Section 4",
            "coherence cycles removed by ATTC",
            9_900,
            mean(all, removed),
        ),
    ]
}

/// Share of kvmtlb's coherence cycles that ATTC does not spend, basis points.
fn removed(w: &WorkloadResults) -> i64 {
    let cycles = |label: &str| {
        let counts = &w.get(label).counts;
        counts.initiator_cycles + counts.victim_cycles
    };
    let kept = basis_points(cycles("attc"), cycles("kvmtlb"));
    10_000 - i64::try_from(kept).unwrap_or(i64::MAX)
}

fn figure(all: &[WorkloadResults]) -> Figure {
    let columns = ["hatric", "attc", "ideal", "ideal-atlb"];
    let line = |w: &WorkloadResults| columns.map(|label| w.gain(label, "kvmtlb")).to_vec();
    Figure {
        name: "Figure 8",
        what: "gain over kvmtlb, virtualized",
        columns: columns.map(str::to_owned).to_vec(),
        lines: all.iter().map(|w| (w.workload, line(w))).collect(),
    }
}
