// SPDX-License-Identifier: Apache-2.0 OR MIT
//! dbench: `dbench.bandwidth` (bytes per second; its MB are 10^6 bytes), `dbench.latency.max` (ns)
//! and `dbench.operations`, the sum of its table.

use steady_measures::Unit;

use super::{Draft, MS_TO_NS};
use crate::error::ParseError;
use crate::output::Output;

/// MB/s to bytes/s, as a power of ten.
const MB_TO_BYTES: i32 = 6;
const SUMMARY: &str = "Throughput 923.034 MB/sec  2 clients  2 procs  max_latency=5.476 ms";

pub(super) fn parse(draft: &mut Draft, output: &Output<'_>) -> Result<(), ParseError> {
    let (line, (bandwidth, latency)) = draft.line(output, SUMMARY, |line| {
        let (bandwidth, rest) = line.strip_prefix("Throughput ")?.split_once(" MB/sec")?;
        let latency = rest.split_once("max_latency=")?.1.strip_suffix(" ms")?;
        Some((bandwidth, latency))
    })?;
    let bandwidth = draft.number(line, bandwidth, MB_TO_BYTES)?;
    let latency_ns = draft.number(line, latency, MS_TO_NS)?;
    let mut operations = 0_i64;
    for line in output
        .lines()
        .skip_while(|line| !line.starts_with("Operation "))
        .skip(2)
    {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [_, count, _, _] = columns[..] else { break };
        operations = operations
            .checked_add(draft.number(line, count, 0)?)
            .ok_or_else(|| ParseError::unexpected(&draft.program, line, "a smaller count"))?;
    }
    draft.higher("dbench.bandwidth", Unit::BytesPerSecond, bandwidth)?;
    draft.lower("dbench.latency.max", Unit::Ns, latency_ns)?;
    // Nothing done means that the clients never got going within the time asked for.
    if operations == 0 {
        return Err(ParseError::Missing {
            program: draft.program.clone(),
            expected: "NTCreateX 57748 0.011 1.646",
            last: crate::error::quote(output.last_line()),
        });
    }
    draft.neutral("dbench.operations", Unit::Count, operations)
}
