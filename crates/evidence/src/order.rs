// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Orders that papers state between two rows: "reads gain more than writes".
//!
//! A cell and another are compared by what they gain, its ratio over the other's, or by their
//! values where both are of their own base. Within one race the two are paired by seed, so that the
//! interval is that of the one estimator. Two races share no chance: their interval is what the
//! ends of both allow, which is wider. Left out: races without intervals.

use std::collections::BTreeMap;

use steady_measures::chance::PairedRatio;
use steady_measures::{Better, Comparison, Metric, RunResult, Unit};

use crate::claim::{Claim, Row};
use crate::house::House;
use crate::paper::{Here, Than};
use crate::table::{self, Entry};

/// A gain is compared in parts per billion: counts of few exits are not rounded away.
const SCALE: i128 = 1_000_000_000;
/// One in parts per million.
const ONE_PPM: u128 = 1_000_000;

/// A cell of a claim: what an item or its `than` names, with all that is absent filled in.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    claim: &'a Claim,
    row: &'a Row,
    variant: &'a str,
    base: &'a str,
}

impl<'a> Place<'a> {
    fn of_item(house: &'a House, here: &'a Here) -> Option<Self> {
        let claim = house.claim(&here.claim).ok()?;
        let (row, variant) = (claim.row(&here.row)?, here.variant.as_str());
        let base = here.base.as_deref().unwrap_or(&claim.base);
        Some(Self {
            claim,
            row,
            variant,
            base,
        })
    }

    fn of_other(house: &'a House, here: &'a Here, than: &'a Than) -> Option<Self> {
        let claim = house
            .claim(than.claim.as_ref().unwrap_or(&here.claim))
            .ok()?;
        let variant = than.variant.as_ref().unwrap_or(&here.variant);
        let own = here.base.as_deref().filter(|_| than.claim.is_none());
        let base = than.base.as_deref().or(own).unwrap_or(&claim.base);
        let row = claim.row(&than.row)?;
        Some(Self {
            claim,
            row,
            variant,
            base,
        })
    }

    fn is_value(self) -> bool {
        self.variant == self.base
    }

    fn entry(self, house: &House) -> Option<Entry> {
        table::entry(house, self.claim, self.row, self.variant, Some(self.base))
    }

    /// Its value in each run of a variant, by seed.
    fn values(self, result: &RunResult, variant: &str) -> BTreeMap<u64, i64> {
        let named = result.variants.iter().find(|one| one.name == variant);
        let runs = named.into_iter().flat_map(|one| &one.repetitions);
        let workload = self.row.compared_workload();
        let is_own = |metric: &&Metric| {
            (&metric.name, &metric.vm) == (&self.row.measure, &self.row.vm)
                && metric.workload == workload
        };
        runs.filter_map(|run| Some((run.seed?, run.metrics.iter().find(is_own)?.value)))
            .collect()
    }

    /// What is compared of it, by seed: its value, or its ratio to the base.
    fn compared(self, result: &RunResult) -> BTreeMap<u64, i64> {
        let own = self.values(result, self.variant);
        if self.is_value() {
            return own;
        }
        let bases = self.values(result, self.base);
        let ratio = |(seed, value): (u64, i64)| {
            let base = bases.get(&seed)?;
            let scaled = (i128::from(value) * SCALE).checked_div(i128::from(*base))?;
            Some((seed, i64::try_from(scaled).ok()?))
        };
        own.into_iter().filter_map(ratio).collect()
    }
}

