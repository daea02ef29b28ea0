// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady coherence run` and `steady coherence compare`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use anyhow::Context;
use steady_coherence::compare::{Comparison, compare as simulate, jobs};
use steady_coherence::config::{MachineConfig, Mode};
use steady_coherence::result::{INCOHERENT, run_result};
use steady_coherence::scheme::{ATTC, DIDI, HATRIC, IDEAL, IPI, KVMTLB, SHOOT4U, UNITD};
use steady_coherence::workload::TABLE_3;
use steady_coherence::{Error, Registry, Spec};
use steady_measures::RunResult;
use steady_measures::chance::{uneven_updates, without_updates};
use steady_race::Watcher;

use super::gains::{WITHOUT_UPDATES, lines};
use super::source::{Shown, machine_text, open};
use crate::arguments::coherence::{Input, Simulate, SimulateMany, SimulateOne};
use crate::command::report;
use crate::command::shell::own_command;
use crate::progress::Show;

/// Simulates one scheme.
pub fn run(arguments: &SimulateOne) -> anyhow::Result<ExitCode> {
    let scheme = Registry::shipped().find(&arguments.scheme)?;
    let machine = machine_of(&arguments.simulate)?;
    let runs = [arguments.simulate.input.clone()];
    show(&arguments.simulate, &machine, &[scheme], 1, &runs)
}

/// Simulates several schemes on the same accesses.
pub fn compare(arguments: &SimulateMany) -> anyhow::Result<ExitCode> {
    let named = find(&arguments.schemes)?;
    let machine = machine_of(&arguments.simulate)?;
    let schemes = or_usual(named, machine.mode);
    let input = &arguments.simulate.input;
    let runs = match arguments.more.as_slice() {
        [] => seeded(input, arguments.seeds)?,
        more => captures(input, more, &machine)?,
    };
    show(
        &arguments.simulate,
        &machine,
        &schemes,
        arguments.threads,
        &runs,
    )
}

/// The machine, with the values that `--set` gives.
fn machine_of(arguments: &Simulate) -> anyhow::Result<MachineConfig> {
    let (text, origin) = machine_text(&arguments.input.machine)?;
    let mut keys: Vec<(String, String)> = Vec::new();
    for word in &arguments.set {
        let pair = word.split_once('=');
        let (key, value) = pair
            .filter(|(key, value)| !key.is_empty() && !value.is_empty())
            .ok_or_else(|| {
                Error::Config(format!(
                    "--set {word}: expected KEY=VALUE, such as core.count=8"
                ))
            })?;
        if keys.iter().any(|(known, _)| known == key) {
            let text = format!("--set gives `{key}` twice; give it once");
            return Err(Error::Config(text).into());
        }
        keys.push((key.to_owned(), value.to_owned()));
    }
    Ok(Registry::shipped().load_with(&text, &origin, &keys)?)
}

/// Each capture as a run, under a seed of its own. All are of one program, and each once: this is
/// found before the first is simulated.
fn captures(
    first: &Input,
    more: &[PathBuf],
    machine: &MachineConfig,
) -> anyhow::Result<Vec<Input>> {
    let files = std::iter::once(&first.source).chain(more);
    let count = u32::try_from(1 + more.len()).unwrap_or(u32::MAX);
    let of_file = |(file, given): (&PathBuf, Input)| Input {
        source: file.clone(),
        ..given
    };
    let runs: Vec<Input> = files.zip(seeded(first, count)?).map(of_file).collect();
    let mut known: Vec<(&Path, Source)> = Vec::new();
    for given in &runs {
        let file = given.source.as_path();
        let wrong = |text: String| Error::Config(format!("{}: {text}", file.display()));
        let workload = TABLE_3.iter().any(|known| file == Path::new(known.name));
        if !workload && !file.exists() {
            let text = "cannot find it; expected a captured trace";
            return Err(wrong(text.to_owned()).into());
        }
        let input = open(given, machine)?;
        // A workload has no digest, and no run but its seeds.
        let Some(digest) = input.digest.clone() else {
            let text = "expected a capture, as several are given; runs of a workload differ by \
                        --seeds";
            return Err(wrong(text.to_owned()).into());
        };
        if let Some((twin, _)) = known.iter().find(|(_, other)| other.digest == digest) {
            let twin = twin.display();
            return Err(wrong(format!("it is the capture {twin} again; give it once")).into());
        }
        if let Some((other, of)) = known.first().filter(|(_, of)| of.program != input.program) {
            return Err(wrong(format!(
                "it is of {}, and {} is of {}; expected captures of one program",
                input.program,
                other.display(),
                of.program
            ))
            .into());
        }
        let program = input.program;
        known.push((file, Source { digest, program }));
    }
    Ok(runs)
}

