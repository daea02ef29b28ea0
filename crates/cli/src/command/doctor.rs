// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady doctor`.

use std::io::Write;
use std::process::ExitCode;

use steady_lab_artifacts::Home;
use steady_lab_artifacts::doctor::{State, examine};

use crate::arguments::Doctor;

/// Version of the JSON that `--json` prints.
const SCHEMA_VERSION: u32 = 1;

/// Examines the machine; exit code 3 if something is missing.
pub fn doctor(arguments: &Doctor) -> anyhow::Result<ExitCode> {
    let checks = examine(&Home::find()?);
    let missing = checks.iter().any(|check| check.state == State::Missing);
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let value = serde_json::json!({
            "schema": "steady.doctor",
            "version": SCHEMA_VERSION,
            "checks": checks,
        });
        writeln!(out, "{value:#}")?;
    } else {
        for check in &checks {
            let state = match check.state {
                State::Ok => "ok",
                State::Slow => "slow",
                State::Missing => "MISSING",
            };
            writeln!(
                out,
                "{state:8} {:44} for {:26} {}",
                check.name, check.needed_for, check.found
            )?;
            if let Some(fix) = &check.fix {
                writeln!(out, "{:8} fix: {fix}", "")?;
            }
        }
        let verdict = if missing {
            "something is missing; `make setup` installs all of it"
        } else {
            "this machine can run everything"
        };
        writeln!(out, "{verdict}")?;
    }
    Ok(if missing {
        ExitCode::from(3)
    } else {
        ExitCode::SUCCESS
    })
}
