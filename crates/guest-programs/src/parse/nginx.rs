// SPDX-License-Identifier: Apache-2.0 OR MIT
//! h2load: `nginx.operations` (requests), `nginx.time` (ns), `throughput` (printed to 0.01 requests
//! a second), and `nginx.latency.min`, `.max` and `.mean` of a request (ns; printed to three digits
//! or more). Each request must have been answered with a page.

use steady_measures::{Unit, names};

use super::{Draft, MS_TO_NS, PER_S_TO_PER_KS, S_TO_NS};
use crate::error::ParseError;
use crate::output::Output;

/// Examples of its lines.
const FINISHED: &str = "finished in 67.20ms, 29761.90 req/s, 35.85MB/s";
const REQUESTS: &str = "requests: 2000 total, 2000 started, 2000 done, 2000 succeeded, 0 failed, \
                        0 errored, 0 timeout";
const LATENCIES: &str =
    "time for request:       15us     13.15ms       225us       885us    94.80%";
/// Units of times, the longer names first, and their powers of ten to nanoseconds.
const UNITS: [(&str, i32); 3] = [("us", 3), ("ms", MS_TO_NS), ("s", S_TO_NS)];

pub(super) fn parse(draft: &mut Draft, output: &Output<'_>) -> Result<(), ParseError> {
    let (line, [time, rate]) = draft.line(output, FINISHED, |line| {
        let mut parts = line.strip_prefix("finished in ")?.split(", ");
        Some([parts.next()?, parts.next()?.strip_suffix(" req/s")?])
    })?;
    let time_ns = time_of(draft, line, time)?;
    let rate = draft.number(line, rate, PER_S_TO_PER_KS)?;
    let (line, [all, answered]) = draft.line(output, REQUESTS, |line| {
        let mut parts = line.strip_prefix("requests: ")?.split(", ");
        let all = parts.next()?.strip_suffix(" total")?;
        Some([all, parts.nth(2)?.strip_suffix(" succeeded")?])
    })?;
    let all = draft.number(line, all, 0)?;
    if draft.number(line, answered, 0)? != all || all == 0 {
        let expected = "a page for each request, and at least one";
        return Err(ParseError::unexpected(&draft.program, line, expected));
    }
    draft.neutral("nginx.operations", Unit::Count, all)?;
    draft.lower("nginx.time", Unit::Ns, time_ns)?;
    draft.higher(names::THROUGHPUT, Unit::OpsPerKs, rate)?;
    let (line, times) = draft.line(output, LATENCIES, |line| {
        let words = line.strip_prefix("time for request:")?.split_whitespace();
        let words: Vec<&str> = words.collect();
        (words.len() == 5).then_some(words)
    })?;
    for (name, text) in ["min", "max", "mean"].iter().zip(times) {
        let value = time_of(draft, line, text)?;
        draft.lower(&format!("nginx.latency.{name}"), Unit::Ns, value)?;
    }
    Ok(())
}

/// A time with its unit, in nanoseconds.
fn time_of(draft: &Draft, line: &str, text: &str) -> Result<i64, ParseError> {
    let of = |(unit, scale): &(&str, i32)| Some((text.strip_suffix(unit)?, *scale));
    let (number, scale) = UNITS.iter().find_map(of).unwrap_or((text, 0));
    draft.number(line, number, scale)
}
