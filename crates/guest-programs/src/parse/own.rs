// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs of `workloads/`: one line, already a report. Its measures are described at the top
//! of each C file; a schema check and the right name are all that is left to do.

use steady_measures::WorkloadReport;

use super::Draft;
use crate::error::{ParseError, quote};
use crate::output::Output;

pub(super) fn parse(program: &'static str, output: &Output<'_>) -> Result<Draft, ParseError> {
    let mut lines = output.stdout.lines().filter(|line| !line.trim().is_empty());
    let Some(line) = lines.next() else {
        return Err(ParseError::Missing {
            program,
            expected: "{\"schema\":\"steady.workload\",\"version\":1,…}",
            last: quote(output.last_line()),
        });
    };
    if let Some(second) = lines.next() {
        return Err(ParseError::unexpected(
            program,
            second,
            "nothing after the result line",
        ));
    }
    let report = WorkloadReport::from_line(program, line).map_err(|error| {
        ParseError::unexpected(program, line, format!("a result line: {error}"))
    })?;
    if report.program != program {
        return Err(ParseError::unexpected(
            program,
            line,
            format!("the result of {program}, not of {:?}", report.program),
        ));
    }
    Ok(Draft { program, report })
}
