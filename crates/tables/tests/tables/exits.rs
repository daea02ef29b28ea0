// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `perf kvm stat report` and `live`.

use steady_diagnose::{CauseId, EvidenceId, FindingId, Severity, StepId};
use steady_tables::Kind;

use super::{evidence, judged, name, number, only};

/// perf 6.1, `report`, an AMD host. Time: npf 2000 x 300 us = 600 ms, hlt 100 x 10 ms = 1 s, msr
/// 400 x 2 us = 0.8 ms; in all 1600.8 ms, of which npf is 37.5 %.
const REPORT_SVM: &str = include_str!("../inputs/exits-report-svm.txt");

#[test]
fn a_report_gives_the_reason_that_takes_the_time_and_not_halts() {
    let (kind, findings) = judged(REPORT_SVM);
    assert_eq!(kind, Kind::PerfKvmStat);
    let slow = only(&findings, FindingId::SlowExits);
    assert_eq!(slow.of.as_deref(), Some("npf"));
    assert_eq!((slow.lost_permille, slow.lost_ns), (375, 600_000_000));
    assert_eq!(
        (slow.cause, slow.severity),
        (CauseId::MappingMemory, Severity::Severe)
    );
    let row = evidence(slow, EvidenceId::TableExits);
    assert_eq!(
        (number(row, "exits"), number(row, "max")),
        (2000, 1_200_000)
    );
    assert_eq!(findings.len(), 1);
}

/// perf 4.15, `live` on an Intel host: two screens of a second each and a pager's marks between.
/// EXTERNAL_INTERRUPT 100 x 1 ms + 300 x 1 ms = 400 ms; HLT 2 x 300 ms = 600 ms. The second screen
/// is shown again by the pager and counts once.
const LIVE_PAGED: &str = include_str!("../inputs/exits-live-paged.txt");

#[test]
fn screens_of_live_are_added_up_and_one_that_a_pager_repeats_counts_once() {
    let (_, findings) = judged(LIVE_PAGED);
    let slow = only(&findings, FindingId::SlowExits);
    assert_eq!((slow.lost_permille, slow.lost_ns), (400, 400_000_000));
    assert_eq!(slow.cause, CauseId::InterruptsOrWait);
    let row = evidence(slow, EvidenceId::TableExits);
    assert_eq!((number(row, "exits"), number(row, "max")), (400, 9_000_000));
}

/// perf 6.8 on arm64, sent by mail that broke the rows and quoted them. DABT_LOW 1000 x 40 us =
/// 40 ms of 40 + 60 ms (WFx idle).
const MAILED_ARM: &str = "\
> Analyze events for all VMs, all VCPUs:
>
>              VM-EXIT    Samples  Samples%     Time%    Min Time    Max
> Time         Avg time
>
>             DABT_LOW       1000    90.91%    40.00%      2.19us   3364.65us
> 40.00us ( +-   0.34% )
>                  WFx        100     9.09%    60.00%      2.22us   3388.63us
> 600.00us ( +-  14.95% )
>
> Total Samples:1100, Total events handled time:100000.00us.
";

#[test]
fn rows_that_mail_broke_are_joined() {
    let (_, findings) = judged(MAILED_ARM);
    let slow = only(&findings, FindingId::SlowExits);
    assert_eq!(slow.of.as_deref(), Some("DABT_LOW"));
    assert_eq!((slow.lost_permille, slow.lost_ns), (400, 40_000_000));
}

/// perf 5.10 with `--event=ioport`: 5000 x 12 us of 60.1 ms are reads of the ACPI timer.
const PORTS: &str = include_str!("../inputs/exits-ports.txt");

#[test]
fn a_table_of_ports_names_the_port() {
    let (_, findings) = judged(PORTS);
    let slow = only(&findings, FindingId::SlowExits);
    assert_eq!(slow.of.as_deref(), Some("0x608:PIN"));
    assert_eq!((slow.lost_permille, slow.lost_ns), (998, 60_000_000));
    assert_eq!(slow.next[0].id, StepId::GuestClock);
    assert_eq!(slow.next[0].name.as_deref(), Some("0x608"));
}

/// perf 6.5, its screen: times in nanoseconds, and the longest before the shortest.
const SCREEN: &str = "\
Analyze events for all VMs, all VCPUs: 1100 total
  Event name       Samples   Sample%  Time (ns)    Time%  Max Time (ns)  Min Time (ns)  Mean Time
  EPT_VIOLATION       1000    90.00%   30000000   30.00%        2000000            900      30000
  HLT                  100    10.00%   70000000   70.00%        5000000           1000     700000
";

#[test]
fn the_screen_of_newer_versions_is_read() {
    let (_, findings) = judged(SCREEN);
    let slow = only(&findings, FindingId::SlowExits);
    assert_eq!(slow.of.as_deref(), Some("EPT_VIOLATION"));
    assert_eq!((slow.lost_permille, slow.lost_ns), (300, 30_000_000));
    assert_eq!(
        number(evidence(slow, EvidenceId::TableExits), "max"),
        2_000_000
    );
}

#[test]
fn one_exit_of_seconds_is_found_though_its_share_is_small() {
    // 1 exit of 2 s among 500 s of halts: 0.4 %.
    let text = "
             VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time
                 HLT       5000    99.98%    99.60%      5.00us 400000.00us 100000.00us ( +- 1.0% )
       EPT_VIOLATION          1     0.02%     0.40% 2000000.00us 2000000.00us 2000000.00us
";
    let (_, findings) = judged(text);
    let slow = only(&findings, FindingId::SlowExits);
    assert_eq!(slow.of.as_deref(), Some("EPT_VIOLATION"));
    assert_eq!(
        name(evidence(slow, EvidenceId::TableExits), "reason"),
        "EPT_VIOLATION"
    );
    assert_eq!(slow.lost_ns, 2_000_000_000);
}

#[test]
fn a_table_of_halts_alone_has_nothing_wrong() {
    let text = "
             VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time
                 HLT       5000    90.00%    99.90%      5.00us 900000.00us 100000.00us ( +- 1.0% )
           MSR_WRITE        555    10.00%     0.10%      1.00us      9.00us      2.00us ( +- 1.0% )
";
    assert_eq!(judged(text).1, []);
}

/// perf 3.10 `live`: three reasons that it does not know. 3622 x 4765.94 us + 2057 x 502.57 us +
/// 1401 x 72.22 us = 18.40 s of 20.04 s.
const UNKNOWN: &str = include_str!("../inputs/exits-unknown.txt");

#[test]
fn rows_of_reasons_without_a_name_do_not_hide_each_other() {
    let (_, findings) = judged(UNKNOWN);
    let worst = findings.first().unwrap();
    assert_eq!(worst.of.as_deref(), Some("UNKNOWN (131072)"));
    assert_eq!(worst.lost_ns, 3622 * 4_765_940);
    // By pipe the remarks come apart from the rows, which then add up.
    let parted: String = UNKNOWN
        .lines()
        .filter(|line| !line.contains("code:"))
        .map(|line| format!("{line}\n"))
        .collect();
    let (_, findings) = judged(&parted);
    let worst = findings.first().unwrap();
    assert_eq!(
        (worst.of.as_deref(), worst.lost_ns),
        (
            Some("UNKNOWN"),
            3622 * 4_765_940 + 2057 * 502_570 + 1401 * 72_220
        )
    );
}
