// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From a recorded trace to the checker's events.
//!
//! `kvm_entry`, `kvm_exit` and the probe are decoded where all are, in `steady_decode`; only the
//! tracepoints of Shoot4U, which mean nothing to anybody else, are read here.
//!
//! A trace is read twice. `kvm_entry` and `kvm_exit` name a vCPU by its number alone; its VM is
//! known by its thread, which shows in `kvm_shoot4u_call`, `_done` and `_flush`, recorded in the
//! vCPU's own thread. Where a vCPU has none of these, because the trace began after it was pinned
//! and started, the probe `steady:vcpu_load` helps: it has the kernel's address of the VM, which
//! another thread of that VM has too. The first pass learns threads and pCPUs, the second checks.

use std::collections::BTreeMap;
use std::path::Path;

use steady_decode::Decoder;
use steady_events::{Event as HostEvent, Kind};
use steady_tracefile::{Loss, Record, Source};

use crate::checker::Checker;
use crate::doubt::DoubtKind;
use crate::event::{Action, Event, FlushKind, Range, Stamped, VcpuId};
use crate::report::Report;

/// The most pCPUs that a trace may have; more are damage.
const MAX_PCPUS: u32 = 8192;

/// Why a trace cannot be checked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be read, or is not a trace.
    #[error(transparent)]
    Trace(#[from] steady_tracefile::Error),
    /// An event lacks a field.
    #[error(
        "event {event} at {time_ns} ns on CPU {cpu} has no number `{field}`; expected the trace \
         events of this project's kernel"
    )]
    Field {
        /// The event.
        event: String,
        /// The field.
        field: &'static str,
        /// When.
        time_ns: u64,
        /// Where.
        cpu: u32,
    },
    /// A field holds what it must not.
    #[error(
        "event {event} at {time_ns} ns on CPU {cpu}: `{field}` is {value}; expected {expected}"
    )]
    Value {
        /// The event.
        event: String,
        /// The field.
        field: &'static str,
        /// What it holds.
        value: u64,
        /// What it may hold.
        expected: &'static str,
        /// When.
        time_ns: u64,
        /// Where.
        cpu: u32,
    },
}

/// Checks the trace at `path`, which must be a file: it is read twice.
///
/// # Errors
/// If it cannot be read, is not a trace, or has other events than this project's kernel records.
pub fn check_file(path: &Path) -> Result<Report, Error> {
    let mut first = steady_tracefile::open(path)?;
    let mut second = steady_tracefile::open(path)?;
    check_sources(first.as_mut(), second.as_mut())
}

/// The same from two readers of one trace.
///
/// # Errors
/// As [`check_file`].
pub fn check_sources(first: &mut dyn Source, second: &mut dyn Source) -> Result<Report, Error> {
    let threads = Threads::learn(first)?;
    let mut checker = Checker::new(threads.pcpus);
    let mut decoder = Decoder::only(&["kvm_entry", "kvm_exit"]);
    while let Some(record) = second.next()? {
        let happened = decoder.event(&record);
        if let Some(event) = event(&record, &happened, &threads)? {
            checker.feed(Stamped {
                time_ns: record.time_ns,
                cpu: record.cpu,
                event,
            });
        }
    }
    note_loss(&mut checker, second.loss());
    if threads.ambiguous > 0 {
        checker.doubt(DoubtKind::TwoVcpus, threads.ambiguous, None);
    }
    Ok(checker.finish())
}

/// Which thread runs which vCPU.
struct Threads {
    vcpus: BTreeMap<i32, VcpuId>,
    ambiguous: u64,
    pcpus: u32,
}

