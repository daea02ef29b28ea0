// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady coherence capture`, `steady coherence convert` and `steady coherence check`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};
use steady_lab::{Home, LabError};
use steady_memtrace::capture::{self, Ending, Options, Start};
use steady_memtrace::{Digest, Totals};

use crate::arguments::coherence::{Capture, Check, Convert};

/// Records a program; exit code 130 if that was interrupted, with what was recorded kept.
pub fn capture(arguments: &Capture) -> anyhow::Result<ExitCode> {
    let plugin = match &arguments.plugin {
        Some(path) => path.clone(),
        None => build_plugin(&Home::find()?.project)?,
    };
    let mut options = Options::new(arguments.command.clone(), arguments.output.clone(), plugin);
    options.max_accesses = arguments.max_accesses;
    options.time_limit = Duration::from_secs(arguments.time_limit);
    options.window_instructions = arguments.window;
    options.start = match arguments.skip_instructions {
        Some(count) => Start::AfterInstructions(count),
        None if arguments.wait_marker => Start::AtMarker,
        None => Start::AtOnce,
    };
    let cancel = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&cancel)).context("watch for signals")?;
    }
    let summary = capture::run(&options, &cancel)?;
    let bytes = std::fs::metadata(&options.output)
        .with_context(|| format!("cannot read {}", options.output.display()))?
        .len();
    // Standard output is the program's own.
    let mut out = std::io::stderr().lock();
    writeln!(out, "{}: {}", options.output.display(), summary.ending)?;
    totals(&mut out, &summary.totals, summary.digest)?;
    let per_1000 = bytes * 1000 / summary.totals.accesses().max(1);
    writeln!(out, "  {bytes} bytes, {per_1000} for 1000 accesses")?;
    if summary.totals.accesses() == 0 {
        writeln!(
            out,
            "steady: nothing was recorded; did the program reach the point where it begins?"
        )?;
    }
    Ok(match summary.ending {
        Ending::Interrupted => ExitCode::from(130),
        _ => ExitCode::SUCCESS,
    })
}

/// Makes a trace of ours from other tools' traces.
pub fn convert(arguments: &Convert) -> anyhow::Result<ExitCode> {
    let (found, digest) = steady_memtrace::foreign::convert(&arguments.inputs, &arguments.output)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}: converted", arguments.output.display())?;
    totals(&mut out, &found, digest)?;
    Ok(ExitCode::SUCCESS)
}

/// Verifies traces; stops at the first that is not sound.
pub fn check(arguments: &Check) -> anyhow::Result<ExitCode> {
    for path in &arguments.traces {
        let report = steady_memtrace::check(path)?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}: sound", path.display())?;
        totals(&mut out, &report.totals, report.digest)?;
        let kib = u64::from(report.header.page_size) / 1024;
        writeln!(
            out,
            "  {} pages of {kib} KiB touched",
            report.footprint_pages
        )?;
        if !report.header.command.is_empty() {
            writeln!(out, "  command: {}", report.header.command.join(" "))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn totals(out: &mut impl Write, totals: &Totals, digest: Digest) -> std::io::Result<()> {
    writeln!(
        out,
        "  {} loads and {} stores of {} threads in {} instructions, {} changes of mappings, \
         {} markers{}",
        totals.loads,
        totals.stores,
        totals.threads,
        totals.instructions,
        totals.maps,
        totals.markers,
        if totals.stopped_early {
            "; stopped before the program's end"
        } else {
            ""
        }
    )?;
    writeln!(out, "  digest {digest}")
}

/// Builds the plugin in its own folder, where it is not there already, and says where it is.
fn build_plugin(project: &Path) -> Result<PathBuf, LabError> {
    let folder = project.join("plugins/qemu-memtrace");
    let built = folder.join("build/libqemu-memtrace.so");
    let done = Command::new("make")
        .arg("-s")
        .arg("-C")
        .arg(&folder)
        .output();
    let done = match done {
        Ok(done) => done,
        // Without make, a plugin that is there will do.
        Err(_) if built.is_file() => return Ok(built),
        Err(_) => {
            return Err(LabError::Missing {
                program: "make".to_owned(),
                why: "it builds the plugin that captures",
                package: "build-essential",
            });
        }
    };
    if done.status.success() {
        return Ok(built);
    }
    let log = folder.join("build/build.log");
    let said = String::from_utf8_lossy(&done.stderr);
    std::fs::create_dir_all(folder.join("build"))
        .and_then(|()| std::fs::write(&log, said.as_bytes()))
        .map_err(|error| LabError::Io {
            action: "write",
            path: log.clone(),
            error,
        })?;
    let last = said.lines().rev().take(5).collect::<Vec<_>>();
    Err(LabError::Build {
        what: "the plugin qemu-memtrace".to_owned(),
        status: done.status.to_string(),
        log,
        last: last.into_iter().rev().collect::<Vec<_>>().join("\n"),
    })
}
