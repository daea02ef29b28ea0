// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady coherence capture`, `steady coherence convert` and `steady coherence check`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};
use steady_coherence::host::is_host_trace;
use steady_lab_artifacts::need::{self, emulators};
use steady_lab_artifacts::{ArtifactError, Home, PROGRAMS, qemu_user};
use steady_memtrace::capture::{self, Children, Ending, Options, Start};
use steady_memtrace::{Digest, Report, Totals};
use steady_race::for_shell;

use super::walked::{FAULT, Walked};
use crate::arguments::coherence::{Capture, Check, Convert};
use crate::progress::Show;

/// Records a program; exit code 130 if that was interrupted, with what was recorded kept.
pub fn capture(arguments: &Capture) -> anyhow::Result<ExitCode> {
    let home = Home::find()?;
    need::require(emulators::capture(&home))?;
    let plugin = match &arguments.plugin {
        Some(path) => path.clone(),
        None => build_plugin(&home.project)?,
    };
    let mut options = Options::new(arguments.command.clone(), arguments.output.clone(), plugin);
    options.qemu = qemu_user::ensure(&home, &Show::new())?.program;
    options.max_accesses = arguments.max_accesses;
    options.time_limit = Duration::from_secs(arguments.time_limit);
    options.window_instructions = arguments.window;
    options.emulator_addresses = arguments.emulator_addresses;
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
    if summary.totals.accesses() == 0 && summary.ending != Ending::Interrupted {
        let output = options.output.display();
        std::fs::remove_file(&options.output).with_context(|| format!("cannot remove {output}"))?;
        anyhow::bail!(
            "nothing was recorded: {}, before the point where a capture begins \
             (--skip-instructions, --wait-marker); no trace was written",
            summary.ending
        );
    }
    let bytes = std::fs::metadata(&options.output)
        .with_context(|| format!("cannot read {}", options.output.display()))?
        .len();
    // Standard output is the program's own.
    let mut out = std::io::stderr().lock();
    writeln!(out, "{}: {}", options.output.display(), summary.ending)?;
    totals(&mut out, &summary.totals, summary.digest)?;
    let per_1000 = bytes * 1000 / summary.totals.accesses().max(1);
    writeln!(out, "  {bytes} bytes, {per_1000} for 1000 accesses")?;
    children(&mut out, &summary.children)?;
    Ok(match summary.ending {
        Ending::Interrupted => ExitCode::from(130),
        _ => ExitCode::SUCCESS,
    })
}

/// Names the processes that are not in the trace.
fn children(out: &mut impl Write, children: &[Children]) -> std::io::Result<()> {
    let all: u64 = children.iter().map(|one| one.count).sum();
    if all == 0 {
        return Ok(());
    }
    let processes = if all == 1 { "process" } else { "processes" };
    writeln!(out, "  not in the trace: {all} {processes} that it made")?;
    for one in children {
        let copies = "copies of the program, or unknown";
        let program = one.program.as_deref().unwrap_or(copies);
        writeln!(out, "    {} {program}", one.count)?;
    }
    Ok(())
}

/// Makes a trace of ours from other tools' traces.
pub fn convert(arguments: &Convert) -> anyhow::Result<ExitCode> {
    steady_memtrace::foreign::convert(&arguments.inputs, &arguments.output)?;
    // Read again, so that what is shown is what was written.
    let written = [(
        arguments.output.clone(),
        steady_memtrace::check(&arguments.output)?,
    )];
    match arguments.json {
        true => document(&written, Vec::new())?,
        false => tell(&written, "converted")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Verifies traces; stops at the first that is not sound. A trace of a host is sound if accesses
/// were walked and each of these agrees with its tables; else the exit code is 5.
pub fn check(arguments: &Check) -> anyhow::Result<ExitCode> {
    let (mut sound, mut hosts) = (Vec::new(), Vec::new());
    let mut code = ExitCode::SUCCESS;
    for path in &arguments.traces {
        // A pipe is read once: it is a program's trace.
        if path.is_file() && is_host_trace(path) {
            let walked = Walked::read(path)?;
            if !arguments.json {
                walked.print(&mut std::io::stdout().lock(), path)?;
            }
            let agrees = walked.agrees();
            hosts.push(walked.json(path));
            if agrees {
                continue;
            }
            code = ExitCode::from(FAULT);
            break;
        }
        let report = (path.clone(), steady_memtrace::check(path)?);
        if arguments.json {
            sound.push(report);
        } else {
            // One after the other: checking a long trace takes its time.
            tell(&[report], "sound")?;
        }
    }
    if arguments.json {
        document(&sound, hosts)?;
    }
    Ok(code)
}

/// Prints what was found of some traces as JSON.
fn document(traces: &[(PathBuf, Report)], hosts: Vec<Value>) -> anyhow::Result<()> {
    let traces = traces.iter().map(|(path, report)| described(path, report));
    let traces: Vec<Value> = traces.collect();
    let mut document = json!({"schema": "steady.traces", "version": 1, "traces": traces});
    if !hosts.is_empty() {
        document["hosts"] = hosts.into();
    }
    let text = serde_json::to_string_pretty(&document)?;
    Ok(writeln!(std::io::stdout().lock(), "{text}")?)
}

/// Prints what was found of some traces.
fn tell(traces: &[(PathBuf, Report)], verdict: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for (path, report) in traces {
        writeln!(out, "{}: {verdict}", path.display())?;
        totals(&mut out, &report.totals, report.digest)?;
        let (pages, bytes) = (report.footprint_pages, report.header.page_size);
        writeln!(out, "  {pages} pages of {bytes} bytes touched")?;
        if !report.header.command.is_empty() {
            writeln!(out, "  command: {}", for_shell(&report.header.command))?;
        }
    }
    Ok(())
}

fn described(path: &Path, report: &Report) -> Value {
    let (header, totals) = (&report.header, &report.totals);
    json!({
        "path": path.display().to_string(),
        "digest": report.digest.to_string(),
        "program": header.program,
        "command": header.command,
        "recorder": header.recorder,
        "page_bytes": header.page_size,
        "pages": report.footprint_pages,
        "chunks": totals.chunks,
        "records": totals.records,
        "loads": totals.loads,
        "stores": totals.stores,
        "mapping_changes": totals.maps,
        "markers": totals.markers,
        "instructions": totals.instructions,
        "threads": totals.threads,
        "mappings_complete": totals.maps_complete,
        "stopped_early": totals.stopped_early,
    })
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

/// The plugin of a package; else builds it in its own folder, where it is not there already.
fn build_plugin(project: &Path) -> Result<PathBuf, ArtifactError> {
    let packaged = project.join(PROGRAMS).join("libqemu-memtrace.so");
    if packaged.is_file() {
        return Ok(packaged);
    }
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
            return Err(ArtifactError::Missing {
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
        .map_err(|error| ArtifactError::Io {
            action: "write",
            path: log.clone(),
            error,
        })?;
    let last = said.lines().rev().take(5).collect::<Vec<_>>();
    Err(ArtifactError::Build {
        what: "the plugin qemu-memtrace".to_owned(),
        status: done.status.to_string(),
        log,
        last: last.into_iter().rev().collect::<Vec<_>>().join("\n"),
    })
}
