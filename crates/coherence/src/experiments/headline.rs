// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The short form of the reproduction: what ATTC claims first, on all workloads at full length.
//!
//! Its runs are those of the full form, fewer of them: the schemes that these numbers need and
//! the paper's machine only. So each number is the full form's, to the digit. Left out: the other
//! schemes, machines and figures.

use super::attc::{Figure, Reproduction};
use super::{Row, Settings, WorkloadResults, job, run_table_3, stated};
use crate::Error;
use crate::config::MachineConfig;
use crate::scheme::{ATTC, HATRIC, IDEAL, IDEAL_ATLB, KVMTLB};

/// Runs the short form. `done` hears how many workloads of how many have finished.
///
/// # Errors
/// As the simulations.
pub fn headline(
    settings: &Settings,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<Reproduction, Error> {
    let paper = MachineConfig::default();
    let jobs = [&KVMTLB, &HATRIC, &ATTC, &IDEAL, &IDEAL_ATLB].map(|scheme| job(scheme, "", &paper));
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
    let first = [
        stated::overhead(all),
        stated::over_kvmtlb(all),
        stated::over_hatric(all),
    ];
    first.into_iter().chain(stated::beside_ideal(all)).collect()
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
