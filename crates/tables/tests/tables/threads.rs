// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables that name threads: `perf sched latency`, `perf sched timehist`, `runqslower`.

use steady_diagnose::{CauseId, Confidence, EvidenceId, FindingId};
use steady_tables::Kind;

use super::{evidence, judged, name, number, only};

/// perf 5.4: `max at`. The vCPU waited 1000 x 0.5 ms = 500 ms and ran 1500 ms: 25 %.
const LATENCY_OLD: &str = include_str!("../inputs/threads-latency-old.txt");

#[test]
fn delays_of_a_vcpu_are_steal() {
    let (kind, findings) = judged(LATENCY_OLD);
    assert_eq!(kind, Kind::SchedLatency);
    let steal = only(&findings, FindingId::Steal);
    assert_eq!((steal.lost_permille, steal.lost_ns), (250, 500_000_000));
    assert_eq!(
        (steal.cause, steal.confidence),
        (CauseId::NotShown, Confidence::Low)
    );
    let row = evidence(steal, EvidenceId::TableThread);
    assert_eq!(
        (name(row, "name"), number(row, "max")),
        ("CPU 0/KVM:4711", 40_000_000)
    );
    assert_eq!(name(row, "at"), "9004.250000 s");
    assert_eq!(findings.len(), 1);
}

/// perf 5.19: `max start` and `max end`; a worker and vhost wait, the vCPU does not.
const LATENCY_NEW: &str = include_str!("../inputs/threads-latency-new.txt");

#[test]
fn threads_that_serve_guests_are_named_and_a_vcpu_that_runs_is_not() {
    let (_, findings) = judged(LATENCY_NEW);
    let waits = only(&findings, FindingId::ThreadsWait);
    let rows: Vec<(&str, u64)> = waits
        .evidence
        .iter()
        .map(|row| (name(row, "name"), number(row, "max")))
        .collect();
    assert_eq!(
        rows,
        [
            ("vhost-4711:4720", 120_500_000),
            ("kworker/3:1:88", 51_000_000)
        ]
    );
    assert_eq!(findings.len(), 1);
}

/// A patched perf with a column of sums, truncated times.
const LATENCY_SUM: &str = include_str!("../inputs/threads-latency-sum.txt");

#[test]
fn a_column_of_sums_does_not_disturb() {
    // 2000 x 0.5 ms beside 3000 ms: 25 %.
    let (_, findings) = judged(LATENCY_SUM);
    let steal = only(&findings, FindingId::Steal);
    assert_eq!((steal.lost_permille, steal.lost_ns), (250, 1_000_000_000));
}

/// perf 4.19. The vCPU's delays: 10 + 30 ms; it ran 5 + 5 ms: 80 %.
const TIMEHIST: &str = "
Samples do not have callchains.
           time    cpu  task name                       wait time  sch delay   run time
                        [tid/pid]                          (msec)     (msec)     (msec)
--------------- ------  ------------------------------  ---------  ---------  ---------
  991962.880070 [0002]  CPU 0/KVM[4711/4700]                0.000     10.000      5.000
  991962.880078 [0000]  <idle>                              0.000      0.000      1.000
  991962.880081 [0003]  cc1[16945]                          0.000      0.000      0.000
  991963.880070 [0002]  CPU 0/KVM[4711/4700]                2.000     30.000      5.000
";

#[test]
fn delays_of_timehist_are_added_up_by_thread() {
    let (kind, findings) = judged(TIMEHIST);
    assert_eq!(kind, Kind::SchedTimehist);
    let steal = only(&findings, FindingId::Steal);
    assert_eq!((steal.lost_permille, steal.lost_ns), (800, 40_000_000));
    let row = evidence(steal, EvidenceId::TableThread);
    assert_eq!((number(row, "waits"), number(row, "max")), (2, 30_000_000));
    assert_eq!(name(row, "at"), "991963.880070 s");
}

