// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small model of a host that knows to the nanosecond what each vCPU does. It shares no code with
//! the readers or the analyses; `print.rs` and `binary.rs` write it down as recorders do.
//!
//! Time is drawn out thread by thread: a pCPU runs one thread after the other, and what is printed
//! follows from that. What the model knows of each vCPU (how long it waited, and for what; how long
//! it slept, and why) is summed up where it happens, not from what is printed.

use std::collections::BTreeMap;

/// A thread: its name, its id, its process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    pub comm: String,
    pub tid: i32,
    pub process: i32,
}

impl Thread {
    pub fn new(comm: &str, tid: i32, process: i32) -> Self {
        let comm = comm.to_owned();
        Self { comm, tid, process }
    }

    pub fn vcpu(number: u32, tid: i32, process: i32) -> Self {
        Self::new(&format!("CPU {number}/KVM"), tid, process)
    }

    pub fn idle(cpu: u32) -> Self {
        Self::new(&format!("swapper/{cpu}"), 0, 0)
    }
}

/// What an event says.
#[derive(Debug, Clone)]
pub enum What {
    Entry {
        vcpu: u32,
    },
    /// With its number and its name in VMX.
    Exit {
        vcpu: u32,
        reason: (u32, &'static str),
    },
    Switch {
        state: &'static str,
        to: Thread,
    },
    Wake {
        who: Thread,
        on: u32,
    },
    Fault {
        address: u64,
        code: u64,
    },
    /// With its number and its name in KVM's interface.
    ToVmm {
        reason: (u32, &'static str),
    },
    Port {
        port: u32,
    },
}

/// Something that is recorded.
#[derive(Debug, Clone)]
pub struct Line {
    pub ns: u64,
    pub cpu: u32,
    pub thread: Thread,
    pub what: What,
}

pub const EXTERNAL_INTERRUPT: (u32, &str) = (1, "EXTERNAL_INTERRUPT");
pub const HLT: (u32, &str) = (12, "HLT");
pub const IO_INSTRUCTION: (u32, &str) = (30, "IO_INSTRUCTION");
pub const EPT_VIOLATION: (u32, &str) = (48, "EPT_VIOLATION");
pub const EPT_MISCONFIG: (u32, &str) = (49, "EPT_MISCONFIG");

/// What is true of the vCPUs of the VM that is looked at, in nanoseconds.
#[derive(Debug, Default, Clone)]
pub struct Truth {
    /// Ready and not running, by who ran.
    pub waited: BTreeMap<String, u64>,
    /// Asleep outside halts.
    pub asleep: u64,
    /// In D state.
    pub stuck: u64,
    /// A server of it waited.
    pub served: u64,
    /// Outside the guest in one exit's own work.
    pub exits: u64,
    /// The longest of any of these.
    pub longest: u64,
}

/// The recording and the truth about it.
#[derive(Debug, Default)]
pub struct Host {
    pub lines: Vec<Line>,
    pub truth: Truth,
}

impl Host {
    pub fn push(&mut self, ns: u64, cpu: u32, thread: &Thread, what: What) {
        let thread = thread.clone();
        self.lines.push(Line {
            ns,
            cpu,
            thread,
            what,
        });
    }

    pub fn entry(&mut self, ns: u64, cpu: u32, who: &Thread, vcpu: u32) {
        self.push(ns, cpu, who, What::Entry { vcpu });
    }

    pub fn exit(
        &mut self,
        ns: u64,
        cpu: u32,
        who: &Thread,
        vcpu: u32,
        reason: (u32, &'static str),
    ) {
        self.push(ns, cpu, who, What::Exit { vcpu, reason });
    }

    pub fn switch(&mut self, ns: u64, cpu: u32, from: &Thread, state: &'static str, to: &Thread) {
        let to = to.clone();
        self.push(ns, cpu, from, What::Switch { state, to });
    }

    pub fn wake(&mut self, ns: u64, cpu: u32, by: &Thread, who: &Thread, on: u32) {
        let who = who.clone();
        self.push(ns, cpu, by, What::Wake { who, on });
    }

    pub fn waits(&mut self, behind: &str, ns: u64) {
        *self.truth.waited.entry(behind.to_owned()).or_default() += ns;
        self.longest(ns);
    }

    pub fn longest(&mut self, ns: u64) {
        self.truth.longest = self.truth.longest.max(ns);
    }
}

/// What a recorder leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recorder {
    /// All events of all CPUs.
    Whole,
    /// Threads of the VM alone (`perf record -p`).
    OwnThreads,
    /// KVM's events and switches of threads, but no wake-ups.
    NoWakeups,
    /// Events are lost in the middle of the recording, for a twentieth of it.
    Loses,
    /// They are lost ten times, for a hundredth of the recording each.
    LosesOften,
}

impl Recorder {
    pub const ALL: [Self; 5] = [
        Self::Whole,
        Self::OwnThreads,
        Self::NoWakeups,
        Self::Loses,
        Self::LosesOften,
    ];
}

/// A line that was kept, and how many events its CPU lost before it.
#[derive(Debug)]
pub struct Kept<'h> {
    pub line: &'h Line,
    pub lost_before: u64,
}

/// What a recorder keeps of a host, in the order of time.
pub fn kept(host: &Host, recorder: Recorder, own: i32) -> Vec<Kept<'_>> {
    let mut lines: Vec<&Line> = host.lines.iter().collect();
    lines.sort_by_key(|line| line.ns);
    let (first, last) = (lines[0].ns, lines[lines.len() - 1].ns);
    let part = |ns: u64| (ns - first) * 1000 / (last - first).max(1);
    let is_lost = |ns: u64| match recorder {
        Recorder::Loses => (500..550).contains(&part(ns)),
        Recorder::LosesOften => part(ns) % 100 >= 90,
        _ => false,
    };
    let mut gaps = BTreeMap::new();
    let mut kept = Vec::new();
    for line in lines {
        let keep = match recorder {
            Recorder::OwnThreads => line.thread.process == own,
            Recorder::NoWakeups => !matches!(line.what, What::Wake { .. }),
            _ => true,
        };
        if is_lost(line.ns) {
            *gaps.entry(line.cpu).or_insert(0) += 1;
        } else if keep {
            let lost_before = gaps.remove(&line.cpu).unwrap_or(0);
            kept.push(Kept { line, lost_before });
        }
    }
    kept
}
