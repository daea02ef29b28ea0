// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a record says of its claim: a cell for each row and variant, by the one estimator.

use steady_measures::chance::Verdict;
use steady_measures::{Better, Cell, Unit};
use steady_report::humane;

use crate::claim::{Basis, Claim, Row};
use crate::house::House;

/// One row of one variant against a base.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The claim's word.
    pub claim: String,
    /// The row's word.
    pub row: String,
    /// The variant.
    pub variant: String,
    /// The variant to which the ratio is taken.
    pub base: String,
    /// What the row is of, in words.
    pub what: String,
    /// How its numbers came to be.
    pub basis: Basis,
    /// Unit of the values.
    pub unit: Unit,
    /// Which way is better.
    pub better: Better,
    /// The base's values; `None` where it has none.
    pub base_cell: Option<Cell>,
    /// The variant's values, ratio and judgement.
    pub cell: Cell,
    /// The key that the record is of, where that is not today's.
    pub old: Option<String>,
}

impl Entry {
    /// The base's median as people read it; a dash where it has none.
    #[must_use]
    pub fn base_value(&self) -> String {
        let cell = self.base_cell;
        cell.map_or_else(dash, |cell| humane::quantity(self.unit, cell.median))
    }

    /// The variant's median as people read it.
    #[must_use]
    pub fn value(&self) -> String {
        humane::quantity(self.unit, self.cell.median)
    }

    /// The ratio with its interval; a dash where there is none.
    #[must_use]
    pub fn ratio(&self) -> String {
        self.cell.ratio.map_or_else(dash, humane::ratio)
    }

    /// What the runs show, in one or two words.
    #[must_use]
    pub fn shown(&self) -> &'static str {
        match self.cell.judgement {
            None => "value",
            Some(judgement) => judgement.verdict.as_str(),
        }
    }

    /// What the runs show, and the key that they are of where that is not today's.
    #[must_use]
    pub fn shown_and_old(&self) -> String {
        match &self.old {
            Some(key) => format!("{}; **old: {key}**", self.shown()),
            None => self.shown().to_owned(),
        }
    }

    /// Whether a difference is shown.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        self.cell.judgement.map(|judgement| judgement.verdict)
    }

    /// How many pairs of runs it is of; without a base, how many runs.
    #[must_use]
    pub fn runs(&self) -> usize {
        let pairs = self.cell.judgement.map(|judgement| judgement.pairs);
        pairs.unwrap_or(self.cell.repetitions)
    }
}

fn dash() -> String {
    "–".to_owned()
}

/// The cell of a claim against a base; `None` where nothing is recorded of it.
#[must_use]
pub fn entry(
    house: &House,
    claim: &Claim,
    row: &Row,
    variant: &str,
    base: Option<&str>,
) -> Option<Entry> {
    let base = base.unwrap_or(&claim.base);
    let compared = house.compared(claim, base)?;
    let at = compared.variants.iter().position(|name| name == variant)?;
    let comparison = &compared.comparison;
    let found = row.of(comparison)?;
    Some(Entry {
        claim: claim.id.clone(),
        row: row.id.clone(),
        variant: variant.to_owned(),
        base: base.to_owned(),
        what: row.what.clone(),
        basis: claim.basis_of(row),
        unit: found.unit,
        better: found.better,
        base_cell: found.cells[comparison.baseline],
        cell: found.cells[at]?,
        old: house.old_of(claim, &[base, variant]),
    })
}

/// Every cell of a claim that its page shows and that is recorded: row by row, and in each the
/// variants in their order.
#[must_use]
pub fn entries(house: &House, claim: &Claim) -> Vec<Entry> {
    let shown = claim.show.as_ref().unwrap_or(&claim.variants);
    let pairs = claim
        .rows
        .iter()
        .flat_map(|row| shown.iter().map(move |variant| (row, variant)));
    pairs
        .filter_map(|(row, variant)| entry(house, claim, row, variant, None))
        .collect()
}
