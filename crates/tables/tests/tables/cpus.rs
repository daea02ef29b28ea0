// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tables of whole CPUs: `mpstat`, `sar`, `iostat`, `vmstat`, `top`.

use steady_diagnose::{CauseId, EvidenceId, Finding, FindingId, Severity};
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

/// The kinds of what is found, in order, with the causes.
fn kinds(text: &str) -> Vec<(FindingId, CauseId)> {
    let findings = judged(text).1;
    findings.iter().map(|of| (of.id, of.cause)).collect()
}

/// sysstat 12, a host whose network interrupts CPU 0 alone: 98 % of it, 49 % of all.
const MPSTAT_SOFTIRQ: &str = "\
Linux 6.1.0-28-amd64 (host3) \t10/24/24 \t_x86_64_\t(2 CPU)

14:00:01     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
14:00:02       0    0.00    0.00    0.00    0.00    0.00   98.00    0.00    2.00    0.00    0.00
14:00:02       1    0.00    0.00    0.00    0.00    0.00    0.00    0.00    2.00    0.00   98.00
";

#[test]
fn a_storm_of_softirqs_is_found_on_one_cpu_and_on_all() {
    let (_, findings) = judged(MPSTAT_SOFTIRQ);
    let storm = only(&findings, FindingId::OtherPressure);
    assert_eq!(storm.cause, CauseId::InterruptLoad);
    let worst = evidence(storm, EvidenceId::TableInterrupts);
    assert_eq!((name(worst, "who"), number(worst, "mean")), ("CPU 0", 980));
    let top = "%Cpu(s):  1.0 us,  2.0 sy,  0.0 ni, 17.0 id,  0.0 wa,  5.0 hi, 75.0 si,  0.0 st\n";
    let sar = include_str!("../inputs/cpus-sar-softirq.txt");
    for (text, share) in [(top, 800), (sar, 410)] {
        let storm = only(&judged(text).1, FindingId::OtherPressure).clone();
        assert_eq!(
            (storm.cause, storm.lost_permille),
            (CauseId::InterruptLoad, share)
        );
        assert_eq!(storm.severity, Severity::Severe);
    }
    // A busy router is not a storm: 8 %, and 40 % of one CPU.
    let little = MPSTAT_SOFTIRQ.replace(
        "98.00    0.00    2.00    0.00    0.00",
        "30.00    0.00    2.00    0.00   68.00",
    );
    assert_eq!(judged(&little).1, []);
}

#[test]
fn a_host_that_waits_for_its_disk_has_idle_time() {
    let host = "\
Linux 6.1.0-28-amd64 (host3) \t10/24/24 \t_x86_64_\t(8 CPU)

14:00:01     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
14:00:02     all    1.15    0.00    5.03   80.00    0.00    0.50    0.00   10.00    0.00    3.32
";
    assert_eq!(
        kinds(host),
        [(FindingId::OtherPressure, CauseId::IoPressure)]
    );
    let top = "%Cpu(s):  1.0 us,  2.0 sy,  0.0 ni, 17.0 id, 80.0 wa,  0.0 hi,  0.0 si,  0.0 st\n";
    assert_eq!(
        kinds(top),
        [(FindingId::OtherPressure, CauseId::IoPressure)]
    );
    // A tenth of the time is a disk at work.
    let little = top.replace("17.0 id, 80.0 wa", "87.0 id, 10.0 wa");
    assert_eq!(kinds(&little), []);
}

#[test]
fn a_host_that_swaps_is_short_of_memory() {
    let text = "\
procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu-----
 r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st
 2 14 9212345  81234   1234  11234    0    0 20480 18432 9000 15000  5 15 80  0  0
 2 14 9212345  81234   1234  11234 20480 18432 20480 18432 9000 15000  5 15  0 80  0
 1 16 9212345  81234   1234  11234 24480 19432 20480 18432 9000 15000  5 12  1 82  0
";
    let (_, findings) = judged(text);
    let memory = only(&findings, FindingId::OtherPressure);
    // The waits for I/O are those for the swapped memory: 80 and 82 %.
    assert_eq!(
        (memory.cause, memory.lost_permille),
        (CauseId::MemoryPressure, 810)
    );
    let row = evidence(memory, EvidenceId::TableSwap);
    assert_eq!((number(row, "in"), number(row, "out")), (22_480, 18_932));
}

#[test]
fn rows_of_single_cpus_stand_for_all_where_there_is_none_of_all() {
    let head = MPSTAT_GUEST.lines().take(3).collect::<Vec<_>>().join("\n");
    let singles: Vec<&str> = MPSTAT_GUEST.lines().skip(4).take(2).collect();
    let text = format!("{head}\n{}\n", singles.join("\n"));
    let steal = only(&judged(&text).1, FindingId::Steal).clone();
    assert_eq!(steal.lost_permille, 100);
    assert_eq!(name(&steal.evidence[1], "who"), "CPU 1");
    let sar = "\
10:12:01 AM     CPU     %user     %nice   %system   %iowait    %steal     %idle
10:12:02 AM       0     10.00      0.00      0.00      0.00     60.00     30.00
";
    assert_eq!(only(&judged(sar).1, FindingId::Steal).lost_permille, 600);
}

