// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A paper's items beside what is recorded: agrees, differs, not here, old.
//!
//! What went in, or was fitted, shows nothing by coming out again. So it never agrees.

use serde::Serialize;
use steady_measures::chance::PairedRatio;
use steady_measures::{Cell, Unit};

use crate::house::House;
use crate::order;
use crate::paper::{Claimed, Expect, Here, Item, Manifest, PaperRatio, Than};
use crate::table::{self, Entry};
use crate::tally::{self, Tally};

/// One in parts per million.
const ONE_PPM: u64 = 1_000_000;
/// An interval within this of 1, on both sides, shows that nothing differs that matters.
pub(crate) const SAME_PPM: u32 = 30_000;

/// What may be said of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The paper's ratio lies in our interval, or our interval shows what the paper states.
    Agrees,
    /// The paper's lies outside of our interval, or our interval shows the opposite.
    Differs,
    /// What would agree or be open, of a number that went in, was fitted, or follows from that.
    Input,
    /// Recorded, and the paper gives nothing that can be compared with it.
    Beside,
    /// Too few seeds for an interval, ours has an end of the paper's range or the limit of its
    /// statement within, or it has the paper's number and is too wide to say more.
    Open,
    /// Linked to a claim that is not recorded.
    NotRecorded,
    /// The manifest says why it is not here.
    NotHere,
    /// Recorded with an older kernel or program.
    Old,
}

impl Verdict {
    /// All of them, in the order of tables.
    pub const ALL: [Self; 8] = [
        Self::Agrees,
        Self::Differs,
        Self::Input,
        Self::Beside,
        Self::Open,
        Self::Old,
        Self::NotRecorded,
        Self::NotHere,
    ];

    /// How many of these items have it.
    #[must_use]
    pub fn count(self, sets: &[Set<'_>]) -> usize {
        sets.iter().filter(|set| set.verdict == self).count()
    }

    /// The words of tables.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::Differs => "differs",
            Self::Input => "input",
            Self::Beside => "beside",
            Self::Open => "open",
            Self::NotRecorded => "not recorded",
            Self::NotHere => "not here",
            Self::Old => "old",
        }
    }
}

/// An item with what is recorded of it.
#[derive(Debug, Clone)]
pub struct Set<'a> {
    /// The paper's item.
    pub item: &'a Item,
    /// What is recorded.
    pub entry: Option<Entry>,
    /// How many rows of the claim, where the item counts them.
    pub tally: Option<Tally>,
    /// The cell over another, where the item states an order.
    pub order: Option<PairedRatio>,
    /// What may be said.
    pub verdict: Verdict,
    /// Why, where there is something to say.
    pub because: Option<&'a str>,
}

impl Set<'_> {
    /// The other cell of its order, and what the item's own is over that.
    #[must_use]
    pub fn than(&self) -> Option<(&Than, PairedRatio)> {
        let than = self.item.here.as_ref()?.than.as_ref()?;
        Some((than, self.order?))
    }
}

/// Every item of a paper beside what is recorded.
#[must_use]
pub fn beside<'a>(house: &House, paper: &'a Manifest) -> Vec<Set<'a>> {
    let items = paper.items.iter();
    items
        .map(|item| {
            let here = item.here.as_ref();
            let entry = here.and_then(|here| find(house, here));
            let tally = here.and_then(|here| tally::tally(house, here));
            let order = here.and_then(|here| order::order(house, here));
            Set {
                item,
                verdict: of(house, item, entry.as_ref(), tally, order),
                entry,
                tally,
                order,
                because: item.because.as_deref().or(item.not_here.as_deref()),
            }
        })
        .collect()
}

fn find(house: &House, here: &Here) -> Option<Entry> {
    let claim = house.claim(&here.claim).ok()?;
    let row = claim.row(&here.row)?;
    table::entry(house, claim, row, &here.variant, here.base.as_deref())
}

/// What may be said of an item by this cell.
fn of(
    house: &House,
    item: &Item,
    entry: Option<&Entry>,
    tally: Option<Tally>,
    order: Option<PairedRatio>,
) -> Verdict {
    if item.not_here.is_some() {
        return Verdict::NotHere;
    }
    let Some(entry) = entry else {
        return Verdict::NotRecorded;
    };
    if entry.old.is_some() {
        return Verdict::Old;
    }
    let found = by_runs(house, item, entry, tally, order);
    let shows_nothing = matches!(found, Verdict::Agrees | Verdict::Open);
    let here = item.here.as_ref();
    let of_inputs = || item.follows || here.is_some_and(|here| went_in(house, here));
    if shows_nothing && of_inputs() {
        return Verdict::Input;
    }
    found
}

