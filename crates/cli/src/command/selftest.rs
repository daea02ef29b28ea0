// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady selftest`: KVM selftests on emulated hosts, stock kernel beside patched.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use steady_lab::artifact::kernel::{Build, Flavor, Series};
use steady_lab::engine::EngineKind;
use steady_lab::selftest::{self, KernelRun, Options, Outcome, Report, unit_tests};
use steady_lab::{Home, LabError};
use steady_race::Entry;

use crate::arguments::{KernelName, Selftest, Suite};
use crate::progress::Show;

/// Exit code if a test says what it should not.
const FAULTS: u8 = 5;

/// Runs the tests on every engine asked for; exit code 5 if a report has faults.
pub fn selftest(arguments: &Selftest) -> anyhow::Result<ExitCode> {
    let home = Home::find()?;
    let show = Show::new();
    if arguments.suite == Some(Suite::KvmUnitTests) {
        return unit_tests(&home, arguments, &show);
    }
    let mut reports = Vec::new();
    for entry in &arguments.engine {
        let engine = kind(entry)?;
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

fn kind(entry: &Entry) -> Result<EngineKind, LabError> {
    EngineKind::named(entry.name).ok_or_else(|| {
        let text = format!("the engine {} boots no kernel; choose another", entry.name);
        LabError::Selftest(text)
    })
}

/// The suite kvm-unit-tests; its folder is the first of the names.
fn unit_tests(home: &Home, arguments: &Selftest, show: &Show) -> anyhow::Result<ExitCode> {
    let Some((tree, names)) = arguments.names.split_first() else {
        anyhow::bail!("--suite kvm-unit-tests needs the folder of a checkout of it");
    };
    let flavor = match arguments.kernel.as_slice() {
        [.., KernelName::Debug] => Flavor::Debug,
        [.., KernelName::Rt] => Flavor::Rt,
        _ => Flavor::Lab,
    };
    let mut reports = Vec::new();
    for entry in &arguments.engine {
        let options = unit_tests::Options {
            engine: kind(entry)?,
            tree: tree.into(),
            names: names.to_vec(),
            all_modes: arguments.all_modes,
            flavor,
            out: arguments.out.clone(),
        };
        reports.push(unit_tests::run(home, &options, show)?);
    }
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&reports)?)?;
    } else {
        for report in &reports {
            unit_table(&mut out, report)?;
        }
    }
    let wrong = reports.iter().any(|report| !report.faults.is_empty());
    Ok(ExitCode::from(if wrong { FAULTS } else { 0 }))
}

fn unit_table(out: &mut impl Write, report: &unit_tests::Report) -> std::io::Result<()> {
    write!(out, "{:36}", format!("kvm-unit-tests, {}", report.engine))?;
    for column in &report.columns {
        write!(out, " {column:20}")?;
    }
    writeln!(out)?;
    for row in &report.rows {
        write!(out, "{:36}", row.test)?;
        for runs in &row.runs {
            let words: Vec<String> = runs.iter().map(outcome).collect();
            write!(out, " {:20}", words.join(", "))?;
        }
        writeln!(out)?;
        let first = row.runs.first().and_then(|runs| runs.first());
        for line in first
            .iter()
            .flat_map(|cell| cell.failed.iter().chain(&cell.last_words))
        {
            writeln!(out, "      | {line}")?;
        }
    }
    for (test, why) in &report.left_out {
        writeln!(out, "{test:36} not run: {why}")?;
    }
    for fault in &report.faults {
        writeln!(out, "FAULT {fault}")?;
    }
    if report.faults.is_empty() {
        writeln!(out, "the kernels say the same")?;
    }
    Ok(())
}

/// An outcome with the number of failed checks.
fn outcome(cell: &unit_tests::Cell) -> String {
    match cell.failed.len() {
        0 => cell.outcome.name().to_owned(),
        failed => format!("{} ({failed})", cell.outcome.name()),
    }
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
