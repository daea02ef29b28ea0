// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady shoot4u`: was any revoked translation usable?

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use steady_shoot4u_check::{Verdict, check_file};

use crate::arguments::shoot4u::{Check, Shoot4u};

/// Exit code if a revoked translation could be used.
const VIOLATED: u8 = 5;
/// Exit code if a trace is not enough to say.
const CANNOT_SAY: u8 = 2;

/// Runs the command.
pub fn shoot4u(arguments: &Shoot4u) -> anyhow::Result<ExitCode> {
    let Shoot4u::Check(arguments) = arguments;
    check(arguments)
}

fn check(arguments: &Check) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let mut reports = Vec::new();
    for path in &arguments.traces {
        let report = check_file(path).with_context(|| path.display().to_string())?;
        if !arguments.json {
            write!(out, "{}: {report}", path.display())?;
        }
        reports.push(report);
    }
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&reports)?)?;
    }
    let any = |verdict| reports.iter().any(|report| report.verdict == verdict);
    Ok(if any(Verdict::Violated) {
        ExitCode::from(VIOLATED)
    } else if any(Verdict::CannotSay) {
        ExitCode::from(CANNOT_SAY)
    } else {
        ExitCode::SUCCESS
    })
}
