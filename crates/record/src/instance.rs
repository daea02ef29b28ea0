// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An instance of tracefs of our own: its ring, the events that go into it, and what is read out.
//!
//! The ring overwrites its oldest records. Other users of ftrace do not see it and are not
//! disturbed; nothing of the kernel's top instance is changed but probes, which are always global.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use steady_events::probe::{GROUP, Probe};

use crate::error::RecordError;
use crate::guard::{Guard, append, name, sweep};

/// Names for several instances of one process.
static NUMBER: AtomicU64 = AtomicU64::new(0);
/// What the kernel accepts as a filter (`event_filter_write`: less than a page).
const FILTER: usize = 4000;

/// Takes a page of a CPU, by the CPU's place among all.
pub type Sink<'a> = dyn FnMut(usize, &mut [u8]) -> Result<(), RecordError> + 'a;

/// What goes into a ring.
#[derive(Debug, Clone)]
pub struct Events {
    /// Tracepoints as `system:name`.
    pub tracepoints: Vec<String>,
    /// Probes to set.
    pub probes: Vec<&'static Probe>,
}

impl Events {
    /// Systems and names, of the tracepoints and then of the probes.
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        let split = |event: &String| {
            let (system, name) = event.split_once(':').unwrap_or((event, ""));
            (system.to_owned(), name.to_owned())
        };
        let probes = self
            .probes
            .iter()
            .map(|probe| (GROUP.to_owned(), probe.event.to_owned()));
        self.tracepoints.iter().map(split).chain(probes).collect()
    }
}

/// The ring of one CPU.
#[derive(Debug)]
struct Cpu {
    number: u32,
    raw: File,
}

/// A ring that records, or can.
#[derive(Debug)]
pub struct Instance {
    tracefs: PathBuf,
    folder: PathBuf,
    events: Events,
    cpus: Vec<Cpu>,
    page: usize,
    /// Freed with this file, also by the kernel when the process is killed.
    free: Option<File>,
    guard: Guard,
}

impl Instance {
    /// Makes a ring of `buffer_kib` for each CPU, switched off. What dead recorders left goes
    /// first.
    ///
    /// # Errors
    /// [`RecordError::NoTracefs`], [`RecordError::NoRights`], [`RecordError::Memory`],
    /// [`RecordError::Io`]. Nothing is left then.
    pub fn create(tracefs: &Path, buffer_kib: u64, events: Events) -> Result<Self, RecordError> {
        usable(tracefs)?;
        sweep(tracefs, Path::new("/proc"), GROUP);
        let name = name(NUMBER.fetch_add(1, Ordering::Relaxed));
        let probes: Vec<String> = events
            .probes
            .iter()
            .map(|probe| format!("{GROUP}/{}", probe.event))
            .collect();
        let guard = Guard::start(tracefs, &name, &probes)
            .map_err(RecordError::io("start", Path::new("/bin/sh")))?;
        let mut made = Self {
            tracefs: tracefs.to_owned(),
            folder: tracefs.join("instances").join(name),
            events,
            cpus: Vec::new(),
            page: 0,
            free: None,
            guard,
        };
        fs::create_dir(&made.folder).map_err(RecordError::io("make", &made.folder))?;
        made.write("tracing_on", "0")?;
        let sized = made.write("buffer_size_kb", &buffer_kib.to_string());
        sized.map_err(|error| {
            RecordError::Memory(format!("no room for {buffer_kib} KiB a CPU ({error})"))
        })?;
        // Comparable over CPUs, and with the clock of this process. Without it the kernel's own.
        let _ = made.write("trace_clock", "mono");
        let _ = made.write("options/disable_on_free", "1");
        let free = made.folder.join("free_buffer");
        let opened = OpenOptions::new().write(true).open(&free);
        made.free = Some(opened.map_err(RecordError::io("open", &free))?);
        made.open_cpus()?;
        made.set_probes()?;
        Ok(made)
    }