impl Threads {
    fn learn(source: &mut dyn Source) -> Result<Self, Error> {
        let mut threads = Self {
            vcpus: BTreeMap::new(),
            ambiguous: 0,
            pcpus: 1,
        };
        // By thread, the address of its VM and the vCPU's number.
        let mut loaded: BTreeMap<i32, (u64, u32)> = BTreeMap::new();
        let mut decoder = Decoder::only(&["vcpu_load"]);
        while let Some(record) = source.next()? {
            if record.cpu >= MAX_PCPUS {
                let at = Fields { record: &record };
                return Err(at.wrong("common_cpu", record.cpu.into(), "a CPU below 8192"));
            }
            threads.pcpus = threads.pcpus.max(record.cpu + 1);
            let at = Fields { record: &record };
            if let Kind::VcpuLoad { vm, number, .. } = decoder.event(&record).kind {
                let vm = vm.ok_or_else(|| at.missing("vm"))?;
                let number = number.ok_or_else(|| at.missing("number"))?;
                loaded.insert(record.pid, (vm, number));
            }
            if !matches!(
                record.event.name.as_str(),
                "kvm_shoot4u_call" | "kvm_shoot4u_done" | "kvm_shoot4u_flush"
            ) {
                continue;
            }
            let vcpu = at.vcpu()?;
            if *threads.vcpus.entry(record.pid).or_insert(vcpu) != vcpu {
                threads.ambiguous += 1;
            }
        }
        threads.add_loaded(&loaded);
        assert!(
            (1..=MAX_PCPUS).contains(&threads.pcpus),
            "pCPUs were checked one by one"
        );
        Ok(threads)
    }

    /// Adds the threads whose VM another thread names.
    fn add_loaded(&mut self, loaded: &BTreeMap<i32, (u64, u32)>) {
        let mut vms: BTreeMap<u64, u32> = BTreeMap::new();
        for (pid, (address, number)) in loaded {
            // A thread that only ever loads one vCPU, as opposed to a VMM that sets all of them up.
            if let Some(vcpu) = self.vcpus.get(pid).filter(|vcpu| vcpu.vcpu == *number) {
                vms.insert(*address, vcpu.vm);
            }
        }
        for (pid, (address, number)) in loaded {
            if let Some(&vm) = vms.get(address) {
                let vcpu = VcpuId { vm, vcpu: *number };
                self.vcpus.entry(*pid).or_insert(vcpu);
            }
        }
    }
}

fn note_loss(checker: &mut Checker, loss: &Loss) {
    let gaps: u64 = loss.cpus.values().map(|c| c.gaps).sum();
    let missing = loss.lost().max(gaps) + loss.damage_count;
    let missing = missing + u64::from(loss.truncated.is_some());
    if missing > 0 {
        let cpus: Vec<String> = loss
            .cpus
            .iter()
            .filter(|(_, c)| c.lost + c.gaps + c.overrun + c.dropped > 0)
            .map(|(cpu, _)| cpu.to_string())
            .collect();
        let mut note = Vec::new();
        if !cpus.is_empty() {
            note.push(format!("{} events of CPU {}", loss.lost(), cpus.join(", ")));
        }
        if let Some(cut) = &loss.truncated {
            note.push(format!("cut off at {}", cut.place));
        }
        if let Some(damage) = loss.damage.first() {
            note.push(format!("damaged at {}: {}", damage.place, damage.what));
        }
        checker.doubt(DoubtKind::Lost, missing, Some(note.join(", ")));
    }
    if loss.out_of_order > 0 {
        checker.doubt(DoubtKind::OutOfOrder, loss.out_of_order, None);
    }
}

/// The checker's event for what happened; `None` for what does not matter.
fn event(
    record: &Record<'_>,
    happened: &HostEvent<'_>,
    threads: &Threads,
) -> Result<Option<Event>, Error> {
    let f = Fields { record };
    Ok(match happened.kind {
        Kind::Entry { vcpu } => Some(match f.runner(vcpu, threads)? {
            (Some(vcpu), _) => Event::Entry { vcpu },
            (None, vcpu) => Event::StrayEntry { vcpu },
        }),
        Kind::Exit { vcpu, .. } => f.runner(vcpu, threads)?.0.map(|vcpu| Event::Exit { vcpu }),
        // Text of ftrace does not name the remedy's system, so its tracepoints go by their names.
        _ if record.event.name.starts_with("kvm_shoot4u_") => shoot4u(&f)?,
        _ => None,
    })
}

