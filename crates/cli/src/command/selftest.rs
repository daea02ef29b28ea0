// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady selftest`: KVM selftests on emulated hosts, stock kernel beside patched.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use steady_lab::engine::EngineKind;
use steady_lab_artifacts::Home;
use steady_lab_artifacts::kernel::{Build, Flavor};
use steady_race::Entry;
use steady_selftest::{
    KernelRun, Options, Outcome, Report, Row, SelftestError, Verdicts, unit_tests,
};

use crate::arguments::{Cpu, KernelName, Selftest, Suite};
use crate::progress::Show;

/// Exit code if a test says what it should not.
const FAULTS: u8 = 5;
/// Exit code if the user stopped the tests.
const INTERRUPTED: u8 = 130;

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
        let kernels = arguments.kernel.iter().map(|name| name.build());
        let mut kernels: Vec<Build> = kernels.collect();
        kernels.sort();
        kernels.dedup();
        let options = Options {
            engine,
            processor: arguments.cpu.map(Cpu::processor).unwrap_or_default(),
            kernels,
            names: arguments.names.clone(),
            arguments: arguments.test_arguments.clone(),
            append: arguments.append.clone(),
            repetitions: arguments.repetitions,
            seed: arguments.seed,
            out: arguments.out.clone(),
            wall_limit: arguments.wall_limit.map(Duration::from_secs),
        };
        let report = steady_selftest::run(&home, &options, &show)?;
        let cut = report.partial.is_some();
        reports.push(report);
        if cut {
            break;
        }
    }
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&reports)?)?;
    } else {
        for report in &reports {
            table(&mut out, report)?;
        }
    }
    let cut = reports.iter().any(|report| report.partial.is_some());
    let wrong = reports.iter().any(|report| !report.faults.is_empty());
    Ok(ExitCode::from(match (cut, wrong) {
        (true, _) => INTERRUPTED,
        (false, true) => FAULTS,
        (false, false) => 0,
    }))
}

fn kind(entry: &Entry) -> Result<EngineKind, SelftestError> {
    EngineKind::named(entry.name).ok_or_else(|| {
        let text = format!("the engine {} boots no kernel; choose another", entry.name);
        SelftestError::Asked(text)
    })
}

/// The suite kvm-unit-tests; its folder is the first of the names.
fn unit_tests(home: &Home, arguments: &Selftest, show: &Show) -> anyhow::Result<ExitCode> {
    let Some((tree, names)) = arguments.names.split_first() else {
        anyhow::bail!("--suite kvm-unit-tests needs the folder of a checkout of it");
    };
    let flavor = flavor_of_suite(&arguments.kernel)?;
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

/// The configuration in which the suite runs, on the stock kernel and on the patched one.
fn flavor_of_suite(kernels: &[KernelName]) -> Result<Flavor, SelftestError> {
    let flavors: BTreeSet<Flavor> = kernels.iter().map(|name| name.build().flavor).collect();
    let mut flavors = flavors.into_iter();
    match (flavors.next(), flavors.next()) {
        (flavor, None) => Ok(flavor.unwrap_or_default()),
        (Some(one), Some(other)) => Err(SelftestError::Asked(format!(
            "--suite runs in one configuration, and the kernels asked for have two, {} and {}",
            one.name(),
            other.name()
        ))),
        (None, Some(_)) => unreachable!("the first comes first"),
    }
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

/// An outcome with the number of failed checks, or with the cycles that were measured.
fn outcome(cell: &unit_tests::Cell) -> String {
    let name = cell.outcome.name();
    match (cell.failed.len(), cell.cycles) {
        (0, None) => name.to_owned(),
        (0, Some(cycles)) => format!("{name} {cycles} cycles"),
        (failed, _) => format!("{name} ({failed})"),
    }
}

fn table(out: &mut impl Write, report: &Report) -> std::io::Result<()> {
    let kernels = report.kernels();
    let engine = format!("{} {}", report.engine, report.engine_version);
    write!(out, "{engine:36}")?;
    for kernel in &kernels {
        write!(out, " {kernel:20}")?;
    }
    writeln!(out)?;
    for row in &report.tests {
        write!(out, "{:36}", row.name)?;
        for verdicts in &row.kernels {
            write!(out, " {:20}", cell(report, row, verdicts))?;
        }
        let mark = if row.unsteady { " unsteady" } else { "" };
        writeln!(out, "{mark}")?;
        words(out, report, row, &kernels)?;
    }
    for fault in &report.faults {
        writeln!(out, "FAULT {fault}")?;
    }
    if report.faults.is_empty() {
        writeln!(out, "all is as it should be")?;
    }
    if let Some(partial) = &report.partial {
        writeln!(out, "{partial}")?;
    }
    Ok(())
}

/// A test on a kernel: its outcome and time, or how often it had which and the range of its times.
fn cell(report: &Report, row: &Row, verdicts: &Verdicts) -> String {
    let runs = report.runs.iter();
    let of_kernel = runs.filter(|run| run.kernel == verdicts.kernel);
    let times: Vec<u64> = of_kernel
        .filter_map(|run| run.named(&row.name))
        .map(|test| test.wall_ns)
        .collect();
    let (Some(&least), Some(&most)) = (times.iter().min(), times.iter().max()) else {
        return "not run".to_owned();
    };
    let said: Vec<&str> = verdicts
        .outcomes
        .iter()
        .flatten()
        .map(|it| it.name())
        .collect();
    if let ([one], 1) = (said.as_slice(), report.repetitions) {
        let time = format!("{:.2} s", seconds(least));
        return format!("{one:4} {time:>9}");
    }
    let (least, most) = (seconds(least), seconds(most));
    format!("{}, {least:.2}-{most:.2} s", verdicts.words())
}

/// What a test that did not pass said, or the kernel under it; what was said before only once.
fn words(
    out: &mut impl Write,
    report: &Report,
    row: &Row,
    kernels: &[&str],
) -> std::io::Result<()> {
    let mut told: Vec<(Vec<&str>, String)> = Vec::new();
    for run in &report.runs {
        let Some(text) = said(run, &row.name) else {
            continue;
        };
        match told.iter_mut().find(|(_, known)| *known == text) {
            Some((who, _)) if who.contains(&run.kernel) => {}
            Some((who, _)) => who.push(run.kernel),
            None => told.push((vec![run.kernel], text)),
        }
    }
    for (who, text) in told {
        // What all kernels say alike needs no name.
        let who = if who == kernels {
            String::new()
        } else {
            who.join(", ")
        };
        let text = format!("{who} {text}");
        for line in text.trim().lines() {
            writeln!(out, "      {line}")?;
        }
    }
    Ok(())
}

fn said(run: &KernelRun, name: &str) -> Option<String> {
    let test = run.named(name)?;
    if test.outcome == Outcome::Pass && test.warnings.is_empty() {
        return None;
    }
    let last_words = test.last_words.lines().map(|line| format!("| {line}"));
    let warnings = test.warnings.iter().map(|line| format!("kernel: {line}"));
    let lines: Vec<String> = std::iter::once(test.how.clone())
        .chain(last_words)
        .chain(warnings)
        .collect();
    Some(lines.join("\n"))
}

/// For display only.
#[expect(clippy::cast_precision_loss, reason = "two decimals are shown")]
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
