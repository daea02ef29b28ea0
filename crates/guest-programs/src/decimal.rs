// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decimals as programs print them, read into integers digit by digit.
//!
//! No float comes in between, so that the same text gives the same number everywhere.

/// `text` times 10^`scale`, rounded to the nearest integer, halves up; `None` if it is not a
/// non-negative decimal such as `12`, `0.040` or `1.2e-05`, or does not fit.
pub(crate) fn scaled(text: &str, scale: i32) -> Option<i64> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (mantissa, ""),
    };
    let digits_only = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits_only(whole) || !digits_only(fraction) {
        return None;
    }
    // The value is 0.WHOLEFRACTION × 10^point; the first `point` digits are the integer.
    let point = i64::from(scale)
        .checked_add(i64::from(exponent))?
        .checked_add(i64::try_from(whole.len()).ok()?)?;
    let mut value: i64 = 0;
    let mut digits = whole.bytes().chain(fraction.bytes());
    if point < 0 {
        return Some(0);
    }
    for _ in 0..point {
        let digit = digits.next();
        // Zeros behind the last digit of a zero would otherwise run for ever.
        if digit.is_none() && value == 0 {
            break;
        }
        let digit = i64::from(digit.unwrap_or(b'0') - b'0');
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    if digits.next().is_some_and(|digit| digit >= b'5') {
        value = value.checked_add(1)?;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::scaled;
    use proptest::prelude::*;

    #[test]
    fn decimals_are_scaled_and_rounded_halves_up() {
        for (text, scale, expected) in [
            ("0.040", 9, 40_000_000),
            ("923.034", 6, 923_034_000),
            ("0.49", 6, 490_000),
            ("1.2e-05", 9, 12_000),
            ("1.03e+06", 0, 1_030_000),
            ("0.4999", 0, 0),
            ("0.5", 0, 1),
            ("99.95", 1, 1000),
            ("7", -1, 1),
            ("44", -2, 0),
            ("0", 9, 0),
            ("0.00", 30, 0),
            ("9223372036854775807", 0, i64::MAX),
        ] {
            assert_eq!(scaled(text, scale), Some(expected), "{text} × 10^{scale}");
        }
    }

    #[test]
    fn what_is_no_decimal_or_does_not_fit_is_refused() {
        for text in [
            "", ".", "1.", ".5", "-1", "+1", "1 ", "nan", "inf", "0x1", "1,5", "1e", "e5",
        ] {
            assert_eq!(scaled(text, 0), None, "{text:?}");
        }
        assert_eq!(scaled("9223372036854775808", 0), None);
        assert_eq!(scaled("1", 19), None);
        assert_eq!(scaled("1e2147483647", 2_147_483_647), None);
    }

    proptest! {
        #[test]
        fn whole_part_and_fraction_come_back_exactly(
            whole in 0_i64..1_000_000,
            micro in 0_i64..1_000_000,
        ) {
            let text = format!("{whole}.{micro:06}");
            prop_assert_eq!(scaled(&text, 6), Some(whole * 1_000_000 + micro));
        }

        #[test]
        fn no_text_panics(text in "[0-9eE.+-]{0,40}", scale in any::<i32>()) {
            let _ = scaled(&text, scale);
        }
    }
}
