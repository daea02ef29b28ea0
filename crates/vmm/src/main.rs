// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady-vmm`: see the library for what it is and `--help` for how to call it.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use steady_vmm::cli::{Arguments, Config};
use steady_vmm::machine;
use steady_vmm::outcome::Outcome;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Fails only when the terminal is gone, and then nothing listens.
            let _ = error.print();
            return if error.use_stderr() {
                failure()
            } else {
                ExitCode::SUCCESS
            };
        }
    };
    let outcome = Config::try_from(arguments)
        .map_err(anyhow::Error::from)
        .and_then(|config| machine::run(&config));
    match outcome {
        Ok(outcome) => ExitCode::from(outcome.exit_code()),
        Err(error) => {
            eprintln!("steady-vmm: {error:#}");
            failure()
        }
    }
}

fn failure() -> ExitCode {
    ExitCode::from(Outcome::Error.exit_code())
}
