// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady coherence sweep`: every combination of some keys' values under several seeds, in pieces
//! that are kept, so that a sweep goes on where it stopped and other machines can make its parts.
//!
//! A piece's file is named by the digest of all that it depends on, and written whole or not at
//! all. The table, the CSV, the Parquet, the JSON and the page follow from the pieces alone.

mod columns;
mod pieces;
mod plot;
mod rows;
mod table;

use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::Context;
use steady_coherence::Error;
use steady_measures::{RunResult, write_atomic};
use steady_race::Watcher;
use steady_race::for_shell;

use crate::arguments::coherence::Sweep;
use crate::command::coherence::simulate::verdict;
use crate::progress::Show;
use pieces::{Piece, pieces};

/// Sweeps.
pub fn sweep(arguments: &Sweep) -> anyhow::Result<ExitCode> {
    let mut all = pieces(arguments)?;
    if arguments.jobs {
        return jobs(arguments, &all);
    }
    if let Some(number) = arguments.piece {
        let Some(at) = number.checked_sub(1).filter(|at| *at < all.len()) else {
            let text = format!("--piece is {number}: expected 1 to {}", all.len());
            return Err(Error::Config(text).into());
        };
        all = vec![all.swap_remove(at)];
    }
    let found = simulate(arguments, &all)?;
    let points = table::points(&all, found);
    let unsound = points.iter().map(|point| verdict(&point.result));
    let code = unsound.fold(ExitCode::SUCCESS, |all, one| {
        if all == ExitCode::SUCCESS { one } else { all }
    });
    if arguments.piece.is_some() {
        return Ok(code);
    }
    let rows = rows::Rows::new(&points);
    let csv = rows.csv();
    let parquet = columns::parquet(&rows).context("cannot make sweep.parquet")?;
    let json = table::json(arguments, &points)?;
    let page = plot::page(arguments, &points)?;
    for (name, bytes) in [
        ("sweep.csv", csv.as_bytes()),
        ("sweep.parquet", &parquet),
        ("sweep.json", json.as_bytes()),
        ("report.html", page.as_bytes()),
    ] {
        write_atomic(&arguments.out.join(name), bytes)?;
    }
    let mut out = std::io::stdout().lock();
    match (arguments.csv, arguments.json) {
        (true, _) => out.write_all(csv.as_bytes())?,
        (_, true) => out.write_all(json.as_bytes())?,
        _ => out.write_all(table::shown(&points).as_bytes())?,
    }
    Ok(code)
}

/// Prints a command for each piece that is missing.
fn jobs(arguments: &Sweep, all: &[Piece]) -> anyhow::Result<ExitCode> {
    let words: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|word| word.to_string_lossy().into_owned())
        .filter(|word| word != "--jobs")
        .collect();
    let mut out = std::io::stdout().lock();
    for (number, piece) in (1..).zip(all) {
        if piece.kept(&arguments.out).is_none() {
            let command = for_shell(&words);
            writeln!(
                out,
                "steady {command} --piece {number}   # {}",
                piece.title()
            )?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The results of the pieces, in their order; those that are not kept yet are simulated.
fn simulate(arguments: &Sweep, all: &[Piece]) -> anyhow::Result<Vec<RunResult>> {
    let show = Show::new();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = arguments.threads.unwrap_or(cpus).clamp(1, all.len().max(1));
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let stopped = AtomicBool::new(false);
    let work = || {
        let mut mine = Vec::new();
        while !stopped.load(Ordering::Relaxed) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(piece) = all.get(at) else {
                break;
            };
            let found = match piece.kept(&arguments.out) {
                Some(found) => Ok(found),
                None => piece.make(&arguments.out),
            };
            // What is whole is kept; the first error ends the others early.
            stopped.fetch_or(found.is_err(), Ordering::Relaxed);
            mine.push((at, found.with_context(|| piece.title())));
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            show.progress("sweep", done as u64, all.len() as u64);
        }
        mine
    };
    let mut found: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        // A piece that panics must not be missing from a table that looks whole.
        let joined = workers.into_iter().map(|worker| {
            let found = worker.join();
            found.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        joined.flatten().collect()
    });
    show.done("sweep");
    found.sort_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, found)| found).collect()
}