    fn open_cpus(&mut self) -> Result<(), RecordError> {
        let head = self.top("events/header_page");
        self.page = crate::dat::page_size(&head).ok_or_else(|| RecordError::Damaged {
            path: self.tracefs.join("events/header_page"),
            what: format!("expected pages with a count of 8 bytes, found: {head}"),
        })?;
        let folder = self.folder.join("per_cpu");
        let entries = fs::read_dir(&folder).map_err(RecordError::io("read", &folder))?;
        for entry in entries.flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            let Some(Ok(number)) = file.strip_prefix("cpu").map(str::parse) else {
                continue;
            };
            let path = entry.path().join("trace_pipe_raw");
            let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            let raw = OpenOptions::new()
                .read(true)
                .custom_flags(nonblocking)
                .open(&path);
            let raw = raw.map_err(RecordError::io("open", &path))?;
            self.cpus.push(Cpu { number, raw });
        }
        self.cpus.sort_by_key(|cpu| cpu.number);
        Ok(())
    }

    fn set_probes(&mut self) -> Result<(), RecordError> {
        let path = self.tracefs.join("kprobe_events");
        for probe in &self.events.probes {
            match append(&path, &probe.to_string()) {
                // Another recorder's: the same probe.
                Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                    return Err(RecordError::io("set a probe in", &path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Lets KVM's events and the probes pass of these threads alone; whether the kernel takes it.
    #[must_use]
    pub fn only(&self, tids: &[i32]) -> bool {
        let filter = filter(tids);
        let systems = ["kvm", GROUP].map(|system| self.folder.join("events").join(system));
        let takes = |system: &PathBuf| {
            !system.is_dir() || fs::write(system.join("filter"), &filter).is_ok()
        };
        filter.len() <= FILTER && systems.iter().all(takes)
    }

    /// Switches the events on. Before the first of them is hit the ring is empty.
    ///
    /// # Errors
    /// [`RecordError::Io`].
    pub fn on(&self) -> Result<(), RecordError> {
        for (system, name) in self.events.all() {
            self.write(&format!("events/{system}/{name}/enable"), "1")?;
        }
        self.record(true)
    }

    /// Goes on recording, or stops without switching events off: the ring can be read whole.
    ///
    /// # Errors
    /// [`RecordError::Io`].
    pub fn record(&self, on: bool) -> Result<(), RecordError> {
        self.write("tracing_on", if on { "1" } else { "0" })
    }

    /// Empties the ring.
    ///
    /// # Errors
    /// [`RecordError::Io`].
    pub fn clear(&self) -> Result<(), RecordError> {
        self.write("trace", "")
    }

    /// The sum over CPUs of a line of the ring's statistics.
    #[must_use]
    pub fn stat(&self, key: &str) -> u64 {
        let of = |cpu: &Cpu| {
            let text = self
                .read(&format!("per_cpu/cpu{}/stats", cpu.number))
                .ok()?;
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            line.trim().parse::<u64>().ok()
        };
        self.cpus.iter().filter_map(of).sum()
    }

    /// The CPUs.
    #[must_use]
    pub fn cpus(&self) -> Vec<u32> {
        self.cpus.iter().map(|cpu| cpu.number).collect()
    }

    /// Bytes of a page.
    #[must_use]
    pub fn page(&self) -> usize {
        self.page
    }

    /// Takes what the rings hold, page by page, oldest first; `sink` gets a CPU's place in
    /// [`Self::cpus`] and ends it by an error.
    ///
    /// # Errors
    /// Of the ring, as [`RecordError::Io`], and of `sink`.
    pub fn drain(&mut self, sink: &mut Sink<'_>) -> Result<(), RecordError> {
        let mut page = vec![0; self.page];
        let folder = self.folder.join("per_cpu");
        for (at, cpu) in self.cpus.iter_mut().enumerate() {
            loop {
                match cpu.raw.read(&mut page) {
                    Ok(0) => break,
                    Ok(len) => {
                        page[len..].fill(0);
                        sink(at, &mut page)?;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(RecordError::io("read the rings in", &folder)(error)),
                }
            }
        }
        Ok(())
    }

    /// A line into the ring, as programs write them.
    pub(crate) fn marker(&self) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .open(self.folder.join("trace_marker"))
    }

    /// Systems, names and descriptions of the events.
    pub(crate) fn formats(&self) -> Result<Vec<(String, String, String)>, RecordError> {
        let read = |(system, name): (String, String)| {
            let text = self.read(&format!("events/{system}/{name}/format"))?;
            Ok((system, name, text))
        };
        self.events.all().into_iter().map(read).collect()
    }

    /// A file of the top instance.
    pub(crate) fn top(&self, file: &str) -> String {
        read_at_once(&self.tracefs.join(file)).unwrap_or_default()
    }

    pub(crate) fn read(&self, file: &str) -> Result<String, RecordError> {
        let path = self.folder.join(file);
        fs::read_to_string(&path).map_err(RecordError::io("read", &path))
    }

    fn write(&self, file: &str, text: &str) -> Result<(), RecordError> {
        let path = self.folder.join(file);
        let mut opened = OpenOptions::new();
        // Opened so, `trace` is emptied.
        let opened = opened.write(true).truncate(true).open(&path);
        let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(RecordError::io("write", &path))
    }
}

/// As after a kill: the files are closed, and the guard takes all away.
impl Drop for Instance {
    fn drop(&mut self) {
        self.cpus.clear();
        drop(self.free.take());
        self.guard.end();
        if self.folder.exists() {
            // That stderr is gone is not a reason to panic.
            let folder = self.folder.display();
            let line = format!("steady: {folder} could not be removed: rmdir {folder}\n");
            let _ = io::stderr().write_all(line.as_bytes());
        }
    }
}

/// A file of tracefs, of which some give their text to the first read alone.
fn read_at_once(path: &Path) -> io::Result<String> {
    let mut text = vec![0; 1 << 16];
    let mut file = File::open(path)?;
    let mut len = 0;
    loop {
        match file.read(&mut text[len..])? {
            0 => break,
            more => len += more,
        }
        text.resize(len + (1 << 16), 0);
    }
    Ok(String::from_utf8_lossy(&text[..len]).into_owned())
}

/// Whether tracefs is there and may be used.
pub(crate) fn usable(tracefs: &Path) -> Result<(), RecordError> {
    match fs::read_dir(tracefs.join("instances")) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(RecordError::NoRights(tracefs.to_owned()));
        }
        Err(_) => return Err(RecordError::NoTracefs(tracefs.to_owned())),
    }
    let opened = OpenOptions::new()
        .write(true)
        .open(tracefs.join("set_event"));
    opened
        .map(drop)
        .map_err(|_| RecordError::NoRights(tracefs.to_owned()))
}

/// The threads as a filter; those whose numbers follow each other as a range.
fn filter(tids: &[i32]) -> String {
    let mut tids = tids.to_vec();
    tids.sort_unstable();
    tids.dedup();
    let runs = tids.chunk_by(|a, b| a + 1 == *b);
    let terms = runs.map(|run| match run {
        [one] => format!("common_pid=={one}"),
        _ => format!(
            "(common_pid>={}&&common_pid<={})",
            run.first().unwrap_or(&0),
            run.last().unwrap_or(&0)
        ),
    });
    let terms: Vec<String> = terms.collect();
    // Without a thread nothing passes.
    if terms.is_empty() {
        "common_pid==-1".to_owned()
    } else {
        terms.join("||")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_follow_each_other_are_one_term_of_a_filter() {
        assert_eq!(
            filter(&[12, 10, 11, 7]),
            "common_pid==7||(common_pid>=10&&common_pid<=12)"
        );
        assert_eq!(filter(&[]), "common_pid==-1");
    }

    #[test]
    fn a_folder_that_is_not_tracefs_is_refused_with_the_command_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let events = Events {
            tracepoints: Vec::new(),
            probes: Vec::new(),
        };
        let error = Instance::create(folder.path(), 64, events)
            .unwrap_err()
            .to_string();
        assert!(error.contains("mount -t tracefs"), "{error}");
    }
}
