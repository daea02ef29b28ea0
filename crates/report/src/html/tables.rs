// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of the page: the verdict, and every metric.

use steady_measures::{Cell, Comparison, Row};

use crate::{humane, pick};

/// Rows under one heading.
pub(super) struct Group {
    pub title: String,
    pub rows: Vec<Line>,
}

pub(super) struct Line {
    pub label: String,
    /// The metric's own name, shown where the pointer rests.
    pub name: String,
    pub cells: Vec<Entry>,
}

#[derive(Default)]
pub(super) struct Entry {
    pub value: String,
    /// All digits, and the range over the repetitions.
    pub exact: String,
    /// Whether it stands in the baseline's column, where there are no ratios.
    pub baseline: bool,
    /// Empty where there is none.
    pub ratio: String,
    /// `better`, `worse` or empty.
    pub verdict: &'static str,
}

/// Every metric, and how many they are.
pub(super) struct Measures {
    pub count: usize,
    pub groups: Vec<Group>,
}

/// The rows by which variants are judged, each workload first, then each VM's exits and CPU time.
pub(super) fn verdict(comparison: &Comparison) -> Vec<Group> {
    pick::telling(comparison)
        .into_iter()
        .map(|group| {
            let rows = if group.workload.is_some() {
                pick::headline(&group.rows)
            } else {
                let detail =
                    |row: &Row| pick::is_reason(row) || pick::class_place(&row.key.name).is_some();
                group.rows.into_iter().filter(|row| !detail(row)).collect()
            };
            Group {
                title: group.title,
                rows: rows
                    .into_iter()
                    .map(|row| line(row, super::words(row), comparison.baseline))
                    .collect(),
            }
        })
        .filter(|group| !group.rows.is_empty())
        .collect()
}

/// Every metric under its own name.
pub(super) fn everything(comparison: &Comparison) -> Measures {
    let groups = pick::all(comparison);
    Measures {
        count: comparison.rows.len(),
        groups: groups
            .into_iter()
            .map(|group| Group {
                title: group.title,
                rows: group
                    .rows
                    .into_iter()
                    .map(|row| line(row, row.key.name.clone(), comparison.baseline))
                    .collect(),
            })
            .collect(),
    }
}

fn line(row: &Row, label: String, baseline: usize) -> Line {
    let cells = row.cells.iter().enumerate().map(|(at, cell)| match cell {
        Some(cell) => entry(row, *cell, at == baseline),
        None => Entry {
            value: "–".to_owned(),
            baseline: at == baseline,
            ..Entry::default()
        },
    });
    Line {
        label,
        name: row.key.name.clone(),
        cells: cells.collect(),
    }
}

fn entry(row: &Row, cell: Cell, baseline: bool) -> Entry {
    let mut exact = humane::exact(row.unit, cell.median);
    if cell.min != cell.max {
        let (min, max) = (
            humane::exact(row.unit, cell.min),
            humane::exact(row.unit, cell.max),
        );
        exact = format!("{exact}; {min} to {max}");
    }
    if let Some(ratio) = cell.ratio.filter(|_| !baseline) {
        exact = format!("{exact}; {}", humane::ratio(ratio));
    }
    if let Some(judgement) = cell.judgement {
        exact = format!("{exact}; {}", judgement.verdict.as_str());
    }
    let ratio = match cell.ratio {
        Some(ratio) if !baseline => format!("×{}", humane::factor(ratio.ratio_ppm)),
        _ => String::new(),
    };
    let verdict = match pick::judged(cell) {
        Some(true) => "better",
        Some(false) => "worse",
        None => "",
    };
    Entry {
        value: humane::quantity(row.unit, cell.median),
        exact,
        baseline,
        ratio,
        verdict,
    }
}
