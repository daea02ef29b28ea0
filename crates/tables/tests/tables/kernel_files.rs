// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of the kernel: `/proc/PID/sched`, `/proc/PID/schedstat`, `cpu.stat`, PSI.

use steady_diagnose::{CauseId, Confidence, EvidenceId, Finding, FindingId, Severity, StepId};
use steady_tables::Kind;

use super::{evidence, judged, name, number, only};

/// Linux 4.19: the statistics have their whole path. 30 s waited beside 70 s: 30 %.
const SCHED_OLD: &str = "\
CPU 0/KVM (4711, #threads: 9)
-------------------------------------------------------------------
se.exec_start                                :      15186760.306364
se.vruntime                                  :       2768833.698349
se.sum_exec_runtime                          :         70000.000000
se.statistics.wait_max                       :           250.500000
se.statistics.wait_sum                       :         30000.000000
se.statistics.wait_count                     :                 2000
nr_switches                                  :                 3000
";

#[test]
fn waits_of_a_thread_stand_beside_its_run_time() {
    let (kind, findings) = judged(SCHED_OLD);
    assert_eq!(kind, Kind::ProcSched);
    let steal = only(&findings, FindingId::Steal);
    assert_eq!((steal.lost_permille, steal.lost_ns), (300, 30_000_000_000));
    let longest = evidence(steal, EvidenceId::TableThread);
    assert_eq!(
        (number(longest, "max"), number(longest, "waits")),
        (250_500_000, 2000)
    );
}

