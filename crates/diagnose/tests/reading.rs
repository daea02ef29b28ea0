// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is counted of traces that lack something: entries, names that are known, KVM's events, the
//! CPU; of other architectures; and what is said not to be judged.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::fmt::Write;

use steady_decode::TraceEvents;
use steady_diagnose::{
    Cause, DiagnoseError, Diagnoser, Judged, Judgement, Question, TraceDiagnosis, VcpuNote, VmNote,
    VmNotes, VmTable,
};

fn read(text: &str, notes: Option<VmNotes>) -> Result<TraceDiagnosis, DiagnoseError> {
    let reader = std::io::Cursor::new(text.as_bytes().to_vec());
    let mut source = steady_tracefile::open_stream(Box::new(reader), "lines").unwrap();
    let mut diagnoser = Diagnoser::new();
    diagnoser.notes = notes;
    let mut events = TraceEvents::new(source.as_mut());
    diagnoser.trace("lines", &mut events, &mut |_, _, _| Ok(()))?;
    Ok(diagnoser.finish().traces.remove(0))
}

/// The diagnosis of lines of ftrace text; each is a time in microseconds, a thread, the rest.
fn diagnosed(lines: &[(u64, i32, &str)]) -> TraceDiagnosis {
    read(&ftrace(lines), None).unwrap()
}

fn ftrace(lines: &[(u64, i32, &str)]) -> String {
    lines
        .iter()
        .fold(String::new(), |mut text, (time, tid, rest)| {
            let _ = writeln!(
                text,
                "       CPU {}/KVM-{tid} [000] d..1. 5.{time:06}: {rest}",
                tid % 10
            );
            text
        })
}

/// Names and counts of a VM's exits, and how many have no time.
fn exits(vm: &VmTable) -> Vec<(&str, &str, u64, u64)> {
    let rows = vm.exits.iter();
    let rows = rows.map(|row| (row.isa.as_str(), row.name.as_str(), row.count, row.untimed));
    rows.collect()
}

fn judgement(trace: &TraceDiagnosis, question: Question) -> &Judgement {
    let found = trace.judged.iter().find(|each| each.question == question);
    found.unwrap()
}

#[test]
fn exits_without_entries_are_counted_by_name_and_said_to_have_no_time() {
    let hlt =
        "kvm_exit: vcpu 0 reason HLT rip 0x1 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0";
    let pause = "kvm_exit: vcpu 0 reason PAUSE_INSTRUCTION rip 0xffffffff81000010 info1 0x0";
    let trace = diagnosed(&[
        (1, 40, hlt),
        (2, 40, pause),
        (3, 40, hlt),
        (4, 40, pause),
        (5, 40, pause),
    ]);
    let vm = &trace.vms[0];
    assert_eq!(
        exits(vm),
        [("vmx", "PAUSE_INSTRUCTION", 3, 3), ("vmx", "HLT", 2, 2)]
    );
    let vcpu = &vm.vcpus[0];
    assert_eq!((vcpu.exits, vcpu.untimed, vcpu.pause_exits), (5, 5, 3));
    assert_eq!((vcpu.exit_ns, vcpu.steal_ns), (None, None));
    let pauses = vm.pauses.as_ref().unwrap();
    assert_eq!(
        (pauses.exits, pauses.spun_ns, pauses.by_place[0].spun_ns),
        (3, None, None)
    );
    assert_eq!((vm.timers.idle_entries, vm.timers.idle_ns), (Some(2), None));
    assert_eq!((vm.timers.guest_timer_ns, vm.timers.tickless), (None, None));
    assert_eq!(judgement(&trace, Question::Exits).judged, Judged::Yes);
    let times = judgement(&trace, Question::ExitTimes);
    assert_eq!(
        (times.judged, times.record[0].as_str()),
        (Judged::No, "kvm:kvm_entry")
    );
}

