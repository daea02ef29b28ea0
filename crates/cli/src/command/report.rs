// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady report`: results that were written before, as a table or a page.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use steady_measures::{RunResult, write_atomic};
use steady_report::{html, terminal};

use crate::arguments::Report;
use crate::command::colour;

/// Shows the results.
pub fn report(arguments: &Report) -> anyhow::Result<ExitCode> {
    let mut results = load(&arguments.results)?;
    if !arguments.variants.is_empty() {
        for result in &mut results {
            result.choose(&arguments.variants)?;
        }
    }
    match &arguments.html {
        Some(path) => page(&results, path)?,
        None => table(&results, arguments.verbose)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn load(paths: &[PathBuf]) -> anyhow::Result<Vec<RunResult>> {
    Ok(paths
        .iter()
        .map(|path| RunResult::load(path))
        .collect::<Result<_, _>>()?)
}

/// Prints the table of some results.
pub fn table(results: &[RunResult], verbose: bool) -> anyhow::Result<()> {
    let options = terminal::Options {
        colour: colour(),
        verbose,
        ..terminal::Options::default()
    };
    let text = terminal::table(results, &options)?;
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// Writes the page of some results.
pub fn page(results: &[RunResult], path: &Path) -> anyhow::Result<()> {
    let text = html::page(results)?;
    write_atomic(path, text.as_bytes())?;
    Ok(())
}

/// Writes `report.html` of all engines' results of one scenario, and says where it is.
pub fn page_of_scenario(folder: &Path) -> anyhow::Result<PathBuf> {
    let mut results: Vec<PathBuf> = std::fs::read_dir(folder)?
        .flatten()
        .filter(|entry| !entry.file_name().to_string_lossy().contains('.'))
        .map(|entry| entry.path().join("result.json"))
        .filter(|path| path.is_file())
        .collect();
    results.sort();
    let path = folder.join("report.html");
    page(&load(&results)?, &path)?;
    Ok(path)
}
