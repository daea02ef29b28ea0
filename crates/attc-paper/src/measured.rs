// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A number over several seeds: its mean, and the interval that holds it.

use crate::runs::WorkloadResults;

/// Results by seed, each of every workload.
pub(crate) type Seeds = [Vec<WorkloadResults>];

/// A number with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Measured {
    /// Mean over seeds, basis points (1/100 %) unless a title says otherwise.
    pub bp: i64,
    /// Half the width of the 95 % interval of the mean (Student's t); none from one seed.
    pub interval_bp: Option<i64>,
}

/// Thousandths of Student's t, 97.5 %, for one degree of freedom and on.
const T_975: [u128; 9] = [
    12_706, 4_303, 3_182, 2_776, 2_571, 2_447, 2_365, 2_306, 2_262,
];

impl Measured {
    /// The mean of one value for each seed.
    pub(crate) fn of(values: &[i64]) -> Self {
        assert!(!values.is_empty(), "there is a seed");
        let count = i64::try_from(values.len()).unwrap_or(i64::MAX);
        let sum: i64 = values.iter().sum();
        Self {
            bp: (sum + sum.signum() * count / 2) / count,
            interval_bp: half_width(values, sum, count),
        }
    }
}

/// t * s / sqrt(n), rounded up.
fn half_width(values: &[i64], sum: i64, count: i64) -> Option<i64> {
    let n = u128::try_from(count).ok().filter(|&n| n > 1)?;
    // Deviations times n are whole numbers.
    let squares = values.iter().map(|value| {
        let deviation = u128::from((value * count - sum).unsigned_abs());
        deviation * deviation
    });
    let sum_of_squares: u128 = squares.sum();
    let t = T_975[(values.len() - 2).min(T_975.len() - 1)];
    // s^2 / n = sum / n^2 / (n - 1) / n, and t is in thousandths.
    let square = (sum_of_squares * t * t).div_ceil(n * n * n * (n - 1) * 1_000_000);
    let root = square.isqrt();
    let half = root + u128::from(root * root < square);
    Some(i64::try_from(half).unwrap_or(i64::MAX))
}

/// Basis points as a percentage with one decimal.
#[must_use]
pub(crate) fn percent(bp: i64) -> String {
    let tenths = (bp.abs() + 5) / 10;
    let sign = if bp < 0 && tenths > 0 { "-" } else { "" };
    format!("{sign}{}.{} %", tenths / 10, tenths % 10)
}

/// A number with its interval as text.
#[must_use]
pub(crate) fn with_interval(number: Measured) -> String {
    let half = number.interval_bp.map_or_else(String::new, |half| {
        let tenths = (half + 9) / 10;
        format!(" +-{}.{}", tenths / 10, tenths % 10)
    });
    let shown = percent(number.bp);
    format!("{}{half} %", shown.trim_end_matches(" %"))
}

#[cfg(test)]
mod tests {
    use super::{Measured, percent, with_interval};

    #[test]
    fn percentages_round_to_tenths_and_keep_their_sign() {
        assert_eq!(percent(3_574), "35.7 %");
        assert_eq!(percent(-46), "-0.5 %");
        assert_eq!(percent(-4), "0.0 %");
        // Half a width is rounded up.
        let spread = Measured {
            bp: 3_574,
            interval_bp: Some(41),
        };
        assert_eq!(with_interval(spread), "35.7 +-0.5 %");
    }

    #[test]
    fn five_values_have_the_interval_that_a_table_of_student_s_t_gives() {
        // Mean 30, s = sqrt(250) = 15.81; 2.776 * 15.81 / sqrt(5) = 19.63.
        let found = Measured::of(&[10, 20, 30, 40, 50]);
        assert_eq!((found.bp, found.interval_bp), (30, Some(20)));
        // Two values a and b: 12.706 * |a - b| / 2.
        assert_eq!(Measured::of(&[-4, 4]).interval_bp, Some(51));
    }

    #[test]
    fn one_value_has_no_interval_and_equal_ones_have_an_empty_one() {
        assert_eq!(Measured::of(&[7]).interval_bp, None);
        let equal = Measured::of(&[-7; 3]);
        assert_eq!((equal.bp, equal.interval_bp), (-7, Some(0)));
    }
}