#[test]
fn names_of_kernels_2_6_3x_are_those_exits_also_where_svm_has_the_name() {
    let exit = |name: &str| format!("kvm_exit: reason {name} rip 0x1");
    let lines = [
        "ext_irq",
        "halt",
        "cpuid",
        "hypercall",
        "ept_violation",
        "rdmsr",
        "tpr_below_thres",
    ];
    let lines: Vec<String> = lines.iter().map(|name| exit(name)).collect();
    let lines: Vec<(u64, i32, &str)> = lines
        .iter()
        .zip(1..)
        .map(|(line, at)| (at, 40, line.as_str()))
        .collect();
    let trace = diagnosed(&lines);
    let mut names: Vec<_> = exits(&trace.vms[0])
        .iter()
        .map(|row| (row.0, row.1))
        .collect();
    names.sort_unstable();
    let expected = [
        "CPUID",
        "EPT_VIOLATION",
        "EXTERNAL_INTERRUPT",
        "HLT",
        "MSR_READ",
        "TPR_BELOW_THRESHOLD",
        "VMCALL",
    ];
    assert_eq!(names, expected.map(|name| ("vmx", name)));
    assert_eq!(trace.loss.unknown_exits, 0);
}

#[test]
fn amds_exceptions_avic_control_registers_and_rsm_are_known_by_either_name() {
    let names = [
        ("EXIT_EXCP_PF", "PF excp"),
        ("PF excp", "PF excp"),
        ("EXIT_AVIC_INCOMPLETE_IPI", "avic_incomplete_ipi"),
        (
            "EXIT_AVIC_UNACCELERATED_ACCESS",
            "avic_unaccelerated_access",
        ),
        ("EXIT_WRITE_CR3", "write_cr3"),
        ("EXIT_CR0_SEL_WRITE", "cr0_sel_write"),
        ("EXIT_RSM", "rsm"),
        ("EXIT_VMMCALL", "hypercall"),
    ];
    for (printed, name) in names {
        let line = format!("kvm_exit: reason {printed} rip 0x1 info 0 0");
        let trace = diagnosed(&[(1, 40, &line)]);
        assert_eq!(exits(&trace.vms[0]), [("svm", name, 1, 1)], "{printed}");
    }
}

#[test]
fn an_exit_of_a_name_that_nobody_knows_is_counted_by_it() {
    let exit = |name: &str| format!("kvm_exit: vcpu 0 reason {name} rip 0x1 info1 0x0");
    let (new, newer, hlt) = (exit("NEW_THING"), exit("NEWER"), exit("HLT"));
    let entry = "kvm_entry: vcpu 0";
    let trace = diagnosed(&[
        (1, 40, &hlt),
        (2, 40, entry),
        (3, 40, &new),
        (7, 40, entry),
        (8, 40, &newer),
        (9, 40, &new),
    ]);
    let vm = &trace.vms[0];
    let rows = exits(vm);
    assert!(rows.contains(&("vmx", "NEW_THING", 2, 1)), "{rows:?}");
    assert!(rows.contains(&("vmx", "NEWER", 1, 1)), "{rows:?}");
    let new = vm.exits.iter().find(|row| row.name == "NEW_THING").unwrap();
    assert_eq!((new.code, new.time_ns.total), (None, 4000));
    assert_eq!(trace.loss.unknown_exits, 3);
}

/// An arm64 host by the formats of `arch/arm64/kvm/trace_arm.h`: `wfi`, `wfe`, an interrupt, a
/// fault.
const ARM64: [(u64, i32, &str); 9] = [
    (1, 40, "kvm_entry: PC: 0xffff800008010000"),
    (
        2,
        40,
        "kvm_exit: TRAP: HSR_EC: 0x0001 (WFx), PC: 0xffff800008010000",
    ),
    (
        3,
        40,
        "kvm_wfx_arm64: guest executed wfi at: 0xffff800008010000",
    ),
    (9, 40, "kvm_entry: PC: 0xffff800008010004"),
    (
        12,
        40,
        "kvm_exit: TRAP: HSR_EC: 0x0001 (WFx), PC: 0xffff800008020000",
    ),
    (
        13,
        40,
        "kvm_wfx_arm64: guest executed wfe at: 0xffff800008020000",
    ),
    (14, 40, "kvm_entry: PC: 0xffff800008020004"),
    (
        16,
        40,
        "kvm_exit: IRQ: HSR_EC: 0x0000 (UNKNOWN), PC: 0xffff800008030000",
    ),
    (
        19,
        40,
        "kvm_exit: TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0xffff800008030000",
    ),
];

