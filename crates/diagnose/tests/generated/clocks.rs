// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clocks that are set back, clocks of unknown unit, and arm64: what a trace of each says agrees
//! with the same host's trace without it, over many sizes.

use steady_decode::TraceEvents;
use steady_diagnose::{Confidence, Diagnoser, Diagnosis, Finding, FindingId};

use super::causes::{self, Cause, OWN};
use super::host::Recorder;
use super::print::Layout;
use super::{bytes, draw, first, size};

/// Causes that go on for the whole trace.
const STEADY: [Cause; 3] = [Cause::HostTask, Cause::OtherVm, Cause::OwnVm];

fn of(text: String) -> Diagnosis {
    let reader = std::io::Cursor::new(text.into_bytes());
    let mut source = steady_tracefile::open_stream(Box::new(reader), "made").expect("it opens");
    let mut diagnoser = Diagnoser::new();
    let mut events = TraceEvents::new(source.as_mut());
    let read = diagnoser.trace("made", &mut events, &mut |_, _, _| Ok(()));
    read.expect("it is read");
    diagnoser.finish()
}

/// The texts of hosts, with a number for each.
fn texts() -> impl Iterator<Item = (u64, String)> {
    (0..30).map(|at| {
        let cause = STEADY[usize::try_from(at % 3).expect("small")];
        let host = causes::make(cause, size(cause, at + 7));
        let text = bytes(&host, Recorder::Whole, Layout::FtraceTgid, OWN);
        (at, String::from_utf8(text).expect("text"))
    })
}

/// The text with each time, in microseconds, written as this; `at` is the place of the line.
fn timed(text: &str, write: impl Fn(usize, u64) -> String) -> String {
    let line = |(at, line): (usize, &str)| {
        let (head, rest) = line.split_once("] ").expect("a pCPU");
        let (flags, rest) = rest.split_once(' ').expect("flags");
        let (time, rest) = rest.trim_start().split_once(": ").expect("a time");
        let (s, us) = time.split_once('.').expect("a point");
        let us = s.parse::<u64>().expect("seconds") * 1_000_000 + us.parse::<u64>().expect("us");
        format!("{head}] {flags} {}: {rest}\n", write(at, us))
    };
    text.lines().enumerate().map(line).collect()
}

fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}

fn main_of(diagnosis: &Diagnosis) -> &Finding {
    first(diagnosis).expect("it has a finding")
}

#[test]
fn a_clock_of_unknown_unit_changes_no_share_and_judges_no_length() {
    for (at, text) in texts() {
        let known = of(text.clone());
        let cycles = 1 + draw(at) % 5000;
        let unknown = of(timed(&text, |_, us| (us * cycles).to_string()));
        assert!(!unknown.traces[0].clock_is_ns);
        let (known, of_share) = (main_of(&known), main_of(&unknown));
        assert_eq!(
            (known.id, known.cause),
            (of_share.id, of_share.cause),
            "{at}"
        );
        let apart = known.lost_permille.abs_diff(of_share.lost_permille);
        assert!(
            apart <= 2,
            "{at}: {} and {}",
            known.lost_permille,
            of_share.lost_permille
        );
        let mut lengths = unknown.findings.iter();
        assert!(
            lengths.all(|finding| finding.id != FindingId::LongStall),
            "{at}"
        );
    }
}

#[test]
fn a_clock_that_is_set_back_makes_no_time_and_no_other_cause() {
    for (at, text) in texts() {
        let whole = of(text.clone());
        let lines = text.lines().count();
        let from = lines / 4 + usize::try_from(draw(at)).unwrap_or(0) % (lines / 2);
        let step_us = 1_000_000 + draw(at + 50) % 50_000_000;
        let stepped = of(timed(&text, |line, us| {
            seconds(if line < from { us } else { us - step_us })
        }));
        let trace = &stepped.traces[0];
        assert!(trace.loss.clock_set_back >= 1, "{at}");
        assert!(
            trace.span_ns <= whole.traces[0].span_ns,
            "{at}: no time is added"
        );
        let (whole, main) = (main_of(&whole), main_of(&stepped));
        assert_eq!((whole.id, whole.cause), (main.id, main.cause), "{at}");
        assert!(main.lost_permille <= 1000, "{at}");
        assert!(main.confidence <= whole.confidence, "{at}: not surer");
        assert!(main.confidence <= Confidence::Medium, "{at}: not sure");
    }
}

#[test]
fn an_arm64_guest_kept_out_by_interrupts_loses_what_an_x86_guest_does() {
    let rip = "0xffff800010081000";
    for at in 0..30 {
        let (inside, outside) = (200 + draw(at) % 5000, 50 + draw(at + 90) % 4000);
        let text = |enter: &str, exit: &str| {
            let line = |us: u64, rest: &str| {
                format!("CPU 0/KVM-1001 [002] d..2. {}: {rest}\n", seconds(us))
            };
            let turn = |turn: u64| {
                let us = 100_000_000 + turn * (inside + outside);
                line(us, enter) + &line(us + inside, exit)
            };
            (0..400).map(turn).collect::<String>()
        };
        let x86 = format!(
            "kvm_exit: vcpu 0 reason EXTERNAL_INTERRUPT rip {rip} info1 0x0 info2 0x0 intr_info \
             0x0 error_code 0x00000000"
        );
        let x86 = of(text(&format!("kvm_entry: vcpu 0, rip {rip}"), &x86));
        let arm = format!("kvm_exit: IRQ: HSR_EC: 0x0000 (UNKNOWN), PC: {rip}");
        let arm = of(text(&format!("kvm_entry: PC: {rip}"), &arm));
        let (x86, arm) = (first(&x86), first(&arm));
        let parts = |of: &Finding| (of.id, of.cause, of.lost_ns, of.severity);
        assert_eq!(x86.map(parts), arm.map(parts), "{at}");
        assert!(arm.is_none_or(|of| of.of.as_deref() == Some("IRQ")), "{at}");
        assert!(
            arm.is_none_or(|of| of.confidence < Confidence::High),
            "{at}"
        );
    }
}
