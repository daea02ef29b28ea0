// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Manifests: every table, figure and stated number of a paper, and where it is here.
//!
//! A file `evidence/papers/PAPER.toml` lists the items of one paper. Each is set beside a row of a
//! claim, or says why it is not here. Left out: our numbers, which are in records alone.

use serde::Deserialize;
use steady_report::humane;

use crate::moved::MovedBy;

/// Version of the format that is read.
pub const PAPER_SCHEMA: u32 = 1;

/// A paper and all its items.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Always [`PAPER_SCHEMA`].
    pub schema: u32,
    /// Its word in `steady reproduce`, and the stem of the file.
    pub paper: String,
    /// Its title.
    pub title: String,
    /// Where and when it was published.
    pub venue: String,
    /// Its own set-up, in one line.
    pub conditions: String,
    /// Its items, in its order.
    #[serde(rename = "item")]
    pub items: Vec<Item>,
}

/// What an item is in the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A number of a table.
    Table,
    /// A figure, or a number read off it.
    Figure,
    /// A number or statement of the text.
    Text,
}

/// One item of a paper.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// Its word, unique in the paper.
    pub id: String,
    /// Table, figure or section.
    pub place: String,
    /// What it is.
    pub kind: Kind,
    /// What it says, in words.
    pub what: String,
    /// The value as printed.
    pub value: String,
    /// Numbers whose ratio is compared with ours.
    pub ratio: Option<PaperRatio>,
    /// The number that is compared with the measure itself; percents where that is a share.
    pub number: Option<Number>,
    /// Whether that ratio or number is a bound.
    pub bound: Option<Bound>,
    /// The statement that is compared with what our interval shows.
    pub expect: Option<Expect>,
    /// Where it is here.
    pub here: Option<Here>,
    /// Why it is not here.
    pub not_here: Option<String>,
    /// Why it differs, or what is different in our set-up.
    pub because: Option<String>,
    /// Whether what is compared holds by arithmetic or by what went in, though its rows were
    /// measured.
    #[serde(default)]
    pub follows: bool,
    /// The run with one input changed that brings it nearer to the paper.
    pub moved_by: Option<MovedBy>,
}

/// A ratio of two numbers of a paper.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperRatio {
    /// The number that is compared.
    pub of: Number,
    /// The upper end, where the paper gives a range that begins with `of`.
    pub up_to: Option<Number>,
    /// The number to which the ratio is taken.
    pub to: Number,
}

/// Which side of its ratio a paper claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The ratio or less.
    AtMost,
    /// The ratio or more.
    AtLeast,
}

/// The ratio that a paper claims, in parts per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claimed {
    /// This one.
    Point(u64),
    /// Any between these two, which count as well; a bound has 0 or [`u64::MAX`] at its open end.
    Between(u64, u64),
}

impl std::fmt::Display for Claimed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let factor = |ppm: u64| format!("×{}", humane::factor(ppm));
        match *self {
            Self::Point(ppm) => write!(f, "{}", factor(ppm)),
            Self::Between(0, most) => write!(f, "at most {}", factor(most)),
            Self::Between(least, u64::MAX) => write!(f, "at least {}", factor(least)),
            Self::Between(least, most) => write!(f, "{} to {}", factor(least), factor(most)),
        }
    }
}

impl Item {
    /// The least and the most that the paper's number stands for, in parts per million of a share,
    /// else in units: what is printed as that, or its bound's side.
    #[must_use]
    pub fn numbers(&self, share: bool) -> Option<(i64, i64)> {
        let number = self.number.as_ref()?;
        let scaled = |millionths: u128| {
            let scale = if share { 100 } else { 1_000_000 };
            i64::try_from(millionths / scale).ok()
        };
        let (value, half) = (number.millionths()?, number.half_digit());
        Some(match self.bound {
            Some(Bound::AtMost) => (i64::MIN, scaled(value)?),
            Some(Bound::AtLeast) => (scaled(value)?, i64::MAX),
            None => (scaled(value.saturating_sub(half))?, scaled(value + half)?),
        })
    }

    /// The ratio that the paper claims; `None` where it gives none, or one that cannot be read.
    #[must_use]
    pub fn claimed(&self) -> Option<Claimed> {
        let ratio = self.ratio.as_ref()?;
        let ppm = ratio.ppm()?;
        Some(match (self.bound, &ratio.up_to) {
            (Some(Bound::AtMost), _) => Claimed::Between(0, ppm),
            (Some(Bound::AtLeast), _) => Claimed::Between(ppm, u64::MAX),
            (None, Some(most)) => Claimed::Between(ppm, scaled(most, &ratio.to)?),
            (None, None) => Claimed::Point(ppm),
        })
    }
}

/// A number as a paper prints it: an integer, or a decimal as text.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Number {
    /// An integer.
    Whole(u64),
    /// A decimal such as `"70.6"`.
    Decimal(String),
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole(whole) => write!(f, "{whole}"),
            Self::Decimal(text) => f.write_str(text),
        }
    }
}