#[test]
fn an_arm64_host_is_recognised_and_its_wfe_is_told_from_its_wfi() {
    let trace = diagnosed(&ARM64);
    let vm = &trace.vms[0];
    let mut rows = exits(vm);
    rows.sort_unstable();
    let expected = [
        ("arm64", "DABT_LOW", 1, 1),
        ("arm64", "IRQ", 1, 1),
        ("arm64", "WFE", 1, 0),
        ("arm64", "WFI", 1, 0),
    ];
    assert_eq!(rows, expected);
    assert_eq!(
        (vm.timers.idle_entries, vm.timers.idle_ns),
        (Some(1), Some(7000))
    );
    let pauses = vm.pauses.as_ref().unwrap();
    assert_eq!(
        (pauses.exits, pauses.by_place[0].rip.as_str()),
        (1, "0xffff800008020000")
    );
    assert_eq!(vm.timers.expiry_exits, None);
    for (question, judged) in [
        (Question::Exits, Judged::Yes),
        (Question::PauseLoops, Judged::Yes),
        (Question::Timers, Judged::NotHere),
        (Question::IpiWaits, Judged::NotHere),
        (Question::PreemptionMarks, Judged::NotHere),
    ] {
        assert_eq!(judgement(&trace, question).judged, judged, "{question:?}");
    }
}

#[test]
fn without_its_own_event_a_wfx_is_a_halt_and_spinning_is_not_judged() {
    let lines: Vec<_> = ARM64
        .into_iter()
        .filter(|line| !line.2.starts_with("kvm_wfx"))
        .collect();
    let trace = diagnosed(&lines);
    assert_eq!(trace.vms[0].timers.idle_entries, Some(2));
    let spinning = judgement(&trace, Question::PauseLoops);
    assert_eq!(
        (spinning.judged, spinning.record[0].as_str()),
        (Judged::No, "kvm:kvm_wfx_arm64")
    );
}

#[test]
fn a_riscv_host_is_recognised_by_its_causes() {
    let exit =
        |cause: &str| format!("kvm_exit: SEPC:0xffffffff80001000, SCAUSE:{cause}, STVAL:0x0");
    let (timer, call) = (exit("0x8000000000000005"), exit("0xa"));
    let entry = "kvm_entry: PC: 0x016ffffffff80001000";
    let trace = diagnosed(&[
        (1, 40, &timer),
        (3, 40, entry),
        (5, 40, &call),
        (6, 40, entry),
    ]);
    let expected = [
        ("riscv", "IRQ_S_TIMER", 1, 0),
        ("riscv", "SUPERVISOR_SYSCALL", 1, 0),
    ];
    assert_eq!(exits(&trace.vms[0]), expected);
    assert_eq!(judgement(&trace, Question::ExitTimes).judged, Judged::Yes);
}

#[test]
fn exits_of_an_architecture_that_is_not_known_are_said_not_to_be_judged() {
    // By `arch/powerpc/kvm/trace_pr.h`.
    let exit = "kvm_exit: exit=0x500 | pc=0xc000000000000100 | msr=0x0 | dar=0x0 | last_inst=0x0";
    let trace = diagnosed(&[(1, 40, "kvm_entry: vcpu 0"), (2, 40, exit), (3, 40, exit)]);
    assert_eq!((trace.loss.unreadable, trace.vms[0].exits.len()), (2, 0));
    assert_eq!(judgement(&trace, Question::Exits).judged, Judged::NotHere);
}

fn switch(prev: i32, state: &str, next: i32) -> String {
    let name = |tid: i32| match tid {
        0 => "swapper/0".to_owned(),
        40..=49 => format!("CPU {}/KVM", tid % 10),
        _ => "qemu".to_owned(),
    };
    format!(
        "sched_switch: prev_comm={} prev_pid={prev} prev_prio=120 prev_state={state} ==> \
         next_comm={} next_pid={next} next_prio=120",
        name(prev),
        name(next)
    )
}

