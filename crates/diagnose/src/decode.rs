// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the records of a trace to events.
//!
//! Fields are found by name, once for each event of a trace. Where printed text calls a field
//! otherwise than the binary format does, both names are tried.

use steady_events::{Event, ExitReason, Isa, Kind, Task, TaskState, probe};
use steady_tracefile::{EventDef, FieldId, Record};

/// Which of our events an event of the trace is, and the names of the fields that it needs; names
/// after a `|` are those of printed text. The order is that of [`Decoder::kind`].
const KNOWN: &[(&str, What, &[&str])] = &[
    ("kvm_entry", What::Entry, &["vcpu_id|vcpu"]),
    (
        "kvm_exit",
        What::Exit,
        &[
            "vcpu_id|vcpu",
            "exit_reason|reason",
            "guest_rip|rip",
            "isa",
            "intr_info",
        ],
    ),
    (
        "sched_switch",
        What::Switch,
        &[
            "prev_pid",
            "prev_comm",
            "prev_state",
            "next_pid",
            "next_comm",
        ],
    ),
    ("sched_wakeup", What::Wakeup, &["pid", "target_cpu|CPU"]),
    ("sched_wakeup_new", What::Wakeup, &["pid", "target_cpu|CPU"]),
    ("sched_migrate_task", What::Migrate, &["pid", "dest_cpu"]),
    ("kvm_apic_ipi", What::IpiSent, &["icr_low|vec"]),
    ("kvm_apic_accept_irq", What::Accepted, &["apicid", "vec"]),
    ("kvm_inj_virq", What::Injected, &["vector|irq|IRQ"]),
    ("kvm_hypercall", What::Hypercall, &["nr"]),
    ("kvm_pv_tlb_flush", What::PvFlush, &["need_flush_tlb"]),
    ("kvm_msr", What::Msr, &["write", "ecx|msr_write", "data"]),
    ("kvm_apic", What::Apic, &["rw", "reg", "val"]),
    ("kvm_vcpu_wakeup", What::HaltEnd, &["ns", "waited"]),
    ("kvm_halt_poll_ns", What::HaltPoll, &["new"]),
    ("kvm_ple_window_update", What::PleWindow, &["new"]),
    ("kvm_ple_window", What::PleWindow, &["new"]),
    ("local_timer_entry", What::HostTimer, &[]),
    ("csd_queue_cpu", What::CallQueued, &["cpu", "csd", "func"]),
    ("csd_function_exit", What::CallDone, &["csd"]),
    ("tlb_flush", What::TlbFlush, &["reason", "pages"]),
    ("spin_begin", What::SpinBegin, &["vcpu", "vm"]),
    ("spin_end", What::SpinEnd, &[]),
    ("boost", What::BoostTry, &["target", "number"]),
    ("boost_return", What::BoostReturn, &["value"]),
    ("vcpu_load", What::VcpuLoad, &["vcpu", "vm", "number"]),
    ("shootdown_begin", What::ShootdownBegin, &[]),
    ("shootdown_end", What::ShootdownEnd, &[]),
];

/// Names that are ours alone when their system is [`probe::GROUP`].
const OF_PROBES: [What; 7] = [
    What::SpinBegin,
    What::SpinEnd,
    What::BoostTry,
    What::BoostReturn,
    What::VcpuLoad,
    What::ShootdownBegin,
    What::ShootdownEnd,
];

const MOST_FIELDS: usize = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Entry,
    Exit,
    Switch,
    Wakeup,
    Migrate,
    IpiSent,
    Accepted,
    Injected,
    Hypercall,
    PvFlush,
    Msr,
    Apic,
    HaltEnd,
    HaltPoll,
    PleWindow,
    HostTimer,
    CallQueued,
    CallDone,
    TlbFlush,
    SpinBegin,
    SpinEnd,
    BoostTry,
    BoostReturn,
    VcpuLoad,
    ShootdownBegin,
    ShootdownEnd,
    Other,
}

