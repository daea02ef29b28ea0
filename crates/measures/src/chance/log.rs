// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Logarithms to base 2 as integers, so that every machine gets the same digits.
//!
//! A ratio is a difference of logarithms. They are kept in units of 2^-32 (about 2.3e-10), which is
//! finer than any count that is compared here.

use super::interval::mean;

/// Fractional bits of a logarithm.
const FRACTION_BITS: u32 = 32;
/// The greatest mean whose parts per million fit.
const MEAN_MAX: u64 = 10_000_000_000_000;
/// One, in parts per million.
const MILLION: u64 = 1_000_000;

/// log2 of `value` in units of 2^-32, rounded down; `None` for 0.
pub(super) fn log2(value: u64) -> Option<i64> {
    let whole = value.checked_ilog2()?;
    // The mantissa, from 1 to 2, with 63 bits behind the point.
    let mut mantissa = value << (63 - whole);
    let mut log = i64::from(whole);
    for _ in 0..FRACTION_BITS {
        let square = (u128::from(mantissa) * u128::from(mantissa)) >> 63;
        let carry = square >> 64 != 0;
        log = (log << 1) | i64::from(carry);
        mantissa = u64::try_from(square >> u32::from(carry)).unwrap_or(u64::MAX);
        debug_assert!(mantissa >> 63 == 1, "a mantissa stays from 1 to 2");
    }
    Some(log)
}

/// 2 to the power of `log` (units of 2^-32) in parts per million, rounded down; the greatest number
/// where it is beyond it, 0 where it is below a millionth.
pub(super) fn exp2_ppm(log: i64) -> u64 {
    let wanted = log.saturating_add(log2(MILLION).unwrap_or(0));
    let (mut low, mut high) = (0u64, u64::MAX);
    // The greatest number whose logarithm is not above the wanted one.
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        match log2(middle) {
            Some(found) if found > wanted => high = middle - 1,
            _ => low = middle,
        }
    }
    low
}

/// The geometric mean of these values, to the nearest whole one up to the resolution of the
/// logarithms; `None` of no values, where one is 0, and where the mean is above 10^13.
#[must_use]
pub fn geometric_mean(values: &[u64]) -> Option<u64> {
    let logs: Option<Vec<i64>> = values.iter().map(|value| log2(*value)).collect();
    let logs = logs.filter(|logs| !logs.is_empty())?;
    let sum = logs.iter().copied().map(i128::from).sum();
    let ppm = exp2_ppm(mean(sum, logs.len()));
    (ppm / MILLION <= MEAN_MAX).then(|| (ppm + MILLION / 2) / MILLION)
}

#[cfg(test)]
mod tests {
    use super::{exp2_ppm, geometric_mean, log2};

    #[test]
    fn a_geometric_mean_halves_where_half_of_two_is_a_quarter() {
        assert_eq!(geometric_mean(&[1_000_000, 4_000_000]), Some(2_000_000));
        assert_eq!(geometric_mean(&[8, 8, 8]), Some(8));
        assert_eq!(geometric_mean(&[1, 10, 100]), Some(10));
        assert_eq!(geometric_mean(&[7]), Some(7));
    }

    #[test]
    fn nothing_and_what_has_nothing_in_it_have_no_geometric_mean() {
        assert_eq!(geometric_mean(&[]), None);
        assert_eq!(geometric_mean(&[5, 0]), None);
        assert_eq!(geometric_mean(&[u64::MAX]), None);
    }

    #[test]
    fn powers_of_two_are_exact() {
        for power in 0..64 {
            assert_eq!(log2(1 << power), Some(i64::from(power) << 32));
        }
        assert_eq!(log2(0), None);
    }

    #[test]
    fn a_logarithm_is_near_that_of_the_floating_point_library() {
        for value in [3u64, 10, 999, 1_001, 123_456_789, u64::MAX] {
            #[expect(clippy::cast_precision_loss, reason = "an oracle to ten digits")]
            let expected = (value as f64).log2();
            #[expect(clippy::cast_precision_loss, reason = "an oracle to ten digits")]
            let found = log2(value).unwrap() as f64 / 4_294_967_296.0;
            assert!((expected - found).abs() < 1e-8, "{value}: {found}");
        }
    }

    #[test]
    fn a_ratio_comes_back_from_its_logarithm() {
        for (value, base, ppm) in [
            (1u64, 1u64, 1_000_000u64),
            (11, 10, 1_100_000),
            (1, 3, 333_333),
        ] {
            let found = exp2_ppm(log2(value).unwrap() - log2(base).unwrap());
            assert!(found.abs_diff(ppm) <= 1, "{value}/{base}: {found}");
        }
        assert_eq!(exp2_ppm(i64::MAX), u64::MAX);
        assert_eq!(exp2_ppm(i64::MIN / 2), 0);
    }
}
