// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Watches one run of an emulator: reads its frames as they come, keeps its files, and ends it at
//! its end, its limit, its host's panic, or the user's wish.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use steady_agent::event::{Event, Fault, FaultKind};
use steady_agent::frame::{Decoder, Frame};

use super::machine::{CpuTime, free_bytes};
use crate::engine::{EMULATOR_LOG, EngineKind, SERIAL, STREAM, Start};
use crate::error::{LabError, RunFault};
use crate::process::{Supervised, interrupted, last_lines};

const POLL: Duration = Duration::from_millis(30);
/// How long an emulator may take to end after its host is done.
const END_LIMIT: Duration = Duration::from_secs(10);
/// Below this a failed run is told to be one of a full disk, in bytes.
const FULL_BELOW: u64 = 4 << 20;

/// What a run brought.
#[derive(Debug, Default)]
pub struct Transcript {
    /// The host's events in order, and when each was seen.
    pub events: Vec<(Duration, Event)>,
    /// Names of the files that it sent, which are in the run's folder.
    pub files: Vec<String>,
    /// From start to end.
    pub length: Duration,
    /// CPU time of this machine that went to others meanwhile, in percent of all.
    pub others_percent: u64,
}

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

impl From<RunFault> for Failed {
    fn from(fault: RunFault) -> Self {
        Self::Run(fault)
    }
}

/// Runs the emulator to its end.
///
/// # Errors
/// [`Failed`] with the first thing that went wrong.
pub fn run(
    kind: EngineKind,
    start: &Start,
    directory: &Path,
    limit: Duration,
    step: &dyn Fn(&str),
) -> Result<Transcript, Failed> {
    // Bochs prints the debug port's bytes among its own words; QEMU has a file for them.
    let (stdout, stderr) = match kind {
        EngineKind::Bochs => (directory.join(STREAM), directory.join(EMULATOR_LOG)),
        EngineKind::Qemu => (
            directory.join("emulator.out"),
            directory.join("emulator.out"),
        ),
    };
    for name in [STREAM, SERIAL] {
        let path = directory.join(name);
        File::create(&path).map_err(|error| LabError::io("create", &path, error))?;
    }
    let before = CpuTime::now(None);
    let child = Supervised::start(
        &start.program,
        &start.arguments,
        directory,
        &stdout,
        &stderr,
    )?;
    let stream = directory.join(STREAM);
    let stream = File::open(&stream).map_err(|error| LabError::io("open", &stream, error))?;
    let mut watch = Watch {
        child,
        directory: directory.to_owned(),
        stream,
        decoder: Decoder::default(),
        transcript: Transcript::default(),
        receiving: None,
        begun: Instant::now(),
        before,
        step,
        last_step: "the emulator was started".to_owned(),
    };
    watch.follow(limit)?;
    watch.transcript.length = watch.begun.elapsed();
    Ok(watch.transcript)
}

struct Watch<'a> {
    child: Supervised,
    directory: PathBuf,
    stream: File,
    decoder: Decoder,
    transcript: Transcript,
    receiving: Option<(File, u64)>,
    begun: Instant,
    before: CpuTime,
    step: &'a dyn Fn(&str),
    last_step: String,
}

