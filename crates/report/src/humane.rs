// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers as people read them: three significant digits, a unit that fits.

use steady_measures::chance::PairedRatio;
use steady_measures::{Clock, Unit};

/// Divisors and the unit that each gives, ascending.
type Steps = &'static [(u64, &'static str)];

const TIME: Steps = &[
    (1, " ns"),
    (1_000, " µs"),
    (1_000_000, " ms"),
    (1_000_000_000, " s"),
];
const BYTES: Steps = &[
    (1, " B"),
    (1 << 10, " KiB"),
    (1 << 20, " MiB"),
    (1 << 30, " GiB"),
];
const BYTES_PER_SECOND: Steps = &[
    (1, " B/s"),
    (1_000, " kB/s"),
    (1_000_000, " MB/s"),
    (1_000_000_000, " GB/s"),
];
/// Of operations per 1000 seconds.
const RATE: Steps = &[(1_000, " /s"), (1_000_000, " k/s"), (1_000_000_000, " M/s")];
const LARGE: Steps = &[
    (1_000, " k"),
    (1_000_000, " M"),
    (1_000_000_000, " G"),
    (1_000_000_000_000, " T"),
];
/// Counts below this are written out.
const WRITTEN_OUT_BELOW: u64 = 10_000;

/// A value in the unit that gives it one to three digits before the point: `48.1 µs`, `1,204`,
/// `12.3 k`, `40.0 k/s`, `3.70 %`.
#[must_use]
pub fn quantity(unit: Unit, value: i64) -> String {
    let sign = if value < 0 { "−" } else { "" };
    format!("{sign}{}", positive(unit, value.unsigned_abs()))
}

/// The same of a value that cannot be negative.
#[must_use]
pub fn positive(unit: Unit, value: u64) -> String {
    match unit {
        Unit::Ns => scaled(value, TIME),
        Unit::Bytes => scaled(value, BYTES),
        Unit::BytesPerSecond => scaled(value, BYTES_PER_SECOND),
        Unit::OpsPerKs => scaled(value, RATE),
        Unit::Ppm if value > 0 && value < 100 => format!("{value} ppm"),
        Unit::Ppm => scaled(value, &[(10_000, " %")]),
        Unit::InstructionsPerMcycle if (1..10_000).contains(&value) => {
            scaled(value, &[(1_000, " per k cycles")])
        }
        Unit::InstructionsPerMcycle => scaled(value, &[(1_000_000, " per cycle")]),
        Unit::Cycles => large(value) + " cycles",
        Unit::Instructions => large(value) + " instructions",
        _ => large(value),
    }
}

/// The value with all its digits and the unit of the result file: `48,120 ns`.
#[must_use]
pub fn exact(unit: Unit, value: i64) -> String {
    let sign = if value < 0 { "−" } else { "" };
    let digits = grouped(value.unsigned_abs());
    match unit {
        Unit::Count => format!("{sign}{digits}"),
        _ => format!("{sign}{digits} {unit}"),
    }
}

/// The one ratio of a comparison with its 95 % interval where there is one:
/// `×0.0135 [0.0067 to 0.059]`, `×1.05`. Rounding keeps the order, so that what lies inside an
/// interval is printed inside it. One that leaves 1 out has a decimal more near 1, where it would
/// seem to end: `×0.98 [0.97 to 0.997]`.
#[must_use]
pub fn ratio(ratio: PairedRatio) -> String {
    match (ratio.low_ppm, ratio.high_ppm) {
        (Some(low), Some(high)) => {
            let leaves_one_out = low > 1_000_000 || high < 1_000_000;
            let number = if leaves_one_out { beside_one } else { factor };
            let middle = number(ratio.ratio_ppm);
            format!("×{middle} [{} to {}]", number(low), number(high))
        }
        _ => format!("×{}", factor(ratio.ratio_ppm)),
    }
}

/// As [`factor`], but with three decimals where it would print 1.
fn beside_one(ppm: u64) -> String {
    match ppm {
        995_000..999_500 | 1_000_500..1_005_000 => {
            let thousandths = rounded(ppm, 1_000, 1);
            format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000)
        }
        _ => factor(ppm),
    }
}

/// A factor in parts per million, with three digits and four decimals at most: `0.0135`,
/// `0.59`, `12.4`, `181`, `<0.0001`.
#[must_use]
pub fn factor(ppm: u64) -> String {
    match ppm {
        0 => "0".to_owned(),
        1..50 => "<0.0001".to_owned(),
        50..99_950 => format!("0.{:04}", rounded(ppm, 100, 1)),
        _ if ppm < 999_500_000 => digits(ppm, 1_000_000),
        _ => grouped(u64::try_from(rounded(ppm, 1_000_000, 1)).unwrap_or(u64::MAX)),
    }
}

/// An engine's clock in words.
#[must_use]
pub fn clock(clock: Clock) -> String {
    match clock {
        Clock::Wall => "wall clock".to_owned(),
        Clock::Simulated => "simulated time".to_owned(),
        Clock::Instructions { per_second } => {
            format!("one second is {} instructions", large(per_second))
        }
    }
}

/// A wall time of a phase: `9.20 s`, `850 ms`.
#[must_use]
pub fn milliseconds(ms: u64) -> String {
    scaled(ms, &[(1, " ms"), (1_000, " s")])
}

/// With commas between groups of three digits.
#[must_use]
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn large(value: u64) -> String {
    if value < WRITTEN_OUT_BELOW {
        grouped(value)
    } else {
        scaled(value, LARGE)
    }
}

