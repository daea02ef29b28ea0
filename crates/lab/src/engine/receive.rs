// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the bytes that an emulated host sends to a transcript: its events, and files in the run's
//! folder.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use steady_agent::event::{Event, Fault, FaultKind};
use steady_agent::frame::{Decoder, Frame};
use steady_lab_artifacts::process::last_lines;

use super::watch::Failed;
use crate::engine::SERIAL;
use crate::error::{LabError, RunFault};

/// Below this a failed run is reported as one of a full disk, in bytes.
const FULL_BELOW: u64 = 4 << 20;
/// The longest rest of a stream that says nothing: what may be the beginning of a frame's magic.
const REST_MAX: usize = 3;

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

/// Takes the stream of one run.
pub struct Receiver<'a> {
    directory: PathBuf,
    decoder: Decoder,
    receiving: Option<(File, u64)>,
    begun: Instant,
    step: &'a dyn Fn(&str),
    last_step: String,
    /// What has come.
    pub transcript: Transcript,
}

impl std::fmt::Debug for Receiver<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receiver")
            .field("directory", &self.directory)
            .field("last_step", &self.last_step)
            .finish_non_exhaustive()
    }
}

impl<'a> Receiver<'a> {
    /// Files go to `directory`, and `step` hears of each step.
    pub fn new(directory: &Path, step: &'a dyn Fn(&str)) -> Self {
        Self {
            directory: directory.to_owned(),
            decoder: Decoder::default(),
            receiving: None,
            begun: Instant::now(),
            step,
            last_step: "the emulator was started".to_owned(),
            transcript: Transcript::default(),
        }
    }

    /// Since the run began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The last thing that the host reported.
    #[must_use]
    pub fn last_step(&self) -> String {
        self.last_step.clone()
    }

    /// Whether the host has said that the run is over.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self.transcript.events.last(), Some((_, Event::Done { .. })))
    }

    /// The first fault that the host reported.
    #[must_use]
    pub fn fault(&self) -> Option<RunFault> {
        let mut events = self.transcript.events.iter();
        events.find_map(|(_, event)| match event {
            Event::Fault(fault) => Some(inside(fault, &self.directory)),
            _ => None,
        })
    }

    /// A note on a frame that had begun when the stream ended, or nothing.
    #[must_use]
    pub fn torn(&self) -> String {
        match self.decoder.incomplete() {
            0..=REST_MAX => String::new(),
            bytes => format!("; {bytes} bytes of an unfinished frame"),
        }
    }

    /// A note if the disk is full, or nothing.
    #[must_use]
    pub fn disk_note(&self) -> String {
        match steady_race::free_bytes(&self.directory) {
            Some(free) if free < FULL_BELOW => format!(
                "; the disk is full: {free} bytes are free at {}; make room",
                self.directory.display()
            ),
            _ => String::new(),
        }
    }

    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// [`RunFault::Stream`] if they make no sense, [`LabError::Artifact`] if a file cannot be
    /// written.
    pub fn take(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        self.decoder.push(bytes);
        loop {
            match self.decoder.next_frame() {
                Ok(None) => return Ok(()),
                Ok(Some(Frame::Event(event))) => self.take_event(*event)?,
                Ok(Some(Frame::File(bytes))) => self.take_bytes(&bytes)?,
                Err(error) => {
                    return Err(RunFault::Stream(error.to_string(), self.disk_note()).into());
                }
            }
        }
    }

    fn take_event(&mut self, event: Event) -> Result<(), Failed> {
        if matches!(event, Event::Alive { .. }) {
            return Ok(());
        }
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
}

/// The host kernel's own words if it panicked. While the emulator runs, a line without its end does
/// not count yet: the serial line is slow, and the rest of the words may still come.
#[must_use]
pub fn host_panic(directory: &Path, ended: bool) -> Option<String> {
    let serial = fs::read(directory.join(SERIAL)).unwrap_or_default();
    let text = String::from_utf8_lossy(&serial);
    let line = text
        .split_inclusive('\n')
        .find(|line| line.contains("Kernel panic - not syncing"))?;
    (ended || line.ends_with('\n')).then(|| line.trim().to_owned())
}

/// Whether the host killed a process for want of memory.
fn host_lacked_memory(directory: &Path) -> bool {
    let serial = fs::read(directory.join(SERIAL)).unwrap_or_default();
    String::from_utf8_lossy(&serial).contains("Out of memory: Killed process")
}

fn inside(fault: &Fault, directory: &Path) -> RunFault {
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
    let own = fault.console_tail.lines().filter(|line| !is_usual(line));
    let own: Vec<&str> = own.collect();
    let tail = match last_lines(own.join("\n").trim(), 4) {
        words if words.is_empty() => String::new(),
        words => format!("\nlast words of its console:\n{words}"),
    };
    let memory = match fault.kind {
        FaultKind::Vmm if host_lacked_memory(directory) => {
            "; the host ran out of memory, of which VMs' disks take too: raise memory_mib of [host]"
        }
        _ => "",
    };
    RunFault::Inside {
        kind: fault.kind,
        what: format!("{place}: {what}: {}{memory}", fault.text),
        file,
        tail,
    }
}

/// Whether every healthy guest prints this line: it is about neither its end nor its programs.
fn is_usual(line: &str) -> bool {
    const USUAL: [&str; 4] = [
        "ACPI BIOS Error (bug): A valid RSDP was not found",
        "VMX not supported by CPU",
        "SVM not supported by CPU",
        "isn't AMD or Hygon",
    ];
    USUAL.iter().any(|usual| line.contains(usual))
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
        Event::Alive { .. } => "a sign of life".to_owned(),
        Event::Fault(_) => "a fault was reported".to_owned(),
        Event::Done { .. } => "host done".to_owned(),
    }
}
