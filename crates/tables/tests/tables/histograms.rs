// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Histograms of bcc, bpftrace and SystemTap.

use steady_diagnose::{EvidenceId, FindingId};
use steady_tables::Kind;

use super::{evidence, judged, name, number, only};

/// bcc's runqlat: 97 + 2 + 1 waits, of which those from 8192 us on are late: 3 of 100.
const RUNQLAT: &str = "\
Tracing run queue latency... Hit Ctrl-C to end.
^C
     usecs               : count     distribution
         0 -> 1          : 90       |****************************************|
         2 -> 3          : 7        |***                                     |
         4 -> 7          : 0        |                                        |
      8192 -> 16383      : 2        |                                        |
     65536 -> 131071     : 1        |                                        |
";

#[test]
fn late_waits_of_runqlat_are_counted() {
    let (kind, findings) = judged(RUNQLAT);
    assert_eq!(kind, Kind::Histogram);
    let row = evidence(
        only(&findings, FindingId::CpuPressure),
        EvidenceId::TableHistogram,
    );
    assert_eq!((number(row, "waits"), number(row, "late")), (100, 3));
    assert_eq!(number(row, "longest"), 131_071_000);
}

/// The same with `-P` and milliseconds, by libbpf-tools: a vCPU's thread waits, another does not.
const RUNQLAT_BY_THREAD: &str = "\
Tracing run queue latency... Hit Ctrl-C to end.

tid = 4711 CPU 0/KVM
     msecs               : count    distribution
         0 -> 1          : 9        |****************************************|
        16 -> 31         : 1        |****                                    |

tid = 12 sshd
     msecs               : count    distribution
         0 -> 1          : 9        |****************************************|
";

#[test]
fn a_histogram_of_one_thread_has_its_name() {
    let (_, findings) = judged(RUNQLAT_BY_THREAD);
    assert_eq!(findings.len(), 1);
    let row = evidence(&findings[0], EvidenceId::TableHistogram);
    assert!(name(row, "name").contains("CPU 0/KVM"), "{row:?}");
    assert_eq!((number(row, "waits"), number(row, "late")), (10, 1));
}

/// bpftrace's runqlat.bt: `K` is 1024.
const BPFTRACE: &str = "\
Attaching 5 probes...
Tracing CPU scheduler... Hit Ctrl-C to end.
^C

@usecs:
[0]                    1 |                                                    |
[256, 512)           950 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|
[8K, 16K)             40 |@@                                                  |
[128K, 256K)           9 |                                                    |
";

#[test]
fn bounds_of_bpftrace_are_powers_of_two() {
    let (_, findings) = judged(BPFTRACE);
    let row = evidence(
        only(&findings, FindingId::CpuPressure),
        EvidenceId::TableHistogram,
    );
    // 40 from 8 ms on, 9 from 131 ms on, of 1000.
    assert_eq!((number(row, "waits"), number(row, "late")), (1000, 49));
    assert_eq!(number(row, "longest"), 256 * 1024 * 1000);
}

/// SystemTap's `hist_log` of microseconds.
const SYSTEMTAP: &str = "\
run queue latency (usecs)
 value |-------------------------------------------------- count
     0 |                                                     0
  4096 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@   90
 16384 |@@@@@                                               10
";

#[test]
fn values_of_systemtap_are_lower_bounds() {
    let short = SYSTEMTAP.replace("run queue latency (usecs)", "runqlat (us):");
    for text in [SYSTEMTAP, &short] {
        let (_, findings) = judged(text);
        let row = evidence(
            only(&findings, FindingId::CpuPressure),
            EvidenceId::TableHistogram,
        );
        assert_eq!((number(row, "waits"), number(row, "late")), (100, 10));
    }
}

#[test]
fn without_a_title_it_is_a_guess_that_says_so() {
    let rows = RUNQLAT.split_once("^C\n").unwrap().1;
    let (_, findings) = judged(rows);
    let of = only(&findings, FindingId::CpuPressure).of.as_deref();
    assert!(
        of.unwrap().starts_with("if the histogram is of waits"),
        "{of:?}"
    );
}

#[test]
fn time_on_the_cpu_and_lengths_of_queues_are_no_waits() {
    let cpudist = "\
Tracing on-CPU time... Hit Ctrl-C to end.
     usecs               : count     distribution
         0 -> 1          : 51       |****************************************|
     65536 -> 131071     : 40       |*******************************         |
";
    assert_eq!(judged(cpudist), (Kind::Histogram, Vec::new()));
    // Times of exits, as scripts of bpftrace print them.
    let exits = "@exit_ns[30, IO_INSTRUCTION]:\n[1K, 2K) 90 |@@@|\n[128M, 256M) 10 |@|\n";
    assert_eq!(judged(exits), (Kind::Histogram, Vec::new()));
    let runqlen = "\
Sampling run queue length... Hit Ctrl-C to end.
     runqlen       : count     distribution
        0          : 1068     |****************************************|
     65536 -> 131071     : 642      |************************                |
     65536 -> 131071     : 642      |************************                |
";
    assert_eq!(judged(runqlen), (Kind::Histogram, Vec::new()));
}
