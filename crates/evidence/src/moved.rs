// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Explanations of simulated items: a run with one input changed that brings the number nearer to
//! the paper's. A simulated item that differs names one, or says that it is unexplained.
//!
//! Left out: whether the paper's set-up had that input. The run's page says what the input does to
//! every other number.

use serde::Deserialize;

use crate::error::Problem;
use crate::house::House;
use crate::paper::{Claimed, Expect, Item};
use crate::table::{self, Entry};
use crate::verdict::{Set, Verdict};

/// How the text of an item begins that no run explains.
pub const UNEXPLAINED: &str = "Unexplained.";
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

/// It in words: from what to what.
#[must_use]
pub fn words(house: &House, item: &Item) -> Option<String> {
    let (by, found) = (item.moved_by.as_ref()?, entry(house, item)?);
    Some(format!(
        "`{}` of {} moves it from {} to {}",
        by.variant,
        by.claim,
        found.base_value(),
        found.value()
    ))
}

/// What is wrong with how an item is explained.
pub(crate) fn problems(house: &House, set: &Set<'_>, place: &str) -> Vec<Problem> {
    let wrong = |text: String| vec![Problem::new(place, text)];
    let item = set.item;
    let Some(by) = &item.moved_by else {
        let here = item.here.as_ref();
        let claim = here.and_then(|here| house.claim(&here.claim).ok());
        let simulated = claim.is_some_and(|claim| claim.is_simulated() || claim.captured.is_some());
        let because = item.because.as_deref().unwrap_or_default();
        let must = simulated && set.verdict == Verdict::Differs;
        return match must && !because.starts_with(UNEXPLAINED) {
            true => wrong(format!(
                "it is simulated and differs; expected `moved_by` with a run that brings it nearer \
                 to the paper, or `because = \"{UNEXPLAINED} …\"`"
            )),
            false => Vec::new(),
        };
    };
    let claim = match house.claim(&by.claim) {
        Ok(claim) => claim,
        Err(error) => return wrong(error.to_string()),
    };
    let Some(row) = claim.row(&by.row) else {
        return wrong(format!("claim `{}` has no row `{}`", by.claim, by.row));
    };
    let here = item.here.as_ref();
    let own = here.and_then(|here| house.claim(&here.claim).ok()?.row(&here.row));
    if own.is_none_or(|own| own.measure != row.measure) {
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
            "`{}` does not bring it nearer to the paper, or takes it past: from {} to {}; \
             expected another run, or `because = \"{UNEXPLAINED} …\"`",
            by.variant,
            found.base_value(),
            found.value()
        )),
        None => wrong("the paper gives nothing that a run could come nearer to".to_owned()),
    }
}

/// Whether a change moves the number, by its interval, and its median is nearer to the paper's, on
/// the side where it was or at it; `None` where the paper has none.
fn nearer(set: &Set<'_>, found: &Entry) -> Option<bool> {
    let (least, most) = wanted(set)?;
    let apart = |value: i64| (least - value).max(value - most).max(0);
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
    Some(moves && !past && apart(after) < apart(before))
}

/// What the paper has, in parts per million.
fn wanted(set: &Set<'_>) -> Option<(i64, i64)> {
    let item = set.item;
    let signed = |ppm: u64| i64::try_from(ppm).unwrap_or(i64::MAX);
    match (item.claimed(), item.numbers(true), item.expect) {
        (Some(Claimed::Point(ppm)), ..) => Some((signed(ppm), signed(ppm))),
        (Some(Claimed::Between(least, most)), ..) => Some((signed(least), signed(most))),
        (None, Some(range), _) => Some(range),
        (None, None, Some(Expect::Same)) => {
            // A share that has no base is how far apart two are.
            let has_ratio = set.entry.as_ref()?.cell.ratio.is_some();
            let same = if has_ratio { ONE_PPM } else { 0 };
            Some((same, same))
        }
        _ => None,
    }
}