impl Watch<'_> {
    fn follow(&mut self, limit: Duration) -> Result<(), Failed> {
        loop {
            // Read while the process is there: once waited for, its time is gone.
            let now = CpuTime::now(Some(self.child.id()));
            self.transcript.others_percent = self.before.others_percent(&now);
            let ended = self.child.ended()?;
            self.take_frames()?;
            if self.is_done() {
                return self.let_it_end(ended);
            }
            if let Some(status) = ended {
                return Err(self.ended_early(status).into());
            }
            if let Some(line) = self.host_panic(false) {
                self.child.kill();
                return Err(RunFault::HostPanic { line }.into());
            }
            if interrupted() {
                self.child.kill();
                return Err(LabError::Interrupted.into());
            }
            if self.begun.elapsed() > limit {
                self.child.kill();
                return Err(RunFault::TimeLimit {
                    limit,
                    step: self.last_step.clone(),
                }
                .into());
            }
            std::thread::sleep(POLL);
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.transcript.events.last(), Some((_, Event::Done { .. })))
    }

    fn let_it_end(&mut self, mut ended: Option<ExitStatus>) -> Result<(), Failed> {
        let deadline = Instant::now() + END_LIMIT;
        while ended.is_none() && Instant::now() < deadline && !interrupted() {
            std::thread::sleep(POLL);
            ended = self.child.ended()?;
        }
        // All that counts has arrived; an emulator that will not go is only ended.
        if ended.is_none() {
            self.child.kill();
        }
        let fault = self
            .transcript
            .events
            .iter()
            .find_map(|(_, event)| match event {
                Event::Fault(fault) => Some(fault),
                _ => None,
            });
        fault.map_or(Ok(()), |fault| Err(inside(fault).into()))
    }

    fn take_frames(&mut self) -> Result<(), Failed> {
        let mut bytes = Vec::new();
        let read = self.stream.read_to_end(&mut bytes);
        read.map_err(|error| LabError::io("read", &self.directory.join(STREAM), error))?;
        self.decoder.push(&bytes);
        loop {
            match self.decoder.next_frame() {
                Ok(None) => return Ok(()),
                Ok(Some(Frame::Event(event))) => self.take_event(*event)?,
                Ok(Some(Frame::File(bytes))) => self.take_bytes(&bytes)?,
                Err(error) => {
                    self.child.kill();
                    return Err(RunFault::Stream(error.to_string(), self.disk_note()).into());
                }
            }
        }
    }

    fn take_event(&mut self, event: Event) -> Result<(), Failed> {
        if let Some((_, left)) = self.receiving.take().filter(|(_, left)| *left > 0) {
            let text = format!("a file ended {left} bytes too early");
            return Err(RunFault::Stream(text, self.disk_note()).into());
        }
        if let Event::File { name, bytes } = &event {
            self.begin_file(name, *bytes)?;
        }
        self.last_step = describe(&event);
        (self.step)(&self.last_step);
        self.transcript.events.push((self.begun.elapsed(), event));
        Ok(())
    }

    fn begin_file(&mut self, name: &str, bytes: u64) -> Result<(), Failed> {
        if name.is_empty() || name.starts_with('.') || name.contains('/') {
            let text = format!("the host sends a file named `{name}`; a plain name was expected");
            return Err(RunFault::Stream(text, String::new()).into());
        }
        let path = self.directory.join(name);
        let file = File::create(&path).map_err(|error| LabError::io("create", &path, error))?;
        self.receiving = Some((file, bytes));
        self.transcript.files.push(name.to_owned());
        Ok(())
    }

    fn take_bytes(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        let length = bytes.len() as u64;
        match &mut self.receiving {
            Some((file, left)) if *left >= length => {
                *left -= length;
                file.write_all(bytes).map_err(|error| {
                    LabError::io("write a file below", &self.directory, error).into()
                })
            }
            _ => Err(RunFault::Stream(
                "bytes of a file came that was not announced".into(),
                String::new(),
            )
            .into()),
        }
    }

    fn ended_early(&self, status: ExitStatus) -> RunFault {
        if let Some(line) = self.host_panic(true) {
            return RunFault::HostPanic { line };
        }
        let said = fs::read(self.directory.join("emulator.out")).unwrap_or_default();
        let said = last_lines(&String::from_utf8_lossy(&said), 2);
        let by_itself = status.success();
        let status = if said.is_empty() {
            status.to_string()
        } else {
            format!("{status}, it said `{said}`")
        };
        let torn = match self.decoder.incomplete() {
            0..4 => String::new(),
            bytes => format!("; {bytes} bytes of an unfinished frame"),
        };
        RunFault::EmulatorEnded {
            status: status + &torn,
            by_itself,
            step: self.last_step.clone(),
            disk: self.disk_note(),
        }
    }

    fn host_panic(&self, ended: bool) -> Option<String> {
        let serial = fs::read(self.directory.join(SERIAL)).unwrap_or_default();
        let text = String::from_utf8_lossy(&serial);
        let line = text
            .split_inclusive('\n')
            .find(|line| line.contains("Kernel panic - not syncing"))?;
        // The serial line is slow: while the emulator runs, the rest of the words may still come.
        (ended || line.ends_with('\n')).then(|| line.trim().to_owned())
    }

    fn disk_note(&self) -> String {
        match free_bytes(&self.directory) {
            Some(free) if free < FULL_BELOW => format!(
                "; the disk is full: {free} bytes are free at {}; make room",
                self.directory.display()
            ),
            _ => String::new(),
        }
    }
}

fn inside(fault: &Fault) -> RunFault {
    let place = fault
        .vm
        .as_ref()
        .map_or("emulated host".to_owned(), |vm| format!("VM {vm}"));
    let what = match fault.kind {
        FaultKind::GuestPanic => "its kernel panicked",
        FaultKind::GuestTripleFault => "triple fault",
        FaultKind::GuestReset => "unexpected end",
        FaultKind::GuestSilent => "no answer",
        FaultKind::Vmm => "its VMM failed",
        FaultKind::Workload => "workload failed",
        FaultKind::Host => "cannot go on",
    };
    let file = fault
        .vm
        .as_ref()
        .map_or(SERIAL.to_owned(), |vm| format!("{vm}.console.log"));
    let tail = match last_lines(fault.console_tail.trim(), 4) {
        words if words.is_empty() => String::new(),
        words => format!("\nlast words of its console:\n{words}"),
    };
    RunFault::Inside {
        what: format!("{place}: {what}: {}", fault.text),
        file,
        tail,
    }
}

/// One event in a few words, for progress and for "last step".
fn describe(event: &Event) -> String {
    match event {
        Event::Up { cpus, .. } => format!("host up with {cpus} pCPUs"),
        Event::GuestUp { vm, .. } => format!("guest {vm} up"),
        Event::Begin { vm, index, .. } => format!("workload {} of {vm} started", index + 1),
        Event::End(end) => format!("workload {} of {} ended", end.index + 1, end.vm),
        Event::ProgramBegin { program } => format!("{program} started"),
        Event::ProgramEnd(end) => format!("{} ended", end.program),
        Event::File { name, .. } => format!("file {name} arrives"),
        Event::Fault(_) => "a fault was reported".to_owned(),
        Event::Done { .. } => "host done".to_owned(),
    }
}
