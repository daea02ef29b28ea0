// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many values in a few numbers.

use serde::{Deserialize, Serialize};
use steady_measures::{Histogram, Unit};

/// How many values there were, and how they are spread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// How many; the other fields are 0 if none.
    pub count: u64,
    /// Their sum.
    pub total: u64,
    /// The least.
    pub min: u64,
    /// Their mean, rounded.
    pub mean: u64,
    /// Half are at most this; like `p99` the upper end of a bucket at most 1/32 wide.
    pub p50: u64,
    /// 99 % are at most this.
    pub p99: u64,
    /// The greatest.
    pub max: u64,
    /// `[low, high, count]`, ascending; empty buckets are left out.
    pub buckets: Vec<[u64; 3]>,
}

impl From<&Histogram> for Spread {
    fn from(histogram: &Histogram) -> Self {
        // A sum beyond 64 bits takes 584 years of nanoseconds; such a trace has no spread.
        let Ok(values) = histogram.distribution("values", Unit::Count) else {
            return Self::default();
        };
        let (Some(min), Some(max)) = (values.min(), values.max()) else {
            return Self::default();
        };
        assert!(min <= max, "the least is not above the greatest");
        Self {
            count: values.count(),
            total: values.sum(),
            min,
            mean: values.mean().unwrap_or(0),
            p50: values.quantile(500_000).unwrap_or(0),
            p99: values.quantile(990_000).unwrap_or(0),
            max,
            buckets: values
                .buckets()
                .iter()
                .map(|bucket| [bucket.0, bucket.1, bucket.2])
                .collect(),
        }
    }
}

/// The sum of times. Those of a damaged trace may be anything, and then stop at the greatest
/// number.
pub fn total(times_ns: impl IntoIterator<Item = u64>) -> u64 {
    times_ns.into_iter().fold(0, u64::saturating_add)
}

/// Adds a time to others as [`total`] does.
pub fn add(to_ns: &mut u64, time_ns: u64) {
    *to_ns = to_ns.saturating_add(time_ns);
}

/// Adds the values of `other` to `into`, bucket by bucket; both must have the layout of
/// `Histogram`.
pub fn merge(into: &mut Spread, other: &Spread) {
    if other.count == 0 {
        return;
    }
    if into.count == 0 {
        *into = other.clone();
        return;
    }
    into.min = into.min.min(other.min);
    into.max = into.max.max(other.max);
    into.count += other.count;
    into.total = into.total.saturating_add(other.total);
    into.mean = total([into.total, into.count / 2]) / into.count;
    let mut buckets = std::collections::BTreeMap::new();
    for &[low, high, count] in into.buckets.iter().chain(&other.buckets) {
        buckets
            .entry((low, high))
            .and_modify(|n| *n += count)
            .or_insert(count);
    }
    into.buckets = buckets
        .into_iter()
        .map(|((low, high), count)| [low, high, count])
        .collect();
    into.p50 = into.quantile(500);
    into.p99 = into.quantile(990);
}

impl Spread {
    /// The least value that `permille` of all values do not exceed, as far as buckets show.
    #[must_use]
    pub fn quantile(&self, permille: u64) -> u64 {
        let wanted = (u128::from(self.count) * u128::from(permille)).div_ceil(1000);
        let mut seen = 0_u128;
        for &[_, high, count] in &self.buckets {
            seen += u128::from(count);
            if seen >= wanted {
                return high.clamp(self.min, self.max);
            }
        }
        self.max
    }
}

/// Of two reasons with their times the one with more is left, by the difference: one that has more
/// than half of all time is left at the end.
pub fn heavier<T: PartialEq>(known: Option<(T, u64)>, new: (T, u64)) -> (T, u64) {
    let Some((reason, ns)) = known else {
        return new;
    };
    match new {
        (same, more) if same == reason => (reason, ns.saturating_add(more)),
        (_, more) if more <= ns => (reason, ns - more),
        (other, more) => (other, more - ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(values: &[u64]) -> Spread {
        let mut histogram = Histogram::new();
        values.iter().for_each(|&value| histogram.record(value));
        Spread::from(&histogram)
    }

    #[test]
    fn merging_two_halves_gives_the_spread_of_all() {
        let values = [5, 9, 1000, 77_000, 3, 3, 12];
        let mut merged = spread(&values[..3]);
        merge(&mut merged, &spread(&values[3..]));
        assert_eq!(merged, spread(&values));
    }

    #[test]
    fn nothing_has_a_spread_of_zeros() {
        assert_eq!(spread(&[]), Spread::default());
    }
}
