// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Logs of guests and hosts, over the versions of the kernel and the ways in which they come.

use steady_diagnose::{CauseId, Confidence, EvidenceId, Finding, FindingId, Severity, StepId};
use steady_tables::Kind;

use super::{evidence, judged, name, number, only, whole};

/// The only complaint of a log.
pub fn complaint(text: &str) -> Finding {
    let (kind, findings) = judged(text);
    assert_eq!(kind, Kind::KernelLog);
    only(&findings, FindingId::KernelComplaint).clone()
}

fn stack(finding: &Finding) -> (&str, Option<&str>) {
    let row = evidence(finding, EvidenceId::LogStack);
    let caller = row.value("caller").map(|_| name(row, "caller"));
    (name(row, "function"), caller)
}

/// Linux 6.1 in a guest, from the journal: a munmap waits for a shootdown.
const SHOOTDOWN: &str = "\
Oct 24 01:36:33 vm7 kernel: watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [mysqld:1432]
Oct 24 01:36:33 vm7 kernel: Modules linked in: xfs virtio_net virtio_blk
Oct 24 01:36:33 vm7 kernel: CPU: 3 PID: 1432 Comm: mysqld Not tainted 6.1.0-28-amd64 #1 Debian
Oct 24 01:36:33 vm7 kernel: Hardware name: QEMU Standard PC (Q35 + ICH9, 2009), BIOS 1.16.2
Oct 24 01:36:33 vm7 kernel: RIP: 0010:smp_call_function_many_cond+0x11e/0x4f0
Oct 24 01:36:33 vm7 kernel: Call Trace:
Oct 24 01:36:33 vm7 kernel:  <IRQ>
Oct 24 01:36:33 vm7 kernel:  ? watchdog_timer_fn+0x1a8/0x210
Oct 24 01:36:33 vm7 kernel:  ? __hrtimer_run_queues+0x112/0x2b0
Oct 24 01:36:33 vm7 kernel:  </IRQ>
Oct 24 01:36:33 vm7 kernel:  <TASK>
Oct 24 01:36:33 vm7 kernel:  ? flush_tlb_one_kernel+0x10/0x10
Oct 24 01:36:33 vm7 kernel:  on_each_cpu_cond_mask+0x29/0x50
Oct 24 01:36:33 vm7 kernel:  flush_tlb_mm_range+0x13c/0x150
Oct 24 01:36:33 vm7 kernel:  tlb_finish_mmu+0x60/0x150
Oct 24 01:36:33 vm7 kernel:  unmap_region+0xf0/0x130
Oct 24 01:36:33 vm7 kernel: RIP: 0033:0x7f3b12345678
Oct 24 01:36:57 vm7 kernel: watchdog: BUG: soft lockup - CPU#3 stuck for 48s! [mysqld:1432]
";

#[test]
fn a_shootdown_differs_from_other_ipis_by_its_caller() {
    let (_, trace, findings) = whole(SHOOTDOWN);
    assert_eq!(trace.table.unwrap().side, "guest");
    let found = only(&findings, FindingId::KernelComplaint);
    assert_eq!(
        (found.cause, found.confidence),
        (CauseId::WaitsForShootdown, Confidence::Medium)
    );
    assert_eq!(
        stack(found),
        ("smp_call_function_many_cond", Some("flush_tlb_mm_range"))
    );
    let times = evidence(found, EvidenceId::LogTimes);
    assert_eq!(
        (number(times, "times"), number(times, "longest")),
        (2, 48_000_000_000)
    );
    assert_eq!(name(times, "which"), "3");
    assert_eq!(number(evidence(found, EvidenceId::LogLine), "line"), 1);
    let steps: Vec<StepId> = found.next.iter().map(|step| step.id).collect();
    assert_eq!(steps, [StepId::RecordWhile, StepId::PvFlush]);
}

/// Linux 3.10 in a guest, from its console: a spinlock, and addresses before the frames.
const SPINLOCK_OLD: &str = include_str!("../inputs/logs-spinlock-old.txt");

