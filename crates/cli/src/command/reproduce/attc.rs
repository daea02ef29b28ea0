// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ATTC paper's experiments on the simulator, and those beside and beyond it.

use std::io::Write;
use std::process::ExitCode;
use std::time::SystemTime;

use serde_json::{Value, json};
use steady_attc_paper::{Reproduction, Settings};
use steady_coherence::MachineConfig;
use steady_coherence::compare::digest;
use steady_measures::RunResult;
use steady_race::Watcher;

use crate::arguments::evidence::Reproduce;
use crate::progress::Show;

/// Accesses of each run beyond the paper, and those before counting: 26 settings of six schemes.
const BEYOND: (u64, u64) = (4_000_000, 1_000_000);
/// Version of the JSON of a simulation; see `docs/formats/reproduction.md`.
const VERSION: u32 = 5;
/// Characters of a digest that text shows.
const DIGEST_SHOWN: usize = 12;

/// What the simulator found: the numbers as a result, and what is shown beneath a paper's items.
pub struct Ran {
    /// The numbers, by seed.
    pub result: RunResult,
    /// Closed forms and figures as text.
    pub text: String,
    /// The same and every counter as JSON.
    pub body: Value,
    /// Accesses through revoked translations that the oracle found.
    pub violations: u64,
}

/// Runs the paper's experiments, or the short form of them.
pub fn run(arguments: &Reproduce) -> anyhow::Result<Ran> {
    let mut settings = Settings::full();
    settings.threads = arguments.threads;
    settings.seeds = arguments
        .seeds
        .unwrap_or(if arguments.short { 1 } else { settings.seeds });
    settings.check = arguments.check;
    if arguments.short {
        // A first look has to be there in seconds.
        settings.shootdowns = 0;
    }
    let form = if arguments.short { "short" } else { "full" };
    let show = Show::new();
    let done = |at: usize, of: usize| {
        show.progress("reproduce attc", at as u64, of as u64);
    };
    done(0, 1);
    let found = if arguments.short {
        steady_attc_paper::headline(&settings, &done)?
    } else {
        steady_attc_paper::reproduce(&settings, &done)?
    };
    show.done("reproduce attc");
    let facts = Facts::new(form, &settings, &digest(&found.results));
    let started = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let command = "steady reproduce attc --run";
    Ok(Ran {
        result: steady_attc_paper::result(&found, command, &started),
        text: page(&found, arguments.short, &facts),
        violations: found.violations,
        body: facts.document(json!({
            "numbers": found.numbers,
            "figures": found.figures,
            "violations": found.violations,
            "results": found.results,
        })),
    })
}

/// Experiments beside the paper's own: beyond it, or the calibration.
pub fn aside(arguments: &Reproduce) -> anyhow::Result<ExitCode> {
    let mut settings = Settings::full();
    settings.threads = arguments.threads;
    settings.seeds = arguments.seeds.unwrap_or(settings.seeds);
    settings.check = arguments.check;
    if arguments.calibrate {
        return calibrate(arguments, &settings);
    }
    (settings.accesses, settings.warmup) = BEYOND;
    (settings.seeds, settings.shootdowns) = (1, 0);
    beyond(arguments, &settings)
}

fn page(found: &Reproduction, short: bool, facts: &Facts) -> String {
    let note = if short {
        "Short form: the numbers that the paper claims first, by runs of the base length. Some\n\
         workloads have only a handful of shootdowns in it: a first look. The full form, whose\n\
         runs are long enough, has other digits.\n\n"
    } else {
        ""
    };
    format!("{note}{}\n{}\n", found.render(), facts.line())
}

