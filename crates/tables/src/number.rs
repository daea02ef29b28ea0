// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Numbers as tools print them, made integers. No float is used: `13.63us` is 13,630 ns.

/// Most decimals that are kept; more are cut off.
const DECIMALS: usize = 9;

/// `text` times `scale`, rounded. Takes a point or a comma as the decimal sign, and nothing else
/// beside digits; `None` if it is not such a number or does not fit.
pub(crate) fn decimal(text: &str, scale: u64) -> Option<u64> {
    let (whole, part) = match text.split_once(['.', ',']) {
        Some((whole, part)) => (whole, part),
        None => (text, ""),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || whole.len() > 20 || !digits(whole) || !digits(part) {
        return None;
    }
    let part = &part[..part.len().min(DECIMALS)];
    let mut unit: u128 = 1;
    for _ in 0..part.len() {
        unit *= 10;
    }
    let whole: u128 = whole.parse().ok()?;
    let part: u128 = if part.is_empty() {
        0
    } else {
        part.parse().ok()?
    };
    let scaled = (whole * unit + part).checked_mul(u128::from(scale))?;
    u64::try_from((scaled + unit / 2) / unit).ok()
}

/// An integer, with or without marks between its thousands: `1,880`.
pub(crate) fn integer(text: &str) -> Option<u64> {
    if !text.contains([',', '\'', '\u{202f}']) {
        return text.parse().ok();
    }
    let mut groups = text.split([',', '\'', '\u{202f}']);
    let first = groups
        .next()
        .filter(|group| (1..=3).contains(&group.len()))?;
    let mut all = first.to_owned();
    for group in groups {
        if group.len() != 3 {
            return None;
        }
        all.push_str(group);
    }
    all.parse().ok()
}

/// A share in percent, as thousandths: `42.39%` is 424.
pub(crate) fn percent(text: &str) -> Option<u64> {
    decimal(text.trim_end_matches('%'), 10)
}

/// A time with its unit behind it (`us`, `ms`, `s`, `ns`), in nanoseconds.
pub(crate) fn time(text: &str) -> Option<u64> {
    let units = [
        ("ns", 1),
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
    ];
    units.iter().find_map(|(unit, scale)| {
        let number = text.strip_suffix(unit)?;
        decimal(number.trim_end(), *scale)
    })
}

/// Of `whole`, the thousandths that `part` is, rounded; 0 of nothing.
pub(crate) fn permille(part: u64, whole: u64) -> u64 {
    if whole == 0 {
        return 0;
    }
    let (part, whole) = (u128::from(part), u128::from(whole));
    u64::try_from((part * 1000 + whole / 2) / whole).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_become_integers_without_floats() {
        assert_eq!(time("13.63us"), Some(13_630));
        assert_eq!(time("366.314 ms"), Some(366_314_000));
        assert_eq!(percent("42.39%"), Some(424));
        assert_eq!(percent("0,05"), Some(1));
        assert_eq!(decimal("0.0004", 1000), Some(0));
        assert_eq!(integer("1,880"), Some(1880));
    }

    #[test]
    fn what_is_not_a_number_is_none() {
        for text in [
            "",
            ".",
            "-1",
            "1e9",
            "nan",
            "1.2.3",
            "99999999999999999999999",
        ] {
            assert_eq!(decimal(text, 10), None, "{text}");
        }
        assert_eq!(decimal("18446744073709551615", 10), None);
        assert_eq!(integer("1,88"), None);
        assert_eq!(time("3"), None);
    }

    #[test]
    fn a_share_of_nothing_is_nothing() {
        assert_eq!(permille(3, 0), 0);
        assert_eq!(permille(34_399_069_382, 150_339_069_382), 229);
    }
}
