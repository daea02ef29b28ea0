// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many programs of a claim a ratio holds for, as papers count: "six of eleven are slowed more
//! than four times".
//!
//! A row counts where its whole interval lies beyond the ratio, and perhaps counts where a part
//! does. Left out: whether the paper's programs are the claim's.

use steady_measures::chance::PairedRatio;

use crate::claim::Row;
use crate::house::House;
use crate::paper::{Bound, Here, Item, Number};
use crate::table::entry;
use crate::verdict::Verdict;

/// 1 in millionths, which are parts per million of a ratio.
const ONE: u128 = 1_000_000;

/// Rows beyond a ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Rows whose whole interval lies beyond it.
    pub surely: usize,
    /// These, and rows of whose interval a part does, or which have none.
    pub at_most: usize,
    /// Rows of the claim with this measure.
    pub of: usize,
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            surely,
            at_most,
            of,
        } = self;
        if surely == at_most {
            return write!(f, "{surely} of {of} rows");
        }
        write!(f, "{surely} to {at_most} of {of} rows")
    }
}

impl Tally {
    /// What may be said of the paper's count: rows whose interval has the ratio in it can count or
    /// not, and a program that the claim lacks can, too.
    pub(crate) fn judged(self, item: &Item) -> Verdict {
        let printed = item.number.as_ref().and_then(Number::whole);
        let Some(paper) = printed.and_then(|count| usize::try_from(count).ok()) else {
            return Verdict::Beside;
        };
        let others = item.here.as_ref().map_or(0, |here| here.others);
        let (least, most) = match item.bound {
            Some(Bound::AtLeast) => (paper, usize::MAX),
            Some(Bound::AtMost) => (0, paper),
            None => (paper, paper),
        };
        if self.at_most.saturating_add(others) < least || self.surely > most.saturating_add(others)
        {
            return Verdict::Differs;
        }
        if others == 0 && least <= self.surely && self.at_most <= most {
            return Verdict::Agrees;
        }
        Verdict::Open
    }
}

/// Counts the rows of the claim that have the named row's measure and VM; `None` where `here` has
/// no `beyond`, or one of these rows is not recorded.
pub(crate) fn tally(house: &House, here: &Here) -> Option<Tally> {
    let beyond = here.beyond.as_ref().and_then(Number::millionths)?;
    let claim = house.claim(&here.claim).ok()?;
    claim.row(&here.row)?;
    let ratios: Option<Vec<Option<PairedRatio>>> = counted(house, here)
        .into_iter()
        .map(|row| entry(house, claim, row, &here.variant, here.base.as_deref()))
        .map(|entry| entry.map(|entry| entry.cell.ratio))
        .collect();
    Some(count(beyond, &ratios?))
}

/// The rows that an item counts; none where it counts none.
pub(crate) fn counted<'a>(house: &'a House, here: &Here) -> Vec<&'a Row> {
    let claim = house.claim(&here.claim).ok();
    let named = claim.and_then(|claim| Some((claim, claim.row(&here.row)?)));
    let Some((claim, named)) = named.filter(|_| here.beyond.is_some()) else {
        return Vec::new();
    };
    let alike = claim.rows.iter().filter(|row| {
        let of_one = (&row.measure, &row.vm) == (&named.measure, &named.vm);
        of_one && row.workload.is_some() && row.share_of == named.share_of
    });
    alike.collect()
}

fn count(beyond: u128, ratios: &[Option<PairedRatio>]) -> Tally {
    let is_beyond = |ppm: u64| match beyond > ONE {
        true => u128::from(ppm) > beyond,
        false => u128::from(ppm) < beyond,
    };
    let ends = |ratio: &Option<PairedRatio>| {
        let ratio = ratio.as_ref()?;
        Some([ratio.low_ppm?, ratio.high_ppm?].map(is_beyond))
    };
    let all: Vec<Option<[bool; 2]>> = ratios.iter().map(ends).collect();
    let surely = all.iter().filter(|ends| **ends == Some([true; 2]));
    let never = all.iter().filter(|ends| **ends == Some([false; 2]));
    Tally {
        surely: surely.count(),
        at_most: all.len() - never.count(),
        of: all.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::item;

    fn ratio(low: u64, high: u64) -> Option<PairedRatio> {
        Some(PairedRatio {
            ratio_ppm: low.midpoint(high),
            low_ppm: Some(low),
            high_ppm: Some(high),
        })
    }

    #[test]
    fn a_row_counts_where_its_whole_interval_is_beyond_the_ratio() {
        let rows = [
            ratio(4_100_000, 9_000_000),
            ratio(3_900_000, 4_100_000),
            ratio(1_000_000, 4_000_000),
            None,
        ];
        let found = count(4 * ONE, &rows);
        assert_eq!(found.to_string(), "1 to 3 of 4 rows");
        assert_eq!(count(4 * ONE, &rows[..1]).to_string(), "1 of 1 rows");
    }

    #[test]
    fn below_one_a_row_counts_where_it_is_lower() {
        let rows = [
            ratio(500_000, 899_999),
            ratio(890_000, 910_000),
            ratio(900_000, 1_000_000),
        ];
        let found = count(900_000, &rows);
        assert_eq!(found.to_string(), "1 to 2 of 3 rows");
    }

    #[test]
    fn a_count_agrees_where_ours_is_certain_and_differs_where_it_cannot_be() {
        use Verdict::{Agrees, Differs, Open};
        let tally = |surely, at_most| Tally {
            surely,
            at_most,
            of: 11,
        };
        let least = "number = 6\nbound = \"at-least\"";
        for (text, surely, at_most, expected) in [
            ("number = 6", 6, 6, Agrees),
            ("number = 6", 5, 7, Open),
            ("number = 6", 6, 7, Open),
            ("number = 6", 1, 5, Differs),
            ("number = 6", 7, 11, Differs),
            (least, 7, 9, Agrees),
            (least, 5, 9, Open),
            (least, 1, 5, Differs),
        ] {
            let found = tally(surely, at_most).judged(&item(text));
            assert_eq!(found, expected, "{text} {surely} {at_most}");
        }
        // One of the paper's programs is not ours.
        let text = "number = 6\nhere = { claim = \"c\", row = \"r\", variant = \"v\", others = 1 }";
        for (count, expected) in [(4, Differs), (5, Open), (6, Open), (7, Open), (8, Differs)] {
            let found = tally(count, count).judged(&item(text));
            assert_eq!(found, expected, "{count}");
        }
    }
}
