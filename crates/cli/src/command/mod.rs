// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One module for each command.

pub mod build;
pub mod cache;
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
pub mod spans;
pub mod steer;

/// Whether standard output may be coloured.
pub fn colour() -> bool {
    use std::io::IsTerminal;
    std::io::stdout().is_terminal()
        && !is_dumb()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether the terminal shows plain letters alone.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}

/// Columns of the terminal that standard output is, or what `COLUMNS` says.
pub fn width() -> Option<usize> {
    let said = std::env::var("COLUMNS").ok();
    let said = said.and_then(|columns| columns.parse().ok());
    said.or_else(|| Some(usize::from(console::Term::stdout().size_checked()?.1)))
}
