// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The recording of a modelled host as tools print it.

use std::fmt::Write;

use super::host::{Kept, Line, Thread, What};

/// How a recording is written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// The kernel's trace file.
    Ftrace,
    /// The same with the column of processes.
    FtraceTgid,
    /// `perf script`.
    Perf,
    /// `trace-cmd report`, whose plugins print events in their own way.
    Report,
    /// The kernel's trace file in a mail of quoted-printable text.
    Mail,
    /// With a logger's wall clock in front.
    Logged,
    /// `trace.dat`, version 6.
    TraceDat,
    /// `perf.data`, as it goes into a pipe.
    PerfData,
}

impl Layout {
    pub const ALL: [Self; 8] = [
        Self::Ftrace,
        Self::FtraceTgid,
        Self::Perf,
        Self::Report,
        Self::Mail,
        Self::Logged,
        Self::TraceDat,
        Self::PerfData,
    ];

    /// Whether it says of which process a thread is.
    pub fn has_processes(self) -> bool {
        matches!(self, Self::FtraceTgid | Self::Perf | Self::PerfData)
    }
}

const RIP: &str = "0xffffffff81000000";

/// The recording as text.
pub fn text(kept: &[Kept<'_>], layout: Layout) -> String {
    let mut out = String::new();
    if layout == Layout::Report {
        out += "cpus=128\n";
    }
    for Kept { line, lost_before } in kept {
        let _ = match (layout, lost_before) {
            (_, 0) => Ok(()),
            (Layout::Perf, lost) => {
                writeln!(out, "swapper 0 [000] 1.0: PERF_RECORD_LOST lost {lost}")
            }
            (Layout::Report, lost) => writeln!(out, "CPU:{} [{lost} EVENTS DROPPED]", line.cpu),
            (_, lost) => writeln!(out, "CPU:{} [LOST {lost} EVENTS]", line.cpu),
        };
        one(&mut out, line, layout);
    }
    match layout {
        Layout::Mail => quoted_printable(&out),
        _ => out,
    }
}

/// The tracepoint, with its system.
pub fn name(what: &What) -> (&'static str, &'static str) {
    match what {
        What::Entry { .. } => ("kvm", "kvm_entry"),
        What::Exit { .. } => ("kvm", "kvm_exit"),
        What::Switch { .. } => ("sched", "sched_switch"),
        What::Wake { .. } => ("sched", "sched_wakeup"),
        What::Fault { .. } => ("kvm", "kvm_page_fault"),
        What::ToVmm { .. } => ("kvm", "kvm_userspace_exit"),
        What::Port { .. } => ("kvm", "kvm_pio"),
    }
}

/// What the kernel prints behind the event's name.
fn body(thread: &Thread, what: &What) -> String {
    match what {
        What::Entry { vcpu } => format!("vcpu {vcpu}, rip {RIP}"),
        What::Exit { vcpu, reason } => format!(
            "vcpu {vcpu} reason {} rip {RIP} info1 0x0 info2 0x0 intr_info 0x0 \
             error_code 0x00000000",
            reason.1
        ),
        What::Switch { state, to } => format!(
            "prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> next_comm={} \
             next_pid={} next_prio=120",
            thread.comm, thread.tid, to.comm, to.tid
        ),
        What::Wake { who, on } => {
            format!(
                "comm={} pid={} prio=120 target_cpu={on:03}",
                who.comm, who.tid
            )
        }
        What::Fault { address, code } => format!("address {address:x} error_code {code}"),
        What::ToVmm { reason } => format!("reason {} ({})", reason.1, reason.0),
        What::Port { port } => format!("pio_write at {port:#x} size 1 count 1 val 0x41"),
    }
}

/// What trace-cmd prints there.
fn reported(thread: &Thread, what: &What) -> String {
    match what {
        What::Exit { reason, .. } => format!("reason {} rip {RIP} info 0 0", reason.1),
        What::Switch { state, to } => format!(
            "{}:{} [120] {state} ==> {}:{} [120]",
            thread.comm, thread.tid, to.comm, to.tid
        ),
        What::Wake { who, on } => format!("{}:{} [120] CPU:{on:03}", who.comm, who.tid),
        other => body(thread, other),
    }
}

fn one(out: &mut String, line: &Line, layout: Layout) {
    let (s, us) = (line.ns / 1_000_000_000, line.ns / 1000 % 1_000_000);
    let Thread { comm, tid, process } = &line.thread;
    let (system, event) = name(&line.what);
    let (cpu, text) = (line.cpu, body(&line.thread, &line.what));
    let _ = match layout {
        Layout::FtraceTgid => writeln!(
            out,
            "{comm:>16}-{tid:<7} ({process:>7}) [{cpu:03}] d..2. {s}.{us:06}: {event}: {text}"
        ),
        Layout::Perf => writeln!(
            out,
            "{comm:>16} {process:>5}/{tid:<5} [{cpu:03}] {s}.{us:06}: {system}:{event}: {text}"
        ),
        Layout::Report => writeln!(
            out,
            "{comm:>16}-{tid:<5} [{cpu:03}] {s:5}.{us:06}: {:<20} {}",
            format!("{event}:"),
            reported(&line.thread, &line.what)
        ),
        Layout::Logged => writeln!(
            out,
            "2026-11-25 18:04:{:02}.{us:06} {comm:>16}-{tid:<7} [{cpu:03}] d..2. {s}.{us:06}: \
             {event}: {text}",
            s % 60
        ),
        _ => writeln!(
            out,
            "{comm:>16}-{tid:<7} [{cpu:03}] d..2. {s}.{us:06}: {event}: {text}"
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
