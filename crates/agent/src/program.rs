// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One program of a guest, or of the host itself: its set-up, its run under a time limit, what it
//! leaves.
//!
//! Output goes to files on tmpfs, not to pipes: nothing has to drain them while the program runs,
//! so this init sleeps and costs the measured program nothing.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::unistd::Pid;
use steady_agent::channel::Output;
use steady_agent::plan::WorkloadPlan;

use crate::system::{self, Doing, Failure};

const STDOUT: &str = "/run/workload.out";
/// Where a program writes its errors to.
pub const STDERR: &str = "/run/workload.err";
/// Longest output that travels to the host, in bytes.
const STDOUT_LIMIT: usize = 1 << 20;
const STDERR_LIMIT: usize = 4 << 10;
/// Longest words of a program in an error, in bytes.
const SAID_LIMIT: usize = 500;
/// How often a program's words are looked at for the one that says that it is ready.
const READY_POLL: Duration = Duration::from_millis(10);
/// How long a background program has to end after SIGTERM.
const STOP_LIMIT_NS: u64 = 15_000_000_000;

/// A workload from its set-up to its output.
#[derive(Debug)]
pub struct Running {
    plan: WorkloadPlan,
    background: bool,
    child: Option<Child>,
    started_ns: u64,
    before: BTreeMap<String, u64>,
    output: Output,
}

impl Running {
    /// Runs the set-up commands.
    pub fn prepare(plan: WorkloadPlan, background: bool) -> Result<Self, Failure> {
        // SIGCHLD is waited for with a limit, so it must be blocked before the first child.
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGCHLD);
        signals.thread_block().doing(|| "block SIGCHLD".into())?;
        for argv in &plan.setup {
            let mut child = spawn(argv, &plan)?;
            let status = wait_limited(&mut child, plan.time_limit_ms)?;
            if !status.is_some_and(|status| status.success()) {
                let said = last_words();
                let how = status.map_or("ran into its time limit".to_owned(), |status| {
                    status.to_string()
                });
                return Err(Failure::new(format!(
                    "set-up `{}` of {}: {how}; {said}",
                    argv.join(" "),
                    plan.program
                )));
            }
        }
        Ok(Self {
            plan,
            background,
            child: None,
            started_ns: 0,
            before: BTreeMap::new(),
            output: Output::default(),
        })
    }

    /// Whether it runs until it is terminated.
    pub fn is_background(&self) -> bool {
        self.background
    }

    /// Starts the program.
    pub fn start(&mut self) -> Result<(), Failure> {
        self.before = system::counters();
        self.started_ns = system::now_ns();
        self.child = Some(spawn(&self.plan.argv, &self.plan)?);
        match self.plan.ready.clone() {
            Some(ready) => self.wait_ready(&ready),
            None => Ok(()),
        }
    }

    /// Waits until it has printed a line with `ready` in it.
    fn wait_ready(&mut self, ready: &str) -> Result<(), Failure> {
        let (name, limit_ms) = (&self.plan.program, self.plan.time_limit_ms);
        let deadline_ns = system::now_ns() + limit_ms * 1_000_000;
        loop {
            // Looked at first: what it printed is there once it has ended.
            let child = self.child.as_mut().map(Child::try_wait);
            let ended = child.transpose().doing(|| format!("look at {name}"))?;
            let said = [STDOUT, STDERR].map(|path| part(path, 0, STDOUT_LIMIT));
            if said
                .iter()
                .any(|text| text.lines().any(|line| line.contains(ready)))
            {
                return Ok(());
            }
            let how = match ended.flatten() {
                Some(status) => format!("ended before that: {status}"),
                None if system::now_ns() >= deadline_ns => format!("did not in {limit_ms} ms"),
                None => {
                    std::thread::sleep(READY_POLL);
                    continue;
                }
            };
            let mut words = said.iter().rev().map(|text| text.trim());
            let words = words.find(|text| !text.is_empty());
            return Err(Failure::new(format!(
                "{name} is ready when it prints a line with `{ready}`, but {how}; it said: {}",
                system::tail(
                    words.unwrap_or(
                        "nothing (a program that writes to a file may keep \
                    its lines until it flushes them)"
                    ),
                    SAID_LIMIT
                )
            )));
        }
    }

    /// Waits for its end or ends it at its limit.
    pub fn wait(&mut self) -> Result<(), Failure> {
        let limit_ms = self.plan.time_limit_ms;
        let child = self
            .child
            .as_mut()
            .ok_or_else(|| Failure::new("nothing runs"))?;
        let status = wait_limited(child, limit_ms)?;
        self.output.timed_out = status.is_none();
        self.finish(status)
    }

    /// Asks a background program to end and waits for it.
    pub fn terminate(&mut self) -> Result<(), Failure> {
        let Some(child) = self.child.as_mut() else {
            return Ok(());
        };
        if self.output.wall_ns != 0 {
            return Ok(());
        }
        let pid = Pid::from_raw(i32::try_from(child.id()).doing(|| "process id".into())?);
        // It may have ended by itself; its status tells.
        let still_runs = child
            .try_wait()
            .doing(|| "look at a child".into())?
            .is_none();
        self.output.asked_to_end = still_runs;
        let _ = kill(pid, Signal::SIGTERM);
        let status = wait_limited(child, STOP_LIMIT_NS / 1_000_000)?;
        self.finish(status)
    }

    fn finish(&mut self, status: Option<ExitStatus>) -> Result<(), Failure> {
        self.output.wall_ns = system::now_ns() - self.started_ns;
        self.output.counters = system::added(&self.before, &system::counters());
        self.output.exit_code = status.and_then(|status| status.code());
        self.output.signal = status.and_then(|status| status.signal());
        Ok(())
    }

    /// What it left.
    pub fn into_output(mut self) -> Result<Output, Failure> {
        // A program that floods them may have left more than this guest's memory holds twice.
        let written = length(STDOUT);
        if written > STDOUT_LIMIT {
            let text = format!(
                "{} wrote {written} bytes to standard output; at most {STDOUT_LIMIT} are carried: \
                 it may print less, or into a file",
                self.plan.program
            );
            return Err(Failure::new(text));
        }
        self.output.stdout = part(STDOUT, 0, STDOUT_LIMIT);
        self.output.stderr = last_words();
        Ok(self.output)
    }
}

