// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A recorder that is ready: its ring, what it costs, and a recording of some seconds. The
//! other way to record is in `flight.rs`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use steady_diagnose::{VmNote, VmNotes};
use steady_hostview::Host;

use crate::condition::Condition;
use crate::error::RecordError;
use crate::estimate::{Estimate, probe};
use crate::gather::{Beside, Pages, write};
use crate::instance::Instance;
use crate::plan::Plan;
use crate::redact::Redactor;
use crate::shelf::free;
use crate::tables;
use crate::vms::vms;
use crate::watch::{Wait, Watch};

/// How often the rings are read, and how long a stop is waited for at most.
const READ: Duration = Duration::from_millis(100);
/// Bytes of an incident beside its trace, and a part of a file system that stays free.
pub(crate) const BESIDE: u64 = 16 << 20;
pub(crate) const MIB: u64 = 1 << 20;
/// VMs that have ended and are still noted.
const ENDED: usize = 16;
/// Looks that are timed.
const LOOKS: u64 = 20;
/// What it costs to wake and to sleep again, beside a look: two switches and a timer.
const WAKE_NS: u64 = 10_000;

/// How to record.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where tracefs is mounted.
    pub tracefs: PathBuf,
    /// The host.
    pub host: Host,
    /// The ring of each CPU, in KiB.
    pub buffer_kib: u64,
    /// A VM's name or process, if only its KVM events are wanted.
    pub vm: Option<String>,
    /// Whether names are replaced.
    pub redact: bool,
    /// How long at most; `None` until it is stopped.
    pub time: Option<Duration>,
}

/// A recorder that is ready.
#[derive(Debug)]
pub struct Recorder<'a> {
    pub(crate) options: &'a Options,
    pub(crate) ring: Instance,
    redactor: Redactor,
    pub(crate) left_out: Vec<String>,
    pub(crate) notes: VmNotes,
    /// What it costs, by a probe.
    pub estimate: Estimate,
}

impl<'a> Recorder<'a> {
    /// Makes the ring, and probes what recording costs.
    ///
    /// # Errors
    /// [`RecordError`]; nothing is left on then.
    pub fn new(options: &'a Options, plan: Plan) -> Result<Self, RecordError> {
        let notes = vms(&options.host);
        let only = options
            .vm
            .as_deref()
            .map(|wanted| find(&notes, wanted))
            .transpose()?;
        let tids = only.map(threads);
        let mut left_out = plan.left_out;
        let ring = Instance::create(&options.tracefs, options.buffer_kib, plan.events)?;
        let memory = options.buffer_kib.saturating_mul(ring.cpus().len() as u64) / 1024;
        let there = available_mib(&options.host.proc);
        if memory > there / 2 {
            return Err(RecordError::Memory(format!(
                "the rings would take {memory} MiB, more than half of the {there} MiB available"
            )));
        }
        if tids.is_some_and(|tids| !ring.only(&tids)) {
            left_out.push("the filter by VM: this kernel does not take it".to_owned());
        }
        let estimate = probe(&ring)?;
        let redactor = Redactor::new(options.redact);
        Ok(Self {
            options,
            ring,
            redactor,
            left_out,
            notes,
            estimate,
        })
    }

    /// The VMs that were there at the begin.
    #[must_use]
    pub fn notes(&self) -> &VmNotes {
        &self.notes
    }

    /// What this kernel does not have.
    #[must_use]
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Memory of the rings, in bytes.
    #[must_use]
    pub fn ring_bytes(&self) -> u64 {
        self.options.buffer_kib * 1024 * self.ring.cpus().len() as u64
    }

    /// Records into `out` until the time is over, `stop` is set, or the trace has `most` bytes;
    /// whether the last. Gives the file's size too.
    ///
    /// # Errors
    /// [`RecordError`]; then no file is written.
    pub fn once(
        &mut self,
        out: &Path,
        most: u64,
        stop: &AtomicBool,
    ) -> Result<(u64, bool), RecordError> {
        let folder = match out.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let before = tables::tables(&self.options.host, &self.notes);
        let mut pages = Pages::new(&self.ring, folder)?;
        self.ring.record(true)?;
        let begun = Instant::now();
        let over = |passed| self.options.time.is_some_and(|time| passed >= time);
        let mut whole = true;
        while whole && !over(begun.elapsed()) && !stop.load(Ordering::Relaxed) {
            let left = self
                .options
                .time
                .map_or(READ, |time| time.saturating_sub(begun.elapsed()));
            std::thread::sleep(left.min(READ));
            whole = pages.take(&mut self.ring, most, false)?;
        }
        self.ring.record(false)?;
        whole = whole && pages.take(&mut self.ring, most, false)?;
        // Of VMs that started meanwhile too; those that ended are still known.
        self.renew();
        let size = self.write(out, &mut pages, &before, None)?;
        Ok((size, !whole))
    }