#[test]
fn a_spinlock_names_who_asked_for_it() {
    let found = complaint(SPINLOCK_OLD);
    assert_eq!(found.cause, CauseId::WaitsForLock);
    assert_eq!(
        stack(&found),
        ("native_queued_spin_lock_slowpath", Some("d_alloc_parallel"))
    );
    assert_eq!(found.next[1].id, StepId::PvSpinlocks);
}

/// Linux 5.15 in a guest by syslog: it was idle, or in a program, when its time ran on.
#[test]
fn a_cpu_that_did_nothing_stood_still_itself() {
    let idle = "\
vm kernel: [9.000001] watchdog: BUG: soft lockup - CPU#0 stuck for 61s! [swapper/0:0]
2024-05-01T00:00:01 vm kernel: [9.000002] RIP: 0010:native_safe_halt+0xe/0x20
2024-05-01T00:00:01 vm kernel: [9.000003] Call Trace:
2024-05-01T00:00:01 vm kernel: [9.000004]  default_idle+0xa/0x20
2024-05-01T00:00:01 vm kernel: [9.000005]  do_idle+0x1f5/0x290
";
    assert_eq!(complaint(idle).cause, CauseId::CpuStoodStill);
    let program = "\
[ 70.1] watchdog: BUG: soft lockup - CPU#2 stuck for 30s! [postgres:77]
[ 70.1] RIP: 0033:0x55d0c8a4b1e3
";
    assert_eq!(complaint(program).cause, CauseId::CpuStoodStill);
}

#[test]
fn a_busy_function_stays_a_low_guess() {
    let text = "\
[ 70.1] watchdog: BUG: soft lockup - CPU#2 stuck for 26s! [kworker/2:1:77]
[ 70.1] RIP: 0010:free_unref_page_commit+0x3e/0x120
[ 70.1] Call Trace:
[ 70.1]  release_pages+0x100/0x300
";
    let found = complaint(text);
    assert_eq!(
        (found.cause, found.confidence),
        (CauseId::KernelWork, Confidence::Low)
    );
}

/// A host of Linux 6.8: KVM itself zaps memory for long.
#[test]
fn a_hosts_own_work_for_a_guest_is_not_a_wait() {
    let text = "\
[12345.6] watchdog: BUG: soft lockup - CPU#40 stuck for 26s! [CPU 3/KVM:4711]
[12345.6] Hardware name: Dell Inc. PowerEdge R750/0WT8Y6, BIOS 1.9.2
[12345.6] RIP: 0010:tdp_mmu_zap_leafs+0x92/0x1c0 [kvm]
[12345.6] Call Trace:
[12345.6]  kvm_tdp_mmu_unmap_gfn_range+0x58/0xa0 [kvm]
[12345.6]  kvm_unmap_gfn_range+0x101/0x140 [kvm]
";
    let (_, trace, findings) = whole(text);
    assert_eq!(trace.table.unwrap().side, "host");
    let found = only(&findings, FindingId::KernelComplaint);
    assert_eq!(found.cause, CauseId::KvmWork);
    assert_eq!(stack(found).0, "tdp_mmu_zap_leafs");
}

#[test]
fn rcu_stalls_are_read_in_three_layouts() {
    let old = "\
[ 100.0] INFO: rcu_sched self-detected stall on CPU { 3}  (t=60000 jiffies g=123 c=122 q=9)
[ 100.0] RIP: 0010:[<ffffffff81102d8e>]  [<ffffffff81102d8e>] smp_call_function_single+0xde/0x130
[ 100.0]  [<ffffffff81103e21>] rdmsr_safe_on_cpu+0x51/0x80
";
    let found = complaint(old);
    assert_eq!(found.of.as_deref(), Some("RCU stall"));
    assert_eq!(found.cause, CauseId::WaitsForIpi);
    assert_eq!(stack(&found).1, Some("rdmsr_safe_on_cpu"));
    let new = "\
[ 200.0] rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:
[ 200.0] rcu: \t1-...!: (0 ticks this GP) idle=f824/0/0x1 softirq=4614/4614 fqs=0
[ 200.0] \t(detected by 0, t=39404443 jiffies g=18581 q=33 ncpus=8)
[ 200.0] Sending NMI from CPU 0 to CPUs 1:
[ 200.0] NMI backtrace for cpu 1 skipped: idling at default_idle+0xb/0x10
";
    assert_eq!(complaint(new).cause, CauseId::CpuStoodStill);
    let expedited = "\
[ 300.0] rcu: INFO: rcu_sched detected expedited stalls on CPUs/tasks: { 2-... } 21 jiffies
";
    assert_eq!(complaint(expedited).cause, CauseId::NoStack);
}

