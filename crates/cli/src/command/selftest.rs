// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady selftest`: KVM selftests on emulated hosts, stock kernel beside patched.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use steady_lab::artifact::kernel::{Build, Flavor, Series};
use steady_lab::engine::EngineKind;
use steady_lab::selftest::{self, KernelRun, Options, Outcome, Report};
use steady_lab::{Home, LabError};

use crate::arguments::{KernelName, Selftest};
use crate::progress::Show;

/// Exit code if a test says what it should not.
const FAULTS: u8 = 5;

/// Runs the tests on every engine asked for; exit code 5 if a report has faults.
pub fn selftest(arguments: &Selftest) -> anyhow::Result<ExitCode> {
    let home = Home::find()?;
    let show = Show::new();
    let mut reports = Vec::new();
    for entry in &arguments.engine {
        let engine = EngineKind::named(entry.name).ok_or_else(|| {
            let text = format!("the engine {} boots no kernel; choose another", entry.name);
            LabError::Selftest(text)
        })?;
        let mut kernels: Vec<Build> = arguments
            .kernel
            .iter()
            .map(|&name| match name {
                KernelName::Stock => (Series::Stock, Flavor::Lab),
                KernelName::Patched => (Series::Patched, Flavor::Lab),
                KernelName::Debug => (Series::Patched, Flavor::Debug),
                KernelName::Rt => (Series::Patched, Flavor::Rt),
            })
            .map(|(series, flavor)| Build { series, flavor })
            .collect();
        kernels.sort();
        kernels.dedup();
        let options = Options {
            engine,
            kernels,
            names: arguments.names.clone(),
            out: arguments.out.clone(),
            wall_limit: arguments.wall_limit.map(Duration::from_secs),
        };
        reports.push(selftest::run(&home, &options, &show)?);
    }
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&reports)?)?;
    } else {
        for report in &reports {
            table(&mut out, report)?;
        }
    }
    let wrong = reports.iter().any(|report| !report.faults.is_empty());
    Ok(if wrong {
        ExitCode::from(FAULTS)
    } else {
        ExitCode::SUCCESS
    })
}

fn table(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    let Some(first) = report.kernels.first() else {
        return Ok(());
    };
    write!(
        out,
        "{:36}",
        format!("{} {}", report.engine, report.engine_version)
    )?;
    for run in &report.kernels {
        write!(out, " {:16}", run.kernel)?;
    }
    writeln!(out)?;
    for (at, test) in first.tests.iter().enumerate() {
        write!(out, "{:36}", test.name)?;
        for run in &report.kernels {
            let found = &run.tests[at];
            let time = format!("{:.2} s", seconds(found.wall_ns));
            write!(out, " {:4} {time:>9}  ", found.outcome.name())?;
        }
        writeln!(out)?;
        for run in &report.kernels {
            let found = &run.tests[at];
            let worth = found.outcome != Outcome::Pass || !found.warnings.is_empty();
            // What all kernels say alike is said once.
            let same = at_same_words(report, at);
            if worth && (!same || std::ptr::eq(run, first)) {
                words(out, run, at, same)?;
            }
        }
    }
    for fault in &report.faults {
        writeln!(out, "FAULT {fault}")?;
    }
    if report.faults.is_empty() {
        writeln!(out, "all is as it should be")?;
    }
    Ok(())
}

fn at_same_words(report: &Report, at: usize) -> bool {
    report.kernels.iter().all(|run| {
        let (one, two) = (&run.tests[at], &report.kernels[0].tests[at]);
        (&one.how, &one.last_words, &one.warnings) == (&two.how, &two.last_words, &two.warnings)
    })
}

fn words(out: &mut impl Write, run: &KernelRun, at: usize, same: bool) -> std::io::Result<()> {
    let test = &run.tests[at];
    let who = if same { "" } else { run.kernel };
    let text = format!("{who} {}", test.how);
    if !text.trim().is_empty() {
        writeln!(out, "      {}", text.trim())?;
    }
    for line in test.last_words.lines() {
        writeln!(out, "      | {line}")?;
    }
    for line in &test.warnings {
        writeln!(out, "      kernel: {line}")?;
    }
    Ok(())
}

/// For display only.
#[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
