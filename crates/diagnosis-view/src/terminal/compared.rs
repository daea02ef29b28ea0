// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Before and after, in lines.

use steady_diagnose::{Change, Compared, Comparison, Diagnosis, Finding};

use super::{Page, counted, percent, words};

/// Rows of the short text.
const ROWS_SHOWN: usize = 6;

/// The heading, and a line for each finding of either group; none without a comparison.
#[must_use]
pub fn compared_lines(diagnosis: &Diagnosis) -> Vec<String> {
    let Some(comparison) = &diagnosis.comparison else {
        return Vec::new();
    };
    let rows = comparison.rows.iter().map(|row| line(diagnosis, row));
    [heading(comparison)].into_iter().chain(rows).collect()
}

/// The lines of a text.
pub fn text(out: &mut Page, diagnosis: &Diagnosis, comparison: &Comparison) {
    out.line("", &heading(comparison));
    for row in comparison.rows.iter().take(ROWS_SHOWN) {
        out.line("  ", &line(diagnosis, row));
    }
    if let Some(more @ 1..) = comparison.rows.len().checked_sub(ROWS_SHOWN) {
        out.line("  ", &format!("and {more} more (--json, --html)"));
    }
    out.blank();
}

fn heading(comparison: &Comparison) -> String {
    let (before, after) = (comparison.before.len(), comparison.after.len());
    if before == 1 && after == 1 {
        return "Before and after, one trace of each: what differs between these two; whether it is \
                chance, four and more of each would show."
            .to_owned();
    }
    format!(
        "Before ({}) and after ({}), by an exact permutation test of unpaired groups:",
        counted(before, "trace"),
        counted(after, "trace")
    )
}

fn line(diagnosis: &Diagnosis, row: &Compared) -> String {
    let same = |finding: &&Finding| finding.id == row.id && finding.of == row.of;
    let what = diagnosis.findings.iter().find(same).map(words::symptom);
    let vm = row.vm.as_deref().unwrap_or("whole trace");
    let change = match row.change {
        Change::Better => " (better)",
        Change::Worse => " (worse)",
        Change::NoDifferenceShown => " (no difference shown)",
        // Of one trace of each the heading says it.
        Change::TooFewTraces if row.before_permille.len() + row.after_permille.len() == 2 => "",
        Change::TooFewTraces => " (too few traces to show more than chance)",
    };
    format!(
        "{vm}: {}: {} before, {} after{change}",
        what.unwrap_or_default(),
        percent(row.mean_before_permille),
        percent(row.mean_after_permille)
    )
}
