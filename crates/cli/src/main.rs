// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `steady` command. Thin: it reads the command line, calls the rooms below, and shows.
//!
//! Data goes to standard output, talk to standard error. Exit codes are in `steady --help`.

#![forbid(unsafe_code)]
// `eprintln!` panics where its reader is gone or its disk is full: see `talk`.
#![deny(clippy::print_stderr)]

/// Prints a line of talk. What cannot be printed is dropped: a recording goes on where the log that
/// its talk goes to is on a full disk.
macro_rules! talk {
    ($($what:tt)*) => {
        crate::progress::talk(&format!($($what)*))
    };
}

mod arguments;
mod command;
mod engines;
mod exit_code;
mod progress;

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;

use arguments::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // Without it a limit on the length of files ends this process without a word.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
    let outcome = match arguments.command {
        Command::Run(run) => command::run::run(&run),
        Command::Build(build) => command::build::build(&build),
        Command::Selftest(tests) => command::selftest::selftest(&tests),
        Command::Host(host) => command::host::host(&host),
        Command::Shoot4u(check) => command::shoot4u::shoot4u(&check),
        Command::Doctor(doctor) => command::doctor::doctor(&doctor),
        Command::Cache(cache) => command::cache::cache(&cache),
        Command::Report(report) => command::report::report(&report),
        Command::Join(join) => command::join::join(&join),
        Command::Diagnose(diagnose) => command::diagnose::diagnose(&diagnose),
        Command::Record(record) => command::record::record(&record),
        Command::Place(place) => command::steer::place(&place),
        Command::Fold(fold) => command::steer::fold(&fold),
        Command::Coherence(coherence) => command::coherence::coherence(&coherence),
        Command::Evidence(evidence) => command::evidence::evidence(&evidence),
        Command::Reproduce(reproduce) => command::reproduce::reproduce(&reproduce),
        Command::Completions { shell } => command::generate::completions(shell),
        Command::Man { directory } => command::generate::man(&directory),
    };
    match outcome {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            talk!("steady: {error:#}");
            ExitCode::from(exit_code::exit_code(&error))
        }
    }
}

/// A reader that has had enough, such as `head`, is not an error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let broken = Some(std::io::ErrorKind::BrokenPipe);
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<std::io::Error>();
        let json = cause.downcast_ref::<serde_json::Error>();
        io.map(std::io::Error::kind) == broken
            || json.and_then(serde_json::Error::io_error_kind) == broken
    })
}
