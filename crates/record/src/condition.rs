// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the flight recorder waits for, as the user writes it.

use std::str::FromStr;

use crate::error::RecordError;

/// Shortest bound: waits below it are the scheduler's ordinary slices.
const LEAST_NS: u64 = 10_000_000;
/// Longest bound.
const MOST_NS: u64 = 60_000_000_000;

/// A vCPU that is ready and does not run for at least this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// Bound on one wait, in nanoseconds; 10 ms to 60 s.
    pub wait_ns: u64,
}

impl FromStr for Condition {
    type Err = RecordError;

    fn from_str(text: &str) -> Result<Self, RecordError> {
        let wrong = || RecordError::Condition(text.to_owned());
        let words: Vec<&str> = text.split_whitespace().collect();
        let length = match words.as_slice() {
            [who, what, length @ ..] if who.eq_ignore_ascii_case("vcpu") && *what == "waits" => {
                length.concat()
            }
            _ => return Err(wrong()),
        };
        let digits = length.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &length[digits.len()..] {
            "s" => 1_000_000_000,
            "ms" => 1_000_000,
            "us" => 1_000,
            _ => return Err(wrong()),
        };
        let count: u64 = digits.parse().map_err(|_| wrong())?;
        let wait_ns = count.checked_mul(unit).ok_or_else(wrong)?;
        if !(LEAST_NS..=MOST_NS).contains(&wait_ns) {
            return Err(wrong());
        }
        Ok(Self { wait_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_read_with_and_without_a_blank_before_its_unit() {
        for (text, wait_ns) in [
            ("vCPU waits 100 ms", Some(100_000_000)),
            ("vcpu waits 2s", Some(2_000_000_000)),
            ("vCPU waits 20000 us", Some(20_000_000)),
            ("vCPU waits 9 ms", None),
            ("vCPU waits 61 s", None),
            ("vCPU waits 99999999999999999999 s", None),
            ("vCPU waits", None),
            ("vCPU waits long", None),
            ("a vCPU waits 100 ms", None),
            ("", None),
        ] {
            let read = text.parse::<Condition>().ok().map(|it| it.wait_ns);
            assert_eq!(read, wait_ns, "{text}");
        }
    }
}
