// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explanations of simulated items: a run with one input changed that brings the number nearer to
//! the paper's. A simulated item that differs, or is open and not what the paper has, names one, or
//! says that it is unexplained. It cannot choose: it names one if there is one, and what else
//! brings it as near is said beside.
//!
//! Left out: whether the paper's set-up had that input. The run's page says what the input does to
//! every other number.

use std::collections::BTreeSet;

use serde::Deserialize;
use steady_measures::Unit;

use crate::claim::Claim;
use crate::error::Problem;
use crate::house::House;
use crate::paper::{Claimed, Expect, Item};
use crate::row::Row;
use crate::table::{self, Entry};
use crate::verdict::{SAME_PPM, Set, Verdict};

/// How the text of an item begins that no run explains.
pub const UNEXPLAINED: &str = "Unexplained.";
/// The base of claims whose variants have one input changed each.
const AS_IS: &str = "as-is";
/// A run that goes less of the way to the paper's number than this explains nothing.
const LEAST_SHARE_PERCENT: i64 = 25;
/// One in parts per million.
const ONE_PPM: i64 = 1_000_000;

/// The run that explains an item.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MovedBy {
    /// The claim whose variants have one input changed each.
    pub claim: String,
    /// Its row.
    pub row: String,
    /// The variant.
    pub variant: String,
}

/// What a changed input does to an item's number.
#[must_use]
pub fn entry(house: &House, item: &Item) -> Option<Entry> {
    let by = item.moved_by.as_ref()?;
    let claim = house.claim(&by.claim).ok()?;
    table::entry(house, claim, claim.row(&by.row)?, &by.variant, None)
}

/// It in words: from what to what; and which other inputs would explain it as well.
#[must_use]
pub fn words(house: &House, set: &Set<'_>) -> Option<String> {
    let (by, found) = (set.item.moved_by.as_ref()?, entry(house, set.item)?);
    let mut text = format!(
        "`{}` of {} moves it from {} to {}",
        by.variant,
        by.claim,
        found.base_value(),
        found.value()
    );
    for (other, found) in explaining(house, set) {
        if other.variant != by.variant {
            text += &format!(", `{}` to {}", other.variant, found.value());
        }
    }
    Some(text)
}

/// Every run with one input changed that explains an item.
fn explaining(house: &House, set: &Set<'_>) -> Vec<(MovedBy, Entry)> {
    let mut found = Vec::new();
    for (claim, row) in looked_at(house, set.item) {
        for variant in &claim.variants {
            let entry = table::entry(house, claim, row, variant, None);
            let entry = entry.filter(|entry| nearer(set, entry) == Some(true));
            let by = MovedBy {
                claim: claim.id.clone(),
                row: row.id.clone(),
                variant: variant.clone(),
            };
            found.extend(entry.map(|entry| (by, entry)));
        }
    }
    found
}

/// The rows with one input changed that have an item's measure: of the claims that any item names,
/// and of those whose base has every input as stated, in the order of the claims' names.
fn looked_at<'a>(house: &'a House, item: &Item) -> Vec<(&'a Claim, &'a Row)> {
    let items = house.papers.iter().flat_map(|paper| &paper.items);
    let named = items.filter_map(|item| Some(item.moved_by.as_ref()?.claim.as_str()));
    let again = house.claims().filter(|claim| claim.base == AS_IS);
    let claims = named.chain(again.map(|claim| claim.id.as_str()));
    let claims = claims.collect::<BTreeSet<_>>().into_iter();
    let rows = claims
        .filter_map(|id| house.claim(id).ok())
        .flat_map(|claim| {
            let of_item = claim.rows.iter().filter(|row| is_of(house, item, row));
            of_item.map(move |row| (claim, row))
        });
    rows.collect()
}

/// Whether a row is of an item's measure. A measure by workload has another name with inputs
/// changed, which is that of the item.
fn is_of(house: &House, item: &Item, row: &Row) -> bool {
    let here = item.here.as_ref();
    let own = here.and_then(|here| house.claim(&here.claim).ok()?.row(&here.row));
    own.is_some_and(|own| match own.workload {
        None => own.measure == row.measure,
        Some(_) => item.id == row.measure,
    })
}

/// What is wrong with how an item is explained.
pub(crate) fn problems(house: &House, set: &Set<'_>, place: &str) -> Vec<Problem> {
    let wrong = |text: String| vec![Problem::new(place, text)];
    let item = set.item;
    let Some(by) = &item.moved_by else {
        return lacks(house, set).map_or_else(Vec::new, wrong);
    };
    let claim = match house.claim(&by.claim) {
        Ok(claim) => claim,
        Err(error) => return wrong(error.to_string()),
    };
    let Some(row) = claim.row(&by.row) else {
        return wrong(format!("claim `{}` has no row `{}`", by.claim, by.row));
    };
    if !is_of(house, item, row) {
        return wrong(format!(
            "the row `{}` is of another measure than the item's",
            by.row
        ));
    }
    if !claim.variants.contains(&by.variant) {
        let (id, variant) = (&by.claim, &by.variant);
        return wrong(format!("claim `{id}` has no variant `{variant}`"));
    }
    if house.record(claim).is_none() {
        return Vec::new();
    }
    let Some(found) = entry(house, item) else {
        return wrong(format!("claim `{}` has no such cell", by.claim));
    };
    match nearer(set, &found) {
        Some(true) => Vec::new(),
        Some(false) => wrong(format!(
            "`{}` does not bring it a quarter of the way to the paper, or takes it past: from {} \
             to {}; expected another run, or `because = \"{UNEXPLAINED} …\"`",
            by.variant,
            found.base_value(),
            found.value()
        )),
        None => wrong("the paper gives nothing that a run could come nearer to".to_owned()),
    }
}

