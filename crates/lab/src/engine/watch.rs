// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Watches one run of an emulator: reads its stream as it comes, and ends it at its end, its limit,
//! its host's panic, or the user's wish.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use steady_lab_artifacts::ArtifactError;
use steady_lab_artifacts::process::{Supervised, last_lines};

use super::machine::CpuTime;
use super::receive::{Receiver, host_panic};
use crate::engine::{EMULATOR_OUT, SERIAL, STREAM, Start};
use crate::error::{LabError, RunFault};

pub use super::receive::Transcript;

/// How many times as long a host may be silent while it boots.
const BOOT_SILENCE: u32 = 4;
const POLL: Duration = Duration::from_millis(30);
/// By how much a busy machine may stretch a limit that counts the emulator's CPU time.
const BUSY: u32 = 8;
/// How long an emulator may take to end after its host is done.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Why a run did not come to its end.
#[derive(Debug)]
pub enum Failed {
    /// The run itself.
    Run(RunFault),
    /// The machinery around it.
    Lab(LabError),
}

impl From<LabError> for Failed {
    fn from(error: LabError) -> Self {
        Self::Lab(error)
    }
}

impl From<ArtifactError> for Failed {
    fn from(error: ArtifactError) -> Self {
        Self::Lab(error.into())
    }
}

impl From<RunFault> for Failed {
    fn from(fault: RunFault) -> Self {
        Self::Run(fault)
    }
}

/// What ends a run that does not end by itself.
#[derive(Clone, Copy)]
pub struct Bounds<'a> {
    /// The longest that it may take, by the wall.
    pub limit: Duration,
    /// Whether `limit` is rather of the emulator's own CPU time: one that runs on one thread and
    /// whose clock is not the wall is not slow because the machine is busy. The wall then bounds
    /// it at [`BUSY`] times as long.
    pub of_cpu_time: bool,
    /// The longest that its host may say nothing while the emulator runs or sleeps: one that a busy
    /// machine does not let run does not stand still, and one that sleeps for ever does. Until
    /// the first word it is [`BOOT_SILENCE`] times as long.
    pub silence: Duration,
    /// Whether the user has asked to stop.
    pub stop: &'a dyn Fn() -> bool,
}

impl Bounds<'_> {
    /// The limit that a run is beyond after these times.
    fn exceeded(&self, wall: Duration, cpu_time: Duration) -> Option<Duration> {
        let most = if self.of_cpu_time {
            self.limit * BUSY
        } else {
            self.limit
        };
        let counted = if self.of_cpu_time { cpu_time } else { wall };
        assert!(most >= self.limit, "a busy machine shortens no limit");
        if wall > most {
            return Some(most);
        }
        (counted > self.limit).then_some(self.limit)
    }
}

impl std::fmt::Debug for Bounds<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Bounds").field(&self.limit).finish()
    }
}

/// Runs the emulator to its end in `directory`.
///
/// # Errors
/// [`Failed`] with the first thing that went wrong.
pub fn run(
    start: &Start,
    directory: &Path,
    bounds: Bounds<'_>,
    step: &dyn Fn(&str),
) -> Result<Transcript, Failed> {
    for name in [STREAM, SERIAL] {
        let path = directory.join(name);
        File::create(&path).map_err(|error| LabError::io("create", &path, error))?;
    }
    let before = CpuTime::now(None);
    let child = Supervised::start(
        &start.program,
        &start.arguments,
        directory,
        &directory.join(start.stdout),
        &directory.join(start.stderr),
    )?;
    let stream = directory.join(STREAM);
    let stream = File::open(&stream).map_err(|error| LabError::io("open", &stream, error))?;
    let mut watch = Watch {
        child,
        directory: directory.to_owned(),
        stream,
        receiver: Receiver::new(directory, step),
        heard: false,
        silent: Duration::ZERO,
        before,
        bounds,
    };
    // However it ended: the child is ended with the watch.
    watch.follow()?;
    let length = watch.receiver.elapsed();
    let mut transcript = watch.receiver.transcript;
    transcript.length = length;
    Ok(transcript)
}

struct Watch<'a> {
    child: Supervised,
    directory: PathBuf,
    stream: File,
    receiver: Receiver<'a>,
    /// Whether its host has said anything.
    heard: bool,
    /// For how long it has said nothing since.
    silent: Duration,
    before: CpuTime,
    bounds: Bounds<'a>,
}

impl Watch<'_> {
    fn follow(&mut self) -> Result<(), Failed> {
        let mut last = (Instant::now(), CpuTime::default());
        loop {
            // Read while the process is there: once waited for, its time is gone.
            let now = CpuTime::now(Some(self.child.id()));
            self.silent += last.1.could_run(&now, last.0.elapsed());
            last = (Instant::now(), now);
            self.receiver.transcript.others_percent = self.before.others_percent(&now);
            let ended = self.child.ended()?;
            if self.take_frames()? {
                (self.heard, self.silent) = (true, Duration::ZERO);
            }
            if self.receiver.is_done() {
                return self.let_it_end(ended);
            }
            if let Some(status) = ended {
                return Err(self.ended_early(status).into());
            }
            if let Some(line) = host_panic(&self.directory, false) {
                return Err(RunFault::HostPanic { line }.into());
            }
            if (self.bounds.stop)() {
                return Err(LabError::Interrupted.into());
            }
            if let Some(limit) = self
                .bounds
                .exceeded(self.receiver.elapsed(), now.of_process())
            {
                let step = self.receiver.last_step();
                return Err(RunFault::TimeLimit { limit, step }.into());
            }
            if ended.is_none() {
                self.listen()?;
            }
            std::thread::sleep(POLL);
        }
    }

    /// Is the host still there?
    fn listen(&self) -> Result<(), RunFault> {
        let most = self.bounds.silence * if self.heard { 1 } else { BOOT_SILENCE };
        let silent = self.silent;
        if silent <= most {
            return Ok(());
        }
        Err(RunFault::StoodStill {
            silent,
            step: self.receiver.last_step(),
        })
    }

    fn let_it_end(&mut self, mut ended: Option<ExitStatus>) -> Result<(), Failed> {
        let deadline = Instant::now() + END_LIMIT;
        while ended.is_none() && Instant::now() < deadline && !(self.bounds.stop)() {
            std::thread::sleep(POLL);
            ended = self.child.ended()?;
        }
        // All that counts has arrived; an emulator that will not go is only ended, with the watch.
        self.receiver
            .fault()
            .map_or(Ok(()), |fault| Err(fault.into()))
    }

    /// Takes what has come; says whether there was anything.
    fn take_frames(&mut self) -> Result<bool, Failed> {
        let mut bytes = Vec::new();
        let read = self.stream.read_to_end(&mut bytes);
        read.map_err(|error| LabError::io("read", &self.directory.join(STREAM), error))?;
        self.receiver.take(&bytes)?;
        Ok(!bytes.is_empty())
    }

    fn ended_early(&self, status: ExitStatus) -> RunFault {
        if let Some(line) = host_panic(&self.directory, true) {
            return RunFault::HostPanic { line };
        }
        let said = fs::read(self.directory.join(EMULATOR_OUT)).unwrap_or_default();
        let said = last_lines(&String::from_utf8_lossy(&said), 2);
        let by_itself = status.success();
        let status = if said.is_empty() {
            status.to_string()
        } else {
            format!("{status}, it said `{said}`")
        };
        RunFault::EmulatorEnded {
            status: status + &self.receiver.torn(),
            by_itself,
            step: self.receiver.last_step(),
            disk: self.receiver.disk_note(),
        }
    }
}