/// Whether one of the rows that an item is compared by went in or was fitted.
fn went_in(house: &House, here: &Here) -> bool {
    let shows_nothing = |id: &str, row: &str| {
        let claim = house.claim(id).ok();
        let found = claim.and_then(|claim| Some((claim, claim.row(row)?)));
        found.is_some_and(|(claim, row)| claim.basis_of(row).shows_nothing())
    };
    let mut counted = tally::counted(house, here).into_iter();
    shows_nothing(&here.claim, &here.row)
        || counted.any(|row| shows_nothing(&here.claim, &row.id))
        || here.than.as_ref().is_some_and(|than| {
            let claim = than.claim.as_ref().unwrap_or(&here.claim);
            shows_nothing(claim, &than.row)
        })
}

/// What may be said of an item by what was recorded with today's kernel and program.
fn by_runs(
    house: &House,
    item: &Item,
    entry: &Entry,
    tally: Option<Tally>,
    order: Option<PairedRatio>,
) -> Verdict {
    let here = item.here.as_ref();
    if let Some(than) = here.and_then(|here| here.than.as_ref()) {
        let claim = than
            .claim
            .as_ref()
            .and_then(|claim| house.claim(claim).ok());
        if claim.is_some_and(|claim| house.old(claim).is_some()) {
            return Verdict::Old;
        }
        let of_order = |ratio| compared(item, Some(ratio));
        return order.map_or(Verdict::NotRecorded, of_order);
    }
    let counts = here.is_some_and(|here| here.beyond.is_some());
    if counts {
        return tally.map_or(Verdict::NotRecorded, |tally| tally.judged(item));
    }
    by_value(item, entry.unit, &entry.cell).unwrap_or_else(|| compared(item, entry.cell.ratio))
}

/// The ends of ours are at most the paper's number divided by this away from it, where they agree.
const NEAR: u64 = 10;

/// Runs from which the range of all has the median with 95 % and more: one of `2^(n-1)` is outside.
const RANGE_RUNS: usize = 6;

/// The paper's number against the range of our runs; `None` where it gives none of the measure.
fn by_value(item: &Item, unit: Unit, cell: &Cell) -> Option<Verdict> {
    let share = unit == Unit::Ppm;
    // A share that has no base is how far apart two are.
    let apart = share && cell.ratio.is_none() && item.expect == Some(Expect::Same);
    let (least, most) = match item.numbers(share) {
        Some(range) => range,
        None if apart => (i64::MIN, i64::from(SAME_PPM)),
        None => return None,
    };
    let point = item.number.is_some() && item.bound.is_none();
    let near = |end: i64| if point { end / NEAR.cast_signed() } else { 0 };
    let (low, high) = (least - near(least), most.saturating_add(near(most)));
    let within = low <= cell.min && cell.max <= high;
    let outside = cell.max < least || cell.min > most;
    Some(match (cell.repetitions >= RANGE_RUNS, outside, within) {
        (true, true, _) => Verdict::Differs,
        (true, false, true) => Verdict::Agrees,
        _ => Verdict::Open,
    })
}

/// The paper's ratio or statement against our interval.
pub(crate) fn compared(item: &Item, ratio: Option<PairedRatio>) -> Verdict {
    let wanted = item.claimed();
    if wanted.is_none() && item.expect.is_none() {
        return Verdict::Beside;
    }
    let Some(PairedRatio {
        low_ppm: Some(low),
        high_ppm: Some(high),
        ..
    }) = ratio
    else {
        return Verdict::Open;
    };
    let Some(wanted) = wanted else {
        let expected = item.expect.expect("returned above");
        return stated(expected, low, high);
    };
    let holds = match wanted {
        Claimed::Point(paper) => {
            let printed = item.ratio.as_ref().and_then(PaperRatio::printed);
            let (least, most) = printed.unwrap_or((paper, paper));
            let reaches = low <= most && least <= high;
            let near = least - least / NEAR <= low && high <= most.saturating_add(most / NEAR);
            if reaches && !near {
                return Verdict::Open;
            }
            reaches
        }
        Claimed::Between(least, most) => {
            if high >= least && low < least || low <= most && high > most {
                return Verdict::Open;
            }
            least <= low && high <= most
        }
    };
    if holds {
        Verdict::Agrees
    } else {
        Verdict::Differs
    }
}