/// perf 5.15 with `-V`: a column that draws the CPUs.
const TIMEHIST_DRAWN: &str = "
           time    cpu  012  task name                       wait time  sch delay   run time
                             [tid/pid]                          (msec)     (msec)     (msec)
--------------- ------  ---  ------------------------------  ---------  ---------  ---------
  975758.720113 [0001]   s   qemu-kvm[4700]                      0.000     60.000      0.500
  975758.720114 [0001]   i   <idle>                              0.000      0.000      0.001
";

#[test]
fn a_vmms_thread_that_waits_is_named() {
    let (_, findings) = judged(TIMEHIST_DRAWN);
    let waits = only(&findings, FindingId::ThreadsWait);
    let row = evidence(waits, EvidenceId::TableThread);
    assert!(name(row, "name").ends_with("qemu-kvm[4700]"), "{row:?}");
    assert_eq!(number(row, "max"), 60_000_000);
}

/// perf 6.14 with `--pre-migrations`; no thread waits long.
const TIMEHIST_QUIET: &str = include_str!("../inputs/threads-timehist-quiet.txt");

#[test]
fn a_quiet_timehist_has_nothing_wrong() {
    let (kind, findings) = judged(TIMEHIST_QUIET);
    assert_eq!((kind, findings), (Kind::SchedTimehist, Vec::new()));
}

/// bcc 0.12, whose names are bytes of Python.
const SLOWER_BCC: &str = "
Tracing run queue latency higher than 10000 us
TIME     COMM             TID           LAT(us)
13:11:43 b'kworker/0:2'   8680            10250
13:12:18 b'CPU 1/KVM'     4712            25000
13:12:19 b'CPU 1/KVM'     4712            31000
";

#[test]
fn waits_above_a_bound_are_steal_if_they_are_a_vcpus() {
    let (kind, findings) = judged(SLOWER_BCC);
    assert_eq!(kind, Kind::Runqslower);
    let steal = only(&findings, FindingId::Steal);
    let row = evidence(steal, EvidenceId::TableThread);
    assert_eq!(
        (name(row, "name"), number(row, "waits")),
        ("CPU 1/KVM:4712", 2)
    );
    assert_eq!(
        (number(row, "max"), name(row, "at")),
        (31_000_000, "13:12:19")
    );
}

/// libbpf-tools with `-P`: backup ran before a wait of 90 ms, cc1 before one of 30 ms.
const SLOWER_PREVIOUS: &str = "
Tracing run queue latency higher than 10000 us
TIME     COMM             TID           LAT(us) PREV COMM        PREV TID
18:40:23 CPU 0/KVM        4711            90000 backup           900
18:40:24 CPU 0/KVM        4711            30000 cc1              901
";

#[test]
fn who_ran_before_a_wait_is_named_but_is_no_proof() {
    let (_, findings) = judged(SLOWER_PREVIOUS);
    let steal = only(&findings, FindingId::Steal);
    let before: Vec<(&str, u64, u64)> = steal
        .culprits
        .iter()
        .map(|of| (of.name.as_deref().unwrap(), of.ns, of.permille))
        .collect();
    assert_eq!(
        before,
        [("backup", 90_000_000, 750), ("cc1", 30_000_000, 250)]
    );
    assert_eq!(steal.confidence, Confidence::Low);
}

/// bcc 0.29: no vCPU among them.
const SLOWER_OTHERS: &str = "
Tracing run queue latency higher than 50000 us
TIME     COMM             TID           LAT(us)
04:16:32 vhost-4700       4720           130120
04:16:33 systemd          1               59700
";

#[test]
fn other_threads_above_a_bound_are_named() {
    let (_, findings) = judged(SLOWER_OTHERS);
    let waits = only(&findings, FindingId::ThreadsWait);
    assert_eq!(name(&waits.evidence[0], "name"), "vhost-4700:4720");
    assert_eq!(number(&waits.evidence[0], "max"), 130_120_000);
}
