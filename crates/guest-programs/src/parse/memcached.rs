// SPDX-License-Identifier: Apache-2.0 OR MIT
//! memcslap: `memcached.operations` (keys), `memcached.time` (ns; printed to 1 ms) and
//! `throughput`, the first over the second; of the test that `-t` names. It ends with exit code 0
//! whatever happens, so each key that it asked for must have been answered.

use steady_measures::{Unit, names};

use super::{Draft, S_TO_NS, ratio};
use crate::error::ParseError;
use crate::output::Output;

/// Examples of its lines.
const KEYS: &str = "Time to generate       1000 test keys:                0.011 seconds.";
const DONE: &str = "Time to get            4000 keys by    4 threads:     0.288 seconds.";
/// The tests that it has; it takes another word for `get`.
const TESTS: [&str; 3] = ["get", "mget", "set"];

pub(super) fn parse(draft: &mut Draft, output: &Output<'_>) -> Result<(), ParseError> {
    let (line, keys) = draft.line(output, KEYS, |line| match words(line)[..] {
        ["generate", keys, "test", "keys:", _, _] => Some(keys),
        _ => None,
    })?;
    let keys = draft.number(line, keys, 0)?;
    let (line, [done, threads, time]) = draft.line(output, DONE, |line| match words(line)[..] {
        [test, done, "keys", "by", threads, "threads:", time, _] if TESTS.contains(&test) => {
            Some([done, threads, time])
        }
        _ => None,
    })?;
    let done = draft.number(line, done, 0)?;
    let asked = keys.saturating_mul(draft.number(line, threads, 0)?);
    if done != asked || done == 0 {
        let expected = format!("an answer for each of {asked} keys, and at least one");
        return Err(ParseError::unexpected(&draft.program, line, expected));
    }
    let time_ns = draft.number(line, time, S_TO_NS)?;
    // One operation a nanosecond is 10^12 in 1000 s.
    let rate = ratio(done, 1_000_000_000_000, time_ns).ok_or_else(|| {
        let expected = "a run of at least 1 ms: more keys, by `-e`";
        ParseError::unexpected(&draft.program, line, expected)
    })?;
    draft.neutral("memcached.operations", Unit::Count, done)?;
    draft.lower("memcached.time", Unit::Ns, time_ns)?;
    draft.higher(names::THROUGHPUT, Unit::OpsPerKs, rate)
}

/// The words of a line behind `Time to`.
fn words(line: &str) -> Vec<&str> {
    let rest = line.strip_prefix("Time to ").unwrap_or_default();
    rest.split_whitespace().collect()
}
