// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One module for each command.

pub mod build;
pub mod coherence;
pub mod diagnose;
pub mod doctor;
pub mod evidence;
pub mod generate;
pub mod host;
pub mod join;
pub mod record;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod selftest;
pub mod shell;
pub mod shoot4u;
mod vms;

use steady_diagnose::{DiagnoseError, SymbolsError};
use steady_lab::LabError;
use steady_lab_artifacts::ArtifactError;
use steady_measures::Error;
use steady_race::{RaceError, Trouble};
use steady_scenario::LoadError;
use steady_selftest::SelftestError;

/// The exit code for an error, as `steady --help` lists them.
pub fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(error) = error.downcast_ref::<LabError>() {
        return error.exit_code();
    }
    if let Some(error) = error.downcast_ref::<ArtifactError>() {
        return error.why().exit_code();
    }
    if let Some(error) = error.downcast_ref::<SelftestError>() {
        return error.exit_code();
    }
    if let Some(error) = error.downcast_ref::<RaceError>() {
        return error.exit_code();
    }
    if let Some(trouble) = error.downcast_ref::<Trouble>() {
        return trouble.why.exit_code();
    }
    if let Some(code) = coherence::exit_code(error) {
        return code;
    }
    if let Some(error) = error.downcast_ref::<steady_evidence::Error>() {
        return match error {
            steady_evidence::Error::File { .. } => 1,
            _ => 2,
        };
    }
    let unjoined = |error: &Error| matches!(error, Error::CannotJoin { .. });
    let bad_input = error.downcast_ref::<Error>().is_some_and(unjoined)
        || error.downcast_ref::<LoadError>().is_some()
        || error.downcast_ref::<DiagnoseError>().is_some()
        || error.downcast_ref::<SymbolsError>().is_some()
        || error.downcast_ref::<steady_tracefile::Error>().is_some()
        || error
            .downcast_ref::<steady_shoot4u_check::Error>()
            .is_some();
    if bad_input { 2 } else { 1 }
}

/// Whether standard output may be coloured.
pub fn colour() -> bool {
    use std::io::IsTerminal;
    std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
