// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who ran in a vCPU's place, by the name and the priority that it had then, and what priority the
//! vCPU's own thread had.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::fmt::Write;

use steady_decode::TraceEvents;
use steady_diagnose::{Diagnoser, Diagnosis, EvidenceId, FindingId};

fn diagnosed(text: &str) -> Diagnosis {
    let reader = std::io::Cursor::new(text.as_bytes().to_vec());
    let mut source = steady_tracefile::open_stream(Box::new(reader), "lines").unwrap();
    let mut diagnoser = Diagnoser::new();
    let mut events = TraceEvents::new(source.as_mut());
    let read = diagnoser.trace("lines", &mut events, &mut |_, _, _| Ok(()));
    read.unwrap();
    diagnoser.finish()
}

/// Turns of a vCPU's thread (40) and another (7), each of these microseconds and names.
fn turns(vcpu_prio: u8, turns: &[(u64, &str, &str)]) -> String {
    let task = |which: &str, tid: i32, comm: &str, prio: &str| {
        format!("{which}_comm={comm} {which}_pid={tid} {which}_prio={prio}")
    };
    let own = vcpu_prio.to_string();
    let vcpu = |which| task(which, 40, "CPU 0/KVM", &own);
    let mut lines = vec![(1, 40, "kvm_entry: vcpu 0, rip 0x1".to_owned())];
    let mut at = 100;
    for (us, comes, goes) in turns {
        // A name and a priority, as it is when it comes and when it goes.
        let [comes, goes] = [("next", comes), ("prev", goes)].map(|(which, thread)| {
            let (comm, prio) = thread.split_once(' ').unwrap();
            task(which, 7, comm, prio)
        });
        lines.push((
            at,
            40,
            format!("sched_switch: {} prev_state=R ==> {comes}", vcpu("prev")),
        ));
        at += us;
        lines.push((
            at,
            7,
            format!("sched_switch: {goes} prev_state=S ==> {}", vcpu("next")),
        ));
        at += 100;
    }
    lines
        .iter()
        .fold(String::new(), |mut text, (us, tid, line)| {
            let _ = writeln!(text, "       CPU 0/KVM-{tid} [000] d..1. 5.{us:06}: {line}");
            text
        })
}

#[test]
fn who_ran_instead_has_the_name_and_the_priority_of_that_time() {
    let text = turns(
        120,
        &[
            (200, "sh 120", "chrt 120"),
            (100, "chrt 49", "chrt 49"),
            (900_000, "backup 49", "backup 49"),
        ],
    );
    let trace = &diagnosed(&text).traces[0];
    let waits = trace.vms[0].waits.as_ref().unwrap();
    let by = waits.by.iter();
    let by: Vec<(&str, u64)> = by
        .map(|row| (row.name.as_deref().unwrap(), row.ns))
        .collect();
    let expected = [
        ("backup (real-time priority 50)", 900_000_000),
        ("chrt", 200_000),
        ("chrt (real-time priority 50)", 100_000),
    ];
    assert_eq!(by, expected);
    assert_eq!(waits.priority, None, "nice 0 is as usual");
}

#[test]
fn the_priority_of_a_vms_own_threads_is_named_where_they_wait() {
    let turn = (90_000, "batch 120", "batch 120");
    let diagnosis = diagnosed(&turns(130, &[turn; 10]));
    let steal = &diagnosis.findings[0];
    assert_eq!(steal.id, FindingId::Steal);
    let is_own = |id: EvidenceId| id == EvidenceId::OwnPriority;
    let own = steal.evidence.iter().find(|each| is_own(each.id)).unwrap();
    let own = serde_json::to_value(own).unwrap().to_string();
    assert!(own.contains("nice 10"), "{own}");
    let weigh = steal.next.iter().find_map(|step| step.value.as_deref());
    assert_eq!(weigh, Some("nice 10"), "{:?}", steal.next);
}

/// As `perf-prof trace` prints them, of its documents: a wall clock, the flags before the CPU, and
/// events as perf prints them.
#[test]
fn the_lines_of_perf_prof_give_who_ran_instead() {
    let mut text = String::new();
    for turn in 0..50_u64 {
        let at = 96_822_671_000 + turn * 100;
        let switch = |from: &str, to: &str| format!("sched:sched_switch: {from} ==> {to}");
        let (vcpu, other) = ("CPU 0/KVM:126953 [120]", "stress-ng:777 [120]");
        for (ms, who, what) in [
            (
                0,
                "CPU 0/KVM 126953 d...",
                "kvm:kvm_entry: vcpu 0".to_owned(),
            ),
            (
                9,
                "CPU 0/KVM 126953 ....",
                "kvm:kvm_exit: reason EXTERNAL_INTERRUPT rip 0xfffff801b782acff info 0 0"
                    .to_owned(),
            ),
            (
                10,
                "CPU 0/KVM 126953 d...",
                switch(&format!("{vcpu} R"), other),
            ),
            (
                100,
                "stress-ng    777 d...",
                switch(&format!("{other} R"), vcpu),
            ),
        ] {
            let (s, ms) = ((at + ms) / 1000, (at + ms) % 1000);
            let clock = "2022-04-22 17:39:26.535148";
            let _ = writeln!(text, "{clock}          {who} [003] {s}.{ms:03}000: {what}");
        }
    }
    let trace = &diagnosed(&text).traces[0];
    let by = &trace.vms[0].waits.as_ref().unwrap().by;
    assert_eq!((by.len(), by[0].name.as_deref()), (1, Some("stress-ng")));
    assert_eq!(by[0].ns, 50 * 90_000_000);
}