/// The paper's statement against our interval, which decides where it lies on one side alone.
fn stated(expected: Expect, low: u64, high: u64) -> Verdict {
    let same = u64::from(SAME_PPM);
    let (least, most) = (ONE_PPM - same, ONE_PPM + same);
    let (shown, refuted) = match expected {
        Expect::Lower => (high < ONE_PPM, low > ONE_PPM),
        Expect::Higher => (low > ONE_PPM, high < ONE_PPM),
        Expect::Same => (least <= low && high <= most, high < least || low > most),
    };
    match (shown, refuted) {
        (true, _) => Verdict::Agrees,
        (_, true) => Verdict::Differs,
        _ => Verdict::Open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::item;

    fn cell(low: u64, middle: u64, high: u64) -> Cell {
        Cell {
            median: 1,
            min: 1,
            max: 1,
            repetitions: 8,
            ratio: Some(PairedRatio {
                ratio_ppm: middle,
                low_ppm: Some(low),
                high_ppm: Some(high),
            }),
            judgement: None,
        }
    }

    #[test]
    fn a_ratio_agrees_inside_the_interval_and_a_statement_where_it_leaves_out_1() {
        for (text, low, high, expected) in [
            (
                "ratio = { of = 22, to = 100 }",
                200_000,
                230_000,
                Verdict::Agrees,
            ),
            (
                "ratio = { of = 22, to = 100 }",
                230_000,
                250_000,
                Verdict::Differs,
            ),
            (
                "ratio = { of = 22, to = 100 }",
                20_000,
                900_000,
                Verdict::Open,
            ),
            ("expect = \"lower\"", 500_000, 990_000, Verdict::Agrees),
            ("expect = \"higher\"", 1_010_000, 1_500_000, Verdict::Agrees),
            ("expect = \"same\"", 975_000, 1_025_000, Verdict::Agrees),
        ] {
            let cell = cell(low, (low + high) / 2, high);
            assert_eq!(
                compared(&item(text), cell.ratio),
                expected,
                "{text} {low} {high}"
            );
        }
    }

    #[test]
    fn a_statement_differs_on_the_other_side_and_is_open_where_the_interval_has_its_limit() {
        use Verdict::{Differs, Open};
        for (word, low, high, expected) in [
            ("lower", 500_000, 1_010_000, Open),
            ("lower", 500_000, 1_000_000, Open),
            ("lower", 1_000_001, 1_010_000, Differs),
            ("higher", 990_000, 1_010_000, Open),
            ("higher", 990_000, 999_999, Differs),
            ("same", 500_000, 2_000_000, Open),
            ("same", 960_000, 980_000, Open),
            ("same", 1_020_000, 1_040_000, Open),
            ("same", 1_030_001, 1_040_000, Differs),
            ("same", 900_000, 969_999, Differs),
        ] {
            let item = item(&format!("expect = \"{word}\""));
            let found = compared(&item, cell(low, low.midpoint(high), high).ratio);
            assert_eq!(found, expected, "{word} {low} {high}");
        }
    }

    #[test]
    fn a_bound_agrees_on_its_side_and_is_open_inside_the_interval() {
        let cells = [
            cell(46_100_000, 46_900_000, 47_800_000),
            cell(9_000_000, 9_500_000, 11_000_000),
            cell(8_000_000, 8_500_000, 9_000_000),
            cell(90_000_000, 99_000_000, 110_000_000),
        ];
        use Verdict::{Agrees, Differs, Open};
        let ratio = "ratio = { of = 10, to = 1 }\n";
        for (text, expected) in [
            (ratio.to_owned(), [Differs, Agrees, Differs, Differs]),
            (
                format!("{ratio}bound = \"at-least\""),
                [Agrees, Open, Differs, Agrees],
            ),
            (
                format!("{ratio}bound = \"at-most\""),
                [Differs, Open, Agrees, Differs],
            ),
            (
                "ratio = { of = 10, up_to = 100, to = 1 }".to_owned(),
                [Agrees, Open, Differs, Open],
            ),
        ] {
            let item = item(&text);
            assert_eq!(
                cells.map(|cell| compared(&item, cell.ratio)),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn a_number_is_compared_with_the_range_of_the_runs_and_as_it_is_rounded() {
        use Verdict::{Agrees, Differs, Open};
        let share = |min: i64, max: i64| Cell {
            min,
            max,
            ratio: None,
            ..cell(1, 1, 1)
        };
        let most = "number = \"0.2\"\nbound = \"at-most\"";
        for (text, min, max, expected) in [
            ("number = \"6.9\"", 68_600, 68_700, Agrees),
            ("number = \"6.9\"", 68_000, 76_000, Agrees),
            ("number = \"6.9\"", 68_000, 90_000, Open),
            ("number = \"6.9\"", 50_000, 69_000, Open),
            ("number = \"6.9\"", 154_000, 155_000, Differs),
            (most, 1_000, 2_000, Agrees),
            (most, 1_000, 2_100, Open),
            (most, 2_100, 2_200, Differs),
            ("expect = \"same\"", 46_100, 49_500, Differs),
            ("expect = \"same\"", 1_000, 29_500, Agrees),
        ] {
            let found = by_value(&item(text), Unit::Ppm, &share(min, max));
            assert_eq!(found, Some(expected), "{text} {min} {max}");
        }
        let printed = item("ratio = { of = 112, to = 100 }");
        assert_eq!(
            compared(&printed, cell(1_106_000, 1_113_000, 1_119_820).ratio),
            Agrees
        );
        assert_eq!(
            compared(&printed, cell(1_106_000, 1_113_000, 1_114_000).ratio),
            Differs
        );
    }

    #[test]
    fn without_an_interval_nothing_is_decided() {
        let mut one = cell(1, 2, 3);
        one.ratio = Some(PairedRatio {
            ratio_ppm: 2,
            low_ppm: None,
            high_ppm: None,
        });
        assert_eq!(
            compared(&item("expect = \"lower\""), one.ratio),
            Verdict::Open
        );
        assert_eq!(compared(&item(""), one.ratio), Verdict::Beside);
    }
}
