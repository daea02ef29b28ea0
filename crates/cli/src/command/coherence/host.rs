// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady coherence capture --host`: a trace of a whole emulated host with its guests.
//!
//! It is a run of one variant in the Bochs that writes what happens to translations
//! (docs/formats/hosttrace.md), which this command itself starts. The trace is then read whole:
//! every access is walked through the recorded tables. The run's own result stays beside it, with
//! what the host's trace points counted. Left out: simulating it.

use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use sha2::{Digest, Sha256};
use steady_lab::engine::bochs;
use steady_lab_artifacts::need;
use steady_lab_artifacts::process::{ask_to_end, ending_with_us, interrupted};
use steady_memtrace::host::Sequences;
use steady_scenario::Scenario;

use super::matched;
use super::traced::{Traced, traced};
use super::walked::{FAULT, Walked};
use crate::arguments::coherence::Capture;

/// Accesses that are recorded if no number is given.
const ACCESSES: u64 = 20_000_000;
/// How long a run may take to end its emulators and itself.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Records a run of a scenario; exit code 130 if that was interrupted, with no trace kept.
pub fn capture(arguments: &Capture, path: &Path) -> anyhow::Result<ExitCode> {
    let scenario = Scenario::load(path)?;
    let variant = match &arguments.variant {
        Some(name) => scenario.variant(name)?,
        None => &scenario.variants[0],
    };
    // What starts the run, so that it ends with this program.
    need::require(need::of(&["step"]))?;
    // From here on signals are asked for, and end nothing by themselves.
    let _ = interrupted();
    let work = Work::beside(&arguments.output)?;
    let ended = run(arguments, path, &variant.name, &work)?;
    if interrupted() || ended.code() == Some(130) {
        return Ok(said_interrupted());
    }
    match ended.code() {
        Some(0) => {}
        // The run has said why.
        Some(code) => return Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
        None => anyhow::bail!("the run of the scenario was ended from outside: {ended}"),
    }
    let walked = match read(&work.trace()) {
        Err(_) if interrupted() => return Ok(said_interrupted()),
        read => read?,
    };
    // What is wrong with the kernel's trace is said when the recorded one has its place.
    let both = arguments.trace.then(|| both(&work));
    if interrupted() {
        return Ok(said_interrupted());
    }
    std::fs::rename(work.trace(), &arguments.output)
        .with_context(|| format!("cannot write {}", arguments.output.display()))?;
    let mut out = std::io::stdout().lock();
    walked.print(&mut out, &arguments.output)?;
    let agree = match both.transpose()? {
        Some((captured, traced)) => {
            matched::print(&mut out, &captured, &traced, &matched::compared(variant))?
        }
        None => true,
    };
    Ok(ExitCode::from(match walked.agrees() && agree {
        true => 0,
        false => FAULT,
    }))
}

/// What happened to the vCPUs, as recorded and as the kernel traced it.
fn both(work: &Work) -> anyhow::Result<(Sequences, Traced)> {
    let file = File::open(work.trace()).map(UntilInterrupted)?;
    let captured = Sequences::read(BufReader::with_capacity(1 << 20, file))?;
    Ok((captured, traced(&work.0)?))
}

fn said_interrupted() -> ExitCode {
    talk!("steady: interrupted; no trace was written");
    ExitCode::from(130)
}

/// The folder of the run's result, `OUTPUT.run`. When it is dropped, a trace that was not taken out
/// goes, and so do folders with nothing in them.
struct Work(PathBuf);

impl Work {
    /// Makes it.
    fn beside(output: &Path) -> anyhow::Result<Self> {
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
        Ok(Self(work))
    }

    /// Where the trace is until it is whole.
    fn trace(&self) -> PathBuf {
        self.0.join("trace")
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.trace());
        remove_empty(&self.0);
    }
}

/// Removes a folder if there are only folders in it.
fn remove_empty(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        // A link to a folder is not one.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty(&entry.path());
        }
    }
    // It stays where something is left in it.
    let _ = std::fs::remove_dir(folder);
}

/// Runs one repetition of a variant; how it ended.
fn run(
    arguments: &Capture,
    scenario: &Path,
    variant: &str,
    work: &Work,
) -> anyhow::Result<ExitStatus> {
    let accesses = arguments.max_accesses.unwrap_or(ACCESSES);
    let trace = work.trace();
    let words = format!("{},{accesses},{}", arguments.after_ticks, trace.display());
    let seed = arguments.seed.map(|seed| format!("--seed={seed}"));
    let this = std::env::current_exe().context("find this program")?;
    let child = ending_with_us("TERM", &this)
        .args(["run", "--engine", bochs::KIND.name()])
        .args(["--repetitions", "1"])
        .args(["--variant", variant])
        .args(seed)
        .args(arguments.trace.then_some("--trace"))
        .arg("--out")
        .arg(&work.0)
        .arg("--")
        .arg(scenario)
        .env("STEADY_BOCHS", "events")
        .env("STEADY_EVENTS", words)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // A terminal's Ctrl-C comes to it once, from here.
        .process_group(0)
        .spawn()
        .context("run the scenario")?;
    wait(child).context("wait for the run of the scenario")
}

/// Waits for a run; ends it where this program is to end.
fn wait(mut child: Child) -> anyhow::Result<ExitStatus> {
    let mut asked: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        match asked {
            None if interrupted() => {
                asked = Some(Instant::now());
                ask_to_end(&child);
            }
            // Its emulators die with it.
            Some(since) if since.elapsed() > PATIENCE => child.kill()?,
            _ => {}
        }
        std::thread::sleep(POLL);
    }
}

/// A file that is not read on once this program is to end.
struct UntilInterrupted(File);

impl Read for UntilInterrupted {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        match interrupted() {
            true => Err(std::io::Error::other("interrupted")),
            false => self.0.read(bytes),
        }
    }
}

/// Reads the trace of a run to its end.
fn read(trace: &Path) -> anyhow::Result<Walked> {
    let file = File::open(trace).map(UntilInterrupted).context(
        "nothing was recorded: no guest was entered at or after the time where a capture begins \
         (--after-ticks)",
    )?;
    Walked::of(file, trace).context(
        "the run ended before all accesses were recorded (--max-accesses), or its trace is damaged",
    )
}

/// The SHA-256 of a trace, hexadecimal.
pub fn sha256(trace: &Path) -> anyhow::Result<String> {
    let mut digest = Sha256::new();
    let mut file = File::open(trace).map(UntilInterrupted)?;
    std::io::copy(&mut file, &mut digest).context("read the trace")?;
    let bytes = digest.finalize();
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