/// Length of what a program has written to a file, in bytes.
fn length(path: &str) -> usize {
    let length = fs::metadata(path).map_or(0, |metadata| metadata.len());
    usize::try_from(length).unwrap_or(usize::MAX)
}

/// The end of what a program has written to standard error.
fn last_words() -> String {
    let from = length(STDERR).saturating_sub(STDERR_LIMIT);
    part(STDERR, from, STDERR_LIMIT)
}

/// At most `limit` bytes of it, as text; empty if it cannot be read.
fn part(path: &str, from: usize, limit: usize) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::Start(from as u64))?;
        let mut bytes = Vec::new();
        file.take(limit as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// Starts what runs beside workloads; its words go to `stderr`.
pub fn spawn_beside(plan: &WorkloadPlan, stderr: Stdio) -> Result<Child, Failure> {
    let mut command = command(&plan.argv)?;
    command.envs(&plan.env).current_dir("/tmp");
    command.stdout(Stdio::null()).stderr(stderr);
    let program = &plan.argv[0];
    command.spawn().doing(|| format!("start `{program}`"))
}

/// A command with an empty environment and input.
fn command(argv: &[String]) -> Result<Command, Failure> {
    let (program, arguments) = argv
        .split_first()
        .ok_or_else(|| Failure::new("an empty command"))?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().stdin(Stdio::null());
    Ok(command)
}

fn spawn(argv: &[String], plan: &WorkloadPlan) -> Result<Child, Failure> {
    let create = |path: &str| File::create(path).doing(|| format!("create {path}"));
    command(argv)?
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
        .env("HOME", "/data")
        .env("TMPDIR", "/data")
        .envs(&plan.env)
        .current_dir(plan.folder.as_deref().unwrap_or("/data"))
        .stdout(create(STDOUT)?)
        .stderr(create(STDERR)?)
        // A group of its own, so that what it started ends with it at the limit.
        .process_group(0)
        .spawn()
        .doing(|| format!("start `{}`", argv[0]))
}

/// Waits for a child; `None` if it had to be killed at the limit.
fn wait_limited(child: &mut Child, limit_ms: u64) -> Result<Option<ExitStatus>, Failure> {
    let deadline_ns = system::now_ns() + limit_ms * 1_000_000;
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGCHLD);
    loop {
        if let Some(status) = child.try_wait().doing(|| "wait for a program".into())? {
            return Ok(Some(status));
        }
        let now_ns = system::now_ns();
        if now_ns >= deadline_ns {
            let group = Pid::from_raw(i32::try_from(child.id()).doing(|| "process id".into())?);
            let _ = killpg(group, Signal::SIGKILL);
            child.wait().doing(|| "wait for a killed program".into())?;
            return Ok(None);
        }
        sleep_until_child(&signals, Duration::from_nanos(deadline_ns - now_ns));
    }
}

fn sleep_until_child(signals: &SigSet, limit: Duration) {
    let limit = libc::timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(limit.subsec_nanos()),
    };
    crate::raw::wait_signal(signals, &limit);
}
