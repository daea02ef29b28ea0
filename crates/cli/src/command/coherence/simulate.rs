// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady coherence run` and `steady coherence compare`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use anyhow::Context;
use steady_coherence::compare::{compare as simulate, jobs};
use steady_coherence::config::{MachineConfig, Mode};
use steady_coherence::result::{INCOHERENT, run_result};
use steady_coherence::scheme::{ATTC, DIDI, HATRIC, IDEAL, IPI, KVMTLB, SHOOT4U, UNITD};
use steady_coherence::{Error, Registry, Spec};
use steady_measures::RunResult;
use steady_race::Watcher;

use super::gains::{WITHOUT_UPDATES, lines, without_updates};
use super::source::{Shown, machine, open};
use crate::arguments::coherence::{Input, Simulate, SimulateMany, SimulateOne};
use crate::command::report;
use crate::command::shell::own_command;
use crate::progress::Show;

/// Simulates one scheme.
pub fn run(arguments: &SimulateOne) -> anyhow::Result<ExitCode> {
    let scheme = Registry::shipped().find(&arguments.scheme)?;
    let machine = machine(&arguments.simulate.input.machine)?;
    show(&arguments.simulate, &machine, &[scheme], 1, 1)
}

/// Simulates several schemes on the same accesses.
pub fn compare(arguments: &SimulateMany) -> anyhow::Result<ExitCode> {
    let named = find(&arguments.schemes)?;
    let machine = machine(&arguments.simulate.input.machine)?;
    let schemes = or_usual(named, machine.mode);
    let (threads, seeds) = (arguments.threads, arguments.seeds);
    show(&arguments.simulate, &machine, &schemes, threads, seeds)
}

/// The schemes of these names, each named once.
pub fn find(names: &[String]) -> Result<Vec<&'static Spec>, Error> {
    let registry = Registry::shipped();
    let find = |name: &String| registry.find(name);
    let named = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    for (at, scheme) in named.iter().enumerate() {
        if named[..at].contains(scheme) {
            let text = format!("--schemes names `{}` twice; name it once", scheme.name);
            return Err(Error::Config(text));
        }
    }
    Ok(named)
}

/// The schemes named; where none are, today's software first and the bound last.
pub fn or_usual(named: Vec<&'static Spec>, mode: Mode) -> Vec<&'static Spec> {
    match mode {
        _ if !named.is_empty() => named,
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
    seeds: u32,
) -> anyhow::Result<ExitCode> {
    let begun = (SystemTime::now(), Instant::now());
    let watcher = Show::new();
    let jobs = jobs(machine, schemes);
    let (mut all, mut of_first) = (Vec::new(), None);
    for given in seeded(&arguments.input, seeds)? {
        let input = open(&given, machine)?;
        let work = match seeds {
            1 => input.name.clone(),
            _ => format!("{} seed {}", input.name, given.seed),
        };
        let source = Shown::new(input.source, &watcher, &work, input.accesses);
        let found = simulate(source, input.accesses, &jobs, &input.options, threads)
            .map_err(|error| with_file(error, &given))?;
        watcher.done(&work);
        all.push(found);
        of_first.get_or_insert((input.name, input.origin));
    }
    let (name, origin) = of_first.context("there is a seed")?;

    let of = arguments.input.machine.display();
    let question = format!("Machine {of}: {}. {origin}", machine.conditions());
    let mut result = run_result(&all, &name, &question);
    result.run.started = humantime::format_rfc3339_seconds(begun.0).to_string();
    result.run.tool = concat!("steady ", env!("CARGO_PKG_VERSION")).to_owned();
    result.run.command = own_command();
    result.run.wall_ms = u64::try_from(begun.1.elapsed().as_millis()).unwrap_or(u64::MAX);
    if let Some(out) = &arguments.out {
        write(&result, &out.join(&name), &watcher)?;
    }
    if arguments.json {
        std::io::stdout().write_all(&result.to_json())?;
    } else {
        report::table(std::slice::from_ref(&result), arguments.verbose)?;
        if seeds > 1 {
            let base = schemes.first().map_or("", |scheme| scheme.name);
            let mut out = std::io::stdout().lock();
            writeln!(out, "\nInstructions per cycle over {base}, {seeds} seeds:")?;
            for line in lines(&result) {
                writeln!(out, "{line}")?;
            }
        }
    }
    if schemes.len() > 1 && without_updates(&result) {
        talk!(
            "steady: {WITHOUT_UPDATES}, so what differs is not coherence. Take a longer part of \
             the program, or one that changes its mappings; --warmup sets where counting begins."
        );
    }
    Ok(verdict(&result))
}

/// What was given, under each of `seeds` seeds.
pub fn seeded(given: &Input, seeds: u32) -> Result<Vec<Input>, Error> {
    let seed_of = |at: u32| {
        let seed = given.seed.checked_add(at.into());
        seed.ok_or_else(|| Error::Config("--seed and --seeds go beyond 2^64".to_owned()))
    };
    let all = (0..seeds).map(|at| {
        Ok(Input {
            seed: seed_of(at)?,
            ..given.clone()
        })
    });
    all.collect()
}

/// Names the trace in an error about one of its records.
pub fn with_file(error: Error, given: &Input) -> Error {
    match error {
        Error::Record { .. } => Error::Source(format!("{}: {error}", given.source.display())),
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
pub fn verdict(result: &RunResult) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for variant in &result.variants {
        let warnings = variant.repetitions.iter().flat_map(|one| &one.warnings);
        for warning in warnings.filter(|one| one.code == INCOHERENT) {
            let (name, text) = (&variant.name, &warning.text);
            talk!("steady: scheme {name} is not coherent: {text}");
            code = ExitCode::from(5);
        }
    }
    code
}
