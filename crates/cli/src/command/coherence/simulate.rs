// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady coherence run` and `steady coherence compare`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use anyhow::Context;
use steady_coherence::compare::{Comparison, compare as simulate, jobs};
use steady_coherence::config::{MachineConfig, Mode};
use steady_coherence::result::run_result;
use steady_coherence::scheme::{ATTC, DIDI, HATRIC, IDEAL, IPI, KVMTLB, SHOOT4U, UNITD};
use steady_coherence::{Error, Registry, Spec};
use steady_measures::RunResult;
use steady_race::Watcher;

use super::source::{Shown, machine, open};
use crate::arguments::coherence::{Simulate, SimulateMany, SimulateOne};
use crate::command::report;
use crate::command::shell::own_command;
use crate::progress::Show;

/// Simulates one scheme.
pub fn run(arguments: &SimulateOne) -> anyhow::Result<ExitCode> {
    let scheme = Registry::shipped().find(&arguments.scheme)?;
    let machine = machine(&arguments.simulate.machine)?;
    show(&arguments.simulate, &machine, &[scheme], 1)
}

/// Simulates several schemes on the same accesses.
pub fn compare(arguments: &SimulateMany) -> anyhow::Result<ExitCode> {
    let registry = Registry::shipped();
    let named = arguments
        .schemes
        .iter()
        .map(|name| registry.find(name))
        .collect::<Result<Vec<_>, _>>()?;
    for (at, scheme) in named.iter().enumerate() {
        if named[..at].contains(scheme) {
            let text = format!("--schemes names `{}` twice; name it once", scheme.name);
            return Err(Error::Config(text).into());
        }
    }
    let machine = machine(&arguments.simulate.machine)?;
    let schemes = if named.is_empty() {
        usual(machine.mode)
    } else {
        named
    };
    show(&arguments.simulate, &machine, &schemes, arguments.threads)
}

/// The schemes compared when none are named: today's software first, the bound last.
fn usual(mode: Mode) -> Vec<&'static Spec> {
    match mode {
        Mode::Virtualized => vec![&KVMTLB, &SHOOT4U, &HATRIC, &ATTC, &IDEAL],
        Mode::Native => vec![&IPI, &UNITD, &DIDI, &HATRIC, &ATTC, &IDEAL],
    }
}

/// Simulates, prints, and writes the result where that is asked for.
fn show(
    arguments: &Simulate,
    machine: &MachineConfig,
    schemes: &[&'static Spec],
    threads: usize,
) -> anyhow::Result<ExitCode> {
    let begun = (SystemTime::now(), Instant::now());
    let input = open(arguments, machine)?;
    let watcher = Show::new();
    let source = Shown::new(input.source, &watcher, &input.name, input.accesses);
    let jobs = jobs(machine, schemes);
    let found = simulate(source, input.accesses, &jobs, &input.options, threads)
        .map_err(|error| with_file(error, arguments))?;
    watcher.done(&input.name);

    let mut result = run_result(&found, &input.name, &input.origin);
    result.run.started = humantime::format_rfc3339_seconds(begun.0).to_string();
    result.run.tool = concat!("steady ", env!("CARGO_PKG_VERSION")).to_owned();
    result.run.command = own_command();
    result.run.wall_ms = u64::try_from(begun.1.elapsed().as_millis()).unwrap_or(u64::MAX);
    if let Some(out) = &arguments.out {
        write(&result, &out.join(&input.name), &watcher)?;
    }
    if arguments.json {
        std::io::stdout().write_all(&result.to_json())?;
    } else {
        report::table(std::slice::from_ref(&result), arguments.verbose)?;
    }
    Ok(verdict(&found))
}

/// Names the trace in an error about one of its records.
fn with_file(error: Error, arguments: &Simulate) -> Error {
    match error {
        Error::Record { .. } => Error::Source(format!("{}: {error}", arguments.source.display())),
        other => other,
    }
}

fn write(result: &RunResult, folder: &Path, watcher: &Show) -> anyhow::Result<()> {
    let engine = folder.join("coherence");
    std::fs::create_dir_all(&engine)
        .with_context(|| format!("cannot make {}", engine.display()))?;
    let file = engine.join("result.json");
    result.save_atomic(&file)?;
    let page = report::page_of_scenario(folder)?;
    watcher.say(&format!("{} and {}", file.display(), page.display()));
    Ok(())
}

/// Reports incoherent schemes; the run has then failed.
fn verdict(found: &Comparison) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for outcome in found.outcomes.iter().filter(|outcome| !outcome.is_sound()) {
        let first = outcome.first_violations.first().map(ToString::to_string);
        eprintln!(
            "steady: scheme {} is not coherent: {}",
            outcome.label,
            outcome.broken.clone().or(first).unwrap_or_default()
        );
        code = ExitCode::from(5);
    }
    code
}
