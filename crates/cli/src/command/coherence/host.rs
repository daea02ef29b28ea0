// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady coherence capture --host`: a trace of a whole emulated host with its guests.
//!
//! It is a run of one variant in the Bochs that writes what happens to translations
//! (docs/formats/hosttrace.md), which this command itself starts. The trace is then read whole:
//! every access is walked through the recorded tables. The run's own result stays beside it, with
//! what the host's trace points counted. Left out: simulating it.

use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use sha2::{Digest, Sha256};
use signal_hook::consts::{SIGINT, SIGTERM};
use steady_lab::engine::bochs;
use steady_memtrace::host::Counts;
use steady_scenario::Scenario;

use crate::arguments::coherence::Capture;

/// Accesses that are recorded if no number is given.
const ACCESSES: u64 = 20_000_000;
/// Exit code where an access does not agree with the tables.
const FAULT: u8 = 5;

/// Records a run of a scenario; exit code 130 if that was interrupted, with nothing kept.
pub fn capture(arguments: &Capture, path: &Path) -> anyhow::Result<ExitCode> {
    let scenario = Scenario::load(path)?;
    let variant = match &arguments.variant {
        Some(name) => scenario.variant(name)?,
        None => &scenario.variants[0],
    };
    let work = beside(&arguments.output)?;
    let trace = work.join("trace");
    let stopped = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stopped)).context("watch for signals")?;
    }
    let ended = run(arguments, path, &variant.name, &trace, &work)?;
    if ended != Some(0) {
        let _ = std::fs::remove_file(&trace);
    }
    if stopped.load(Ordering::Relaxed) || ended == Some(130) {
        talk!("steady: interrupted; no trace was written");
        return Ok(ExitCode::from(130));
    }
    if ended != Some(0) {
        // The run has said why.
        let code = ended.and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
        return Ok(ExitCode::from(code));
    }
    let (counts, digest) = read(&trace)?;
    std::fs::rename(&trace, &arguments.output)
        .with_context(|| format!("cannot write {}", arguments.output.display()))?;
    print(&arguments.output, &counts, &digest)?;
    Ok(ExitCode::from(match counts.mismatches {
        0 => 0,
        _ => FAULT,
    }))
}

/// Makes the folder of the run's result, `OUTPUT.run`.
fn beside(output: &Path) -> anyhow::Result<PathBuf> {
    anyhow::ensure!(
        !output.is_dir(),
        "{} is a folder; name a file",
        output.display()
    );
    let mut name = std::path::absolute(output)
        .context("find the current folder")?
        .into_os_string();
    name.push(".run");
    let work = PathBuf::from(name);
    std::fs::create_dir(&work).with_context(|| match work.exists() {
        true => format!("{}: remove it, or name another trace", work.display()),
        false => format!("cannot make {} for the run's result", work.display()),
    })?;
    Ok(work)
}

/// Runs one repetition of a variant; its exit code, if it has one.
fn run(
    arguments: &Capture,
    scenario: &Path,
    variant: &str,
    trace: &Path,
    work: &Path,
) -> anyhow::Result<Option<i32>> {
    let accesses = arguments.max_accesses.unwrap_or(ACCESSES);
    let words = format!("{},{accesses},{}", arguments.after_ticks, trace.display());
    let seed = arguments.seed.map(|seed| format!("--seed={seed}"));
    let status = Command::new(std::env::current_exe().context("find this program")?)
        .args(["run", "--engine", bochs::KIND.name()])
        .args(["--repetitions", "1"])
        .args(["--variant", variant])
        .args(seed)
        .arg("--out")
        .arg(work)
        .arg("--")
        .arg(scenario)
        .env("STEADY_BOCHS", "events")
        .env("STEADY_EVENTS", words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .context("run the scenario")?;
    Ok(status.code())
}

/// Reads the trace to its end; its counts, and its SHA-256.
fn read(trace: &Path) -> anyhow::Result<(Counts, String)> {
    let open = || std::fs::File::open(trace);
    let file = open().context(
        "nothing was recorded: no guest was entered at or after the time where a capture begins \
         (--after-ticks)",
    )?;
    let counts = Counts::read(BufReader::with_capacity(1 << 20, file)).context(
        "the run ended before all accesses were recorded (--max-accesses), or its trace is damaged",
    )?;
    let mut digest = Sha256::new();
    std::io::copy(&mut open()?, &mut digest).context("read the trace")?;
    Ok((counts, hex(&digest.finalize())))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn print(output: &Path, counts: &Counts, digest: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let [begin, end] = counts.window;
    writeln!(out, "{}: SHA-256 {digest}", output.display())?;
    writeln!(
        out,
        "  {} processors, {} ticks, {} instructions between accesses",
        counts.cpus,
        end.saturating_sub(begin),
        counts.instructions
    )?;
    for (vpid, [all, stores]) in &counts.accesses {
        let whose = match vpid {
            0 => "of the host".to_owned(),
            vpid => format!("of VPID {vpid}"),
        };
        writeln!(out, "  {all} accesses {whose}, {stores} of them stores")?;
    }
    writeln!(
        out,
        "  {} frames read as tables, {} of their entries changed",
        counts.tables, counts.updates
    )?;
    for (name, [all, within]) in &counts.events {
        writeln!(
            out,
            "  {name}: {within} in the window, {all} from the start"
        )?;
    }
    writeln!(
        out,
        "  walked again: {} agree, {} are stale, {} are in modes that are not walked, {} do not \
         agree",
        counts.agreed, counts.stale, counts.not_walked, counts.mismatches
    )?;
    for mismatch in &counts.first_mismatches {
        writeln!(out, "    {mismatch}")?;
    }
    Ok(())
}
