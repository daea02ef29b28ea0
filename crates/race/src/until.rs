// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Going on until the race says enough: further repetitions until the intervals of the named
//! measures are narrow, or the time is over.
//!
//! A race ends by the width of its intervals alone, never by what they say, so it stops no sooner
//! where chance favours one variant. Left out: a width for measures without a ratio (a value below
//! 1 in some run), which are not waited for.

use std::time::Duration;

use steady_measures::chance::{Family, PairedRatio};
use steady_measures::{Comparison, RunResult};

use crate::error::Reason;

/// Parts per million in one.
const MILLION: u64 = 1_000_000;

/// When a race has said enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Until {
    /// Both ends of each interval must be this near to its ratio, in parts per million of it.
    pub within_ppm: u64,
    /// Names of the measures whose intervals count; those that answer if empty.
    pub measures: Vec<String>,
    /// Most repetitions.
    pub most: u32,
    /// No further repetition begins this long after the first run began.
    pub budget: Option<Duration>,
}

/// How far the widest interval is from what was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Widest {
    /// Which measure of which variant.
    pub what: String,
    /// Its further end's distance, in parts per million of the ratio; `None`: no interval yet.
    pub within_ppm: Option<u64>,
}

impl Widest {
    /// As the result says it.
    pub fn words(&self) -> String {
        match self.within_ppm {
            Some(ppm) => format!(
                "{} within {}.{} %",
                self.what,
                ppm / 10_000,
                ppm / 1_000 % 10
            ),
            None => format!("{} without an interval", self.what),
        }
    }
}

impl Until {
    /// The widest interval of those that count.
    ///
    /// # Errors
    /// [`Reason::Measure`] if nothing of that name was measured in two variants.
    pub(crate) fn widest(&self, result: &RunResult) -> Result<Widest, Reason> {
        let comparison =
            Comparison::new(result, None).map_err(|error| Reason::Unsound(error.to_string()))?;
        let mut widest: Option<Widest> = None;
        let mut named: Vec<&str> = Vec::new();
        for row in &comparison.rows {
            for (at, cell) in row.cells.iter().enumerate() {
                let Some(judgement) = cell.and_then(|cell| cell.judgement) else {
                    continue;
                };
                let name = row.key.name.as_str();
                named.push(name);
                let counts = if self.measures.is_empty() {
                    judgement.family == Family::Answer
                } else {
                    self.measures.iter().any(|wanted| wanted == name)
                };
                let Some(ratio) = judgement.ratio.filter(|_| counts) else {
                    continue;
                };
                let scope = [
                    row.key.vm.as_deref(),
                    row.key.workload.as_deref(),
                    Some(name),
                ];
                let scope: Vec<&str> = scope.into_iter().flatten().collect();
                let found = Widest {
                    what: format!("{} of {}", scope.join(" "), result.variants[at].name),
                    within_ppm: within_ppm(&ratio),
                };
                if widest.as_ref().is_none_or(|most| wider(&found, most)) {
                    widest = Some(found);
                }
            }
        }
        self.known(&named)?;
        widest.ok_or_else(|| Reason::Measure {
            what: "no measure of this race has a ratio of two variants".to_owned(),
        })
    }

    /// Every name that was given is one of a measure.
    fn known(&self, named: &[&str]) -> Result<(), Reason> {
        let unknown = |wanted: &&String| !named.contains(&wanted.as_str());
        let Some(name) = self.measures.iter().find(unknown) else {
            return Ok(());
        };
        let mut known: Vec<&str> = named.to_vec();
        known.sort_unstable();
        known.dedup();
        Err(Reason::Measure {
            what: format!(
                "no two variants have a measure `{name}`; they have: {}",
                known.join(", ")
            ),
        })
    }

    /// Whether this is narrow enough.
    pub(crate) fn is_met(&self, widest: &Widest) -> bool {
        widest.within_ppm.is_some_and(|ppm| ppm <= self.within_ppm)
    }
}

fn wider(one: &Widest, other: &Widest) -> bool {
    match (one.within_ppm, other.within_ppm) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(one), Some(other)) => one > other,
    }
}

/// The further end's distance from the ratio, in parts per million of the ratio, rounded up.
fn within_ppm(ratio: &PairedRatio) -> Option<u64> {
    let (low, high) = (ratio.low_ppm?, ratio.high_ppm?);
    assert!(low <= high, "an interval's ends are in order");
    let middle = ratio.ratio_ppm.max(1);
    let distance = high.abs_diff(middle).max(middle.abs_diff(low));
    let scaled = u128::from(distance) * u128::from(MILLION);
    Some(u64::try_from(scaled.div_ceil(u128::from(middle))).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_width_is_the_further_ends_distance_as_a_share_of_the_ratio() {
        let ratio = |low, middle, high| PairedRatio {
            ratio_ppm: middle,
            low_ppm: Some(low),
            high_ppm: Some(high),
        };
        assert_eq!(
            within_ppm(&ratio(950_000, 1_000_000, 1_030_000)),
            Some(50_000)
        );
        assert_eq!(
            within_ppm(&ratio(1_980_000, 2_000_000, 2_060_000)),
            Some(30_000)
        );
    }

    #[test]
    fn a_measure_without_an_interval_is_wider_than_any_with_one() {
        let of = |within_ppm| Widest {
            what: String::new(),
            within_ppm,
        };
        assert!(wider(&of(None), &of(Some(u64::MAX))));
        assert!(!wider(&of(Some(1)), &of(None)));
        assert!(wider(&of(Some(2)), &of(Some(1))));
    }
}
