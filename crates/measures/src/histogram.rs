// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recorder of values with a fixed log-linear layout.
//!
//! Values below 64 have a bucket each. Above, every power of two is cut into 32 buckets of equal
//! width, so that a bucket is never wider than 1/32 of its lowest value. The layout is the same for
//! every recorder, which makes any two of them mergeable; the guest programs use it too. The number
//! of values, their sum, the least and the greatest are exact.

use crate::distribution::{Bucket, Distribution};
use crate::error::Invalid;
use crate::metric::Unit;

/// Buckets per power of two.
const SUB_BUCKETS: u64 = 32;
/// Values below this have a bucket of their own.
const EXACT_BELOW: u64 = 2 * SUB_BUCKETS;
/// log2 of `SUB_BUCKETS`.
const SUB_BITS: u32 = SUB_BUCKETS.trailing_zeros();

/// Counts values of 0 to `u64::MAX` in at most 1920 buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Counts by bucket, as long as the highest bucket used.
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    range: Option<(u64, u64)>,
}

impl Histogram {
    /// An empty recorder.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts `value` once.
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts `value` `times` times. All counts together must fit 64 bits.
    pub fn record_n(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        let index = index_of(value);
        let (low, high) = bounds_of(index);
        debug_assert!((low..=high).contains(&value), "a value lies in its bucket");
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += times;
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
        let (min, max) = self.range.unwrap_or((value, value));
        self.range = Some((min.min(value), max.max(value)));
    }

    /// How many values were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// What was recorded, under a name. The scope is that of the whole host; narrow it with
    /// [`Distribution::in_vm`] and [`Distribution::of_workload`].
    ///
    /// # Errors
    /// If the sum of all values does not fit 64 bits.
    pub fn distribution(
        &self,
        name: impl Into<String>,
        unit: Unit,
    ) -> Result<Distribution, Invalid> {
        let name = name.into();
        let sum = u64::try_from(self.sum)
            .map_err(|_| Invalid::new(format!("the sum of {name:?} does not fit 64 bits")))?;
        let (min, max) = self.range.unwrap_or((0, 0));
        let buckets = self
            .counts
            .iter()
            .enumerate()
            .filter(|&(_, &count)| count > 0)
            .map(|(index, &count)| {
                let (low, high) = bounds_of(index);
                Bucket(low, high, count)
            })
            .collect();
        Distribution::new(name, unit, self.count, sum, min, max, buckets)
    }
}

/// The bucket that holds `value`.
fn index_of(value: u64) -> usize {
    let index = if value < EXACT_BELOW {
        value
    } else {
        let shift = value.ilog2() - SUB_BITS;
        // `value >> shift` lies in SUB_BUCKETS .. 2 * SUB_BUCKETS.
        u64::from(shift) * SUB_BUCKETS + (value >> shift)
    };
    usize::try_from(index).expect("an index is below 1920")
}

/// The lowest and the highest value of a bucket; the inverse of [`index_of`].
fn bounds_of(index: usize) -> (u64, u64) {
    let index = u64::try_from(index).expect("an index is below 1920");
    if index < EXACT_BELOW {
        return (index, index);
    }
    let shift = index / SUB_BUCKETS - 1;
    let low = (index % SUB_BUCKETS + SUB_BUCKETS) << shift;
    (low, low + ((1 << shift) - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_all_of_u64_without_gap_or_overlap() {
        let last = index_of(u64::MAX);
        assert_eq!(last, 1919);
        let mut next = 0;
        for index in 0..=last {
            let (low, high) = bounds_of(index);
            assert_eq!(low, next, "bucket {index}");
            assert!(high - low <= low / SUB_BUCKETS, "bucket {index} too wide");
            assert_eq!((index_of(low), index_of(high)), (index, index));
            next = high.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last bucket ends at u64::MAX");
    }
}