impl Number {
    /// A count; `None` if it is a decimal or too large.
    #[must_use]
    pub fn whole(&self) -> Option<i64> {
        match self {
            Self::Whole(count) => i64::try_from(*count).ok(),
            Self::Decimal(_) => None,
        }
    }

    /// In millionths; `None` if it is not a decimal of at most six digits behind the point.
    #[must_use]
    pub fn millionths(&self) -> Option<u128> {
        match self {
            Self::Whole(whole) => Some(u128::from(*whole) * 1_000_000),
            Self::Decimal(text) => {
                let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
                let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
                if whole.is_empty() || rest.len() > 6 || !digits(whole) || !digits(rest) {
                    return None;
                }
                let whole: u128 = whole.parse().ok()?;
                let rest: u128 = format!("{rest:0<6}").parse().ok()?;
                whole.checked_mul(1_000_000)?.checked_add(rest)
            }
        }
    }
}

impl Number {
    /// Half of one in the last printed digit, in millionths.
    fn half_digit(&self) -> u128 {
        let decimals = match self {
            Self::Whole(_) => 0,
            Self::Decimal(text) => text.split_once('.').map_or(0, |(_, rest)| rest.len()),
        };
        500_000 / 10_u128.pow(u32::try_from(decimals).unwrap_or(6).min(6))
    }
}

impl PaperRatio {
    /// The least and the most ratio of what is printed as these numbers, in parts per million. A
    /// 100 or 1 is the base of a share or a factor, which is exact.
    #[must_use]
    pub fn printed(&self) -> Option<(u64, u64)> {
        let (of, to) = (self.of.millionths()?, self.to.millionths()?);
        let exact = |number: u128| [1_000_000, 100_000_000].contains(&number);
        let half = |number: &Number, value| if exact(value) { 0 } else { number.half_digit() };
        let (of_half, to_half) = (half(&self.of, of), half(&self.to, to));
        let ppm = |of: u128, to: u128| {
            let ppm = of.checked_mul(1_000_000)?.checked_div(to)?;
            u64::try_from(ppm).ok()
        };
        let least = ppm(of.saturating_sub(of_half), to + to_half)?;
        Some((least, ppm(of + of_half, to.checked_sub(to_half)?)?))
    }

    /// In parts per million; `None` if a number cannot be read or the second is 0.
    #[must_use]
    pub fn ppm(&self) -> Option<u64> {
        scaled(&self.of, &self.to)
    }
}

fn scaled(of: &Number, to: &Number) -> Option<u64> {
    let (of, to) = (of.millionths()?, to.millionths()?);
    let scaled = of.checked_mul(1_000_000)?.checked_add(to / 2)?;
    u64::try_from(scaled.checked_div(to)?).ok()
}

/// A statement about a measure against its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Expect {
    /// It is lower.
    Lower,
    /// It is higher.
    Higher,
    /// It does not differ.
    Same,
}

impl Expect {
    /// The word of files and tables.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lower => "lower",
            Self::Higher => "higher",
            Self::Same => "same",
        }
    }
}

/// Where an item is here: a cell of a claim.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Here {
    /// The claim.
    pub claim: String,
    /// Its row.
    pub row: String,
    /// The variant.
    pub variant: String,
    /// The variant to which the ratio is taken; absent: the claim's base.
    pub base: Option<String>,
    /// A ratio: the item's `number` counts the claim's rows with the row's measure that lie beyond
    /// it, above one of more than 1 and below one of less.
    pub beyond: Option<Number>,
    /// With `beyond`: programs of the paper that the claim lacks. Counts of two sets of programs
    /// cannot agree; they differ by more than these.
    #[serde(default)]
    pub others: usize,
    /// Another cell, where the paper states an order: what is compared is this one over that.
    pub than: Option<Than>,
}

/// The other cell of an order; what is absent is as in the item's own.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Than {
    /// Its claim, with that claim's base; absent: the item's, with the item's base.
    pub claim: Option<String>,
    /// Its row.
    pub row: String,
    /// Its variant.
    pub variant: Option<String>,
    /// The variant to which its ratio is taken.
    pub base: Option<String>,
}

/// An item with these further lines, for the tests of this crate.
#[cfg(test)]
pub(crate) fn item(text: &str) -> Item {
    let all = format!(
        "id = \"x\"\nplace = \"Table 1\"\nkind = \"table\"\nwhat = \"w\"\nvalue = \"v\"\n{text}"
    );
    toml::from_str(&all).expect("an item")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_printed_numbers_is_rounded_to_the_nearest_millionth() {
        let ratio = |of: &str, to: &str| {
            let number = |text: &str| Number::Decimal(text.to_owned());
            let (of, to) = (number(of), number(to));
            let up_to = None;
            PaperRatio { of, up_to, to }.ppm()
        };
        assert_eq!(ratio("22", "9048"), Some(2_431));
        assert_eq!(ratio("70.6", "4.8"), Some(14_708_333));
        assert_eq!(ratio("1", "0"), None);
        assert_eq!(ratio("1e3", "1"), None);
        assert_eq!(ratio(".5", "1"), None);
    }
}
