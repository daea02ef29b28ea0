// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Stalls whose end the trace does not show, and those of threads that serve a VM.

use steady_diagnose::{CauseId, Confidence, Diagnosis, Finding, FindingId, Severity};

use super::{BY_INTERRUPT, IDLE, Lines, comm, notes, the};

const BACKUP: (&str, i32) = ("backup", 777);
const VHOST: (&str, i32) = ("vhost-1000", 1050);
const OTHER_IDLE: (&str, i32) = ("swapper/7", 0);
/// vCPUs of these VMs, each on a pCPU of its own.
const VCPUS: i32 = 8;
const SECOND: u64 = 1_000_000;

fn cpu_of(vcpu: i32) -> u32 {
    u32::try_from(vcpu).unwrap()
}

/// vCPUs from `first` on enter and leave every 10 ms, up to this time.
fn at_work(lines: &mut Lines, first: i32, from_us: u64, to_us: u64) {
    for us in (from_us..to_us).step_by(10_000) {
        (first..VCPUS).for_each(|vcpu| lines.enter(us, vcpu, cpu_of(vcpu)));
        (first..VCPUS).for_each(|vcpu| lines.exit(us + 9_990, vcpu, cpu_of(vcpu), BY_INTERRUPT));
    }
}

fn only(diagnosis: &Diagnosis) -> &Finding {
    let found: Vec<&Finding> = diagnosis.findings.iter().collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0]
}

/// vCPU 0 waits from this second on, a record is lost, and at that one it runs again. Earlier it
/// may have been stuck for a moment.
fn lost(from_s: u64, back_s: u64, stuck: bool) -> Diagnosis {
    let (mut lines, mut begin_us) = (Lines::default(), 0);
    if stuck {
        let (us, vcpu) = (10 * SECOND, ("CPU 0/KVM", 1001));
        at_work(&mut lines, 0, 0, us);
        lines.switch(us, 0, vcpu, 'D', IDLE);
        at_work(&mut lines, 1, us + 10, us + 190_000);
        lines.switch(us + 200_000, 0, IDLE, 'R', vcpu);
        begin_us = us + 200_010;
    }
    at_work(&mut lines, 0, begin_us, from_s * SECOND);
    lines.switch(from_s * SECOND, 0, ("CPU 0/KVM", 1001), 'R', BACKUP);
    let back_us = back_s * SECOND;
    at_work(&mut lines, 1, from_s * SECOND + 10, back_us - 10_000);
    lines.text.push_str("CPU:0 [LOST 1 EVENTS]\n");
    lines.switch(back_us, 0, BACKUP, 'S', ("CPU 0/KVM", 1001));
    at_work(&mut lines, 0, back_us + 10, 60 * SECOND);
    lines.diagnosis(None)
}

#[test]
fn a_wait_whose_end_was_lost_may_be_a_stall() {
    let diagnosis = lost(30, 34, false);
    let stall = only(&diagnosis);
    let is = (stall.id, stall.of.as_deref(), stall.cause, stall.confidence);
    let expected = (
        FindingId::LongStall,
        Some("in-loss"),
        CauseId::Untold,
        Confidence::Low,
    );
    assert_eq!(is, expected);
    let most_ns = stall.at_most_ns.unwrap();
    assert!(
        (3_900_000_000..=4_000_000_000).contains(&most_ns),
        "{most_ns}"
    );
    assert_eq!(
        (stall.lost_ns, stall.worst.as_ref().unwrap().vcpu),
        (0, Some(0))
    );
    // What was seen comes first, also where it is shorter.
    let diagnosis = lost(30, 34, true);
    assert_eq!(only(&diagnosis).of.as_deref(), Some("uninterruptible"));
}

/// vCPU 0 leaves for this reason after ten seconds; the rest of these records is its own.
fn cut_off(reason: &str, more: &[&str], ends: Option<char>) -> Diagnosis {
    let mut lines = Lines::default();
    at_work(&mut lines, 0, 0, 10 * SECOND);
    let us = 10 * SECOND;
    lines.enter(us, 0, 0);
    lines.exit(us + 1, 0, 0, reason);
    more.iter().for_each(|rest| lines.of(us + 2, 0, rest));
    if let Some(state) = ends {
        lines.switch(us + 3, 0, ("CPU 0/KVM", 1001), state, IDLE);
    }
    at_work(&mut lines, 1, us + 10, 14 * SECOND);
    lines.diagnosis(None)
}