/// Decodes the records of one trace.
#[derive(Debug)]
pub struct Decoder {
    layouts: Vec<Option<Layout>>,
    /// The ISA of exits whose records do not tell: that of the last one that did, or VMX.
    isa: Isa,
    /// Records of known events that lacked a field without which they mean nothing.
    unreadable: u64,
}

#[derive(Debug, Clone, Copy)]
struct Layout {
    what: What,
    fields: [[Option<FieldId>; 3]; MOST_FIELDS],
}

impl Layout {
    fn of(event: &EventDef) -> Self {
        let mut layout = Self {
            what: What::Other,
            fields: [[None; 3]; MOST_FIELDS],
        };
        let Some(&(_, what, names)) = KNOWN.iter().find(|(name, ..)| *name == event.name) else {
            return layout;
        };
        let foreign = !event.system.is_empty() && event.system != probe::GROUP;
        if OF_PROBES.contains(&what) && foreign {
            return layout;
        }
        layout.what = what;
        for (at, names) in names.iter().enumerate() {
            for (or, name) in names.split('|').enumerate() {
                layout.fields[at][or] = event.field(name);
            }
        }
        layout
    }
}

/// A record with the places of its fields.
struct Fields<'r, 'a> {
    record: &'r Record<'a>,
    layout: Layout,
}

impl<'a> Fields<'_, 'a> {
    fn u64(&self, at: usize) -> Option<u64> {
        let mut ids = self.layout.fields[at].iter().flatten();
        ids.find_map(|&id| self.record.u64(id))
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.u64(at).and_then(|value| u32::try_from(value).ok())
    }

    fn tid(&self, at: usize) -> Option<i32> {
        let mut ids = self.layout.fields[at].iter().flatten();
        let value = ids.find_map(|&id| self.record.i64(id))?;
        i32::try_from(value).ok()
    }

    fn str(&self, at: usize) -> Option<&'a [u8]> {
        let mut ids = self.layout.fields[at].iter().flatten();
        ids.find_map(|&id| self.record.str(id))
    }

    /// The low byte, which is where an interrupt command keeps its vector.
    fn vector(&self, at: usize) -> Option<u8> {
        u8::try_from(self.u64(at)? & 0xff).ok()
    }

    /// A flag that is a number in binary traces and a word in text.
    fn flag(&self, at: usize) -> Option<bool> {
        match self.u64(at) {
            Some(value) => Some(value != 0),
            None => Some(matches!(self.str(at)?, b"true" | b"Y" | b"wait" | b"write")),
        }
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            layouts: Vec::new(),
            isa: Isa::Vmx,
            unreadable: 0,
        }
    }
}

