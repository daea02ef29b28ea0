// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What one thread ran, waited for a pCPU, and where it is: `schedstat` and `stat` of
//! `/proc/PID/task/TID` (Documentation/scheduler/sched-stats.rst, proc(5)).
//!
//! `schedstat` stays open: a read costs no look-up of paths, and the file of a thread that has
//! ended gives an error, also when its number belongs to another thread by then.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::limits::{allowed, cpuset};
use crate::{Cpus, Host, files};

/// Reads one thread again and again.
#[derive(Debug)]
pub struct Meter {
    tid: i32,
    task: PathBuf,
    schedstat: File,
    /// When the thread started, in ticks of the clock since boot (field 22 of `stat`).
    started: u64,
}

/// What a thread did until now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Time on a pCPU, in nanoseconds.
    pub run_ns: u64,
    /// Time on a run queue without running, in nanoseconds. It counts when the thread gets its
    /// pCPU.
    pub wait_ns: u64,
}

/// Where a thread is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The pCPU that it is or was last on.
    pub cpu: u32,
    /// Whether it runs or waits to run, and does not sleep.
    pub wants: bool,
}

impl Meter {
    /// Opens a thread's file.
    ///
    /// # Errors
    /// `NotFound` if the thread has ended, or the kernel has no `schedstat` (`CONFIG_SCHED_INFO`);
    /// others, such as too many open files, say nothing of the thread.
    pub fn open(host: &Host, process: i32, tid: i32) -> io::Result<Self> {
        let task = host.proc.join(format!("{process}/task/{tid}"));
        let ended = || io::Error::from(ErrorKind::NotFound);
        let schedstat = File::open(task.join("schedstat"))?;
        let stat = read(&task)?;
        let started = number(fields(&stat).ok_or_else(ended)?, STARTED).ok_or_else(ended)?;
        let meter = Self {
            tid,
            task,
            schedstat,
            started,
        };
        // The file and the number are of one thread if it still has both.
        meter.read().map(|_| meter).ok_or_else(ended)
    }

    /// The thread.
    #[must_use]
    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// When it started, in ticks since boot: with its number it names a thread for all time.
    #[must_use]
    pub fn started(&self) -> u64 {
        self.started
    }

    /// What it did until now; `None` if it has ended.
    #[must_use]
    pub fn read(&self) -> Option<Reading> {
        let mut buffer = [0; 96];
        let count = self.schedstat.read_at(&mut buffer, 0).ok()?;
        let text = std::str::from_utf8(&buffer[..count]).ok()?;
        let mut words = text.split_ascii_whitespace();
        Some(Reading {
            run_ns: words.next()?.parse().ok()?,
            wait_ns: words.next()?.parse().ok()?,
        })
    }

    /// The pCPU that it is or was last on; `None` if it has ended.
    #[must_use]
    pub fn cpu(&self) -> Option<u32> {
        self.place().map(|place| place.cpu)
    }

    /// Where it is; `None` if it has ended.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        self.read()?;
        let stat = read(&self.task).ok()?;
        let fields = fields(&stat)?;
        let cpu = u32::try_from(number(fields, PROCESSOR)?).ok()?;
        let wants = fields.starts_with('R');
        Some(Place { cpu, wants })
    }

    /// The pCPUs that it may run on now; `None` if it has ended.
    #[must_use]
    pub fn allowed(&self) -> Option<Cpus> {
        self.read()?;
        Some(allowed(&self.task)).filter(|cpus| !cpus.is_empty())
    }

    /// What the cpuset of its control group leaves to it now; `None` where that is not known.
    #[must_use]
    pub fn cpuset(&self, host: &Host) -> Option<Cpus> {
        cpuset(&self.task, &host.groups)
    }
}

/// Fields of `stat` as proc(5) counts them: the first is 1.
const STARTED: usize = 22;
const PROCESSOR: usize = 39;

/// `stat` of a thread; one that ended in between is not found.
fn read(task: &Path) -> io::Result<String> {
    const NO_SUCH_PROCESS: i32 = 3;
    files::text(&task.join("stat")).map_err(|error| match error.raw_os_error() {
        Some(NO_SUCH_PROCESS) => ErrorKind::NotFound.into(),
        _ => error,
    })
}

/// The fields of `stat` from the third on: the second is a name that may have blanks and brackets.
fn fields(stat: &str) -> Option<&str> {
    stat.get(stat.rfind(')')? + 2..)
}

fn number(fields: &str, field: usize) -> Option<u64> {
    fields.split_ascii_whitespace().nth(field - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_thread_of_a_made_tree_is_read_again_after_it_has_run() {
        let made = tempfile::tempdir().unwrap();
        let task = made.path().join("proc/7/task/8");
        fs::create_dir_all(&task).unwrap();
        let stat = |cpu: u32| {
            let rest = (4..=52).map(|n| match n {
                22 => 4711.to_string(),
                39 => cpu.to_string(),
                _ => n.to_string(),
            });
            let rest: Vec<String> = rest.collect();
            format!("8 (CPU 0/) K) R {}\n", rest.join(" "))
        };
        let put = |file: &str, text: &str| fs::write(task.join(file), text).unwrap();
        put("stat", &stat(3));
        put("schedstat", "100 20 3\n");
        put("status", "Cpus_allowed_list:\t0-3\n");
        let meter = Meter::open(&Host::under(made.path()), 7, 8).unwrap();
        assert_eq!(
            (meter.tid(), meter.started(), meter.cpu()),
            (8, 4711, Some(3))
        );
        let (run_ns, wait_ns) = (100, 20);
        assert_eq!(meter.read(), Some(Reading { run_ns, wait_ns }));
        put("schedstat", "900 21 4\n");
        put("stat", &stat(5));
        assert_eq!(meter.read().unwrap().run_ns, 900);
        assert_eq!(
            meter.place(),
            Some(Place {
                cpu: 5,
                wants: true
            })
        );
        assert_eq!(meter.allowed().unwrap().to_string(), "0-3");
    }

    #[test]
    fn a_thread_of_this_host_that_ends_gives_no_more_readings() {
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let link = fs::read_link("/proc/thread-self").unwrap();
            tell.send(link).unwrap();
            wait.recv().unwrap_err();
        });
        let link = told.recv().unwrap();
        let tid = link.file_name().unwrap().to_str().unwrap().parse().unwrap();
        let process = i32::try_from(std::process::id()).unwrap();
        let meter = Meter::open(&Host::default(), process, tid).unwrap();
        assert!(meter.read().is_some() && meter.cpu().is_some() && meter.allowed().is_some());
        drop(end);
        thread.join().unwrap();
        assert_eq!(
            (meter.read(), meter.cpu(), meter.allowed()),
            (None, None, None)
        );
    }
}