/// What is wrong with the other cell of an order; its claim, row and variants among it.
pub(crate) fn check(house: &House, here: &Here, than: &Than) -> Vec<String> {
    let mut wrong = Vec::new();
    let claim = match house.claim(than.claim.as_ref().unwrap_or(&here.claim)) {
        Ok(claim) => claim,
        Err(error) => return vec![error.to_string()],
    };
    if claim.row(&than.row).is_none() {
        wrong.push(format!("claim `{}` has no row `{}`", claim.id, than.row));
    }
    let variant = than.variant.as_ref().unwrap_or(&here.variant);
    for name in std::iter::once(variant).chain(&than.base) {
        if !claim.all_variants().any(|known| known == name) {
            wrong.push(format!("claim `{}` has no variant `{name}`", claim.id));
        }
    }
    let places = (
        Place::of_item(house, here),
        Place::of_other(house, here, than),
    );
    if let (Some(one), Some(other)) = places {
        if one.is_value() != other.is_value() {
            wrong.push("`than` compares a value with a ratio; expected two of one kind".to_owned());
        } else if one.is_value() && one.claim.race() != other.claim.race() {
            wrong.push("`than` compares values of two races; expected one race".to_owned());
        }
        let units = (one.entry(house), other.entry(house));
        if let (true, (Some(one), Some(other))) = (one.is_value(), units)
            && one.unit != other.unit
        {
            wrong.push("`than` compares values of two units".to_owned());
        }
    }
    wrong
}

/// The item's cell over the other; `None` where one is not recorded, or they share no run.
pub(crate) fn order(house: &House, here: &Here) -> Option<PairedRatio> {
    let than = here.than.as_ref()?;
    let one = Place::of_item(house, here)?;
    let other = Place::of_other(house, here, than)?;
    if one.claim.race() != other.claim.race() {
        let of = |place: Place<'_>| place.entry(house)?.cell.ratio;
        return Some(apart(of(one)?, of(other)?));
    }
    let mut result = house.record(one.claim)?.result.clone();
    one.claim.add_derived(&mut result);
    if one.claim.id != other.claim.id {
        other.claim.add_derived(&mut result);
    }
    paired(&result, one, other)
}

/// The ratio of two cells that are paired by seed, by the estimator of every comparison.
fn paired(result: &RunResult, one: Place<'_>, other: Place<'_>) -> Option<PairedRatio> {
    let mut pair = result.clone();
    let any = result.variants.first()?;
    let variant = |name: &str, place: Place<'_>| {
        let mut variant = any.clone();
        name.clone_into(&mut variant.name);
        // Runs that differ in a value are several, though what is compared of them be equal.
        let of = [
            ("compared", place.compared(result)),
            ("value", place.values(result, place.variant)),
        ];
        for run in &mut variant.repetitions {
            let found = of.iter().filter_map(|(name, values)| {
                let value = *values.get(&run.seed?)?;
                Some(Metric::new(*name, Unit::Count, Better::Lower, value))
            });
            run.metrics = found.collect();
        }
        variant
    };
    pair.variants = vec![variant("other", other), variant("one", one)];
    let comparison = Comparison::new(&pair, Some("other")).ok()?;
    let mut rows = comparison.rows.iter();
    rows.find(|row| row.key.name == "compared")?.cells[1]?.ratio
}

/// What the ends of two intervals allow of one ratio over the other.
fn apart(one: PairedRatio, other: PairedRatio) -> PairedRatio {
    let over = |a: u64, b: u64| {
        let ppm = (u128::from(a) * ONE_PPM).checked_div(u128::from(b))?;
        u64::try_from(ppm).ok()
    };
    let ends = |a: Option<u64>, b: Option<u64>| over(a?, b?);
    PairedRatio {
        ratio_ppm: over(one.ratio_ppm, other.ratio_ppm).unwrap_or(u64::MAX),
        low_ppm: ends(one.low_ppm, other.high_ppm),
        high_ppm: ends(one.high_ppm, other.low_ppm),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_races_have_the_interval_that_the_ends_of_both_allow() {
        let ratio = |low, middle, high| PairedRatio {
            ratio_ppm: middle,
            low_ppm: Some(low),
            high_ppm: Some(high),
        };
        let found = apart(
            ratio(900_000, 920_000, 940_000),
            ratio(400_000, 460_000, 500_000),
        );
        assert_eq!(found, ratio(1_800_000, 2_000_000, 2_350_000));
    }
}
