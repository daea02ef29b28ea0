// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A paper's figures beside the measured ones, in words.

use steady_measures::{Comparison, RunResult, beside};

use crate::{humane, pick};

/// One row of a paper's table.
pub(crate) struct Lines {
    /// Where it stands, of what it is, and what ratios are to.
    pub title: String,
    pub cells: Vec<Line>,
}

/// One variant; a ratio is empty where there is none, and of the base.
pub(crate) struct Line {
    pub variant: String,
    pub paper: String,
    pub paper_ratio: String,
    pub measured: String,
    pub measured_ratio: String,
}

/// Every row of papers that the result names.
pub(crate) fn lines(result: &RunResult, comparison: &Comparison) -> Vec<Lines> {
    let rows = beside(result, comparison).into_iter();
    rows.map(|row| Lines {
        title: format!(
            "{} beside measured: {} of {}, × is the ratio to {}",
            row.paper.source,
            pick::label(&row.paper.measure),
            row.paper.workload,
            row.paper.base
        ),
        cells: row
            .cells
            .iter()
            .map(|cell| {
                let base = cell.variant == row.paper.base;
                let ratio = |permille: Option<i64>, value: i64| match permille {
                    Some(permille) if !base => { let _ = value; format!("×{}", humane::factor(u64::try_from(permille).unwrap_or(0) * 1_000)) },
                    _ => String::new(),
                };
                let measured = cell.measured.map(|(_, value)| value).unwrap_or_default();
                Line {
                    variant: cell.variant.to_owned(),
                    paper: format!("{} {}", humane::grouped(cell.paper), row.paper.unit),
                    paper_ratio: ratio(i64::try_from(cell.paper_permille).ok(), 1),
                    measured: cell.measured.map_or("–".to_owned(), |(unit, value)| {
                        humane::quantity(unit, value)
                    }),
                    measured_ratio: ratio(cell.measured_permille, measured),
                }
            })
            .collect(),
    })
    .collect()
}