/// Finds the calibrated rate again.
fn calibrate(arguments: &Reproduce, settings: &Settings) -> anyhow::Result<ExitCode> {
    let found = steady_attc_paper::calibrate(settings)?;
    let facts = Facts::new("calibrate", settings, &digest(&found));
    let mut out = std::io::stdout();
    if arguments.json {
        facts.print_json(&mut out, json!({ "calibration": found }))?;
        return Ok(ExitCode::SUCCESS);
    }
    for (rate, overhead_bp) in &found.tried {
        writeln!(
            out,
            "rate {rate}: mean overhead {}.{:02} %",
            overhead_bp / 100,
            overhead_bp % 100
        )?;
    }
    writeln!(out, "calibrated rate {}\n\n{}", found.rate, facts.line())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints each line when it is known, since all of them take minutes.
fn beyond(arguments: &Reproduce, settings: &Settings) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout();
    let mut written = Ok(());
    let lines = steady_attc_paper::beyond(settings, &mut |line| {
        if !arguments.json && written.is_ok() {
            written = writeln!(out, "{}", line.render());
        }
    })?;
    written?;
    let facts = Facts::new("beyond", settings, &digest(&lines));
    if arguments.json {
        facts.print_json(&mut out, json!({ "lines": lines }))?;
    } else {
        writeln!(out, "\n{}", facts.line())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What every printed result carries.
struct Facts {
    form: &'static str,
    settings: Settings,
    config_digest: String,
    measures_digest: String,
}

impl Facts {
    fn new(form: &'static str, settings: &Settings, measures: &str) -> Self {
        Self {
            form,
            settings: settings.clone(),
            // The machines of the variants follow from the first one and from this program.
            config_digest: digest(&(form, settings, MachineConfig::default())),
            measures_digest: measures.to_owned(),
        }
    }

    fn line(&self) -> String {
        format!(
            "steady {} · seed {} · configuration {} · measures {}",
            env!("CARGO_PKG_VERSION"),
            self.settings.seed,
            &self.config_digest[..DIGEST_SHOWN],
            &self.measures_digest[..DIGEST_SHOWN]
        )
    }

    /// These facts, then the entries of `body`.
    fn document(&self, body: Value) -> Value {
        let mut document = json!({
            "schema": "steady.simulation",
            "version": VERSION,
            "paper": "attc",
            "form": self.form,
            "tool": concat!("steady ", env!("CARGO_PKG_VERSION")),
            "settings": self.settings,
            "config_digest": self.config_digest,
            "measures_digest": self.measures_digest,
        });
        if let (Value::Object(all), Value::Object(more)) = (&mut document, body) {
            all.extend(more);
        }
        document
    }

    fn print_json(&self, out: &mut impl Write, body: Value) -> anyhow::Result<()> {
        writeln!(
            out,
            "{}",
            serde_json::to_string_pretty(&self.document(body))?
        )?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny() -> (Settings, Reproduction) {
        let settings = Settings {
            accesses: 5_000,
            warmup: 1_000,
            shootdowns: 0,
            seeds: 1,
            ..Settings::full()
        };
        let found = steady_attc_paper::headline(&settings, &|_, _| {}).expect("it runs");
        (settings, found)
    }

    #[test]
    fn every_form_of_a_result_names_seed_configuration_and_digest() {
        let (settings, found) = tiny();
        let facts = Facts::new("short", &settings, &digest(&found.results));
        let text = page(&found, true, &facts);
        assert!(text.starts_with("Short form: "), "{text}");
        let config = &facts.config_digest[..DIGEST_SHOWN];
        let last = format!("· seed 1 · configuration {config} · measures ");
        assert!(text.contains(&last), "{text}");

        let mut bytes = Vec::new();
        facts
            .print_json(&mut bytes, json!({ "numbers": found.numbers }))
            .expect("a buffer takes it");
        let document: Value = serde_json::from_slice(&bytes).expect("it is JSON");
        assert_eq!(document["schema"], "steady.simulation");
        assert_eq!(document["version"], VERSION);
        assert_eq!(document["form"], "short");
        assert_eq!(document["settings"]["seed"], 1);
        assert_eq!(document["measures_digest"], facts.measures_digest.as_str());
        assert_eq!(document["numbers"][1]["measure"], "fig8-over-kvmtlb");
    }

    #[test]
    fn the_configuration_s_digest_follows_the_settings_and_not_the_threads() {
        let digest_of = |settings: &Settings| Facts::new("full", settings, "").config_digest;
        let one = Settings::full();
        let threads = Settings {
            threads: 7,
            ..one.clone()
        };
        let seed = Settings {
            seed: 2,
            ..one.clone()
        };
        assert_eq!(digest_of(&one), digest_of(&threads));
        assert_ne!(digest_of(&one), digest_of(&seed));
    }
}
