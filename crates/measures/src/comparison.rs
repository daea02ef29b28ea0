// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The variants of one result side by side.
//!
//! Each metric is summarised over the repetitions of a variant and set against the same metric of
//! one variant, the baseline. Results of different engines are never set against each other: their
//! clocks measure different things.

use std::collections::BTreeMap;

use crate::chance::{self, Judgement, PairedRatio};
use crate::error::Error;
use crate::metric::{Better, Metric, Unit};
use crate::result::{RunResult, VariantResult};

/// What a metric is of, and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// The VM; `None` for the whole host.
    pub vm: Option<String>,
    /// The workload; `None` for the VM as a whole.
    pub workload: Option<String>,
    /// The metric's name.
    pub name: String,
}

/// One metric of one variant, over its repetitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The median, see [`median`].
    pub median: i64,
    /// The least.
    pub min: i64,
    /// The greatest.
    pub max: i64,
    /// In how many repetitions it was measured; at least 1.
    pub repetitions: usize,
    /// The ratio to the baseline, of pairs of runs with the same seed; the only ratio that is
    /// shown anywhere. `None` in the baseline, where no seed is shared, and where a value below 1
    /// leaves no ratio; but 0 where every value is 0 and none of the baseline's is.
    pub ratio: Option<PairedRatio>,
    /// What may be said of it against the baseline; `None` in the baseline, and where the two share
    /// no repetition.
    pub judgement: Option<Judgement>,
}

/// One metric over all variants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What it is of, and its name.
    pub key: Key,
    /// Unit of all cells.
    pub unit: Unit,
    /// Which way is better.
    pub better: Better,
    /// One cell per variant, in the order of the result; `None` where the variant lacks the metric.
    pub cells: Vec<Option<Cell>>,
}

/// All metrics of one result, one row each, in the order in which they first appear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    /// Index of the variant that ratios refer to.
    pub baseline: usize,
    /// The rows.
    pub rows: Vec<Row>,
}

impl Comparison {
    /// Compares the variants of `result` against the one named `baseline`, or the first.
    ///
    /// Where variants disagree on the unit of a metric, each unit gets a row of its own.
    ///
    /// # Errors
    /// [`Error::NoSuchVariant`] if there is no such variant, or none at all.
    pub fn new(result: &RunResult, baseline: Option<&str>) -> Result<Self, Error> {
        let found = match baseline {
            None => (!result.variants.is_empty()).then_some(0),
            Some(name) => result.variants.iter().position(|v| v.name == name),
        };
        let baseline = found.ok_or_else(|| Error::NoSuchVariant {
            name: baseline.unwrap_or("(the first)").to_owned(),
            known: result.variants.iter().map(|v| v.name.clone()).collect(),
        })?;
        let mut rows: Vec<Row> = Vec::new();
        let mut row_of: BTreeMap<(Key, Unit), usize> = BTreeMap::new();
        for (at, variant) in result.variants.iter().enumerate() {
            for (key, metric, values) in values_of(variant) {
                let row = *row_of.entry((key.clone(), metric.unit)).or_insert_with(|| {
                    rows.push(Row {
                        key,
                        unit: metric.unit,
                        better: metric.better,
                        cells: vec![None; result.variants.len()],
                    });
                    rows.len() - 1
                });
                rows[row].cells[at] = summarise(values);
            }
        }
        let judged = chance::judge(result, baseline);
        for row in &mut rows {
            let id = (row.key.clone(), row.unit);
            for (at, &judgement) in judged.get(&id).into_iter().flatten() {
                if let Some(cell) = &mut row.cells[*at] {
                    cell.judgement = Some(judgement);
                }
            }
            let base = row.cells[baseline];
            for cell in row.cells.iter_mut().flatten() {
                let Some(judgement) = cell.judgement else {
                    continue;
                };
                cell.ratio = judgement.ratio.or_else(|| nothing_left(*cell, base?));
            }
        }
        Ok(Self { baseline, rows })
    }
}

/// The values of each metric over the repetitions, in the order of first appearance.
fn values_of(variant: &VariantResult) -> Vec<(Key, &Metric, Vec<i64>)> {
    let mut found: Vec<(Key, &Metric, Vec<i64>)> = Vec::new();
    let mut place: BTreeMap<(Key, Unit), usize> = BTreeMap::new();
    for metric in variant.repetitions.iter().flat_map(|r| &r.metrics) {
        let key = Key {
            vm: metric.vm.clone(),
            workload: metric.workload.clone(),
            name: metric.name.clone(),
        };
        let at = *place.entry((key.clone(), metric.unit)).or_insert_with(|| {
            found.push((key, metric, Vec::new()));
            found.len() - 1
        });
        found[at].2.push(metric.value);
    }
    found
}

fn summarise(mut values: Vec<i64>) -> Option<Cell> {
    values.sort_unstable();
    Some(Cell {
        median: median(&values)?,
        min: *values.first()?,
        max: *values.last()?,
        repetitions: values.len(),
        ratio: None,
        judgement: None,
    })
}

/// The ratio of a cell whose values are all 0 to a baseline that has none: 0.
fn nothing_left(cell: Cell, base: Cell) -> Option<PairedRatio> {
    let nothing = PairedRatio {
        ratio_ppm: 0,
        low_ppm: None,
        high_ppm: None,
    };
    ((cell.min, cell.max) == (0, 0) && base.min > 0).then_some(nothing)
}

/// The middle of ascending values; of an even number, the mean of the two in the middle, rounded
/// down. `None` without values.
#[must_use]
pub fn median(ascending: &[i64]) -> Option<i64> {
    debug_assert!(ascending.is_sorted(), "median of unsorted values");
    let upper = *ascending.get(ascending.len() / 2)?;
    if ascending.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = ascending[ascending.len() / 2 - 1];
    let sum = i128::from(lower) + i128::from(upper);
    i64::try_from(sum.div_euclid(2)).ok()
}
