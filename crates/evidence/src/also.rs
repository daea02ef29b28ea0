// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a line of the scoreboard says besides its own cell: a claim that holds on one host may not
//! hold with pins, or without pause-loop exits.
//!
//! Where a race of such a host shows something else of the same variant and measure, the line must
//! name it. Left out: whether other measures of that host say the same, which a person adds.

use serde::Deserialize;

use crate::claim::{Claim, Row, Score};
use crate::house::House;
use crate::table::{self, Entry};

/// Conditions in which a host may differ from the scored one and still be asked the same.
const MAY_DIFFER: [&str; 2] = ["placement", "ple"];

/// A cell that a line of the scoreboard names besides its own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Also {
    /// What is different, in words without numbers.
    pub says: String,
    /// The claim.
    pub claim: String,
    /// Its row.
    pub row: String,
    /// The variant.
    pub variant: String,
}

impl Also {
    /// The claim and row that it names, if both are there and have the variant.
    fn cell<'a>(&self, house: &'a House) -> Option<(&'a Claim, &'a Row)> {
        let claim = house.claim(&self.claim).ok()?;
        let row = claim.row(&self.row)?;
        claim
            .variants
            .contains(&self.variant)
            .then_some((claim, row))
    }

    fn entry(&self, house: &House) -> Option<Entry> {
        let (claim, row) = self.cell(house)?;
        table::entry(house, claim, row, &self.variant, None)
    }
}

/// What a page says of each: its words, the ratio with its interval, and what the runs show.
pub(crate) fn on_page(house: &House, score: &Score) -> Vec<String> {
    let of = |also: &Also| match also.entry(house) {
        Some(entry) => format!(
            "{} {} ({})",
            also.says,
            entry.ratio(),
            entry.shown_and_old()
        ),
        None => format!("{} not recorded", also.says),
    };
    score.also.iter().map(of).collect()
}

/// What a screen says of each: its words, and the ratio with its interval.
pub(crate) fn on_screen(house: &House, score: &Score) -> Vec<String> {
    let of = |also: &Also| match also.entry(house) {
        Some(entry) => {
            let old = entry.old.as_ref().map_or("", |_| " (old)");
            format!("{} {}{old}", also.says, entry.ratio())
        }
        None => format!("{} not recorded", also.says),
    };
    score.also.iter().map(of).collect()
}

/// What is wrong with the cells that a line names, and with those that it does not.
pub(crate) fn problems(house: &House, score: &Score) -> Vec<String> {
    let lost = score.also.iter().filter(|also| also.cell(house).is_none());
    let mut problems: Vec<String> = lost
        .map(|also| format!("`also` names no cell of a claim: {}", also.claim))
        .collect();
    let claim = house.claim(&score.claim).ok();
    let Some((claim, row)) = claim.and_then(|claim| Some((claim, claim.row(&score.row)?))) else {
        return problems;
    };
    let verdict = |claim: &Claim, row: &Row| {
        let entry = table::entry(house, claim, row, &score.variant, None);
        entry.and_then(|entry| entry.verdict())
    };
    let shown = verdict(claim, row);
    for other in house.claims().filter(|other| is_asked(claim, other)) {
        let same = other.rows.iter().find(|one| one.has_values_of(row));
        let Some(same) = same.filter(|_| other.variants.contains(&score.variant)) else {
            continue;
        };
        let withdraws = verdict(other, same).is_some_and(|there| Some(there) != shown);
        let is_named = score.also.iter().any(|also| {
            also.variant == score.variant
                && also.cell(house).is_some_and(|(claim, row)| {
                    claim.race() == other.race() && row.has_values_of(same)
                })
        });
        if withdraws && !is_named {
            problems.push(format!(
                "claim `{}` shows something else of `{}` on a host that differs in {} alone; name \
                 its row `{}` in `also`",
                other.id,
                score.variant,
                MAY_DIFFER.join(" or "),
                same.id
            ));
        }
    }
    problems
}

/// Whether another claim asks the same of a host that differs as a host may.
fn is_asked(claim: &Claim, other: &Claim) -> bool {
    let of = |claim: &Claim| {
        let raced = (claim.engine.clone(), claim.kernel.clone());
        (raced, claim.base.clone(), claim.brought.clone())
    };
    let differing: Vec<&str> = claim
        .conditions
        .iter()
        .filter(|(key, value)| {
            other
                .conditions
                .get(*key)
                .is_some_and(|there| there != *value)
        })
        .map(|(key, _)| key.as_str())
        .collect();
    of(claim) == of(other)
        && !differing.is_empty()
        && differing.iter().all(|key| MAY_DIFFER.contains(key))
}