/// What distinguishes captures.
struct Source {
    digest: String,
    program: String,
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
    runs: &[Input],
) -> anyhow::Result<ExitCode> {
    let begun = (SystemTime::now(), Instant::now());
    let watcher = Show::new();
    let jobs = jobs(machine, schemes);
    let (mut all, mut of_first) = (Vec::new(), None);
    let others: Vec<String> = runs
        .iter()
        .filter(|given| given.source != arguments.input.source)
        .map(|given| given.source.display().to_string())
        .collect();
    let several = !others.is_empty();
    for given in runs {
        let input = open(given, machine)?;
        let work = match runs.len() {
            1 => input.name.clone(),
            _ if several => given.source.display().to_string(),
            _ => format!("{} seed {}", input.name, given.seed),
        };
        let source = Shown::new(input.source, &watcher, &work, input.accesses);
        let found = simulate(source, input.accesses, &jobs, &input.options, threads)
            .map_err(|error| with_file(error, given))?;
        watcher.done(&work);
        all.push(found);
        of_first.get_or_insert((input.name, input.origin));
    }
    let (name, mut origin) = of_first.context("there is a run")?;
    if several {
        let first = origin.trim_end_matches('.');
        origin = format!("{first}. Other runs: {}.", others.join(", "));
    }
    let of = arguments.input.machine.display();
    let of = match arguments.set.as_slice() {
        [] => of.to_string(),
        keys => format!("{of} with {}", keys.join(" ")),
    };
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
        if runs.len() > 1 {
            let base = schemes.first().map_or("", |scheme| scheme.name);
            let (count, of) = (runs.len(), if several { "captures" } else { "seeds" });
            let mut out = std::io::stdout().lock();
            writeln!(out, "\nInstructions per cycle over {base}, {count} {of}:")?;
            for line in lines(&result) {
                writeln!(out, "{line}")?;
            }
        }
    }
    say_what_is_not_shown(schemes, &result, &all);
    Ok(verdict(&result))
}

/// Says where the schemes or the check had nothing to differ in.
fn say_what_is_not_shown(schemes: &[&Spec], result: &RunResult, all: &[Comparison]) {
    if schemes.len() > 1 && without_updates(result) {
        talk!(
            "steady: {WITHOUT_UPDATES}, so what differs is not coherence. Take a longer part of \
             the program, or one that changes its mappings; --warmup sets where counting begins."
        );
    }
    if let Some(uneven) = uneven_updates(result) {
        talk!(
            "steady: {uneven}. Take a longer part of the program; --warmup sets where counting \
             begins, and --warmup 0 counts all."
        );
    }
    if nothing_to_violate(all) {
        talk!(
            "steady: --check shows nothing of updates here: no access went to a page that an \
             update had changed. Take a longer part of the program, or one that uses the same \
             pages again."
        );
    }
}

/// Whether accesses were checked and none was to a page that an update had changed.
fn nothing_to_violate(all: &[Comparison]) -> bool {
    let outcomes = || all.iter().flat_map(|one| &one.outcomes);
    let used_again = outcomes().filter_map(|one| one.used_again);
    outcomes().any(|one| one.used_again.is_some()) && used_again.sum::<u64>() == 0
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
