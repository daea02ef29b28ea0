// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the text say what a reader needs first, where numbers alone mislead? The traces are those
//! of `crates/diagnose/tests/cases`, whose answers are known.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::path::Path;

use steady_decode::TraceEvents;
use steady_diagnose::{Diagnoser, Diagnosis, Sought, VmNotes};
use steady_diagnosis_view::terminal::{Options, text};

/// The text on a trace, in one line.
fn of(name: &str) -> String {
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../diagnose/tests/cases/inputs");
    let mut source = steady_tracefile::open(&inputs.join(format!("{name}.txt.zst"))).unwrap();
    let mut diagnoser = Diagnoser::new();
    let notes = std::fs::read(inputs.join(format!("{name}.txt.vms")));
    diagnoser.notes = notes.ok().map(|notes| VmNotes::parse(&notes).unwrap());
    let mut events = TraceEvents::new(source.as_mut());
    let read = diagnoser.trace(name, &mut events, &mut |_, _, _| Ok(()));
    read.unwrap();
    let text = text(&diagnoser.finish(), Options::default());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The diagnosis of these lines, and its text in one line.
fn of_lines(name: &str, lines: String) -> (Diagnosis, String) {
    let reader = std::io::Cursor::new(lines.into_bytes());
    let mut source = steady_tracefile::open_stream(Box::new(reader), name).unwrap();
    let mut diagnoser = Diagnoser::new();
    let mut events = TraceEvents::new(source.as_mut());
    let read = diagnoser.trace(name, &mut events, &mut |_, _, _| Ok(()));
    read.unwrap();
    let diagnosis = diagnoser.finish();
    let said = text(&diagnosis, Options::default());
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    (diagnosis, said)
}

#[test]
fn a_trace_that_lost_its_events_says_so_first() {
    let said = of("02-lost-while-out");
    let first = "vm1: vCPUs may have been ready and not run; fault: not known, as events were \
                 lost; low confidence. Why: batch ran until events were lost; whether they \
                 waited on, and for what, is not known. VM: vm1 (thread 1001). Lost: up to 100 ms \
                 in losses of events, and 0.0 % of vm1's time";
    assert!(said.starts_with(first), "{said}");
}

#[test]
fn what_ran_while_a_limit_held_is_not_a_second_culprit() {
    let said = of("07-limit-beside-neighbour");
    let who = "who: a limit (cpu.max) 100.0 %; meanwhile ran db 100.0 % ";
    assert!(said.contains(who), "{said}");
}

/// Of 200 vCPUs, two are kept off their pCPUs for half of each 50 ms; a poller runs instead.
fn beside_pollers() -> String {
    let mut lines = String::new();
    let rip = "rip 0xffffffff81000000";
    let exit = format!("reason EXTERNAL_INTERRUPT {rip} info1 0x0 info2 0x0 intr_info 0x0");
    let mut line = |us: u64, who: &str, cpu: u64, rest: &str| {
        let (s, us) = (us / 1_000_000, us % 1_000_000);
        lines += &format!("{who} [{cpu:03}] d..2. {s}.{us:06}: {rest}\n");
    };
    for us in (0..20).map(|at| 1_000_000 + at * 50_000) {
        for vcpu in 0..200_u64 {
            let who = format!("CPU {vcpu}/KVM-{}", 1001 + vcpu);
            line(
                us + vcpu,
                &who,
                vcpu,
                &format!("kvm_entry: vcpu {vcpu}, {rip}"),
            );
        }
        for vcpu in 0..2_u64 {
            let (who, us) = (
                format!("CPU {vcpu}/KVM-{}", 1001 + vcpu),
                us + 24_000 + vcpu,
            );
            line(
                us,
                &who,
                vcpu,
                &format!("kvm_exit: vcpu {vcpu} {exit} error_code 0x0"),
            );
        }
        for vcpu in 0..2_u64 {
            let (comm, tid) = (format!("CPU {vcpu}/KVM"), 1001 + vcpu);
            let switch = format!(
                "sched_switch: prev_comm={comm} prev_pid={tid} prev_prio=120 prev_state=R ==> \
                 next_comm=pmd-c0{vcpu}/id:8 next_pid=9{vcpu} next_prio=120"
            );
            line(us + 24_900 + vcpu, &format!("{comm}-{tid}"), vcpu, &switch);
        }
        for vcpu in 0..2_u64 {
            let switch = format!(
                "sched_switch: prev_comm=pmd-c0{vcpu}/id:8 prev_pid=9{vcpu} prev_prio=120 \
                 prev_state=R ==> next_comm=CPU {vcpu}/KVM next_pid={} next_prio=120",
                1001 + vcpu
            );
            line(
                us + 49_000 + vcpu,
                &format!("pmd-c0{vcpu}/id:8-9{vcpu}"),
                vcpu,
                &switch,
            );
        }
        for vcpu in 2..200_u64 {
            let (who, us) = (
                format!("CPU {vcpu}/KVM-{}", 1001 + vcpu),
                us + 49_700 + vcpu,
            );
            line(
                us,
                &who,
                vcpu,
                &format!("kvm_exit: vcpu {vcpu} {exit} error_code 0x0"),
            );
        }
    }
    lines
}

#[test]
fn one_vcpu_of_many_is_named_with_its_own_share_and_what_polls_is_not_to_be_moved() {
    let (_, said) = of_lines("many", beside_pollers());
    for part in [
        "vm1: vCPU 1 is ready and does not run; fault: the host (pmd-c01/id:8); medium confidence.",
        "pmd-c01/id:8 ran instead, which polls its pCPU on purpose",
        "of the time of vCPU 1 of vm1 (482 ms in 1.00 s), the worst of 2 vCPUs that lose a tenth",
        "Do: keep vCPUs off the pCPU on which pmd-c01/id:8 polls",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// A vCPU enters and leaves, and no finding has a share that counts. What the clock counts
/// is not said.
#[test]
fn a_clock_of_unknown_unit_is_no_all_clear() {
    let mut lines = String::new();
    for at in 0..60_u64 {
        let (in_at, out_at) = (at * 2_000_000_000, at * 2_000_000_000 + 1_999_000_000);
        let who = "CPU 0/KVM-3000 [000] d..2.";
        let rip = "rip 0xffffffff81000000";
        let exit = format!("reason EXTERNAL_INTERRUPT {rip} info1 0x0 info2 0x0 intr_info 0x0");
        lines += &format!("{who} {in_at}: kvm_entry: vcpu 0, {rip}\n");
        lines += &format!("{who} {out_at}: kvm_exit: vcpu 0 {exit} error_code 0x00000000\n");
    }
    let (diagnosis, said) = of_lines("cycles", lines);
    assert!(!diagnosis.traces[0].clock_is_ns);
    let first = "Not known whether a vCPU stood still for long: shares of time are below the \
                 bounds, lengths cannot be judged. cycles: its clock does not count nanoseconds";
    assert!(said.starts_with(first), "{said}");
    assert!(!said.contains("Nothing above"), "{said}");
}

/// The text on a vCPU that leaves its pCPU to another thread for `off_ms` milliseconds, in each of
/// five seconds; the trace was written for a wait of this thread and length.
fn written_for(tid: i32, ms: u64, off_ms: u64) -> String {
    let (vcpu, other) = (("CPU 0/KVM", 1001), ("backup", 777));
    let mut lines = String::new();
    let mut line = |second: u64, us: u64, (comm, tid): (&str, i32), rest: &str| {
        lines += &format!("{comm}-{tid} [000] d..2. {second}.{us:06}: {rest}\n");
    };
    let switch = |(prev, from): (&str, i32), state: char, (next, to): (&str, i32)| {
        format!(
            "sched_switch: prev_comm={prev} prev_pid={from} prev_prio=120 prev_state={state} ==> \
             next_comm={next} next_pid={to} next_prio=120"
        )
    };
    for second in 1..6 {
        let off_us = 999_999 - off_ms * 1_000;
        line(second, 1, vcpu, "kvm_entry: vcpu 0, rip 0x1");
        line(second, off_us, vcpu, &switch(vcpu, 'R', other));
        line(second, 999_999, other, &switch(other, 'S', vcpu));
    }
    let reader = std::io::Cursor::new(lines.into_bytes());
    let mut source = steady_tracefile::open_stream(Box::new(reader), "lines").unwrap();
    let mut diagnoser = Diagnoser::new();
    diagnoser.sought = Some(Sought {
        wait: format!("vCPU 1 of web (thread {tid}) waited {ms} ms or more"),
        tid,
        length_ns: ms * 1_000_000,
    });
    let mut events = TraceEvents::new(source.as_mut());
    let read = diagnoser.trace("lines", &mut events, &mut |_, _, _| Ok(()));
    read.unwrap();
    let said = text(&diagnoser.finish(), Options::default());
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_trace_without_the_wait_that_it_was_written_for_says_so() {
    let line = |tid: i32, ms: u64| {
        format!(
            "Not shown: vCPU 1 of web (thread {tid}) waited {ms} ms or more. The trace, which is \
             5.00 s long, does not show where that wait began. Do: record with a larger ring \
             (--buffer-kib)."
        )
    };
    for (tid, ms, said_so) in [(66, 3720, true), (1001, 3720, true), (1001, 150, false)] {
        let said = written_for(tid, ms, 100);
        assert_eq!(said.contains(&line(tid, ms)), said_so, "{said}");
        assert_eq!(said.contains("Not shown"), said_so, "{said}");
        assert!(said.starts_with("vm1: vCPUs are ready"), "{said}");
    }
    // Without a finding it comes first, and nothing is all clear.
    let said = written_for(66, 3720, 1);
    assert!(said.starts_with("The stall is not shown."), "{said}");
    assert!(said.contains(&line(66, 3720)), "{said}");
}

/// A vCPU comes to run after two seconds, in which nothing wakes it and another thread runs.
#[test]
fn the_length_of_a_wait_that_began_before_the_trace_is_the_least() {
    let mut lines = String::new();
    let mut line = |us: u64, who: &str, cpu: u32, rest: &str| {
        let (s, us) = (us / 1_000_000, us % 1_000_000);
        lines += &format!("{who} [{cpu:03}] d..2. {s}.{us:06}: {rest}\n");
    };
    let switch = |from: &str, state: char, to: &str| {
        let [prev, next] = [("prev", from), ("next", to)].map(|(which, task)| {
            let (comm, tid) = task.rsplit_once('-').unwrap();
            format!("{which}_comm={comm} {which}_pid={tid} {which}_prio=120")
        });
        format!("sched_switch: {prev} prev_state={state} ==> {next}")
    };
    let (idle, vcpu) = ("swapper/0-0", "CPU 0/KVM-1001");
    let (hog, stuck) = ("kworker/1:1-77", "CPU 1/KVM-1002");
    let wake = "sched_wakeup: comm=CPU 0/KVM pid=1001 prio=120 target_cpu=000";
    line(1_000_000, hog, 1, "local_timer_entry: vector=236");
    for us in (1_000_000..3_000_000).step_by(100_000) {
        line(us, idle, 0, wake);
        line(us + 10, idle, 0, &switch(idle, 'R', vcpu));
        line(us + 20, vcpu, 0, "kvm_entry: vcpu 0, rip 0x1");
        line(us + 99_000, vcpu, 0, &switch(vcpu, 'S', "rcu_sched-15"));
        line(
            us + 99_010,
            "rcu_sched-15",
            0,
            &switch("rcu_sched-15", 'S', "kthreadd-2"),
        );
        line(
            us + 99_020,
            "kthreadd-2",
            0,
            &switch("kthreadd-2", 'S', idle),
        );
    }
    line(3_000_000, hog, 1, &switch(hog, 'S', stuck));
    line(3_000_010, stuck, 1, "kvm_entry: vcpu 1, rip 0x1");
    let (_, said) = of_lines("lines", lines);
    assert!(said.contains("worst: 2.00 s or more at 0.000 s"), "{said}");
}
