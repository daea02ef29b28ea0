// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces whose order or whose ground for VMs is not whole: lines of one pCPU after the other,
//! times that are differences, processes of some threads alone.

use steady_decode::TraceEvents;
use steady_diagnose::{CauseId, Confidence, DiagnoseError, Diagnoser, FindingId};

use super::{BY_INTERRUPT, Lines, the};

const BACKUP: (&str, i32) = ("backup", 777);

/// On each of two pCPUs a vCPU runs and waits by turns; each pCPU's lines by themselves.
fn by_pcpu() -> [String; 2] {
    [0_i32, 1].map(|vcpu| {
        let (mut lines, cpu) = (Lines::default(), u32::try_from(vcpu).unwrap());
        let thread = (format!("CPU {vcpu}/KVM"), 1001 + vcpu);
        let thread = (thread.0.as_str(), thread.1);
        for us in (0..200).map(|turn| turn * 100_000) {
            lines.enter(us + 10, vcpu, cpu);
            lines.exit(us + 50_000, vcpu, cpu, BY_INTERRUPT);
            lines.switch(us + 50_001, cpu, thread, 'R', BACKUP);
            lines.switch(us + 99_999, cpu, BACKUP, 'R', thread);
        }
        lines.text
    })
}

#[test]
fn nothing_is_sure_of_a_trace_that_is_not_in_the_order_of_time() {
    let of = |text: String| {
        let lines = Lines {
            text,
            filtered: true,
            ..Lines::default()
        };
        lines.diagnosis(None)
    };
    let after_another = of(by_pcpu().concat());
    assert!(after_another.traces[0].loss.is_unordered());
    let sure = after_another.findings.iter().map(|of| of.confidence);
    assert!(sure.clone().count() > 0 && sure.max() == Some(Confidence::Low));
    // The same lines in their order are as sure as ever.
    let mut lines: Vec<String> = by_pcpu().concat().lines().map(str::to_owned).collect();
    lines.sort_by_key(|line| {
        let rest = line.split_once("d..2. ").unwrap().1;
        let (s, us) = rest.split_once(':').unwrap().0.split_once('.').unwrap();
        (s.parse::<u64>().unwrap(), us.parse::<u64>().unwrap())
    });
    let ordered = of(lines.join("\n"));
    assert!(!ordered.traces[0].loss.is_unordered());
    assert!(the(&ordered, FindingId::Steal).confidence > Confidence::Low);
}

/// Reads a vCPU's entries and exits, at these times in turn.
fn read(times: impl IntoIterator<Item = u64>) -> Result<(), DiagnoseError> {
    let mut text = String::new();
    for (at, us) in times.into_iter().enumerate() {
        let rip = "rip 0xffffffff81000000";
        let what = match at % 2 {
            0 => format!("kvm:kvm_entry: vcpu 0, {rip}"),
            _ => format!(
                "kvm:kvm_exit: vcpu 0 reason HLT {rip} info1 0x0 info2 0x0 intr_info 0x0 \
                 error_code 0x0"
            ),
        };
        let (s, us) = (us / 1_000_000, us % 1_000_000);
        text += &format!("CPU 0/KVM   1001 [000] {s:5}.{us:06}: {what}\n");
    }
    let reader = std::io::Cursor::new(text.into_bytes());
    let mut source = steady_tracefile::open_stream(Box::new(reader), "deltas").unwrap();
    let mut events = TraceEvents::new(source.as_mut());
    Diagnoser::new().trace("deltas", &mut events, &mut |_, _, _| Ok(()))
}

/// Times since the event before, but for the first. One is long, as where a vCPU stood still.
fn differences(first_us: u64) -> Vec<u64> {
    let us = |at: u64| match at {
        0 => first_us,
        240 => 4_000_000,
        at if at % 2 == 0 => 20,
        at => 300 + at / 2 % 7,
    };
    (0..400).map(us).collect()
}

#[test]
fn times_that_are_differences_are_refused_with_what_to_do() {
    let error = read(differences(0)).unwrap_err();
    assert!(
        matches!(error, DiagnoseError::Differences { .. }),
        "{error}"
    );
    assert!(error.to_string().contains("--deltatime"), "{error}");
}

#[test]
fn times_that_do_not_begin_at_0_or_go_on_or_never_go_back_are_a_clocks() {
    let goes_on = (0..400).map(|at| at * 1_000 + at % 2 * 5_000);
    let after_a_pause = (0..400).map(|at| if at == 0 { 0 } else { 10_000_000 + at * 20 });
    read(differences(20)).unwrap();
    read(goes_on).unwrap();
    read(after_a_pause).unwrap();
}

#[test]
fn a_vm_of_which_some_threads_have_their_process_is_one() {
    let mut lines = Lines::default();
    let tids = [1001, 1014, 1050, 1090];
    for round in 0..240_i32 {
        let (vcpu, next) = (round % 4, (round + 1) % 4);
        let place = |vcpu: i32| tids[usize::try_from(vcpu).unwrap()];
        let who = (format!("CPU {vcpu}/KVM"), place(vcpu));
        let then = (format!("CPU {next}/KVM"), place(next));
        let (who, then) = ((who.0.as_str(), who.1), (then.0.as_str(), then.1));
        // A kernel forgets the processes of the threads that it met first.
        lines.process = Some(|tid| if tid < 1050 { 1000 } else { -1 });
        let us = 1_000_000 + u64::try_from(round).unwrap() * 10_000;
        let rip = "rip 0xffffffff81000000";
        lines.line(us + 1, who, 0, &format!("kvm_entry: vcpu {vcpu}, {rip}"));
        let exit = format!("reason {BY_INTERRUPT} {rip} info1 0x0 info2 0x0 intr_info 0x0");
        let exit = format!("kvm_exit: vcpu {vcpu} {exit} error_code 0x00000000");
        lines.line(us + 9_000, who, 0, &exit);
        lines.switch(us + 9_001, 0, who, 'R', then);
    }
    lines.text = lines.text.replace("(     -1)", "(-------)");
    let diagnosis = lines.diagnosis(None);
    assert_eq!(diagnosis.traces[0].vms.len(), 1);
    assert_eq!(diagnosis.traces[0].vms_by, "adjacency", "that is a guess");
    let steal = the(&diagnosis, FindingId::Steal);
    assert_eq!(steal.cause, CauseId::OwnVm);
    assert!(steal.confidence < Confidence::High);
}
