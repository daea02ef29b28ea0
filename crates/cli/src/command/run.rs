// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady run`: races scenarios and shows the results.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use steady_lab::measure::complaint::KERNEL_COMPLAINED;
use steady_lab::{translate, wanted};
use steady_lab_artifacts::Home;
use steady_measures::RunResult;
use steady_race::{Options, Until, Watcher, race};
use steady_scenario::{Kernel, LoadError, Noted, Scenario};

use crate::arguments::Run;
use crate::command::shell::{own_command, own_name};
use crate::command::{colour, report};
use crate::progress::Show;

/// Exit code if a kernel complained of itself where the user chose it.
const FAULT: u8 = 5;
/// Most repetitions that `--until` goes on to.
const MOST_REPETITIONS: u32 = 100;

/// Races every scenario on every engine asked for; stops at the first error.
pub fn run(arguments: &Run) -> anyhow::Result<ExitCode> {
    let scenarios = match load(arguments) {
        Ok(scenarios) => scenarios,
        Err(code) => return Ok(code),
    };
    if arguments.print {
        for scenario in &scenarios {
            std::io::stdout().write_all(scenario.to_toml_resolved().as_bytes())?;
        }
    }
    if arguments.check {
        return Ok(ExitCode::SUCCESS);
    }
    let show = Show::verbose(arguments.verbose);
    let mut results = Vec::new();
    let mut complained = None;
    for scenario in &scenarios {
        for engine in arguments.engines() {
            let engine = (engine.make)()?;
            let raced = race(&*engine, scenario, &options(arguments), &show)?;
            let page =
                report::page_of_scenario(raced.directory.parent().unwrap_or(&arguments.out))?;
            show.say(&format!(
                "{}: {} and {}",
                scenario.name,
                raced.directory.join("result.json").display(),
                page.display()
            ));
            let chosen =
                |variant: &str| arguments.kernel.is_some() || names_a_kernel(scenario, variant);
            complained = complained.or_else(|| complaint(&raced.result, chosen));
            results.push(raced.result);
        }
    }
    if arguments.json {
        print_json(&results)?;
    } else {
        report::table(&results, arguments.verbose)?;
    }
    // Another kernel than the lab's is run to see whether it is sound.
    Ok(match complained {
        Some(complaint) => {
            talk!("steady: a kernel complained of itself: {complaint}");
            ExitCode::from(FAULT)
        }
        None => ExitCode::SUCCESS,
    })
}

/// Whether a variant boots a kernel that it names, and so another than the lab's.
fn names_a_kernel(scenario: &Scenario, variant: &str) -> bool {
    let found = scenario.variant(variant);
    found.is_ok_and(|variant| matches!(variant.kernel, Kernel::Named(_)))
}

/// Refuses what the run would refuse before it builds anything; what an engine cannot give, only of
/// the engines that were named.
fn checked(arguments: &Run, scenario: &Scenario) -> anyhow::Result<()> {
    translate::check_programs(scenario)?;
    let variants = scenario.select(&arguments.variant)?;
    wanted::check(scenario, &variants, &options(arguments))?;
    for engine in &arguments.engine {
        let engine = (engine.make)()?;
        engine.check(scenario, &variants, &options(arguments))?;
    }
    Ok(())
}

/// What the first kernel said that complained of itself, of the variants whose kernel was `chosen`.
fn complaint(result: &RunResult, chosen: impl Fn(&str) -> bool) -> Option<String> {
    let variants = result.variants.iter();
    let variants = variants.filter(|variant| chosen(&variant.name));
    let repetitions = variants.flat_map(|variant| &variant.repetitions);
    let mut warnings = repetitions.flat_map(|repetition| &repetition.warnings);
    let first = warnings.find(|warning| warning.code == KERNEL_COMPLAINED)?;
    Some(first.text.clone())
}

/// Loads all scenarios, so that each one's errors are shown, not only the first's.
fn load(arguments: &Run) -> Result<Vec<Scenario>, ExitCode> {
    let mut scenarios = Vec::new();
    let mut failed = false;
    for path in &arguments.scenarios {
        match Scenario::load_noted(path) {
            Ok(Noted {
                mut scenario,
                notes,
            }) => {
                scenario.repetitions = arguments.repetitions.unwrap_or(scenario.repetitions);
                scenario.seed = arguments.seed.unwrap_or(scenario.seed);
                if let Some(folder) = &arguments.programs {
                    scenario.folder.clone_from(folder);
                }
                if let Some(notes) = notes {
                    talk!("{}", notes.render(colour()));
                }
                if arguments.check {
                    let (file, digest) = (path.display(), scenario.digest());
                    match checked(arguments, &scenario) {
                        Ok(()) => {
                            let variants = scenario.variants.len();
                            talk!("{file}: ok, {variants} variants, digest {digest}");
                        }
                        Err(error) => {
                            failed = true;
                            talk!("steady: {file}: {error}");
                        }
                    }
                }
                scenarios.push(scenario);
            }
            Err(error) => {
                failed = true;
                talk!("{}", words(&error));
            }
        }
    }
    if failed {
        Err(ExitCode::from(2))
    } else {
        Ok(scenarios)
    }
}

fn options(arguments: &Run) -> Options {
    Options {
        variants: arguments.variant.clone(),
        trace: arguments.trace,
        kernel: arguments.kernel.clone(),
        until: arguments.until.map(|within_ppm| Until {
            within_ppm,
            measures: arguments.measure.clone(),
            most: MOST_REPETITIONS,
            budget: arguments.budget,
        }),
        out: arguments.out.clone(),
        wall_limit: arguments.wall_limit.map(Duration::from_secs),
        command: own_command(),
        tool: Home::find().map_or_else(|_| String::new(), |home| own_name(&home.project)),
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
    }
}

fn print_json(results: &[RunResult]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for result in results {
        out.write_all(&result.to_json())?;
    }
    Ok(())
}

fn words(error: &LoadError) -> String {
    match error {
        LoadError::Invalid(diagnostics) => diagnostics.render(colour()),
        other => format!("steady: {other}"),
    }
}