    pub(crate) fn write(
        &mut self,
        out: &Path,
        pages: &mut Pages,
        before: &str,
        wait: Option<&Wait>,
    ) -> Result<u64, RecordError> {
        let beside = Beside {
            notes: &self.notes,
            before,
            host: &self.options.host,
            wait,
            left_out: &self.left_out,
        };
        write(out, &self.ring, pages, &beside, &mut self.redactor)
    }

    /// Notes what VMs there are now; whether they changed. The last that ended stay known: their
    /// waits may still be in the ring.
    pub(crate) fn renew(&mut self) -> bool {
        let mut vms = vms(&self.options.host).vms;
        let is_gone = |vm: &&VmNote| vms.iter().all(|other| other.process != vm.process);
        let mut ended: Vec<VmNote> = self.notes.vms.iter().filter(is_gone).cloned().collect();
        ended.drain(..ended.len().saturating_sub(ENDED));
        vms.splice(0..0, ended);
        let changed = vms != self.notes.vms;
        self.notes = VmNotes::new(vms);
        changed
    }

    /// The VM that is watched, if only one is.
    pub(crate) fn only(&self) -> Option<&VmNote> {
        let wanted = self.options.vm.as_deref()?;
        find(&self.notes, wanted).ok()
    }

    /// Adds to the estimate what looking at the vCPUs costs.
    ///
    /// # Errors
    /// [`RecordError::NoWaits`].
    pub fn probe_looks(&mut self, condition: Condition) -> Result<(), RecordError> {
        let mut watch = Watch::new(&self.options.host.proc, condition.wait_ns);
        watch.follow(&self.notes, self.only().map(|vm| vm.process), now_ns())?;
        let begun = Instant::now();
        for _ in 0..LOOKS {
            let _ = watch.look(now_ns());
        }
        let each = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX) / LOOKS;
        let in_a_second = 1_000_000_000 / watch.period_ns().max(1);
        self.estimate.look_ns = each.saturating_add(WAKE_NS).saturating_mul(in_a_second);
        Ok(())
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`, which the ring has too.
pub(crate) fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let part = |value: i64| u64::try_from(value).unwrap_or(0);
    part(time.tv_sec) * 1_000_000_000 + part(time.tv_nsec)
}

pub(crate) fn threads(vm: &VmNote) -> Vec<i32> {
    vm.vcpus
        .iter()
        .map(|vcpu| vcpu.tid)
        .chain(vm.threads.iter().copied())
        .collect()
}

/// A VM by its name or process.
fn find<'n>(notes: &'n VmNotes, wanted: &str) -> Result<&'n VmNote, RecordError> {
    let is = |vm: &&VmNote| vm.name.as_deref() == Some(wanted) || vm.process.to_string() == wanted;
    // Of a VM that was started again the one that runs, which stands behind.
    notes.vms.iter().rfind(is).ok_or_else(|| {
        let one = |vm: &VmNote| match &vm.name {
            Some(name) => format!("{name} ({})", vm.process),
            None => vm.process.to_string(),
        };
        let there: Vec<String> = notes.vms.iter().map(one).collect();
        let there = if there.is_empty() {
            "none runs".to_owned()
        } else {
            there.join(", ")
        };
        RecordError::NoVm {
            wanted: wanted.to_owned(),
            there,
        }
    })
}

/// Memory that programs can still have, in MiB; without an answer as much as can be.
fn available_mib(proc: &Path) -> u64 {
    let text = std::fs::read_to_string(proc.join("meminfo")).unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib / 1024)
}

/// Whether `most` bytes and the pages on their way fit where `out` will be.
///
/// # Errors
/// In words, as [`RecordError::Damaged`].
pub fn fits(out: &Path, most: u64) -> Result<(), RecordError> {
    let folder = match out.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let (free, needed) = (free(folder), 2 * most + BESIDE);
    if free >= needed {
        return Ok(());
    }
    Err(RecordError::Damaged {
        path: folder.to_owned(),
        what: format!(
            "{} MiB are free, and up to {} needed; use a smaller --max-mib",
            free / MIB,
            needed / MIB
        ),
    })
}
