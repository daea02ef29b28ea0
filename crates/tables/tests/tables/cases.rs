// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What people pasted in public when their guests stalled, with names replaced. What is expected is
//! what is known of each, not what was printed here first.

use steady_diagnose::{CauseId, EvidenceId, FindingId, StepId};
use steady_tables::Kind;

use super::{evidence, judged, name, number, only};

#[test]
fn a_guest_that_polls_a_timer_by_a_port() {
    // The cure was a better clock for the guest. Of the time 56 % is halts, 42 % the port.
    let (kind, findings) = judged(include_str!("../cases/perf-kvm-stat-live.txt"));
    assert_eq!(kind, Kind::PerfKvmStat);
    let slow = only(&findings, FindingId::SlowExits);
    assert_eq!(slow.of.as_deref(), Some("IO_INSTRUCTION"));
    assert_eq!(slow.lost_permille, 424);
    assert!(slow.next.iter().any(|step| step.id == StepId::GuestClock));
    let halts = &slow.evidence[1];
    assert_eq!(
        (name(halts, "reason"), number(halts, "time_share")),
        ("HLT", 561)
    );
}

#[test]
fn counts_of_one_vm() {
    let (kind, findings) = judged(include_str!("../cases/kvm_stat.txt"));
    assert_eq!(kind, Kind::KvmStat);
    let counted = only(&findings, FindingId::ExitCounts);
    assert_eq!(counted.vm.as_deref(), Some("openeuler-20_03"));
    let row = evidence(counted, EvidenceId::TableEvents);
    assert_eq!((number(row, "count"), number(row, "rate")), (1133, 80));
}

#[test]
fn a_domain_that_waits_for_a_quarter_of_what_it_wants() {
    // vCPU 0: 34.4 s of 34.4 + 115.9 s.
    let (kind, findings) = judged(include_str!("../cases/virsh-domstats.txt"));
    assert_eq!(kind, Kind::Domstats);
    let steal = only(&findings, FindingId::Steal);
    assert_eq!(steal.vm.as_deref(), Some("vm-a"));
    let first = &steal.evidence[1];
    assert_eq!(
        (name(first, "who"), number(first, "share")),
        ("vCPU 0", 229)
    );
    assert_eq!(steal.next[0].id, StepId::AskTool);
}

#[test]
fn kworkers_and_a_vcpu_that_wait_long() {
    let (kind, findings) = judged(include_str!("../cases/perf-sched-latency.txt"));
    assert_eq!(kind, Kind::SchedLatency);
    let vcpu = evidence(only(&findings, FindingId::Steal), EvidenceId::TableThread);
    assert_eq!(number(vcpu, "max"), 92_126_000);
    let kworker = evidence(
        only(&findings, FindingId::ThreadsWait),
        EvidenceId::TableThread,
    );
    assert_eq!(name(kworker, "name"), "kworker/19:2-ev:1071");
    assert_eq!(number(kworker, "max"), 366_314_000);
}

#[test]
fn a_stack_alone_that_waits_for_an_ipi() {
    let (kind, findings) = judged(include_str!("../cases/guest-soft-lockup.txt"));
    assert_eq!(kind, Kind::KernelLog);
    let lockup = only(&findings, FindingId::KernelComplaint);
    assert_eq!(lockup.of.as_deref(), Some("soft lockup"));
    assert_eq!(lockup.cause, CauseId::WaitsForIpi);
    assert_eq!(lockup.next[0].id, StepId::RecordWhile);
    let times = evidence(lockup, EvidenceId::LogTimes);
    assert_eq!(name(times, "machine"), "host");
}

#[test]
fn counts_of_an_hour() {
    let (kind, findings) = judged(include_str!("../cases/perf-stat-kvm.txt"));
    assert_eq!(kind, Kind::PerfStat);
    let counted = only(&findings, FindingId::ExitCounts);
    assert_eq!(counted.cause, CauseId::CountsOnly);
    let row = evidence(counted, EvidenceId::TableEvents);
    assert_eq!(
        (name(row, "name"), number(row, "count")),
        ("kvm_exit", 1934)
    );
}