#[test]
fn a_starved_rcu_thread_is_a_complaint_of_its_own() {
    let text = "\
[ 200.0] rcu: INFO: rcu_sched self-detected stall on CPU
[ 200.0] rcu: rcu_sched kthread starved for 20964 jiffies! g938281 f0x0 ->state=0x0 ->cpu=6
";
    let (_, findings) = judged(text);
    let kinds: Vec<&str> = findings
        .iter()
        .filter_map(|found| found.of.as_deref())
        .collect();
    assert_eq!(kinds, ["RCU stall", "RCU's thread got no CPU"]);
}

#[test]
fn hung_tasks_differ_by_what_they_sleep_for() {
    let io = "\
[ 500.0] INFO: task jbd2/vda1-8:256 blocked for more than 120 seconds.
[ 500.0]       Not tainted 5.14.0-362.el9.x86_64 #1
[ 500.0] task:jbd2/vda1-8     state:D stack:    0 pid:  256 ppid:     2 flags:0x00004000
[ 500.0] Call Trace:
[ 500.0]  <TASK>
[ 500.0]  __schedule+0x248/0x620
[ 500.0]  schedule+0x5a/0xc0
[ 500.0]  io_schedule+0x42/0x70
[ 500.0]  bit_wait_io+0xd/0x60
";
    let found = complaint(io);
    assert_eq!(
        (found.cause, found.lost_ns),
        (CauseId::WaitsForIo, 120_000_000_000)
    );
    assert_eq!(found.next[0].id, StepId::LookAtStorage);
    let lock = io
        .replace("io_schedule", "rwsem_down_write_slowpath")
        .replace("bit_wait_io", "vm_mmap");
    assert_eq!(complaint(&lock).cause, CauseId::WaitsForOwner);
    let other = io
        .replace("io_schedule", "schedule_timeout")
        .replace("bit_wait_io", "my_wait");
    assert_eq!(complaint(&other).cause, CauseId::WaitsForOwner);
}

#[test]
fn clocksource_complaints_are_read_in_three_layouts() {
    for text in include_str!("../inputs/logs-clocksource.txt").lines() {
        let found = complaint(text);
        assert_eq!(
            (found.cause, found.confidence),
            (CauseId::ClockDisturbed, Confidence::Low)
        );
        assert_eq!(found.next[0].id, StepId::RecordWhile);
    }
}

#[test]
fn csd_lock_complaints_have_the_cpu_that_does_not_answer_and_the_time() {
    let new = include_str!("../inputs/logs-csd-new.txt");
    let found = complaint(new);
    let times = evidence(&found, EvidenceId::LogTimes);
    assert_eq!(
        (number(times, "longest"), number(times, "cpus")),
        (5_000_000_042, 1)
    );
    assert_eq!(name(times, "which"), "55");
    let old = include_str!("../inputs/logs-csd-old.txt");
    assert_eq!(complaint(old).lost_ns, 5_001_000_000);
}

#[test]
fn a_log_without_complaints_is_a_log_with_nothing_wrong() {
    let text = "\
[    0.000000] Linux version 6.1.0-28-amd64
[    0.000000] Command line: BOOT_IMAGE=/vmlinuz root=/dev/vda1
[    0.000000] Hypervisor detected: KVM
[    0.100000] clocksource: kvm-clock: mask: 0xffffffffffffffff max_cycles: 0x1cd42e4dffb
[    1.000000] virtio_blk virtio0: [vda] 41943040 512-byte logical blocks
";
    assert_eq!(judged(text), (Kind::KernelLog, Vec::new()));
}

