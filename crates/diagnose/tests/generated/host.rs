// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small model of a host that knows to the nanosecond what each vCPU does, and prints it as
//! recorders do. It shares no code with the reader or the analyses.
//!
//! Time is drawn out thread by thread: a pCPU runs one thread after the other, and what is printed
//! follows from that. What the model knows of each vCPU (how long it waited, and for what; how long
//! it slept, and why) is summed up where it happens, not from what is printed.

use std::collections::BTreeMap;
use std::fmt::Write;

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

/// Something that is recorded.
#[derive(Debug, Clone)]
pub struct Line {
    pub ns: u64,
    pub cpu: u32,
    pub thread: Thread,
    pub event: &'static str,
    pub text: String,
}

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

const RIP: &str = "0xffffffff81000000";

impl Host {
    pub fn push(&mut self, ns: u64, cpu: u32, thread: &Thread, event: &'static str, text: String) {
        let thread = thread.clone();
        self.lines.push(Line {
            ns,
            cpu,
            thread,
            event,
            text,
        });
    }

    pub fn entry(&mut self, ns: u64, cpu: u32, vcpu: &Thread, number: u32) {
        let text = format!("vcpu {number}, rip {RIP}");
        self.push(ns, cpu, vcpu, "kvm_entry", text);
    }

    pub fn exit(&mut self, ns: u64, cpu: u32, vcpu: &Thread, number: u32, reason: &str) {
        let text = format!(
            "vcpu {number} reason {reason} rip {RIP} info1 0x0 info2 0x0 intr_info 0x0 \
             error_code 0x00000000"
        );
        self.push(ns, cpu, vcpu, "kvm_exit", text);
    }

    pub fn switch(&mut self, ns: u64, cpu: u32, from: &Thread, state: &str, to: &Thread) {
        let text = format!(
            "prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> next_comm={} \
             next_pid={} next_prio=120",
            from.comm, from.tid, to.comm, to.tid
        );
        self.push(ns, cpu, from, "sched_switch", text);
    }

    pub fn wake(&mut self, ns: u64, cpu: u32, by: &Thread, who: &Thread, on: u32) {
        let text = format!(
            "comm={} pid={} prio=120 target_cpu={on:03}",
            who.comm, who.tid
        );
        self.push(ns, cpu, by, "sched_wakeup", text);
    }

    pub fn waits(&mut self, behind: &str, ns: u64) {
        *self.truth.waited.entry(behind.to_owned()).or_default() += ns;
        self.longest(ns);
    }

    pub fn longest(&mut self, ns: u64) {
        self.truth.longest = self.truth.longest.max(ns);
    }
}

/// How a recording is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// The kernel's trace file.
    Ftrace,
    /// The same with the column of processes.
    FtraceTgid,
    /// `perf script`.
    Perf,
    /// The kernel's trace file in a mail of quoted-printable text.
    Mail,
    /// With a logger's wall clock in front.
    Logged,
}

impl Layout {
    pub const ALL: [Self; 5] = [
        Self::Ftrace,
        Self::FtraceTgid,
        Self::Perf,
        Self::Mail,
        Self::Logged,
    ];
}

/// What a recorder leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recorder {
    /// All events of all CPUs.
    Whole,
    /// Threads of the VM alone (`perf record -p`).
    OwnThreads,
    /// Events are lost in the middle of the recording, for a twentieth of it.
    Loses,
}

impl Recorder {
    pub const ALL: [Self; 3] = [Self::Whole, Self::OwnThreads, Self::Loses];
}

/// The recording as text.
pub fn text(host: &Host, recorder: Recorder, layout: Layout, own: i32) -> String {
    let mut lines: Vec<&Line> = host.lines.iter().collect();
    lines.sort_by_key(|line| line.ns);
    let (first, last) = (lines[0].ns, lines[lines.len() - 1].ns);
    let lost = first + (last - first) / 2..first + (last - first) / 100 * 55;
    let mut gaps = BTreeMap::new();
    let mut out = String::new();
    for line in lines {
        let kept = match recorder {
            Recorder::Whole => true,
            Recorder::OwnThreads => line.thread.process == own,
            Recorder::Loses => !lost.contains(&line.ns),
        };
        if !kept {
            *gaps.entry(line.cpu).or_insert(0) += 1;
            continue;
        }
        if recorder == Recorder::Loses
            && let Some(count) = gaps.remove(&line.cpu)
        {
            let _ = match layout {
                Layout::Perf => {
                    writeln!(out, "swapper 0 [000] 1.0: PERF_RECORD_LOST lost {count}")
                }
                _ => writeln!(out, "CPU:{} [LOST {count} EVENTS]", line.cpu),
            };
        }
        one(&mut out, line, layout);
    }
    match layout {
        Layout::Mail => quoted_printable(&out),
        _ => out,
    }
}

fn one(out: &mut String, line: &Line, layout: Layout) {
    let (s, us) = (line.ns / 1_000_000_000, line.ns / 1000 % 1_000_000);
    let Thread { comm, tid, process } = &line.thread;
    let (cpu, event, text) = (line.cpu, line.event, &line.text);
    let system = if event.starts_with("kvm") {
        "kvm"
    } else {
        "sched"
    };
    let _ = match layout {
        Layout::Ftrace | Layout::Mail => writeln!(
            out,
            "{comm:>16}-{tid:<7} [{cpu:03}] d..2. {s}.{us:06}: {event}: {text}"
        ),
        Layout::FtraceTgid => writeln!(
            out,
            "{comm:>16}-{tid:<7} ({process:>7}) [{cpu:03}] d..2. {s}.{us:06}: {event}: {text}"
        ),
        Layout::Perf => writeln!(
            out,
            "{comm:>16} {process:>5}/{tid:<5} [{cpu:03}] {s}.{us:06}: {system}:{event}: {text}"
        ),
        Layout::Logged => writeln!(
            out,
            "2026-11-25 18:04:{:02}.{us:06} {comm:>16}-{tid:<7} [{cpu:03}] d..2. {s}.{us:06}: \
             {event}: {text}",
            s % 60
        ),
    };
}

/// RFC 2045: an equals sign is written as its number, and lines have at most 76 characters.
fn quoted_printable(text: &str) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let mut width = 0;
        for c in line.chars() {
            let piece = match c {
                '=' => "=3D".to_owned(),
                other => other.to_string(),
            };
            if width + piece.len() > 75 {
                out += "=\n";
                width = 0;
            }
            width += piece.len();
            out += &piece;
        }
        out.push('\n');
    }
    out
}