#[test]
fn a_trace_of_the_scheduler_alone_tells_steal_by_the_names_of_threads() {
    let (out, back) = (switch(40, "R", 99), switch(99, "S", 40));
    let trace = diagnosed(&[
        (0, 40, &out),
        (30, 99, &back),
        (40, 40, &out),
        (90, 99, &back),
    ]);
    assert_eq!(trace.vcpus_by, "name");
    let vcpu = &trace.vms[0].vcpus[0];
    assert_eq!(
        (vcpu.number, vcpu.tid, vcpu.steal_ns),
        (0, 40, Some(80_000))
    );
    assert_eq!((vcpu.exits, vcpu.exit_ns, vcpu.unmarked), (0, None, None));
    assert_eq!(judgement(&trace, Question::Steal).judged, Judged::Partly);
    assert_eq!(judgement(&trace, Question::Exits).judged, Judged::No);
}

#[test]
fn once_kvm_tells_of_a_vcpu_threads_that_are_only_named_like_one_are_none() {
    let (out, back) = (switch(41, "R", 99), switch(99, "S", 41));
    let entry = "kvm_entry: vcpu 0";
    let trace = diagnosed(&[
        (0, 41, &out),
        (30, 99, &back),
        (40, 40, entry),
        (50, 41, &out),
    ]);
    let tids: Vec<i32> = trace.vms[0].vcpus.iter().map(|vcpu| vcpu.tid).collect();
    assert_eq!((trace.vcpus_by.as_str(), tids), ("kvm", vec![40]));
}

#[test]
fn waking_stands_for_the_wake_up_where_that_was_not_recorded() {
    let (halt, back) = (switch(40, "S", 99), switch(99, "S", 40));
    let wake = |name: &str| format!("{name}: comm=CPU 0/KVM pid=40 prio=120 target_cpu=000");
    let (waking, wakeup) = (wake("sched_waking"), wake("sched_wakeup"));
    let only = diagnosed(&[(0, 40, &halt), (10, 99, &waking), (30, 99, &back)]);
    assert_eq!(only.vms[0].vcpus[0].wakeup_wait_ns, Some(20_000));
    let first = (0, 99, wakeup.as_str());
    let both = diagnosed(&[
        first,
        (1, 40, &halt),
        (10, 99, &waking),
        (12, 99, &wakeup),
        (30, 99, &back),
    ]);
    assert_eq!(both.vms[0].vcpus[0].wakeup_wait_ns, Some(18_000));
}

#[test]
fn without_cpus_nothing_is_said_of_who_ran() {
    let line = "     CPU 0/KVM  40 5.000001: kvm:kvm_exit: vcpu 0 reason HLT rip 0x1\n\
                     CPU 0/KVM  40 5.000003: kvm:kvm_entry: vcpu 0\n";
    let trace = read(line, None).unwrap();
    let who = judgement(&trace, Question::WhoRan);
    assert_eq!(who.judged, Judged::No);
    assert!(who.cure.as_ref().unwrap().contains("perf record -a"));
    assert_eq!(judgement(&trace, Question::ExitTimes).judged, Judged::Yes);
}

#[test]
fn a_low_address_is_a_programs_only_where_the_guest_was_seen_in_the_upper_half() {
    let pause =
        |rip: &str| format!("kvm_exit: vcpu 0 reason PAUSE_INSTRUCTION rip {rip} info1 0x0");
    let (low, high) = (pause("0xc1012345"), pause("0xffffffff81000010"));
    let cause = |lines: &[(u64, i32, &str)]| {
        let trace = diagnosed(lines);
        let places = &trace.vms[0].pauses.as_ref().unwrap().by_place;
        places
            .iter()
            .find(|place| place.rip == "0xc1012345")
            .unwrap()
            .cause
    };
    assert_eq!(cause(&[(1, 40, &low)]), Cause::Unknown);
    assert_eq!(cause(&[(1, 40, &low), (2, 40, &high)]), Cause::UserSpin);
}