impl Decoder {
    /// Records of events known by name that could not be read.
    #[must_use]
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// The event of a record.
    pub fn event<'a>(&mut self, record: &Record<'a>) -> Event<'a> {
        let index = record.event.index;
        if index >= self.layouts.len() {
            self.layouts.resize(index + 1, None);
        }
        let layout = *self.layouts[index].get_or_insert_with(|| Layout::of(record.event));
        let kind = match layout.what {
            What::Other => Kind::Other,
            _ => self.kind(&Fields { record, layout }).unwrap_or_else(|| {
                self.unreadable += 1;
                Kind::Other
            }),
        };
        Event {
            time_ns: record.time_ns,
            cpu: record.cpu,
            tid: record.pid,
            comm: record.comm,
            kind,
        }
    }

    fn kind<'a>(&mut self, f: &Fields<'_, 'a>) -> Option<Kind<'a>> {
        Some(match f.layout.what {
            What::Entry => Kind::Entry { vcpu: f.u32(0) },
            What::Exit => self.exit(f)?,
            What::Switch => Kind::Switch {
                prev: Task {
                    tid: f.tid(0)?,
                    comm: f.str(1).unwrap_or(b""),
                },
                state: match f.u64(2) {
                    Some(bits) => TaskState::from_bits(bits),
                    None => TaskState::from_letters(f.str(2)?),
                },
                next: Task {
                    tid: f.tid(3)?,
                    comm: f.str(4).unwrap_or(b""),
                },
            },
            What::Wakeup => Kind::Wakeup {
                tid: f.tid(0)?,
                cpu: f.u32(1)?,
            },
            What::Migrate => Kind::Migrate {
                tid: f.tid(0)?,
                to: f.u32(1)?,
            },
            What::HostTimer => Kind::HostTimer,
            _ => return Self::kvm(f).or_else(|| Self::probed(f)),
        })
    }

    fn exit<'a>(&mut self, f: &Fields<'_, 'a>) -> Option<Kind<'a>> {
        if let Some(isa) = f.u64(3).and_then(Isa::from_number) {
            self.isa = isa;
        }
        let reason = match f.u64(1) {
            Some(code) => ExitReason::new(self.isa, code),
            None => ExitReason::from_name(std::str::from_utf8(f.str(1)?).ok()?)?,
        };
        Some(Kind::Exit {
            vcpu: f.u32(0),
            reason,
            rip: f.u64(2).unwrap_or(0),
            interrupt: f.u32(4).unwrap_or(0),
        })
    }

    fn kvm<'a>(f: &Fields<'_, 'a>) -> Option<Kind<'a>> {
        Some(match f.layout.what {
            What::IpiSent => Kind::IpiSent {
                vector: f.vector(0)?,
            },
            What::Accepted => Kind::IpiAccepted {
                apic: f.u32(0)?,
                vector: f.vector(1)?,
            },
            What::Injected => Kind::Injected {
                vector: f.vector(0)?,
            },
            What::Hypercall => Kind::Hypercall { nr: f.u64(0)? },
            What::PvFlush => Kind::PvTlbFlush { needed: f.flag(0)? },
            // Printed as `msr_write 6e0 = 0x28f400ab`, where the index has no prefix.
            What::Msr => match f.u64(0) {
                Some(0) => Kind::Other,
                _ => Kind::MsrWrite {
                    index: f.u32(1)?,
                    value: f.u64(2).unwrap_or(0),
                },
            },
            What::Apic => match f.u64(0) {
                Some(1) => Kind::ApicWrite {
                    register: f.u32(1)?,
                    value: f.u64(2).unwrap_or(0),
                },
                _ => Kind::Other,
            },
            What::HaltEnd => Kind::HaltEnd {
                halted_ns: f.u64(0)?,
                slept: f.flag(1).unwrap_or(true),
            },
            What::HaltPoll => Kind::HaltPoll {
                limit_ns: f.u64(0)?,
            },
            What::PleWindow => Kind::PleWindow { window: f.u64(0)? },
            _ => return None,
        })
    }

    fn probed<'a>(f: &Fields<'_, 'a>) -> Option<Kind<'a>> {
        Some(match f.layout.what {
            What::CallQueued => Kind::CallQueued {
                target: f.u32(0)?,
                work: f.u64(1)?,
                flush: f.str(2).map(|name| name.starts_with(b"flush_tlb")),
            },
            What::CallDone => Kind::CallDone { work: f.u64(0)? },
            What::TlbFlush => Kind::TlbFlush {
                reason: f.u64(0)?,
                pages: f.u64(1).unwrap_or(u64::MAX),
            },
            What::SpinBegin => Kind::SpinBegin {
                vcpu: f.u64(0),
                vm: f.u64(1),
            },
            What::SpinEnd => Kind::SpinEnd,
            What::BoostTry => Kind::BoostTry {
                target: f.u64(0)?,
                number: f.u32(1),
            },
            What::BoostReturn => Kind::BoostReturn {
                value: f.u64(0)?.cast_signed(),
            },
            What::VcpuLoad => Kind::VcpuLoad {
                vcpu: f.u64(0)?,
                vm: f.u64(1),
                number: f.u32(2),
            },
            What::ShootdownBegin => Kind::ShootdownBegin,
            What::ShootdownEnd => Kind::ShootdownEnd,
            _ => return None,
        })
    }
}