#[test]
fn an_exit_that_has_not_ended_when_the_trace_does_is_a_stall() {
    let device = "kvm_userspace_exit: reason KVM_EXIT_IO (2)";
    let table: [(&str, &[&str], Option<char>, CauseId); 5] = [
        ("EPT_VIOLATION", &[], None, CauseId::Handling),
        ("IO_INSTRUCTION", &[], None, CauseId::UserDevice),
        ("IO_INSTRUCTION", &[device], None, CauseId::UserDevice),
        ("IO_INSTRUCTION", &[device], Some('S'), CauseId::UserDevice),
        (BY_INTERRUPT, &[], None, CauseId::KernelWork),
    ];
    for (reason, more, ends, cause) in table {
        let diagnosis = cut_off(reason, more, ends);
        let stall = the(&diagnosis, FindingId::LongStall);
        assert_eq!(stall.of.as_deref(), Some("cut-off"), "{reason} {more:?}");
        assert_eq!((stall.cause, stall.confidence), (cause, Confidence::Low));
        let worst = stall.worst.as_ref().unwrap();
        assert!(worst.length_ns >= 3_900_000_000, "{worst:?}");
    }
}

#[test]
fn a_halt_or_a_thread_that_ended_is_no_stall_at_the_trace_s_end() {
    let down = "kvm_userspace_exit: reason KVM_EXIT_SHUTDOWN (8)";
    let table: [(&str, &[&str], Option<char>); 4] = [
        ("HLT", &[], None),
        ("HLT", &[], Some('S')),
        ("EPT_VIOLATION", &[], Some('X')),
        ("EPT_VIOLATION", &[down], None),
    ];
    for (reason, more, ends) in table {
        let diagnosis = cut_off(reason, more, ends);
        assert!(
            diagnosis.findings.is_empty(),
            "{reason}: {:?}",
            diagnosis.findings
        );
    }
}

/// vCPU 0 halts for four seconds until a thread wakes it, which waited up to then: for its pCPU, or
/// in the kernel. It runs for this long before it does.
fn served(in_kernel: bool, late_us: u64) -> Lines {
    let mut lines = Lines::default();
    at_work(&mut lines, 0, 0, 10 * SECOND);
    let (us, vcpu) = (10 * SECOND, ("CPU 0/KVM", 1001));
    lines.enter(us, 0, 0);
    lines.exit(us + 1, 0, 0, "HLT");
    lines.switch(us + 2, 0, vcpu, 'S', IDLE);
    let wakes = |who: (&str, i32)| {
        format!(
            "sched_wakeup: comm={} pid={} prio=120 target_cpu=007",
            who.0, who.1
        )
    };
    let before = if in_kernel { OTHER_IDLE } else { BACKUP };
    if in_kernel {
        lines.switch(us + 3, 7, VHOST, 'D', OTHER_IDLE);
    } else {
        lines.line(us + 3, OTHER_IDLE, 7, &wakes(VHOST));
    }
    at_work(&mut lines, 1, us + 10, 14 * SECOND - 10_000);
    let us = 14 * SECOND;
    if in_kernel {
        lines.line(us, OTHER_IDLE, 7, &wakes(VHOST));
    }
    lines.switch(us + 1, 7, before, 'R', VHOST);
    at_work(&mut lines, 1, us + 10, us + late_us);
    let us = us + late_us;
    let wake = "sched_wakeup: comm=CPU 0/KVM pid=1001 prio=120 target_cpu=000";
    lines.line(us + 2, VHOST, 7, wake);
    lines.switch(us + 3, 0, IDLE, 'R', vcpu);
    lines.switch(us + 4, 7, VHOST, 'S', before);
    lines.enter(us + 5, 0, 0);
    lines.exit(us + 6, 0, 0, BY_INTERRUPT);
    at_work(&mut lines, 0, us + 10, 60 * SECOND);
    lines
}

#[test]
fn one_long_wait_of_a_server_is_felt_whatever_its_share() {
    let medium = Confidence::Medium;
    for (in_kernel, cause, sure) in [
        (false, CauseId::HostTask, medium),
        (true, CauseId::KernelWait, Confidence::Low),
    ] {
        let diagnosis = served(in_kernel, 0).diagnosis(None);
        let waits = only(&diagnosis);
        assert_eq!(waits.severity, Severity::Major);
        assert_eq!((waits.id, waits.cause), (FindingId::ServerWaits, cause));
        assert_eq!(
            (waits.of.as_deref(), waits.confidence),
            (Some("vhost-1000"), sure)
        );
        assert!(waits.lost_ns >= 3_900_000_000, "{}", waits.lost_ns);
    }
}

