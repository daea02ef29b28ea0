// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completion scripts and manual pages, made from the same description as `--help`.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;

use crate::arguments::Arguments;

/// Prints a completion script.
pub fn completions(shell: clap_complete::Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "steady", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes `steady.1` and a page for each command.
pub fn man(directory: &Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    clap_mangen::generate_to(Arguments::command(), directory).with_context(|| format!("cannot write to {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}
