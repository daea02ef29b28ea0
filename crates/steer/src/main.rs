// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady-steer`: `steady place` and `steady fold` as a small program of their own, for hosts and
//! guests that have nothing else of this project.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use steady_steer::{fold, place};

/// The remedies that need no kernel of ours.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Part the busy vCPUs of each VM from each other, on a host.
    Place(place::Arguments),
    /// Run on as many CPUs as there is time for, in a guest.
    Fold(fold::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Place(arguments) => place::run(&arguments, &["place".to_owned()]),
        Command::Fold(arguments) => fold::run(&arguments, &["fold".to_owned()]),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("steady-steer: {error}");
            ExitCode::FAILURE
        }
    }
}
