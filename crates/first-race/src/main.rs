// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady-first-race SCENARIO KERNEL OUT VARIANT...`: races these variants in QEMU on a kernel of
//! a distribution, and prints the table. It is `steady run` with no more crates than a race needs,
//! so that a fresh clone shows a figure of real KVM before the whole command is compiled.
//!
//! Left out: other engines and options, the page of the race, bars of progress.

#![forbid(unsafe_code)]
// `eprintln!` panics where its reader is gone or its disk is full.
#![deny(clippy::print_stderr)]

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Instant, SystemTime};

use anyhow::Context;
use steady_lab::measure::complaint::KERNEL_COMPLAINED;
use steady_lab::{Lab, engine};
use steady_race::{Options, Watcher, for_shell, race};
use steady_report::terminal;
use steady_scenario::Scenario;

const USAGE: &str = "usage: steady-first-race SCENARIO KERNEL OUT VARIANT...";
/// Exit code of a wrong call, as everywhere in `steady`.
const WRONG_CALL: u8 = 2;

/// Prints what happens on standard error; what cannot be printed is dropped.
#[derive(Debug)]
struct Lines(Instant);

impl Watcher for Lines {
    fn progress(&self, _what: &str, _done: u64, _total: u64) {}
    fn done(&self, _what: &str) {}
    fn say(&self, text: &str) {
        let line = format!("[{:6.1} s] {text}\n", self.0.elapsed().as_secs_f32());
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().collect();
    let [_, scenario, kernel, out, variants @ ..] = &words[..] else {
        return fails(USAGE, WRONG_CALL);
    };
    if variants.is_empty() {
        return fails(USAGE, WRONG_CALL);
    }
    let options = Options {
        variants: variants.to_vec(),
        kernel: Some(kernel.clone()),
        out: PathBuf::from(out),
        command: for_shell(&words),
        tool: concat!("steady-first-race ", env!("CARGO_PKG_VERSION")).to_owned(),
        started: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        ..Options::default()
    };
    match first_race(scenario, &options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fails(&format!("steady-first-race: {error:#}"), 1),
    }
}

fn fails(words: &str, code: u8) -> ExitCode {
    let _ = std::io::stderr().write_all(format!("{words}\n").as_bytes());
    ExitCode::from(code)
}

fn first_race(scenario: &str, options: &Options) -> anyhow::Result<()> {
    let scenario = Scenario::load(scenario).with_context(|| scenario.to_owned())?;
    let engine = Lab::open(engine::qemu::KIND)?;
    let lines = Lines(Instant::now());
    let raced = race(&*engine, &scenario, options, &lines)?;
    let variants = raced.result.variants.iter();
    let repetitions = variants.flat_map(|variant| &variant.repetitions);
    let mut warnings = repetitions.flat_map(|repetition| &repetition.warnings);
    // On a busy machine a kernel may; the figures stand all the same.
    if let Some(said) = warnings.find(|warning| warning.code == KERNEL_COMPLAINED) {
        lines.say(&format!("a kernel complained of itself: {}", said.text));
    }
    let table = terminal::table(&[raced.result], &terminal::Options::default())?;
    std::io::stdout().write_all(table.as_bytes())?;
    Ok(())
}