#[test]
fn one_cpu_of_many_that_is_stolen_is_found() {
    let mut text = "\
14:00:01     CPU    %usr   %nice    %sys %iowait    %irq   %soft  %steal  %guest  %gnice   %idle
14:00:02     all   10.00    0.00    5.00    0.00    0.00    0.00    0.94    0.00    0.00   84.06
"
    .to_owned();
    for cpu in 0..64 {
        let steal = if cpu == 63 { 60 } else { 0 };
        text += &format!(
            "14:00:02      {cpu:2}   10.00    0.00    5.00    0.00    0.00    0.00   \
             {steal:2}.00    0.00    0.00   25.00\n"
        );
    }
    let steal = only(&judged(&text).1, FindingId::Steal).clone();
    assert_eq!((steal.lost_permille, steal.severity), (9, Severity::Major));
    assert_eq!(name(&steal.evidence[0], "who"), "CPU 63");
}

#[test]
fn rows_that_mail_broke_are_joined() {
    let top = "\
> > %Cpu(s):  1.3 us,  0.7 sy,  0.0 ni, 12.0 id,  0.0 wa,  0.0 hi,  0.0 si, 86.0
> > st
";
    assert_eq!(only(&judged(top).1, FindingId::Steal).lost_permille, 860);
    let vmstat = "\
> procs -----------memory---------- ---swap-- -----io---- -system--
> ------cpu-----
>  r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id
> wa st
>  9  0      0 812345  12345 912345    0    0     0     0 3000 5000 40 10  2
> 0 48
>  9  0      0 812345  12345 912345    0    0     0     0 3000 5000 38 10  2
> 0 50
";
    assert_eq!(only(&judged(vmstat).1, FindingId::Steal).lost_permille, 500);
}

#[test]
fn requests_of_a_device_that_take_long_are_waits_for_io() {
    let head = "Device            r/s   r_await     w/s   w_await  aqu-sz  %util\n";
    let cpus = "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n\
                \x20          5.00    0.00    2.00    1.00    0.00   92.00\n\n";
    for (before, ms, found) in [("", "5012.00", 1), (cpus, "5012.00", 1), (cpus, "2.00", 0)] {
        let text = format!("{before}{head}vda  1.00  1.00  20.00  {ms}  100.00  100.00\n");
        let (kind, findings) = judged(&text);
        assert_eq!((kind, findings.len()), (Kind::Mpstat, found), "{text}");
        if found > 0 {
            let slow = only(&findings, FindingId::OtherPressure);
            assert_eq!(slow.cause, CauseId::IoPressure);
            let row = evidence(slow, EvidenceId::TableThread);
            assert_eq!(
                (name(row, "name"), number(row, "mean")),
                ("vda (w_await)", 5_012_000_000)
            );
        }
    }
}

#[test]
fn a_machine_without_idle_time_and_with_many_ready_threads_is_full() {
    let head = "r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n";
    for (ready, idle, found) in [(40, 0, 1), (40, 40, 0), (2, 0, 0)] {
        let row = format!("{ready} 0 0 812345 12345 912345 0 0 0 0 3000 5000 50 10 {idle} 0 0\n");
        let (_, findings) = judged(&format!("{head}{row}{row}"));
        let full = |of: &&Finding| of.id == FindingId::CpuPressure;
        assert_eq!(
            findings.iter().filter(full).count(),
            found,
            "{ready} {idle}"
        );
    }
}

#[test]
fn the_line_of_top_is_read_in_its_translations() {
    for line in [
        "%CPU(s): 41,2 us,  5,1 sy,  0,0 ni, 12,0 id,  0,3 wa,  0,0 hi,  0,4 si, 41,0 st",
        "%CPU(s): 41,2 be,  5,1 sy,  0,0 ni, 12,0 un,  0,3 wa,  0,0 hi,  0,4 si, 41,0 st",
        "%Cpu(s): 41,2 ut,  5,1 sy,  0,0 ni, 12,0 in,  0,3 wa,  0,0 hi,  0,4 si, 41,0 st",
    ] {
        let (kind, findings) = judged(&format!("{line}\n"));
        assert_eq!(kind, Kind::Top);
        let steal = only(&findings, FindingId::Steal);
        assert_eq!(steal.lost_permille, 410, "{line}");
    }
}

#[test]
fn a_time_before_each_row_of_vmstat_is_left_out() {
    let plain = judged(VMSTAT_GUEST);
    for time in ["2026-11-20T10:11:02 ", "Nov 20 10:11:02 ", "1763633462 "] {
        let text: String = VMSTAT_GUEST
            .lines()
            .map(|line| format!("{time}{line}\n"))
            .collect();
        assert_eq!(judged(&text), plain, "{time}");
    }
}
