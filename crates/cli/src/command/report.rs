// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady report`: results that were written before, as a table, a page, Markdown or CSV; two of
//! them are set against each other.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use steady_measures::{Against, RunResult, write_atomic};
use steady_report::{html, plain, terminal};

use crate::arguments::Report;
use crate::command::{colour, width};

/// Columns of a table at least and at most, whatever the terminal has.
const COLUMNS: (usize, usize) = (60, 220);
/// What two results are called where they are set against each other.
const NAMES: [&str; 2] = ["A", "B"];

/// Shows the results.
pub fn report(arguments: &Report) -> anyhow::Result<ExitCode> {
    let mut results = load(&arguments.results)?;
    if !arguments.variants.is_empty() {
        for result in &mut results {
            result.choose(&arguments.variants)?;
        }
    }
    if let Some(path) = &arguments.html {
        page(&results, path)?;
        return Ok(ExitCode::SUCCESS);
    }
    let named = arguments
        .results
        .iter()
        .map(|path| path.display().to_string());
    let named: Vec<(String, &RunResult)> = named.zip(&results).collect();
    let text = if arguments.csv {
        plain::csv(&named)
    } else if arguments.markdown {
        plain::markdown(&results)?
    } else {
        terminal::table(&results, &options(arguments.verbose))?
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    if let ([first, second], false) = (&named[..], arguments.csv) {
        out.write_all(against(arguments, [first, second])?.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Two results set against each other.
fn against(arguments: &Report, both: [&(String, &RunResult); 2]) -> anyhow::Result<String> {
    let found = Against::new(NAMES, both[0].1, both[1].1);
    let mut text = match arguments.markdown {
        true => "\n## A and B\n".to_owned(),
        false => "\nA and B\n".to_owned(),
    };
    let mut item = |words: &str| text.push_str(&plain::item(words));
    for (name, (path, _)) in NAMES.iter().zip(both) {
        item(&format!("{name}: {path}"));
    }
    match &found.differs[..] {
        [] => item("nothing differs but what was measured"),
        differs => differs
            .iter()
            .for_each(|one| item(&format!("differs: {one}"))),
    }
    if !found.alone.is_empty() {
        item(&format!(
            "not compared, as the other has none: {}",
            found.alone.join(", ")
        ));
    }
    if both[0].1.engine.clock != both[1].1.engine.clock {
        item("not compared: their times are of different clocks");
    }
    if found.pairs.is_empty() {
        return Ok(text);
    }
    text.push('\n');
    text.push_str(&match arguments.markdown {
        true => plain::markdown(&found.pairs)?,
        false => terminal::table(&found.pairs, &options(arguments.verbose))?,
    });
    Ok(text)
}

fn load(paths: &[PathBuf]) -> anyhow::Result<Vec<RunResult>> {
    Ok(paths
        .iter()
        .map(|path| RunResult::load(path))
        .collect::<Result<_, _>>()?)
}

fn options(verbose: bool) -> terminal::Options {
    let usual = terminal::Options::default();
    terminal::Options {
        colour: colour(),
        verbose,
        width: width().map_or(usual.width, |width| width.clamp(COLUMNS.0, COLUMNS.1)),
    }
}

/// Prints the table of some results.
pub fn table(results: &[RunResult], verbose: bool) -> anyhow::Result<()> {
    let text = terminal::table(results, &options(verbose))?;
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
