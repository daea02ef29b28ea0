// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady reproduce`: a paper's experiments, its numbers beside those measured here.

use std::io::Write;
use std::process::ExitCode;

use steady_coherence::experiments::{self, Settings};
use steady_lab::Watcher;

use crate::arguments::coherence::{Paper, Reproduce};
use crate::progress::Show;

/// Accesses of each run beyond the paper, and those before counting: 26 settings of six schemes.
const BEYOND: (u64, u64) = (4_000_000, 1_000_000);

/// Runs the experiments asked for and prints them; exit code 5 if the oracle found a violation.
pub fn reproduce(arguments: &Reproduce) -> anyhow::Result<ExitCode> {
    match arguments.paper {
        Paper::Attc => attc(arguments),
    }
}

fn attc(arguments: &Reproduce) -> anyhow::Result<ExitCode> {
    let mut settings = if arguments.short {
        Settings::short()
    } else {
        Settings::full()
    };
    settings.threads = arguments.threads;
    settings.check = arguments.check;
    if arguments.beyond {
        (settings.accesses, settings.warmup) = BEYOND;
        return beyond(arguments, &settings);
    }
    let mut out = std::io::stdout();
    if arguments.calibrate {
        let found = experiments::calibrate(&settings)?;
        if arguments.json {
            writeln!(out, "{}", serde_json::to_string_pretty(&found)?)?;
        } else {
            for (rate, overhead_bp) in &found.tried {
                writeln!(out, "rate {rate}: mean overhead {overhead_bp} basis points")?;
            }
            writeln!(out, "calibrated rate {}", found.rate)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let show = Show::new();
    let done = |at: usize, of: usize| {
        show.progress("reproduce attc", at as u64, of as u64);
    };
    done(0, 1);
    let found = experiments::reproduce(&settings, &done)?;
    show.done("reproduce attc");
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&found)?)?;
    } else {
        out.write_all(found.render().as_bytes())?;
    }
    if found.violations > 0 {
        eprintln!(
            "steady: the oracle found {} accesses through revoked translations",
            found.violations
        );
        return Ok(ExitCode::from(5));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints each line when it is known, since all of them take minutes.
fn beyond(arguments: &Reproduce, settings: &Settings) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    let mut written = Ok(());
    let lines = experiments::beyond(settings, &mut |line| {
        if !arguments.json && written.is_ok() {
            written = writeln!(out, "{}", line.render());
        }
    })?;
    written?;
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&lines)?)?;
    }
    Ok(ExitCode::SUCCESS)
}