/// The smallest step in which the value, rounded, stays below 1000.
fn scaled(value: u64, steps: Steps) -> String {
    let fits = |&&(divisor, _): &&(u64, &str)| rounded(value, divisor, 1) < 1_000;
    let &(divisor, unit) = steps
        .iter()
        .find(fits)
        .or(steps.last())
        .expect("steps are not empty");
    let number = if divisor == 1 || value == 0 {
        value.to_string()
    } else {
        digits(value, divisor)
    };
    number + unit
}

/// `value / divisor` with three significant digits, two decimals at most.
fn digits(value: u64, divisor: u64) -> String {
    let hundredths = rounded(value, divisor, 100);
    let tenths = rounded(value, divisor, 10);
    if hundredths < 1_000 {
        format!("{}.{:02}", hundredths / 100, hundredths % 100)
    } else if tenths < 1_000 {
        format!("{}.{}", tenths / 10, tenths % 10)
    } else {
        rounded(value, divisor, 1).to_string()
    }
}

/// `value * scale / divisor`, halves up.
fn rounded(value: u64, divisor: u64, scale: u64) -> u128 {
    let (value, divisor) = (u128::from(value), u128::from(divisor));
    (value * u128::from(scale) + divisor / 2) / divisor
}

#[cfg(test)]
mod tests {
    use proptest::array::uniform3;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_have_three_digits_and_a_unit_that_fits() {
        let cases = [
            (Unit::Ns, 0, "0 ns"),
            (Unit::Ns, 999, "999 ns"),
            (Unit::Ns, 48_149, "48.1 µs"),
            (Unit::Ns, 999_499, "999 µs"),
            (Unit::Ns, 999_500, "1.00 ms"),
            (Unit::Ns, 7_200_000_000_000, "7200 s"),
            (Unit::Ns, -1_500, "−1.50 µs"),
            (Unit::Count, 9_999, "9,999"),
            (Unit::Count, 12_345, "12.3 k"),
            (Unit::Bytes, 1_023, "1.00 KiB"),
            (Unit::Bytes, 1_048_576, "1.00 MiB"),
            (Unit::Ppm, 37_000, "3.70 %"),
            (Unit::Ppm, 12, "12 ppm"),
            (Unit::Ppm, 0, "0 %"),
            (Unit::InstructionsPerMcycle, 948_300, "0.95 per cycle"),
            (Unit::InstructionsPerMcycle, 8_700, "8.70 per k cycles"),
            (Unit::InstructionsPerMcycle, 0, "0 per cycle"),
            (Unit::OpsPerKs, 123, "0.12 /s"),
            (Unit::OpsPerKs, 40_000_000, "40.0 k/s"),
            (Unit::Cycles, 1_204, "1,204 cycles"),
        ];
        for (unit, value, expected) in cases {
            assert_eq!(quantity(unit, value), expected, "{value} {unit}");
        }
    }

    #[test]
    fn factors_keep_two_to_three_digits() {
        let cases = [
            (0, "0"),
            (49, "<0.0001"),
            (12_345, "0.0123"),
            (99_949, "0.0999"),
            (99_950, "0.10"),
            (585_900, "0.59"),
            (1_000_000, "1.00"),
            (9_996_000, "10.0"),
            (12_360_000, "12.4"),
            (180_500_000, "181"),
            (1_234_500_000, "1,235"),
        ];
        for (ppm, expected) in cases {
            assert_eq!(factor(ppm), expected, "{ppm}");
        }
    }

    fn of(low_ppm: u64, ratio_ppm: u64, high_ppm: u64) -> PairedRatio {
        PairedRatio {
            ratio_ppm,
            low_ppm: Some(low_ppm),
            high_ppm: Some(high_ppm),
        }
    }

    #[test]
    fn an_interval_that_leaves_1_out_is_not_printed_with_1_as_its_end() {
        let cases = [
            ((970_000, 983_000, 996_600), "×0.98 [0.97 to 0.997]"),
            ((994_999, 995_000, 999_499), "×0.995 [0.99 to 0.999]"),
            ((1_000_500, 1_004_999, 1_005_000), "×1.005 [1.001 to 1.01]"),
            ((970_000, 996_000, 1_004_000), "×1.00 [0.97 to 1.00]"),
            ((999_000, 1_000_000, 1_000_000), "×1.00 [1.00 to 1.00]"),
        ];
        for ((low, middle, high), expected) in cases {
            assert_eq!(ratio(of(low, middle, high)), expected);
        }
    }

    proptest! {
        #[test]
        fn a_printed_ratio_lies_inside_its_printed_interval(
            mut ends in prop_oneof![any::<[u32; 3]>(), uniform3(990_000_u32..1_010_000)],
        ) {
            ends.sort_unstable();
            let [low, middle, high] = ends.map(u64::from);
            let text = ratio(of(low, middle, high)).replace("<0.0001", "0.00005").replace(',', "");
            let numbers: Vec<f64> = text
                .split(|mark: char| !mark.is_ascii_digit() && mark != '.')
                .filter(|part| !part.is_empty())
                .map(|part| part.parse().expect("a number"))
                .collect();
            prop_assert!(numbers[1] <= numbers[0] && numbers[0] <= numbers[2], "{text}");
        }
    }

    #[test]
    fn exact_numbers_are_grouped() {
        assert_eq!(exact(Unit::Ns, 1_048_120), "1,048,120 ns");
        assert_eq!(exact(Unit::Count, -12), "−12");
    }
}