fn web() -> VmNotes {
    let vcpu = |number, tid| VcpuNote {
        number,
        tid,
        cpus: Some("0-1".to_owned()),
        cgroup: None,
        cpu_max: Some("50000 100000".to_owned()),
        cpu_weight: None,
    };
    let vm = |name: Option<&str>, process, tids: [i32; 2]| VmNote {
        name: name.map(str::to_owned),
        process,
        vmm: "qemu".to_owned(),
        cgroup: None,
        threads: vec![process],
        vcpus: vec![vcpu(0, tids[0]), vcpu(1, tids[1])],
    };
    VmNotes::new(vec![vm(Some("web"), 30, [40, 42]), vm(None, 31, [41, 43])])
}

#[test]
fn notes_give_vms_their_names_and_their_threads_whatever_their_numbers() {
    let exit = |vcpu: u32| format!("kvm_exit: vcpu {vcpu} reason HLT rip 0x1 info1 0x0");
    let (zero, one) = (exit(0), exit(1));
    // By thread ids alone 40 and 41, 42 and 43 would be the VMs.
    let lines = [
        (1, 40, zero.as_str()),
        (2, 41, &zero),
        (3, 42, &one),
        (4, 43, &one),
    ];
    let trace = read(&ftrace(&lines), Some(web())).unwrap();
    let found: Vec<(&str, Vec<i32>)> = trace
        .vms
        .iter()
        .map(|vm| {
            (
                vm.name.as_str(),
                vm.vcpus.iter().map(|vcpu| vcpu.tid).collect(),
            )
        })
        .collect();
    assert_eq!(found, [("web", vec![40, 42]), ("vm2", vec![41, 43])]);
    assert_eq!(trace.vms_by, "process");
    let note = trace.vms[0].note.as_ref().unwrap();
    assert_eq!(note.vcpus[0].cpu_max.as_deref(), Some("50000 100000"));
    assert_eq!(read(&ftrace(&lines), None).unwrap().vms[0].vcpus[1].tid, 43);
}

#[test]
fn a_trace_without_guests_is_not_told_to_do_what_was_done() {
    let line = "            bash-1 [000] 5.000001: sched_switch: prev_comm=a prev_pid=1 \
                prev_prio=1 prev_state=S ==> next_comm=b next_pid=2 next_prio=1\n";
    let cure = |notes| match read(line, notes) {
        Err(error @ DiagnoseError::NothingToSay { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(cure(None).contains("`steady record`"));
    let none = cure(Some(VmNotes::new(Vec::new())));
    assert!(
        none.contains("no guest ran") && !none.contains("`steady record`"),
        "{none}"
    );
}

#[test]
fn lines_that_were_not_read_are_told_with_their_share_and_doubt_all_that_is_judged() {
    let mut text = ftrace(&[(1, 40, "kvm_entry: vcpu 0")]);
    for at in 0..3 {
        let _ = writeln!(text, "Nov 22 07:00:0{at} host app: a line of a log");
    }
    let trace = read(&text, None).unwrap();
    assert_eq!(
        (trace.loss.unread_lines, trace.loss.unread_permille),
        (3, 750)
    );
    assert!(trace.loss.unread[0].starts_with("line 2: Nov 22"));
    assert!(trace.judged.iter().all(|each| each.judged != Judged::Yes));
}

#[test]
fn every_question_is_there_once_and_what_is_not_judged_says_why() {
    let trace = diagnosed(&[(1, 40, "kvm_entry: vcpu 0")]);
    let questions: Vec<Question> = trace.judged.iter().map(|each| each.question).collect();
    assert_eq!(questions, Question::ALL);
    for each in &trace.judged {
        let why = each.judged != Judged::Yes;
        assert_eq!(each.why.is_some(), why, "{each:?}");
        let answered = each.judged == Judged::No;
        assert!(
            !answered || !each.record.is_empty() || each.cure.is_some(),
            "{each:?}"
        );
    }
}
