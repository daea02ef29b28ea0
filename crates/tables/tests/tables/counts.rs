// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kvm_stat` and `perf stat -e 'kvm:*'`.

use steady_diagnose::{CauseId, EvidenceId, Finding, FindingId, Severity};
use steady_tables::Kind;

use super::{evidence, judged, name, number, only};

fn first(findings: &[Finding]) -> (&str, u64, Option<u64>) {
    let counted = only(findings, FindingId::ExitCounts);
    assert_eq!(counted.cause, CauseId::CountsOnly);
    let row = evidence(counted, EvidenceId::TableEvents);
    let rate = row.value("rate").map(|_| number(row, "rate"));
    (name(row, "name"), number(row, "count"), rate)
}

/// The screen of Linux 6.1 of one VM: 90,000 exits a second.
const SCREEN: &str = "\u{1b}[H\u{1b}[2Jkvm statistics - pid 2137740 (db-1)

 Event                                         Total %Total CurAvg/s
 kvm_exit                                     540000   50.0    90000
 kvm_entry                                    539990   49.9    89990
 kvm_msr                                         816    0.1       58
 Total                                       1080806          180048
";

#[test]
fn the_screen_names_its_vm_and_many_exits_are_major() {
    let (kind, findings) = judged(SCREEN);
    assert_eq!(kind, Kind::KvmStat);
    assert_eq!(first(&findings), ("kvm_exit", 540_000, Some(90_000)));
    let counted = only(&findings, FindingId::ExitCounts);
    assert_eq!(
        (counted.vm.as_deref(), counted.severity),
        (Some("db-1"), Severity::Major)
    );
}

/// `kvm_stat -1` of Linux 5.10: all that was counted, and of the last second. Of 4000 exits 600
/// are for pauses: 15 %.
const ONCE: &str = "\
kvm_entry                                           4000      4000
kvm_exit                                            4000      4000
kvm_exit(PAUSE_INSTRUCTION)                          600       600
kvm_exit(HLT)                                       3100      3100
kvm_exit(MSR_WRITE)                                  300       300
";

#[test]
fn pause_loop_exits_that_are_many_are_a_finding_of_their_own() {
    let (kind, findings) = judged(ONCE);
    assert_eq!(kind, Kind::KvmStat);
    assert_eq!(first(&findings), ("kvm_entry", 4000, Some(4000)));
    let spins = only(&findings, FindingId::PauseUnknown);
    assert_eq!(
        number(evidence(spins, EvidenceId::TableEvents), "count"),
        600
    );
}

/// `kvm_stat -l` of Linux 4.9 by debugfs: a line a second.
const LOGGED: &str = "\
 exits       halt_exits  irq_injections
     1000            40             90
     3000            60            110
";

#[test]
fn a_log_of_seconds_is_added_up() {
    let (kind, findings) = judged(LOGGED);
    assert_eq!(kind, Kind::KvmStat);
    // 1000 + 3000 in two seconds.
    assert_eq!(first(&findings), ("exits", 4000, Some(2000)));
    assert_eq!(
        only(&findings, FindingId::ExitCounts).severity,
        Severity::Note
    );
}

/// The screen of QEMU's first `kvm_stat`, in Python 2.
const SCREEN_OLD: &str = "\
kvm statistics

 kvm_exit                                   9000000   60000
 kvm_entry                                  8999999   60000
";

#[test]
fn the_first_screen_had_totals_and_rates() {
    let (kind, findings) = judged(SCREEN_OLD);
    assert_eq!(kind, Kind::KvmStat);
    assert_eq!(first(&findings), ("kvm_exit", 9_000_000, Some(60_000)));
}

/// perf 5.4: marks between thousands, shares of the counting time, and the time that it took.
const PERF_STAT: &str = "
 Performance counter stats for 'system wide':

         1,200,000      kvm:kvm_exit                                                  (99.98%)
         1,199,990      kvm:kvm_entry                                                 (99.98%)
                 0      kvm:kvm_hypercall                                             (99.98%)
     <not counted>      kvm:kvm_hv_hypercall

      10.000000000 seconds time elapsed
";

#[test]
fn counts_of_perf_stat_get_rates_by_its_time() {
    let (kind, findings) = judged(PERF_STAT);
    assert_eq!(kind, Kind::PerfStat);
    // 1,200,000 in 10 s.
    assert_eq!(
        first(&findings),
        (
            "kvm:kvm_exit".trim_start_matches("kvm:"),
            1_200_000,
            Some(120_000)
        )
    );
    assert_eq!(
        only(&findings, FindingId::ExitCounts).severity,
        Severity::Major
    );
}

/// perf 6.5 with `-I 1000`: two intervals.
const INTERVALS: &str = "\
#           time             counts unit events
     1.001042352                500      kvm:kvm_exit
     1.001042352                500      kvm:kvm_entry
     2.000000000              1,500      kvm:kvm_exit
     2.000000000              1,400      kvm:kvm_entry
";

#[test]
fn intervals_are_added_up() {
    let (kind, findings) = judged(INTERVALS);
    assert_eq!(kind, Kind::PerfStat);
    assert_eq!(first(&findings), ("kvm_exit", 2000, Some(1000)));
}

/// perf 6.12 with `-x,`.
const CELLS: &str = "\
1880,,kvm:kvm_entry,1000000,100.00,,
1934,,kvm:kvm_exit,1000000,100.00,,
";

#[test]
fn cells_between_commas_are_read() {
    let (kind, findings) = judged(CELLS);
    assert_eq!(kind, Kind::PerfStat);
    assert_eq!(first(&findings), ("kvm_exit", 1934, None));
}

#[test]
fn perf_stat_is_read_in_other_languages_and_with_other_marks_between() {
    for (text, times) in [
        ("1204567;;kvm:kvm_exit;10001234567;100,00;;\n", 1_204_567),
        ("1204567,,kvm:kvm_exit,10001234567,100.00,,\n", 1_204_567),
        ("   1.204.567      kvm:kvm_exit\n", 1_204_567),
        ("   1,204,567      kvm:kvm_exit\n", 1_204_567),
        ("     204567      kvm:kvm_exit\n", 204_567),
    ] {
        let (kind, findings) = judged(text);
        assert_eq!(kind, Kind::PerfStat);
        let counted = only(&findings, FindingId::ExitCounts);
        let row = evidence(counted, EvidenceId::TableEvents);
        assert_eq!(number(row, "count"), times, "{text}");
    }
}
