// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables of whole CPUs: `mpstat`, `sar`, `iostat`, `vmstat`, `top`.

use steady_diagnose::{CauseId, EvidenceId, FindingId, Severity};
use steady_tables::Kind;

use super::{evidence, judged, name, number, only, whole};

/// sysstat 12 in a guest: averages 12.5 % steal, CPU 1 has 20 %.
const MPSTAT_GUEST: &str = "\
Linux 5.15.0-91-generic (vm7) \t10/24/24 \t_x86_64_\t(2 CPU)

14:00:01     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
14:00:02     all   50.00    0.00    5.00    0.00    0.00    0.00   10.00    0.00    0.00   35.00
14:00:02       0   50.00    0.00    5.00    0.00    0.00    0.00    5.00    0.00    0.00   40.00
14:00:02       1   50.00    0.00    5.00    0.00    0.00    0.00   15.00    0.00    0.00   30.00

Average:     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
Average:     all   50.00    0.00    5.00    0.00    0.00    0.00   12.50    0.00    0.00   32.50
Average:       0   50.00    0.00    5.00    0.00    0.00    0.00    5.00    0.00    0.00   40.00
Average:       1   50.00    0.00    5.00    0.00    0.00    0.00   20.00    0.00    0.00   25.00
";

#[test]
fn averages_count_where_there_are_any_and_the_worst_cpu_is_named() {
    let (kind, trace, findings) = whole(MPSTAT_GUEST);
    assert_eq!(kind, Kind::Mpstat);
    assert_eq!(trace.table.unwrap().side, "guest");
    let steal = only(&findings, FindingId::Steal);
    assert_eq!(
        (steal.lost_permille, steal.severity),
        (125, Severity::Severe)
    );
    let worst = &steal.evidence[1];
    assert_eq!((name(worst, "who"), number(worst, "mean")), ("CPU 1", 200));
}

/// sysstat 11 with a clock of 12 hours and decimal commas; 3 % and 5 %, no averages.
const MPSTAT_COMMAS: &str = "\
Linux 4.18.0-348.el8.x86_64 (vm8) \t24.10.2024 \t_x86_64_\t(4 CPU)

02:00:01 PM  CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
02:00:02 PM  all   50,00    0,00    5,00    0,00    0,00    0,00    3,00    0,00    0,00   42,00
02:00:03 PM  all   50,00    0,00    5,00    0,00    0,00    0,00    5,00    0,00    0,00   40,00
";

#[test]
fn samples_count_without_averages() {
    let (_, findings) = judged(MPSTAT_COMMAS);
    let steal = only(&findings, FindingId::Steal);
    assert_eq!((steal.lost_permille, steal.severity), (40, Severity::Major));
    let all = evidence(steal, EvidenceId::TableSteal);
    assert_eq!((number(all, "max"), number(all, "samples")), (50, 2));
}

/// A host: guests run 90 % of it and 1 % is idle.
const MPSTAT_HOST: &str = "\
Linux 6.1.0-28-amd64 (host3) \t10/24/24 \t_x86_64_\t(64 CPU)

14:00:01     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
14:00:02     all    4.00    0.00    5.00    0.00    0.00    0.00    0.00   90.00    0.00    1.00
";

#[test]
fn a_host_without_idle_time_is_busy() {
    let (_, trace, findings) = whole(MPSTAT_HOST);
    assert_eq!(trace.table.unwrap().side, "host");
    let busy = only(&findings, FindingId::HostBusy);
    assert_eq!(busy.cause, CauseId::HostFull);
    let row = evidence(busy, EvidenceId::TableIdle);
    assert_eq!(
        (
            number(row, "idle"),
            number(row, "guest"),
            number(row, "cpus")
        ),
        (10, 900, 64)
    );
}

#[test]
fn sar_and_iostat_are_read_by_their_heads() {
    let sar = "\
02:10:01 AM     CPU     %user     %nice   %system   %iowait    %steal     %idle
02:20:01 AM     all      9.00      0.00      2.00      1.00     30.00     58.00
Average:        all      9.00      0.00      2.00      1.00     22.00     66.00
";
    assert_eq!(only(&judged(sar).1, FindingId::Steal).lost_permille, 220);
    let iostat = "\
avg-cpu:  %user   %nice %system %iowait  %steal   %idle
           9.00    0.00    2.00    1.00    8.00   80.00

Device             tps    kB_read/s    kB_wrtn/s
vda              12.00        40.00        99.00
";
    assert_eq!(only(&judged(iostat).1, FindingId::Steal).lost_permille, 80);
}