#[test]
fn a_thread_that_wakes_a_vcpu_long_after_its_own_wait_does_not_explain_the_sleep() {
    // And neither is a length known where the clock's unit is not.
    let mut of_cycles = served(false, 0);
    let line = |line: &str| {
        let (head, rest) = line.split_once("d..2. ").unwrap();
        let (time, rest) = rest.split_once(':').unwrap();
        format!("{head}d..2. {}:{rest}\n", time.replace('.', ""))
    };
    of_cycles.text = of_cycles.text.lines().map(line).collect();
    for lines in [served(false, SECOND), of_cycles] {
        let found = lines.diagnosis(None).findings;
        assert!(found.is_empty(), "{found:?}");
    }
}

#[test]
fn while_another_pcpu_loses_events_a_waiting_vcpu_may_run_there() {
    let vcpu = ("CPU 0/KVM", 1001);
    let migrates = "sched_migrate_task: comm=a pid=9 prio=120 orig_cpu=1 dest_cpu=0";
    let pinned = |cpus: &str| {
        let mut notes = super::notes(&[], None).unwrap();
        notes.vms[0].vcpus[0].cpus = Some(cpus.to_owned());
        Some(notes)
    };
    // Of each 100 ms it waits for 80, of which pCPU 1 has no records for 70.
    for (remark, notes, sure_ms, doubted_ms) in [
        ("", None, 400, 2_800),
        ("", pinned("0-1"), 400, 2_800),
        ("", pinned("0"), 3_200, 0),
        (migrates, None, 3_200, 0),
    ] {
        let mut lines = Lines::default();
        let mark = "sched_process_wait: comm=make pid=0 prio=120";
        for us in (0..40).map(|turn| SECOND + turn * 100_000) {
            lines.enter(us, 0, 0);
            lines.exit(us + 20_000, 0, 0, BY_INTERRUPT);
            lines.switch(us + 20_001, 0, vcpu, 'R', BACKUP);
            let remark = if remark.is_empty() { mark } else { remark };
            lines.line(us + 25_000, ("make", 88), 1, remark);
            lines.text.push_str("CPU:1 [LOST 300 EVENTS]\n");
            lines.line(us + 95_000, ("make", 88), 1, mark);
            lines.switch(us + 99_999, 0, BACKUP, 'S', vcpu);
        }
        let diagnosis = lines.diagnosis(notes);
        let steal = the(&diagnosis, FindingId::Steal);
        let more_ns = steal
            .at_most_ns
            .map_or(0, |most_ns| most_ns - steal.lost_ns);
        let ms = [steal.lost_ns, more_ns].map(|ns| ns.div_ceil(1_000_000));
        assert_eq!(ms, [sure_ms, doubted_ms], "{remark}");
        assert!(steal.confidence < Confidence::High);
    }
}

#[test]
fn vcpus_are_surely_too_many_only_where_the_machine_has_fewer_pcpus() {
    let mut noted = notes(&[1000], Some("max 100000")).unwrap();
    let mut second = noted.vms[0].vcpus[0].clone();
    (second.number, second.tid) = (1, 1002);
    noted.vms[0].vcpus.push(second);
    for (pcpus, sure) in [(None, false), (Some(2), false), (Some(1), true)] {
        let mut lines = Lines::default();
        if let Some(pcpus) = pcpus {
            let head = "# tracer: nop\n# entries-in-buffer/entries-written: 9/9   #P:";
            lines.text = format!("{head}{pcpus}\n");
        }
        for round in 0..60_i32 {
            let (me, next) = (round % 2, (round + 1) % 2);
            let us = 1_000_000 + u64::try_from(round).unwrap() * 20_000;
            lines.enter(us + 2, me, 0);
            lines.exit(us + 19_990, me, 0, BY_INTERRUPT);
            let (who, then) = (comm(me), comm(next));
            let (who, then) = ((who.as_str(), 1001 + me), (then.as_str(), 1001 + next));
            lines.switch(us + 20_000, 0, who, 'R', then);
        }
        let diagnosis = lines.diagnosis(Some(noted.clone()));
        let steal = the(&diagnosis, FindingId::Steal);
        assert_eq!(steal.cause, CauseId::OwnVm);
        assert_eq!(
            steal.confidence == Confidence::High,
            sure,
            "{pcpus:?}: {steal:#?}"
        );
    }
}
