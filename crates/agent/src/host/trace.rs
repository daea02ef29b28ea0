// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A `trace.dat` of the run, recorded by trace-cmd inside the emulated host.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use steady_agent::plan::TracePlan;

use crate::system::{self, Doing, Failure};

/// Where trace-cmd writes.
pub const TRACE_FILE: &str = "/tmp/trace.dat";
const PROBES: &str = "/sys/kernel/tracing/kprobe_events";
const SAID: &str = "/tmp/trace-cmd.log";
/// How long trace-cmd may take to begin and to write its file, in nanoseconds.
const LIMIT_NS: u64 = 60_000_000_000;

/// A recording that runs.
#[derive(Debug)]
pub struct Recording(Child);

/// Starts trace-cmd and waits until the kernel's tracing is on.
pub fn start(plan: &TracePlan) -> Result<Recording, Failure> {
    set_probes(&plan.probes)?;
    let said = std::fs::File::create(SAID).doing(|| format!("create {SAID}"))?;
    let mut command = Command::new("/usr/bin/trace-cmd");
    command.args([
        "record",
        "-q",
        "-o",
        TRACE_FILE,
        "-b",
        &plan.buffer_kib.to_string(),
    ]);
    for event in &plan.events {
        command.args(["-e", event]);
    }
    command
        .current_dir("/tmp")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said);
    let mut child = command.spawn().doing(|| "start trace-cmd".into())?;
    let deadline_ns = system::now_ns() + LIMIT_NS;
    // trace-cmd enables its events last, so an enabled event means that it records.
    while !events_enabled() {
        let ended = child.try_wait().doing(|| "wait for trace-cmd".into())?;
        if ended.is_some() || system::now_ns() > deadline_ns {
            return Err(Failure::new(format!(
                "trace-cmd does not record: {}",
                said_at_the_end()
            )));
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Ok(Recording(child))
}

/// One write for each line: the kernel then says which one it refuses.
fn set_probes(lines: &[String]) -> Result<(), Failure> {
    for line in lines {
        OpenOptions::new()
            .append(true)
            .open(PROBES)
            .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()))
            .doing(|| format!("write `{line}` to {PROBES}"))?;
    }
    Ok(())
}

fn events_enabled() -> bool {
    let state = system::read_trimmed("/sys/kernel/tracing/events/kvm/kvm_entry/enable");
    state.starts_with('1') && system::read_trimmed("/sys/kernel/tracing/tracing_on") == "1"
}

fn said_at_the_end() -> String {
    system::tail(&system::read_trimmed(SAID), 1000).to_owned()
}

impl Recording {
    /// Ends the recording; the file is complete afterwards.
    pub fn stop(mut self) -> Result<&'static Path, Failure> {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).doing(|| "process id".into())?);
        kill(pid, Signal::SIGINT).doing(|| "interrupt trace-cmd".into())?;
        let deadline_ns = system::now_ns() + LIMIT_NS;
        loop {
            match self.0.try_wait().doing(|| "wait for trace-cmd".into())? {
                Some(status) if status.success() => return Ok(Path::new(TRACE_FILE)),
                Some(status) => {
                    return Err(Failure::new(format!(
                        "trace-cmd: {status}; {}",
                        said_at_the_end()
                    )));
                }
                None if system::now_ns() > deadline_ns => {
                    let _ = self.0.kill();
                    return Err(Failure::new("trace-cmd did not write its file within 60 s"));
                }
                None => std::thread::sleep(std::time::Duration::from_millis(20)),
            }
        }
    }
}
