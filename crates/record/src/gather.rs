// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes what a ring holds, and writes it with all that is known of the host into one file.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use steady_diagnose::VmNotes;
use steady_hostview::Host;

use crate::dat::{self, CpuPages, Head};
use crate::error::RecordError;
use crate::incident::{self, About, Parts, SCHEMA, Waited};
use crate::instance::Instance;
use crate::pages;
use crate::redact::{Fields, Redactor};
use crate::tables;
use crate::watch::Wait;

/// Knobs of the scheduler, below `/proc/sys` and `/sys`.
const KNOBS: [&str; 8] = [
    "/proc/sys/kernel/sched_autogroup_enabled",
    "/proc/sys/kernel/sched_rt_runtime_us",
    "/proc/sys/kernel/numa_balancing",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/devices/system/cpu/smt/control",
    "/sys/devices/system/cpu/isolated",
    "/sys/devices/system/cpu/nohz_full",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
];
/// Characters of a knob's value.
const VALUE: usize = 200;

/// Pages on their way from the ring to a file.
#[derive(Debug)]
pub(crate) struct Pages {
    cpus: Vec<CpuPages>,
    size: usize,
}

impl Pages {
    /// Empty ones, in files without names in `folder`.
    pub fn new(ring: &Instance, folder: &Path) -> Result<Self, RecordError> {
        let one = |number: u32| {
            let file = tempfile::tempfile_in(folder);
            let file = file.map_err(RecordError::io("make a file in", folder))?;
            Ok(CpuPages {
                number,
                file,
                len: 0,
                overwritten: false,
            })
        };
        let cpus = ring
            .cpus()
            .into_iter()
            .map(one)
            .collect::<Result<_, RecordError>>()?;
        Ok(Self {
            cpus,
            size: ring.page(),
        })
    }

    /// Bytes that were taken.
    pub fn len(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.len).sum()
    }

    /// Takes what the ring holds; whether all of it, and not as many bytes as `most` allows.
    /// `first` is the ring's own oldest: what was overwritten before is not a loss.
    pub fn take(
        &mut self,
        ring: &mut Instance,
        most: u64,
        first: bool,
    ) -> Result<bool, RecordError> {
        let mut total = self.len();
        let mut all = true;
        let (cpus, place) = (&mut self.cpus, Path::new("the pages of the ring"));
        ring.drain(&mut |at, page| {
            let cpu = &mut cpus[at];
            assert_eq!(cpu.len % page.len() as u64, 0, "only whole pages are taken");
            if total + page.len() as u64 > most {
                all = false;
                return Ok(());
            }
            if first && cpu.len == 0 {
                cpu.overwritten = pages::take_missed(page);
            }
            cpu.file
                .write_all(page)
                .map_err(RecordError::io("write", place))?;
            cpu.len += page.len() as u64;
            total += page.len() as u64;
            Ok(())
        })?;
        Ok(all)
    }
}

/// What stands in an incident beside its pages.
#[derive(Debug)]
pub(crate) struct Beside<'a> {
    pub notes: &'a VmNotes,
    /// Tables from before.
    pub before: &'a str,
    pub host: &'a Host,
    pub wait: Option<&'a Wait>,
    pub left_out: &'a [String],
}

/// Writes all into one file; gives its size.
pub(crate) fn write(
    path: &Path,
    ring: &Instance,
    pages: &mut Pages,
    beside: &Beside<'_>,
    redactor: &mut Redactor,
) -> Result<u64, RecordError> {
    // Names of VMs first: a thread that is named like its VM has the same pseudonym.
    let notes = redactor.notes(beside.notes);
    let text = beside.before.to_owned()
        + &tables::tables(beside.host, beside.notes)
        + &tables::complaints();
    let tables = redactor.text(&text);
    let release = one_line("/proc/sys/kernel/osrelease");
    let formats = ring.formats()?;
    let fields = Fields::of(formats.iter().map(|(.., text)| text.as_str()));
    let host = one_line("/proc/sys/kernel/hostname");
    let host = if redactor.is_on() { "host" } else { &host };
    let head = Head {
        header_page: ring.top("events/header_page"),
        header_event: ring.top("events/header_event"),
        names: redactor.names(&ring.top("saved_cmdlines")),
        clock: ring.read("trace_clock").unwrap_or_default(),
        uname: format!("Linux {host} {release} {}", std::env::consts::ARCH),
        stats: Vec::new(),
        formats,
    };
    let about = About {
        schema: SCHEMA.to_owned(),
        version: 1,
        steady: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: release,
        cpus: u32::try_from(pages.cpus.len()).unwrap_or(u32::MAX),
        unix_s: unix_s(),
        trigger: beside.wait.map(|wait| redactor.known(&wait.to_string())),
        waited: beside.wait.map(|wait| Waited {
            tid: wait.tid,
            at_least_ns: wait.at_least_ns,
        }),
        redacted: redactor.is_on(),
        knobs: knobs(),
        left_out: beside.left_out.to_vec(),
    };
    let from = dat::whole_from(&mut pages.cpus).map_err(RecordError::io("read", path))?;
    let parts = Parts {
        about: &about,
        notes: &notes,
        tables: &tables,
    };
    incident::write(path, &parts, |mut out| {
        let mut change = |page: &mut [u8]| {
            if redactor.is_on() {
                fields.redact(page, redactor);
            }
        };
        dat::write(
            &mut out,
            &head,
            pages.size,
            &mut pages.cpus,
            from,
            &mut change,
        )
    })
}

/// Seconds since 1970.
pub(crate) fn unix_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

fn one_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.trim().chars().take(VALUE).collect()
}

/// Parameters of the KVM modules of this host, and of its scheduler.
#[must_use]
pub fn knobs() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for module in ["kvm", "kvm_intel", "kvm_amd"] {
        let folder = format!("/sys/module/{module}/parameters");
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if let Ok(value) = fs::read_to_string(entry.path()) {
                let name = entry.file_name().to_string_lossy().into_owned();
                found.insert(format!("{module}.{name}"), value.trim().to_owned());
            }
        }
    }
    for path in KNOBS {
        let value = one_line(path);
        if !value.is_empty() {
            let mut parts = path.rsplit('/');
            let (name, folder) = (parts.next(), parts.next());
            let name = format!("{}.{}", folder.unwrap_or(""), name.unwrap_or(path));
            found.insert(name, value);
        }
    }
    found
}