/// procps 3: the first row is of the time since boot. 20 and 30 %.
const VMSTAT_GUEST: &str = "\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 4  0      0 812345  12345 456789    0    0     1     2   10   20  5  1 94  0  0
 5  0      0 812345  12345 456789    0    0     0     0  900 1800 60 10 10  0 20
 6  0      0 812345  12345 456789    0    0     0     0  900 1800 60 10  0  0 30
";

#[test]
fn the_row_since_boot_does_not_count() {
    let (kind, findings) = judged(VMSTAT_GUEST);
    assert_eq!(kind, Kind::Vmstat);
    let steal = only(&findings, FindingId::Steal);
    assert_eq!(steal.lost_permille, 250);
    assert_eq!(number(evidence(steal, EvidenceId::TableSteal), "max"), 300);
}

/// procps 4 on a host, with `-t`: a column of guests and the time behind it.
const VMSTAT_HOST: &str = include_str!("../inputs/cpus-vmstat-host.txt");

#[test]
fn a_host_with_more_ready_threads_than_idle_time_is_busy() {
    let (_, findings) = judged(VMSTAT_HOST);
    let row = evidence(only(&findings, FindingId::HostBusy), EvidenceId::TableIdle);
    assert_eq!(
        (
            number(row, "idle"),
            number(row, "guest"),
            number(row, "ready")
        ),
        (20, 900, 96)
    );
}

#[test]
fn one_row_of_vmstat_counts_for_want_of_others() {
    let text = "\
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 1  0      0 812345  12345 456789    0    0     1     2   10   20  5  1 80  0 14
";
    assert_eq!(only(&judged(text).1, FindingId::Steal).lost_permille, 140);
}

#[test]
fn top_is_read_in_its_old_and_new_layouts() {
    let new = "\
top - 10:15:01 up 3 days,  1:02,  1 user,  load average: 4.01, 3.50, 2.10
Tasks: 130 total,   2 running, 128 sleeping,   0 stopped,   0 zombie
%Cpu(s): 50.0 us,  5.0 sy,  0.0 ni, 20.0 id,  0.0 wa,  0.0 hi,  1.0 si, 24.0 st
";
    let (kind, findings) = judged(new);
    assert_eq!(kind, Kind::Top);
    assert_eq!(only(&findings, FindingId::Steal).lost_permille, 240);
    let old = "Cpu(s):  5.0%us,  1.0%sy,  0.0%ni, 90.0%id,  0.0%wa,  0.0%hi,  0.0%si,  4.0%st\n";
    assert_eq!(only(&judged(old).1, FindingId::Steal).lost_permille, 40);
    let commas =
        "%Cpu(s): 50,0 us,  5,0 sy,  0,0 ni, 35,0 id,  0,0 wa,  0,0 hi,  0,0 si, 10,0 st\n";
    assert_eq!(only(&judged(commas).1, FindingId::Steal).lost_permille, 100);
}

#[test]
fn single_cpus_of_top_are_averaged_and_the_worst_is_named() {
    // Two of a line, as procps 4 prints them: 10 and 30 %.
    let text = "\
%Cpu0  : 50.0 us,  5.0 sy,  0.0 ni, 35.0 id,  0.0 wa,  0.0 hi,  0.0 si, 10.0 st  \
%Cpu1  : 50.0 us,  5.0 sy,  0.0 ni, 15.0 id,  0.0 wa,  0.0 hi,  0.0 si, 30.0 st
";
    let (_, findings) = judged(text);
    let steal = only(&findings, FindingId::Steal);
    assert_eq!(steal.lost_permille, 200);
    assert_eq!(name(&steal.evidence[1], "who"), "CPU 1");
}

#[test]
fn a_guest_without_steal_has_nothing_wrong() {
    let text = "%Cpu(s): 95.0 us,  5.0 sy,  0.0 ni,  0.0 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st\n";
    assert_eq!(judged(text), (Kind::Top, Vec::new()));
}

#[test]
fn a_list_with_a_vmm_says_that_it_is_a_host() {
    let text = "\
%Cpu(s): 95.0 us,  4.0 sy,  0.0 ni,  1.0 id,  0.0 wa,  0.0 hi,  0.0 si,  0.0 st

    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND
   4700 qemu      20   0 9876543 4.1g   20000 S 398.0  12.0 100:00.10 qemu-system-x86
";
    assert_eq!(
        only(&judged(text).1, FindingId::HostBusy).cause,
        CauseId::HostFull
    );
}
