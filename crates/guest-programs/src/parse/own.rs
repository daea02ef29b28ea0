// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that print a report themselves, as one line: those of `workloads/`, whose measures are
//! described at the top of each C file, and those that a user brings. A schema check is all that is
//! left to do, and for ours the right name.

use steady_measures::WorkloadReport;

use super::{Draft, check_end};
use crate::error::{ParseError, quote};
use crate::output::Output;

/// What a result line is like, for errors.
const LINE: &str = "{\"schema\":\"steady.workload\",\"version\":1,…}";
/// What marks a result line among others.
const MARK: &str = "\"steady.workload\"";

pub(super) fn parse(program: &str, output: &Output<'_>) -> Result<Draft, ParseError> {
    let mut lines = output.stdout.lines().filter(|line| !line.trim().is_empty());
    let line = lines.next().ok_or_else(|| missing(program, output))?;
    if let Some(second) = lines.next() {
        let expected = "nothing after the result line";
        return Err(ParseError::unexpected(program, second, expected));
    }
    let report = report(program, line)?;
    if report.program != program {
        let expected = format!("the result of {program}, not of {:?}", report.program);
        return Err(ParseError::unexpected(program, line, expected));
    }
    Ok(Draft {
        program: program.to_owned(),
        report,
    })
}

/// What the output of a program says that a user brings: `time`, and what its result line has. Its
/// other lines are its own business. `needs_line`: whether that line has to be there.
///
/// # Errors
/// If the program failed, or its result line is wrong, comes twice, or is not there.
pub fn brought(
    name: &str,
    needs_line: bool,
    output: &Output<'_>,
) -> Result<WorkloadReport, ParseError> {
    check_end(name, output)?;
    let is_result = |line: &&str| line.trim_start().starts_with('{') && line.contains(MARK);
    let mut lines = output.stdout.lines().filter(is_result);
    let found = match (lines.next(), lines.next()) {
        (Some(line), None) => report(name, line)?,
        (None, _) if needs_line => return Err(missing(name, output)),
        (None, _) => WorkloadReport::new(name),
        (_, Some(second)) => {
            let expected = "one result line";
            return Err(ParseError::unexpected(name, second, expected));
        }
    };
    let mut draft = Draft {
        program: name.to_owned(),
        report: found,
    };
    draft.time(output)?;
    Ok(draft.report)
}

fn report(program: &str, line: &str) -> Result<WorkloadReport, ParseError> {
    WorkloadReport::from_line(program, line)
        .map_err(|error| ParseError::unexpected(program, line, format!("a result line: {error}")))
}

fn missing(program: &str, output: &Output<'_>) -> ParseError {
    ParseError::Missing {
        program: program.to_owned(),
        expected: LINE,
        last: quote(output.last_line()),
    }
}