/// What an item lacks that names no run; `None` where it needs none.
fn lacks(house: &House, set: &Set<'_>) -> Option<String> {
    let item = set.item;
    let here = item.here.as_ref();
    let claim = here.and_then(|here| house.claim(&here.claim).ok())?;
    let misses = match set.verdict {
        Verdict::Differs => true,
        Verdict::Open => is_apart(set),
        _ => false,
    };
    if !misses || !(claim.is_simulated() || claim.captured.is_some()) {
        return None;
    }
    if let Some((by, found)) = explaining(house, set).first() {
        return Some(format!(
            "`{}` of `{}`, row `{}`, brings it nearer to the paper, from {} to {}; expected \
             `moved_by` with it",
            by.variant,
            by.claim,
            by.row,
            found.base_value(),
            found.value()
        ));
    }
    let because = item.because.as_deref().unwrap_or_default();
    if !because.starts_with(UNEXPLAINED) {
        return Some(format!(
            "it is simulated and not what the paper has; expected `moved_by` with a run that \
             brings it nearer to the paper, or `because = \"{UNEXPLAINED} …\"`"
        ));
    }
    looked_at(house, item).is_empty().then(|| {
        format!(
            "it is said to be unexplained, and no claim with the base `{AS_IS}` has its measure; \
             expected a row with inputs changed"
        )
    })
}

/// Whether a change moves the number, by its interval, and its median goes at least
/// [`LEAST_SHARE_PERCENT`] of the way to the paper's and not past it; `None` where the paper has
/// none.
fn nearer(set: &Set<'_>, found: &Entry) -> Option<bool> {
    let (least, most) = wanted(set)?;
    let apart = |value: i64| apart(value, (least, most));
    let before = found.base_cell.as_ref()?.median;
    let after = found.cell.median;
    // An input that takes a number past the paper's explains too much.
    let past = (before > most && after < least) || (before < least && after > most);
    let Some(ratio) = found.cell.ratio else {
        return Some(false);
    };
    let one = u64::try_from(ONE_PPM).unwrap_or_default();
    let moves = match (ratio.low_ppm, ratio.high_ppm) {
        (Some(low), Some(high)) => low > one || high < one,
        _ => false,
    };
    let left = i128::from(apart(after)) * 100;
    let near = left <= i128::from(apart(before)) * i128::from(100 - LEAST_SHARE_PERCENT);
    Some(moves && !past && near && apart(after) < apart(before))
}

/// How far a value is from a range; 0 in it.
fn apart(value: i64, (least, most): (i64, i64)) -> i64 {
    let (below, above) = (least.saturating_sub(value), value.saturating_sub(most));
    below.max(above).max(0)
}

/// Whether what is recorded of an item is not what the paper has. What is counted over rows is not
/// asked: no run moves it.
fn is_apart(set: &Set<'_>) -> bool {
    let Some(entry) = set.entry.as_ref().filter(|_| set.tally.is_none()) else {
        return false;
    };
    let own = entry.cell.ratio.filter(|_| set.item.number.is_none());
    let ratio = set.order.or(own).map(|ratio| ratio.ratio_ppm);
    let recorded = ratio.map_or(Some(entry.cell.median), |ppm| i64::try_from(ppm).ok());
    let range = wanted(set);
    recorded
        .zip(range)
        .is_some_and(|(value, range)| apart(value, range) > 0)
}

/// What the paper has, in parts per million, or in units for what is counted.
fn wanted(set: &Set<'_>) -> Option<(i64, i64)> {
    let item = set.item;
    let signed = |ppm: u64| i64::try_from(ppm).unwrap_or(i64::MAX);
    let share = set.entry.as_ref()?.unit == Unit::Ppm;
    match (item.claimed(), item.numbers(share), item.expect) {
        (Some(Claimed::Point(ppm)), ..) => Some((signed(ppm), signed(ppm))),
        (Some(Claimed::Between(least, most)), ..) => Some((signed(least), signed(most))),
        (None, Some(range), _) => Some(range),
        (None, None, Some(Expect::Same)) => {
            // What is the same to the verdict is what a run must come near to. A share that has no
            // base is how far apart two are.
            let has_ratio = set.entry.as_ref()?.cell.ratio.is_some();
            let band = i64::from(SAME_PPM);
            Some(match has_ratio {
                true => (ONE_PPM - band, ONE_PPM + band),
                false => (0, band),
            })
        }
        _ => None,
    }
}
