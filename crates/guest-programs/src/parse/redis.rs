// SPDX-License-Identifier: Apache-2.0 OR MIT
//! redis-benchmark with `--csv`: for each test `redis.NAME.throughput` (printed to 0.01 requests a
//! second) and `redis.NAME.latency.min`, `.mean`, `.p50`, `.p95`, `.p99`, `.max` (ns; printed to
//! 1 us); with one test alone also `throughput`. A test's name is the first word of its own, in
//! lower case: `get`, `mset`, `lrange_100`.

use steady_measures::{Unit, names};

use super::{Draft, MS_TO_NS, PER_S_TO_PER_KS};
use crate::error::ParseError;
use crate::output::Output;

/// The head of the table, without quotes; the names of latencies are those of the measures.
const HEAD: &str = "test,rps,avg_latency_ms,min_latency_ms,p50_latency_ms,p95_latency_ms,\
                    p99_latency_ms,max_latency_ms";
/// An example of a row.
const ROW: &str =
    "\"GET\",\"39215.69\",\"0.169\",\"0.016\",\"0.055\",\"0.391\",\"3.447\",\"8.151\"";
/// Latencies of a row, from its third column on.
const LATENCIES: [&str; 6] = ["mean", "min", "p50", "p95", "p99", "max"];

pub(super) fn parse(draft: &mut Draft, output: &Output<'_>) -> Result<(), ParseError> {
    let is_head = |line: &str| line.replace('"', "") == HEAD;
    draft.line(output, HEAD, |line| is_head(line).then_some(()))?;
    let rows = output.lines().skip_while(|line| !is_head(line)).skip(1);
    let rows = rows.map_while(|line| Some((line, row(line)?)));
    let mut rates = Vec::new();
    for (line, columns) in rows {
        let name = columns[0].split_whitespace().next().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        let rate = draft.number(line, columns[1], PER_S_TO_PER_KS)?;
        draft.higher(&format!("redis.{name}.throughput"), Unit::OpsPerKs, rate)?;
        rates.push(rate);
        for (latency, text) in LATENCIES.iter().zip(&columns[2..]) {
            let value = draft.number(line, text, MS_TO_NS)?;
            draft.lower(&format!("redis.{name}.latency.{latency}"), Unit::Ns, value)?;
        }
    }
    match rates[..] {
        // A head without rows: no test did anything.
        [] => draft.line(output, ROW, |_| None::<()>).map(|_| ()),
        [rate] => draft.higher(names::THROUGHPUT, Unit::OpsPerKs, rate),
        _ => Ok(()),
    }
}

/// The columns of a row, without their quotes.
fn row(line: &str) -> Option<Vec<&str>> {
    let inside = line.strip_prefix('"')?.strip_suffix('"')?;
    let columns: Vec<&str> = inside.split("\",\"").collect();
    (columns.len() == 2 + LATENCIES.len()).then_some(columns)
}
