// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One module for each command.

mod beside;
pub mod build;
pub mod coherence;
pub mod diagnose;
pub mod doctor;
pub mod evidence;
pub mod generate;
pub mod host;
pub mod join;
mod opened;
pub mod record;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod selftest;
pub mod shell;
pub mod shoot4u;
mod vms;

/// Whether standard output may be coloured.
pub fn colour() -> bool {
    use std::io::IsTerminal;
    std::io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
