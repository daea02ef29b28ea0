// SPDX-License-Identifier: Apache-2.0 OR MIT
//! sysbench's built-in tests (cpu, threads, mutex, memory) and its transactions on a database, each
//! an event: `sysbench.events`, `sysbench.time`
//! (ns; printed to 0.1 ms), `throughput` (events), `sysbench.latency.min`, `.mean`, `.max` and the
//! percentile asked for, `.p95` by default (ns; printed to 10 us); for memory also
//! `sysbench.bandwidth`.

use steady_measures::{Unit, names};

use super::{Draft, MS_TO_NS, PER_S_TO_PER_KS, S_TO_NS, ratio};
use crate::error::ParseError;
use crate::output::Output;

const BYTES_PER_MIB: u64 = 1 << 20;
/// Bandwidth is read in hundredths of a MiB.
const HUNDREDTHS: i32 = 2;

pub(super) fn parse(draft: &mut Draft, output: &Output<'_>) -> Result<(), ParseError> {
    let (line, text) = draft.line(output, "total number of events: 200", |line| {
        line.strip_prefix("total number of events:")
    })?;
    let events = draft.number(line, text.trim(), 0)?;
    let (line, text) = draft.line(output, "total time: 0.0101s", |line| {
        line.strip_prefix("total time:")?.trim().strip_suffix('s')
    })?;
    let time_ns = draft.number(line, text, S_TO_NS)?;
    draft.neutral("sysbench.events", Unit::Count, events)?;
    draft.lower("sysbench.time", Unit::Ns, time_ns)?;
    if let Some(rate) = rate(draft, output, events, time_ns)? {
        draft.higher(names::THROUGHPUT, Unit::OpsPerKs, rate)?;
    }
    latencies(draft, output)?;
    let transferred = output
        .lines()
        .find_map(|line| Some((line, inside(line, " MiB transferred (", " MiB/sec)")?)));
    if let Some((line, text)) = transferred {
        let hundredths = draft.number(line, text, HUNDREDTHS)?;
        let bandwidth = ratio(hundredths, BYTES_PER_MIB, 100)
            .ok_or_else(|| ParseError::unexpected(&draft.program, line, "a smaller number"))?;
        draft.higher("sysbench.bandwidth", Unit::BytesPerSecond, bandwidth)?;
    }
    Ok(())
}

/// Events per 1000 s: as printed where a test does, otherwise from the total.
fn rate(
    draft: &Draft,
    output: &Output<'_>,
    events: i64,
    time_ns: i64,
) -> Result<Option<i64>, ParseError> {
    let printed = output.lines().find_map(|line| {
        let text = line.strip_prefix("events per second:").or_else(|| {
            inside(line, "Total operations: ", " per second)")?
                .split_once('(')
                .map(|parts| parts.1)
        });
        Some((line, text?.trim()))
    });
    match printed {
        Some((line, text)) => draft.number(line, text, PER_S_TO_PER_KS).map(Some),
        // A run below 0.1 ms has no rate.
        None => Ok(ratio(events, 1_000_000_000_000, time_ns)),
    }
}

fn latencies(draft: &mut Draft, output: &Output<'_>) -> Result<(), ParseError> {
    draft.line(output, "Latency (ms):", |line| {
        (line == "Latency (ms):").then_some(())
    })?;
    let lines = output
        .lines()
        .skip_while(|&line| line != "Latency (ms):")
        .skip(1);
    for line in lines {
        let Some((label, text)) = line.split_once(':') else {
            break;
        };
        let name = match label {
            "min" => "min".to_owned(),
            "avg" => "mean".to_owned(),
            "max" => "max".to_owned(),
            // The sum of all is events times mean.
            "sum" => continue,
            _ => match label.strip_suffix("th percentile") {
                Some(percent) => format!("p{percent}"),
                None => break,
            },
        };
        let value = draft.number(line, text.trim(), MS_TO_NS)?;
        draft.lower(&format!("sysbench.latency.{name}"), Unit::Ns, value)?;
    }
    Ok(())
}

/// What stands between `before` and `after` in `line`.
fn inside<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(line.split_once(before)?.1.split_once(after)?.0)
}
