// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what a program printed to its report.
//!
//! One module per program; each names the measures that it gives. What they share is here: a
//! program that failed gives no report, and a report is put together only from checked names.

mod dbench;
mod fio;
mod hackbench;
mod memcached;
mod nginx;
mod own;
mod pbzip2;
mod redis;
mod stress_ng;
mod sysbench;

use steady_measures::{Better, Metric, Ratio, Unit, WorkloadReport, check_metric_name, names};

use crate::decimal::scaled;
use crate::error::{ParseError, quote};
use crate::output::{Exit, Output};
use crate::program::{Kind, Program};

pub use own::brought;

/// Seconds to nanoseconds, as a power of ten.
const S_TO_NS: i32 = 9;
/// Milliseconds to nanoseconds, as a power of ten.
const MS_TO_NS: i32 = 6;
/// Operations per second to operations per 1000 seconds, as a power of ten.
const PER_S_TO_PER_KS: i32 = 3;

/// The report of a run of `program`.
pub(crate) fn report(program: &Program, output: &Output<'_>) -> Result<WorkloadReport, ParseError> {
    check_end(program.name, output)?;
    let mut draft = match program.kind {
        Kind::Own | Kind::Dedup => own::parse(program.name, output)?,
        _ => Draft::new(program.name),
    };
    match program.kind {
        Kind::Own | Kind::Dedup => {}
        Kind::StressNg | Kind::Jemalloc => stress_ng::parse(&mut draft, output)?,
        Kind::Hackbench => hackbench::parse(&mut draft, output)?,
        Kind::Sysbench | Kind::Mariadb => sysbench::parse(&mut draft, output)?,
        Kind::Redis => redis::parse(&mut draft, output)?,
        Kind::Memcached => memcached::parse(&mut draft, output)?,
        Kind::Nginx => nginx::parse(&mut draft, output)?,
        Kind::Pbzip2 => pbzip2::parse(&mut draft, output)?,
        Kind::Dbench => dbench::parse(&mut draft, output)?,
        Kind::Fio => fio::parse(&mut draft, output)?,
        // vips prints nothing: the time of the command is all there is.
        Kind::Vips => {}
    }
    draft.time(output)?;
    Ok(draft.report)
}

/// A program that failed gives no report.
fn check_end(program: &str, output: &Output<'_>) -> Result<(), ParseError> {
    if output.exit == Exit::Code(0) {
        return Ok(());
    }
    Err(ParseError::Failed {
        program: program.to_owned(),
        exit: output.exit,
        last: quote(output.last_line()),
    })
}

/// A report in the making.
struct Draft {
    program: String,
    report: WorkloadReport,
}

impl Draft {
    fn new(program: &str) -> Self {
        Self {
            program: program.to_owned(),
            report: WorkloadReport::new(program),
        }
    }

    /// The wall time of the command.
    fn time(&mut self, output: &Output<'_>) -> Result<(), ParseError> {
        // No run lasts the 292 years that do not fit.
        let wall_ns = i64::try_from(output.wall_ns).unwrap_or(i64::MAX);
        self.lower(names::TIME, Unit::Ns, wall_ns)
    }

    /// A measure of which less is better.
    fn lower(&mut self, name: &str, unit: Unit, value: i64) -> Result<(), ParseError> {
        self.push(name, unit, Better::Lower, value)
    }

    /// A measure of which more is better.
    fn higher(&mut self, name: &str, unit: Unit, value: i64) -> Result<(), ParseError> {
        self.push(name, unit, Better::Higher, value)
    }

    /// A measure that explains others.
    fn neutral(&mut self, name: &str, unit: Unit, value: i64) -> Result<(), ParseError> {
        self.push(name, unit, Better::Neutral, value)
    }

    fn push(
        &mut self,
        name: &str,
        unit: Unit,
        better: Better,
        value: i64,
    ) -> Result<(), ParseError> {
        if let Err(invalid) = check_metric_name(name) {
            return Err(ParseError::unexpected(
                &self.program,
                name,
                invalid.to_string(),
            ));
        }
        if self.report.metrics.iter().any(|known| known.name == name) {
            return Err(ParseError::unexpected(
                &self.program,
                name,
                "each measure once",
            ));
        }
        self.report
            .metrics
            .push(Metric::new(name, unit, better, value));
        Ok(())
    }

    /// The first line for which `wanted` gives something.
    fn line<'a, T>(
        &self,
        output: &Output<'a>,
        example: &'static str,
        wanted: impl Fn(&'a str) -> Option<T>,
    ) -> Result<(&'a str, T), ParseError> {
        output
            .lines()
            .find_map(|line| wanted(line).map(|found| (line, found)))
            .ok_or_else(|| ParseError::Missing {
                program: self.program.clone(),
                expected: example,
                last: quote(output.last_line()),
            })
    }

    /// The decimal `text` out of `line`, times 10^`scale`.
    fn number(&self, line: &str, text: &str, scale: i32) -> Result<i64, ParseError> {
        scaled(text, scale).ok_or_else(|| {
            ParseError::unexpected(
                &self.program,
                line,
                format!(
                    "a number of at most 18 digits in place of {:?}",
                    quote(text)
                ),
            )
        })
    }
}

/// `part` × `factor` / `whole`, rounded down; `None` as for a [`Ratio`].
fn ratio(part: i64, factor: u64, whole: i64) -> Option<i64> {
    Ratio::of(part, whole)?.floor(factor)
}