#[test]
fn a_lock_up_far_down_a_log_of_days_is_found() {
    use std::fmt::Write as _;
    let mut text = String::new();
    for second in 0..3000 {
        writeln!(
            text,
            "Oct 24 01:00:00 vm7 kernel: [{second}.000001] audit: type=1400"
        )
        .unwrap();
    }
    text += SHOOTDOWN;
    let found = complaint(&text);
    assert_eq!(number(evidence(&found, EvidenceId::LogLine), "line"), 3001);
    assert_eq!(found.cause, CauseId::WaitsForShootdown);
}

#[test]
fn the_stack_of_a_thread_is_read_as_the_kernel_gives_it() {
    let frames = |names: &[&str]| -> String {
        let frame = |name: &&str| format!("[<0>] {name}+0x60/0x90\n");
        names.iter().map(frame).collect()
    };
    let io = [
        "wait_on_page_bit",
        "__lock_page_or_retry",
        "kvm_mmu_page_fault",
    ];
    let lock = ["futex_wait_queue", "do_futex", "__x64_sys_futex"];
    for (names, cause) in [(io, CauseId::WaitsForIo), (lock, CauseId::WaitsForOwner)] {
        let found = complaint(&frames(&names));
        assert_eq!((found.cause, found.severity), (cause, Severity::Major));
    }
    let halted = ["kvm_vcpu_block", "kvm_vcpu_halt", "vcpu_run"];
    assert_eq!(judged(&frames(&halted)), (Kind::KernelLog, Vec::new()));
}

#[test]
fn a_hardwares_name_says_whether_a_log_is_of_a_vcpu() {
    let (host, guest) = (Some("host"), Some("guest"));
    let (other_cpus, record) = (StepId::AllBacktraces, StepId::RecordWhile);
    let frames = [
        "smp_call_function_many_cond+0x11e/0x4f0",
        "native_queued_spin_lock_slowpath+0x1c/0x2a0",
        "native_safe_halt+0xe/0x20",
    ];
    for (hardware, side, first) in [
        (
            "Dell Inc. PowerEdge R640/0RGP26, BIOS 2.19.1",
            host,
            other_cpus,
        ),
        (
            "Supermicro SYS-2029U-TN24R4T/X11DPU, BIOS 3.3",
            host,
            other_cpus,
        ),
        ("LENOVO ThinkSystem SR650", host, other_cpus),
        ("Red Hat KVM/RHEL, BIOS 1.16.1-1.el9", guest, record),
        ("QEMU Standard PC (i440FX + PIIX, 1996)", guest, record),
        ("VMware, Inc. VMware Virtual Platform/440BX", guest, record),
        (
            "Microsoft Corporation Virtual Machine/Virtual Machine",
            guest,
            record,
        ),
        ("Amazon EC2 c5.large/, BIOS 1.0", guest, record),
        ("", None, record),
    ] {
        for frame in frames {
            let mut text = format!(
                "[ 45.678901] watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [systemd:1]\n\
                 [ 45.678930] RIP: 0010:{frame}\n"
            );
            if side.is_some() {
                text += &format!("[ 45.678940] Hardware name: {hardware}\n");
            }
            let found = complaint(&text);
            let times = evidence(&found, EvidenceId::LogTimes);
            let said = times.value("side").map(|_| name(times, "side"));
            assert_eq!(
                (said, found.next[0].id),
                (side, first),
                "{hardware} {frame}"
            );
        }
    }
}

#[test]
fn a_short_log_without_a_complaint_is_read_and_a_disk_that_times_out_is_one() {
    let quiet = "\
[    0.000000] Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org)
[    0.500000] kvm-clock: Using msrs 4b564d01 and 4b564d00
[    1.000000] virtio_blk virtio1: [vda] 41943040 512-byte logical blocks
";
    assert_eq!(judged(quiet), (Kind::KernelLog, Vec::new()));
    for line in [
        "[  500.1] ata1.00: exception Emask 0x0 SAct 0x0 SErr 0x0 action 0x6 frozen",
        "[  505.1] sd 0:0:0:0: [sda] tag#3 timing out command, waited 180s",
    ] {
        let found = complaint(&format!("{line}\n"));
        assert_eq!(found.cause, CauseId::IoPressure, "{line}");
    }
}
