// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From values to places, in integers: floats would tie the bytes of a page to a maths library.

use super::Tenths;

/// A linear scale from 0 to `max` over `length`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Linear {
    max: u64,
    length: Tenths,
}

impl Linear {
    pub(crate) fn new(max: u64, length: Tenths) -> Self {
        debug_assert!(length >= 0, "a scale has a length");
        Self {
            max: max.max(1),
            length,
        }
    }

    /// The place of `value`, which is taken as `max` if it is larger.
    pub(crate) fn place(&self, value: u64) -> Tenths {
        let place = i128::from(self.length) * i128::from(value.min(self.max));
        i64::try_from(place / i128::from(self.max)).expect("a place is at most the length")
    }
}

/// A logarithmic scale. Values below 1 are taken as 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    low: u64,
    high: u64,
    length: Tenths,
}

impl Log {
    /// A scale that covers `min` to `max` and begins and ends at 1, 2 or 5 times a power of ten.
    pub(crate) fn covering(min: u64, max: u64, length: Tenths) -> Self {
        let steps = steps();
        let low = steps.iter().rev().find(|&&step| step <= min.max(1));
        let high = steps.iter().find(|&&step| step >= max.max(2));
        let low = low.copied().unwrap_or(1);
        let high = high.copied().unwrap_or(u64::MAX);
        // A single step would leave no room to see anything in.
        let high = if high > low {
            high
        } else {
            low.saturating_mul(2)
        };
        Self { low, high, length }
    }

    /// The place of `value`, at most that of the ends.
    pub(crate) fn place(&self, value: u64) -> Tenths {
        let base = log2(self.low);
        let span = log2(self.high) - base;
        let off = log2(value.clamp(self.low, self.high)) - base;
        i64::try_from(i128::from(self.length) * i128::from(off) / i128::from(span))
            .expect("a place is at most the length")
    }

    /// Values to mark: powers of ten, between them 2 and 5 times those if there is room of `apart`.
    pub(crate) fn ticks(&self, apart: Tenths) -> Vec<u64> {
        let inside: Vec<u64> = steps()
            .into_iter()
            .filter(|step| (self.low..=self.high).contains(step))
            .collect();
        let close = |pair: &[u64]| self.place(pair[1]) - self.place(pair[0]) < apart;
        if !inside.windows(2).any(close) {
            return inside;
        }
        let decades: Vec<u64> = inside.iter().copied().filter(|&s| is_decade(s)).collect();
        let mut thinned: Vec<u64> = Vec::new();
        for step in decades {
            let last = thinned.last().map(|&last| self.place(last));
            if last.is_none_or(|last| self.place(step) - last >= apart) {
                thinned.push(step);
            }
        }
        thinned
    }
}

/// 1, 2, 5, 10, 20, … as far as 64 bits reach.
fn steps() -> Vec<u64> {
    let decades = (0..20).map(|power| 10_u64.pow(power));
    decades
        .flat_map(|decade| [1, 2, 5].map(|factor| decade.checked_mul(factor)))
        .flatten()
        .collect()
}

fn is_decade(value: u64) -> bool {
    10_u64.pow(value.ilog10()) == value
}

/// log2 with 16 bits behind the point, rounded down: the mantissa is squared, and each time it
/// passes 2 the next bit is 1.
fn log2(value: u64) -> i64 {
    const ONE: u128 = 1 << 63;
    let whole = value.max(1).ilog2();
    let mut mantissa = u128::from(value.max(1)) << (63 - whole);
    let mut log = i64::from(whole);
    for _ in 0..16 {
        mantissa = (mantissa * mantissa) >> 63;
        log <<= 1;
        if mantissa >= 2 * ONE {
            mantissa >>= 1;
            log += 1;
        }
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        #[expect(clippy::cast_precision_loss, reason = "the float is the oracle")]
        fn log2_agrees_with_floats(value in 1_u64..) {
            let float = (value as f64).log2() * 65_536.0;
            let ours = log2(value) as f64;
            prop_assert!((ours - float).abs() <= 1.01, "{ours} is not {float}");
        }

        #[test]
        fn a_log_scale_stays_inside_and_rises(min in any::<u64>(), max in any::<u64>()) {
            let scale = Log::covering(min.min(max), min.max(max), 3_000);
            prop_assert!((0..=3_000).contains(&scale.place(min)));
            prop_assert!(scale.place(min.min(max)) <= scale.place(min.max(max)));
        }
    }

    #[test]
    fn a_log_scale_begins_and_ends_at_round_values() {
        let scale = Log::covering(21_000, 8_400_000, 3_000);
        assert_eq!((scale.low, scale.high), (20_000, 10_000_000));
        assert_eq!((scale.place(20_000), scale.place(10_000_000)), (0, 3_000));
        assert_eq!(scale.ticks(600), [100_000, 1_000_000, 10_000_000]);
        assert_eq!(scale.ticks(100).len(), 9);
    }

    #[test]
    fn one_value_alone_still_has_a_scale() {
        let scale = Log::covering(5, 5, 3_000);
        assert_eq!((scale.low, scale.high), (5, 10));
    }

    #[test]
    fn a_linear_scale_ends_at_its_length() {
        let scale = Linear::new(u64::MAX, 3_000);
        assert_eq!((scale.place(0), scale.place(u64::MAX)), (0, 3_000));
        assert_eq!(Linear::new(0, 3_000).place(0), 0);
    }
}
