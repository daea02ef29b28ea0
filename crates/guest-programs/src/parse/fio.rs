// SPDX-License-Identifier: Apache-2.0 OR MIT
//! fio with `--output-format=json`: for each direction used (`read`, `write`, `trim`)
//! `fio.read.throughput`, `fio.read.bandwidth` and the completion latency `fio.read.latency.min`,
//! `.p50`, `.p90`, `.p99`, `.max` (ns); and `throughput` of all together.
//!
//! With several jobs the job's name stands behind `fio.`. Rates come from the number of operations
//! and the run time, which fio gives in whole milliseconds.

use std::collections::BTreeMap;

use serde::Deserialize;
use steady_measures::{Unit, names};

use super::{Draft, ratio};
use crate::error::{ParseError, quote};
use crate::output::Output;

/// Operations per millisecond to operations per 1000 s.
const PER_MS_TO_PER_KS: u64 = 1_000_000;
/// The percentiles taken over, as fio writes them and as we do.
const PERCENTILES: [(&str, &str); 3] = [
    ("50.000000", "p50"),
    ("90.000000", "p90"),
    ("99.000000", "p99"),
];

#[derive(Deserialize)]
struct Report {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    error: i64,
    read: Direction,
    write: Direction,
    trim: Direction,
}

#[derive(Deserialize)]
struct Direction {
    bw_bytes: u64,
    runtime: u64,
    total_ios: u64,
    clat_ns: Latency,
}

#[derive(Deserialize)]
struct Latency {
    min: u64,
    max: u64,
    /// Absent where nothing was done.
    #[serde(default)]
    percentile: BTreeMap<String, u64>,
}

pub(super) fn parse(draft: &mut Draft, output: &Output<'_>) -> Result<(), ParseError> {
    // Notes about the options come before the object.
    let start = output
        .stdout
        .char_indices()
        .find(|&(at, c)| c == '{' && (at == 0 || output.stdout[..at].ends_with('\n')));
    let Some((start, _)) = start else {
        return Err(ParseError::Missing {
            program: draft.program.clone(),
            expected: "{ \"fio version\" : …, \"jobs\" : […] }",
            last: quote(output.last_line()),
        });
    };
    let mut values =
        serde_json::Deserializer::from_str(&output.stdout[start..]).into_iter::<Report>();
    let report = match values.next() {
        Some(Ok(report)) => report,
        Some(Err(error)) => return Err(bad_json(draft, output, start, &error)),
        None => unreachable!("the text begins with a brace"),
    };
    let several = report.jobs.len() > 1;
    let mut total = 0_i64;
    for job in &report.jobs {
        if job.error != 0 {
            return Err(ParseError::unexpected(
                &draft.program,
                &format!("\"jobname\" : {:?}, \"error\" : {}", job.jobname, job.error),
                "error 0",
            ));
        }
        let prefix = if several {
            format!("fio.{}", job.jobname)
        } else {
            "fio".to_owned()
        };
        for (name, direction) in [
            ("read", &job.read),
            ("write", &job.write),
            ("trim", &job.trim),
        ] {
            if direction.total_ios > 0 {
                let rate = add(draft, &format!("{prefix}.{name}"), direction)?;
                total = total.saturating_add(rate);
            }
        }
    }
    draft.higher(names::THROUGHPUT, Unit::OpsPerKs, total)
}

/// Adds the measures of one direction; its operations per 1000 s.
fn add(draft: &mut Draft, prefix: &str, direction: &Direction) -> Result<i64, ParseError> {
    let signed = |value: u64| {
        i64::try_from(value).map_err(|_| {
            ParseError::unexpected("fio", &format!("{prefix}: {value}"), "a number of 63 bits")
        })
    };
    // Below a millisecond fio says 0.
    let runtime_ms = signed(direction.runtime.max(1))?;
    let rate =
        ratio(signed(direction.total_ios)?, PER_MS_TO_PER_KS, runtime_ms).ok_or_else(|| {
            ParseError::unexpected("fio", &format!("{prefix}: total_ios"), "fewer operations")
        })?;
    draft.higher(&format!("{prefix}.throughput"), Unit::OpsPerKs, rate)?;
    draft.higher(
        &format!("{prefix}.bandwidth"),
        Unit::BytesPerSecond,
        signed(direction.bw_bytes)?,
    )?;
    let latency = &direction.clat_ns;
    draft.lower(
        &format!("{prefix}.latency.min"),
        Unit::Ns,
        signed(latency.min)?,
    )?;
    for (key, name) in PERCENTILES {
        if let Some(&value) = latency.percentile.get(key) {
            draft.lower(
                &format!("{prefix}.latency.{name}"),
                Unit::Ns,
                signed(value)?,
            )?;
        }
    }
    draft.lower(
        &format!("{prefix}.latency.max"),
        Unit::Ns,
        signed(latency.max)?,
    )?;
    Ok(rate)
}

/// The line at which reading stopped, and why.
fn bad_json(
    draft: &Draft,
    output: &Output<'_>,
    start: usize,
    error: &serde_json::Error,
) -> ParseError {
    let line = output.stdout[start..]
        .lines()
        .nth(error.line().saturating_sub(1))
        .unwrap_or_default();
    ParseError::unexpected(
        &draft.program,
        line.trim(),
        format!("fio's JSON report: {error}"),
    )
}
