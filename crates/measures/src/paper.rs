// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A paper's figures beside the measured ones, both as ratios to one variant.
//!
//! Ratios are what can be compared: the paper's machine and the lab's have different clocks.

use crate::comparison::{Cell, Comparison};
use crate::metric::Unit;
use crate::ratio::Ratio;
use crate::result::{Paper, RunResult};

/// One row of a paper's table with what was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beside<'a> {
    /// The paper's row.
    pub paper: &'a Paper,
    /// Its variants, in its order.
    pub cells: Vec<BesideCell<'a>>,
}

/// One variant, in the paper and as measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BesideCell<'a> {
    /// The variant.
    pub variant: &'a str,
    /// The paper's value, in its unit.
    pub paper: u64,
    /// It in thousandths of the paper's value for the base.
    pub paper_permille: u64,
    /// The median measured and its unit; `None` if this run did not measure it.
    pub measured: Option<(Unit, i64)>,
    /// It in thousandths of the base's; `None` also if the base was not measured.
    pub measured_permille: Option<i64>,
}

/// Every row of papers that the result's scenario names, in its order.
#[must_use]
pub fn beside<'a>(result: &'a RunResult, comparison: &Comparison) -> Vec<Beside<'a>> {
    let median = |paper: &Paper, variant: &str| -> Option<(Unit, i64)> {
        let at = result.variants.iter().position(|v| v.name == variant)?;
        let row = comparison.rows.iter().find(|row| {
            row.key.name == paper.measure
                && row.key.vm.as_deref() == Some(&paper.vm)
                && row.key.workload.as_deref() == Some(&paper.workload)
                && row.cells[at].is_some()
        })?;
        let cell: Cell = row.cells[at]?;
        Some((row.unit, cell.median))
    };
    let of = |paper: &'a Paper| {
        let base = paper
            .values
            .iter()
            .find(|value| value.variant == paper.base);
        let base_paper = base.map_or(0, |base| base.value);
        let base_measured = median(paper, &paper.base).map(|(_, value)| value);
        let cells = paper.values.iter().map(|value| {
            let measured = median(paper, &value.variant);
            BesideCell {
                variant: &value.variant,
                paper: value.value,
                paper_permille: permille(value.value, base_paper).unwrap_or(0),
                measured,
                measured_permille: measured
                    .zip(base_measured)
                    .and_then(|((_, value), base)| Ratio::of(value, base)?.permille()),
            }
        });
        Beside {
            paper,
            cells: cells.collect(),
        }
    };
    result.scenario.papers.iter().map(of).collect()
}

fn permille(value: u64, base: u64) -> Option<u64> {
    u64::try_from(Ratio::of(value, base)?.permille()?).ok()
}
