// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `perf kvm stat report` and `live`.

use steady_diagnose::{CauseId, EvidenceId, FindingId, Severity, StepId};
use steady_tables::Kind;

use super::{evidence, judged, name, number, only};

/// perf 6.1, `report`, an AMD host. Time: npf 2000 x 300 us = 600 ms, hlt 100 x 10 ms = 1 s, msr
/// 400 x 2 us = 0.8 ms; in all 1600.8 ms, of which npf is 37.5 %.
const REPORT_SVM: &str = "
# perf kvm stat report

Analyze events for all VMs, all VCPUs:

             VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time

                 npf       2000    80.00%    37.48%      1.10us   1200.00us    300.00us ( +-   1.00% )
                 msr        400    16.00%     0.05%      0.90us     12.00us      2.00us ( +-   2.00% )
                 hlt        100     4.00%    62.47%      5.00us  90000.00us  10000.00us ( +-   9.00% )

Total Samples:2500, Total events handled time:1600800.00us.
";

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
const LIVE_PAGED: &str = "\
11:12:07.687968

Analyze events for all VMs, all VCPUs:

             VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time

\u{1b}[7m--More--\u{1b}[27m\r\u{1b}[K
                 HLT          1     0.99%    75.00% 300000.00us 300000.00us 300000.00us ( +-   0.00% )
  EXTERNAL_INTERRUPT        100    99.01%    25.00%      1.19us   9000.00us   1000.00us ( +-   0.95% )

Total Samples:101, Total events handled time:400000.00us.
:
11:12:08.687968

Analyze events for all VMs, all VCPUs:

             VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time

                 HLT          1     0.33%    50.00% 300000.00us 300000.00us 300000.00us ( +-   0.00% )
lines 1-23
  EXTERNAL_INTERRUPT        300    99.67%    50.00%      1.19us   8000.00us   1000.00us ( +-   0.95% )

Total Samples:301, Total events handled time:600000.00us.
             VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time
                 HLT          1     0.33%    50.00% 300000.00us 300000.00us 300000.00us ( +-   0.00% )
  EXTERNAL_INTERRUPT        300    99.67%    50.00%      1.19us   8000.00us   1000.00us ( +-   0.95% )
(END)
";

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
const PORTS: &str = "
Analyze events for all VMs, all VCPUs:

      IO Port Access    Samples  Samples%     Time%    Min Time    Max Time         Avg time

           0x608:PIN       5000    99.80%    99.83%      8.00us     61.00us     12.00us ( +-   0.30% )
           0x70:POUT         10     0.20%     0.17%      9.00us     11.00us     10.00us ( +-   3.00% )

Total Samples:5010, Total events handled time:60100.00us.
";

#[test]
fn a_table_of_ports_names_the_port() {
    let (_, findings) = judged(PORTS);
    let slow = only(&findings, FindingId::SlowExits);
    assert_eq!(slow.of.as_deref(), Some("0x608:PIN"));
    assert_eq!((slow.lost_permille, slow.lost_ns), (998, 60_000_000));
    assert_eq!(slow.next[0].id, StepId::GuestClock);
    assert_eq!(slow.next[0].name.as_deref(), Some("0x608"));
}

#[test]
fn one_exit_of_seconds_is_found_though_its_share_is_small() {
    // 1 exit of 2 s among 500 s of halts: 0.4 %.
    let text = "
             VM-EXIT    Samples  Samples%     Time%    Min Time    Max Time         Avg time
                 HLT       5000    99.98%    99.60%      5.00us 400000.00us 100000.00us ( +- 1.0% )
       EPT_VIOLATION          1     0.02%     0.40% 2000000.00us 2000000.00us 2000000.00us ( +- 0.0% )
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