/// The checker's event for a tracepoint of a remedy; `None` if the remedy is another.
fn shoot4u(f: &Fields<'_, '_>) -> Result<Option<Event>, Error> {
    Ok(Some(match f.record.event.name.as_str() {
        "kvm_shoot4u_call" => Event::Call {
            initiator: f.vcpu()?,
            call: f.u64("call")?,
            freed: f.u64("freed")? != 0,
            range: f.range()?,
            targets: f.u32("nr_targets")?,
        },
        "kvm_shoot4u_target" => Event::Target {
            target: f.vcpu()?,
            call: f.u64("call")?,
            pcpu: f.pcpu()?,
            action: f.action()?,
        },
        "kvm_shoot4u_invalidate" => Event::Invalidate {
            vcpu: f.vcpu()?,
            tag: f.u32("tag")?,
            pcpu: f.pcpu()?,
            range: f.range()?,
        },
        "kvm_shoot4u_done" => Event::Done {
            initiator: f.vcpu()?,
            call: f.u64("call")?,
            left: f.u32("left")?,
            ipis: f.u32("ipis")?,
        },
        "kvm_shoot4u_flush" => Event::Flush {
            vcpu: f.vcpu()?,
            pcpu: f.pcpu()?,
            kind: match f.u64("kind")? {
                1 => FlushKind::All,
                2 => FlushKind::Current,
                3 => FlushKind::Guest,
                4 => FlushKind::NewAsid,
                5 => FlushKind::Vmrun,
                other => return Err(f.wrong("kind", other, "1 to 4")),
            },
            tag: match f.record.event.field("tag") {
                Some(_) => f
                    .record
                    .u64_named("tag")
                    .and_then(|t| u32::try_from(t).ok()),
                None => None,
            },
        },
        _ => return Ok(None),
    }))
}

/// Fields of one record, or an error that names what is missing.
struct Fields<'r, 'a> {
    record: &'r Record<'a>,
}

impl Fields<'_, '_> {
    fn missing(&self, field: &'static str) -> Error {
        Error::Field {
            event: self.record.event.name.clone(),
            field,
            time_ns: self.record.time_ns,
            cpu: self.record.cpu,
        }
    }

    fn wrong(&self, field: &'static str, value: u64, expected: &'static str) -> Error {
        Error::Value {
            event: self.record.event.name.clone(),
            field,
            value,
            expected,
            time_ns: self.record.time_ns,
            cpu: self.record.cpu,
        }
    }

    fn u64(&self, field: &'static str) -> Result<u64, Error> {
        self.record
            .u64_named(field)
            .ok_or_else(|| self.missing(field))
    }

    fn u32(&self, field: &'static str) -> Result<u32, Error> {
        let value = self.u64(field)?;
        u32::try_from(value).map_err(|_| self.wrong(field, value, "a number of 32 bits"))
    }

    fn vcpu(&self) -> Result<VcpuId, Error> {
        Ok(VcpuId {
            vm: self.u32("vm")?,
            vcpu: self.u32("vcpu")?,
        })
    }

    fn pcpu(&self) -> Result<Option<u32>, Error> {
        let pcpu = self.record.i64_named("pcpu");
        let pcpu = pcpu.ok_or_else(|| self.missing("pcpu"))?;
        Ok(u32::try_from(pcpu).ok())
    }

    fn range(&self) -> Result<Range, Error> {
        Ok(Range {
            start: self.u64("start")?,
            end: self.u64("end")?,
        })
    }

    fn action(&self) -> Result<Action, Error> {
        Ok(match self.u64("action")? {
            1 => Action::Ipi,
            2 => Action::Kicked,
            3 => Action::Queued,
            4 => Action::Left,
            5 => Action::NeverRan,
            6 => Action::Own,
            other => return Err(self.wrong("action", other, "1 to 6")),
        })
    }

    /// The vCPU of `kvm_entry` and `kvm_exit`, if its thread is known, and its number.
    fn runner(&self, vcpu: Option<u32>, threads: &Threads) -> Result<(Option<VcpuId>, u32), Error> {
        let vcpu = vcpu.ok_or_else(|| self.missing("vcpu_id"))?;
        let known = threads.vcpus.get(&self.record.pid).copied();
        Ok((known.filter(|known| known.vcpu == vcpu), vcpu))
    }
}