/// Linux 6.1: shorter names; two readings of a thread. Between them 1 s waited, 1 s ran.
const SCHED_TWICE: &str = "\
CPU 1/KVM (4712, #threads: 9)
-------------------------------------------------------------------
se.sum_exec_runtime                          :         70000.000000
wait_sum                                     :            10.000000
wait_count                                   :                   20
CPU 1/KVM (4712, #threads: 9)
-------------------------------------------------------------------
se.sum_exec_runtime                          :         71000.000000
wait_sum                                     :          1010.000000
wait_count                                   :                  120
";

#[test]
fn of_two_readings_of_a_thread_the_difference_counts() {
    let (_, findings) = judged(SCHED_TWICE);
    let steal = only(&findings, FindingId::Steal);
    assert_eq!((steal.lost_permille, steal.lost_ns), (500, 1_000_000_000));
}

/// Linux 5.10 without schedstats: no waits in the file.
const SCHED_BARE: &str = "\
qemu-kvm (4700, #threads: 9)
-------------------------------------------------------------------
se.exec_start                                :      15186760.306364
se.sum_exec_runtime                          :           109.640759
nr_switches                                  :                 1026
nr_voluntary_switches                        :                 1025
nr_involuntary_switches                      :                    1
";

#[test]
fn schedstat_is_read_alone_by_grep_and_by_tail() {
    // 25 s of 100 s.
    let (kind, findings) = judged("75000000000 25000000000 12345\n");
    assert_eq!(kind, Kind::ProcSchedstat);
    assert_eq!(only(&findings, FindingId::ThreadsWait).lost_permille, 250);
    let by_grep = "\
/proc/4700/task/4711/schedstat:900000000 100000000 10
/proc/4700/task/4712/schedstat:1000000000 0 10
";
    // 0.1 of 2.0 s.
    let (_, findings) = judged(by_grep);
    let waits = only(&findings, FindingId::ThreadsWait);
    assert_eq!((waits.lost_permille, waits.severity), (50, Severity::Major));
    assert!(name(&waits.evidence[0], "who").contains("4711"));
    let by_tail = "\
==> /proc/4711/schedstat <==
1000000000 0 10
==> /proc/4711/schedstat <==
1500000000 500000000 20
";
    // Between the two: 0.5 s of 1.0 s.
    let (_, findings) = judged(by_tail);
    assert_eq!(only(&findings, FindingId::ThreadsWait).lost_permille, 500);
}

/// cgroup v2 of Linux 6.6. Throttled in 600 of 1000 periods, 45 s in all.
const STAT_V2: &str = "\
usage_usec 91023799
user_usec 61023799
system_usec 30000000
core_sched.force_idle_usec 0
nr_periods 1000
nr_throttled 600
throttled_usec 45000000
nr_bursts 0
burst_usec 0
";

#[test]
fn a_limit_that_is_reached_is_the_cause() {
    let (kind, findings) = judged(STAT_V2);
    assert_eq!(kind, Kind::CpuStat);
    let throttled = only(&findings, FindingId::Throttled);
    assert_eq!(
        (throttled.cause, throttled.confidence),
        (CauseId::Quota, Confidence::Medium)
    );
    assert_eq!(
        (throttled.lost_permille, throttled.lost_ns),
        (600, 45_000_000_000)
    );
    assert_eq!(throttled.next[0].id, StepId::RaiseCpuMax);
    let row = evidence(throttled, EvidenceId::TableThrottle);
    assert_eq!(
        (number(row, "throttled"), number(row, "periods")),
        (600, 1000)
    );
}

/// cgroup v1 of Linux 4.18 by grep: nanoseconds, and two groups of which one is throttled.
const STAT_V1: &str = "\
/sys/fs/cgroup/cpu/machine.slice/machine-qemu-1-a.scope/vcpu0/cpu.stat:nr_periods 200
/sys/fs/cgroup/cpu/machine.slice/machine-qemu-1-a.scope/vcpu0/cpu.stat:nr_throttled 100
/sys/fs/cgroup/cpu/machine.slice/machine-qemu-1-a.scope/vcpu0/cpu.stat:throttled_time 3000000000
/sys/fs/cgroup/cpu/machine.slice/machine-qemu-2-b.scope/vcpu0/cpu.stat:nr_periods 200
/sys/fs/cgroup/cpu/machine.slice/machine-qemu-2-b.scope/vcpu0/cpu.stat:nr_throttled 0
/sys/fs/cgroup/cpu/machine.slice/machine-qemu-2-b.scope/vcpu0/cpu.stat:throttled_time 0
";

#[test]
fn each_group_is_judged_by_itself() {
    let (_, findings) = judged(STAT_V1);
    let throttled = only(&findings, FindingId::Throttled);
    assert_eq!(
        (throttled.lost_permille, throttled.lost_ns),
        (500, 3_000_000_000)
    );
    let row = evidence(throttled, EvidenceId::TableThrottle);
    assert!(
        name(row, "name").ends_with("qemu-1-a.scope/vcpu0"),
        "{row:?}"
    );
}

#[test]
fn whose_group_is_throttled_decides_what_is_said_of_it() {
    let vm = "/sys/fs/cgroup/machine.slice/machine-qemu\\x2d1\\x2da.scope/libvirt";
    let server = StepId::RaiseServerLimit;
    let mut all = String::new();
    for (group, of, first) in [
        (format!("{vm}/emulator"), Some("emulator"), server),
        (format!("{vm}/iothread1"), Some("emulator"), server),
        (
            "/sys/fs/cgroup/system.slice/docker-ab.scope".to_owned(),
            Some("other"),
            StepId::RaiseGroupLimit,
        ),
        (format!("{vm}/vcpu0"), None, StepId::RaiseCpuMax),
        (
            "/sys/fs/cgroup/qemu.slice/100.scope".to_owned(),
            None,
            StepId::RaiseCpuMax,
        ),
    ] {
        let text = format!(
            "{group}/cpu.stat:nr_periods 1000\n{group}/cpu.stat:nr_throttled 900\n\
             {group}/cpu.stat:throttled_usec 90000000\n"
        );
        let (_, findings) = judged(&text);
        let throttled = only(&findings, FindingId::Throttled);
        let found = (throttled.of.as_deref(), throttled.next[0].id);
        assert_eq!(found, (of, first), "{group}");
        // What must be run can be run.
        let look = throttled.next[1].name.as_deref().unwrap();
        assert_eq!(look.contains('\''), group.contains('\\'), "{look}");
        all += &text;
    }
    let (_, findings) = judged(&all);
    assert_eq!(findings[0].of, None, "vCPUs first");
    assert_eq!(findings.len(), 5);
}

/// Two readings of one group: it was throttled long ago, and not meanwhile.
const STAT_TWICE: &str = "\
nr_periods 1000
nr_throttled 600
throttled_usec 45000000
nr_periods 2000
nr_throttled 600
throttled_usec 45000000
";

#[test]
fn a_limit_that_was_reached_before_is_not_one_now() {
    assert_eq!(judged(STAT_TWICE), (Kind::CpuStat, Vec::new()));
}

#[test]
fn pressure_of_cpus_is_more_wanted_than_there_is() {
    // Linux 5.4 has `some` alone, later ones `full` too; the worst is 62.5 % of the last 10 s.
    let text = "\
/proc/pressure/cpu:some avg10=62.50 avg60=40.00 avg300=12.00 total=45000000
/proc/pressure/cpu:full avg10=0.00 avg60=0.00 avg300=0.00 total=0
/proc/pressure/memory:some avg10=99.00 avg60=99.00 avg300=99.00 total=1
";
    let (kind, findings) = judged(text);
    assert_eq!(kind, Kind::Pressure);
    let pressure = only(&findings, FindingId::CpuPressure);
    assert_eq!(
        (pressure.cause, pressure.confidence),
        (CauseId::HostFull, Confidence::Medium)
    );
    assert_eq!(pressure.lost_permille, 625);
    let row = evidence(pressure, EvidenceId::TablePressure);
    assert_eq!(
        (number(row, "avg60"), number(row, "time")),
        (400, 45_000_000_000)
    );
}

#[test]
fn pressure_of_an_unnamed_resource_is_a_guess() {
    let (_, findings) = judged("some avg10=30.00 avg60=10.00 avg300=1.00 total=5\n");
    let pressure = only(&findings, FindingId::CpuPressure);
    assert_eq!(pressure.confidence, Confidence::Low);
    assert_eq!(
        pressure.next[0].name.as_deref(),
        Some("grep . /proc/pressure/*")
    );
}

#[test]
fn pressure_of_a_cgroup_is_not_the_hosts() {
    let vm = "/sys/fs/cgroup/machine.slice/a.scope/cpu.pressure";
    let rows = |before: &str, full: u64| {
        format!(
            "{before}some avg10=90.10 avg60=89.00 avg300=88.00 total=91827364\n\
             {before}full avg10={full}.00 avg60=0.00 avg300=0.00 total=81827364\n"
        )
    };
    let cases = [
        (rows(&format!("{vm}:"), 88), CauseId::Quota, Confidence::Low),
        (
            rows(&format!("{vm}:"), 0),
            CauseId::NotShown,
            Confidence::Low,
        ),
        // The kernel has no such share of a whole machine's CPUs.
        (rows("cpu:", 88), CauseId::Quota, Confidence::Low),
        (
            rows("/proc/pressure/cpu:", 0),
            CauseId::HostFull,
            Confidence::Medium,
        ),
    ];
    for (text, cause, sure) in cases {
        let (_, findings) = judged(&text);
        let pressure = only(&findings, FindingId::CpuPressure);
        assert_eq!(
            (pressure.cause, pressure.confidence),
            (cause, sure),
            "{text}"
        );
    }
}

#[test]
fn a_little_pressure_is_not_a_finding() {
    let little = "==> /proc/pressure/cpu <==\nsome avg10=2.10 avg60=1.00 avg300=0.50 total=777\n";
    assert_eq!(judged(little), (Kind::Pressure, Vec::new()));
}

#[test]
fn pressure_of_memory_io_and_interrupts_is_found_as_such() {
    let of = |resource: &str, who: &str| {
        format!(
            "==> /proc/pressure/{resource} <==\n{who} avg10=75.12 avg60=70.01 avg300=8.20 total=9\n"
        )
    };
    let cases = [
        (of("memory", "some"), "memory", CauseId::MemoryPressure),
        (of("io", "some"), "I/O", CauseId::IoPressure),
        (of("irq", "full"), "interrupts", CauseId::InterruptLoad),
        // Of interrupts alone the kernel prints no `some`.
        (
            "full avg10=35.12 avg60=30.01 avg300=28.20 total=9\n".to_owned(),
            "interrupts",
            CauseId::InterruptLoad,
        ),
    ];
    for (text, of, cause) in &cases {
        let found = only(&judged(text).1, FindingId::OtherPressure).clone();
        assert_eq!(
            (found.of.as_deref(), found.cause),
            (Some(*of), *cause),
            "{text}"
        );
        assert_eq!(found.severity, Severity::Severe);
    }
    let all = cases[..3]
        .iter()
        .map(|(text, ..)| text.as_str())
        .collect::<String>();
    assert_eq!(judged(&all).1.len(), 3);
}

#[test]
fn time_that_core_scheduling_kept_siblings_idle_is_found() {
    let text = STAT_V2
        .replace("usage_usec 91023799", "usage_usec 8123456789")
        .replace("force_idle_usec 0", "force_idle_usec 4123456789")
        .replace("nr_throttled 600", "nr_throttled 0");
    let (_, findings) = judged(&text);
    let forced = only(&findings, FindingId::ForcedIdle);
    // 4123 s of 4123 + 8123 s.
    assert_eq!(
        (forced.cause, forced.lost_permille),
        (CauseId::CoreScheduling, 337)
    );
    assert_eq!(findings.len(), 1);
    // Of two readings, what came between.
    let (_, findings) = judged(&format!("{text}{text}"));
    assert_eq!(findings, []);
}

#[test]
fn a_limit_alone_says_where_to_see_whether_it_is_reached() {
    let by_grep = "/sys/fs/cgroup/machine.slice/a.scope/cpu.max:50000 100000\n";
    let v1 = "\
/sys/fs/cgroup/cpu/a/cpu.cfs_period_us:100000
/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us:50000
";
    let prompt = "$ cat /sys/fs/cgroup/a/cpu.max\n50000 100000\n$ uname -a\nLinux host3\n";
    for text in ["50000 100000\n", by_grep, v1, prompt] {
        let (kind, findings) = judged(text);
        assert_eq!(kind, Kind::CpuMax, "{text}");
        let lacks = only(&findings, FindingId::NotMeasured);
        assert_eq!(lacks.severity, Severity::Note);
        let limit = evidence(lacks, EvidenceId::TableLimit);
        assert_eq!(
            (number(limit, "quota"), number(limit, "period")),
            (50_000_000, 100_000_000)
        );
        assert!(lacks.next[0].name.as_deref().unwrap().contains("cpu.stat"));
    }
    for text in ["max 100000\n", &v1.replace("50000", "-1")] {
        assert_eq!(judged(text), (Kind::CpuMax, Vec::new()), "{text}");
    }
}

/// Linux 6.6: a vCPU's thread waited for 22 s at once in the host's kernel.
const SCHED_BLOCKED: &str = "\
CPU 3/KVM (12348, #threads: 9)
-------------------------------------------------------------------
se.exec_start                                :    1234567890.123456
se.sum_exec_runtime                          :       1000000.123456
sum_sleep_runtime                            :       9000000.123456
sum_block_runtime                            :        900000.123456
block_max                                    :         22003.123456
wait_max                                     :             1.123456
wait_sum                                     :           500.123456
wait_count                                   :              1234567
nr_switches                                  :              1234567
";

#[test]
fn a_vcpu_that_was_blocked_for_long_is_found() {
    let (_, findings) = judged(SCHED_BLOCKED);
    let blocked = only(&findings, FindingId::Uninterruptible);
    let row = evidence(blocked, EvidenceId::TableBlocked);
    assert_eq!(
        (number(row, "max"), number(row, "time")),
        (22_003_123_456, 900_000_123_456)
    );
    // A thread of the host that waits for its disk does its work, but not for as long as this; a
    // VMM's keeps its VM waiting.
    for (name, ms, found) in [
        ("kworker/u8:1", "22003", 1),
        ("kworker/u8:1", "2003", 0),
        ("qemu-system-x86", "2003", 1),
        ("vhost-4711", "2003", 1),
    ] {
        let text = SCHED_BLOCKED.replace("CPU 3/KVM", name);
        let text = text.replace("        22003.1", &format!("        {ms}.1"));
        let blocked = |of: &&Finding| of.id == FindingId::Uninterruptible;
        let times = judged(&text).1.iter().filter(blocked).count();
        assert_eq!(times, found, "{name} {ms}");
    }
}

#[test]
fn zeros_of_a_kernel_that_does_not_count_are_not_an_all_clear() {
    let zeros = SCHED_OLD
        .replace("250.500000", "0.000000")
        .replace("30000.000000", "0.000000")
        .replace("                 2000", "                    0");
    for text in [SCHED_BARE, &zeros, "0 0 0\n", "75000000000 0 12345\n"] {
        let (_, findings) = judged(text);
        let lacks = only(&findings, FindingId::NotMeasured);
        assert_eq!(lacks.severity, Severity::Note);
        assert!(
            lacks.next[0]
                .name
                .as_deref()
                .unwrap()
                .contains("sched_schedstats"),
            "{text}"
        );
        assert_eq!(findings.len(), 1);
    }
    // Counted, and little.
    assert_eq!(judged("75000000000 2500 12345\n").1, []);
}
