// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Single lines that a kernel's log complains with, of devices, programs and lockups.

use steady_diagnose::{CauseId, FindingId, Severity, StepId};

use super::logs::complaint;
use super::{judged, only, whole};

/// Lines of the kernel, what they show, and what to do.
const STOPS: [(&str, CauseId, StepId); 23] = [
    (
        "x86/split lock detection: #AC: CPU 0/KVM/12345 took a split_lock trap at address: 0x7",
        CauseId::SplitLocks,
        StepId::FindSplitLocks,
    ),
    (
        "x86/split lock detection: #DB: CPU 0/KVM/12345 took a bus_lock trap at address: 0x7",
        CauseId::SplitLocks,
        StepId::FindSplitLocks,
    ),
    (
        "mce: CPU3: Core temperature is above threshold, cpu clock is throttled (total events)",
        CauseId::HotProcessor,
        StepId::CoolProcessor,
    ),
    (
        "CPU17: Package temperature above threshold, cpu clock throttled (total events = 9)",
        CauseId::HotProcessor,
        StepId::CoolProcessor,
    ),
    (
        "sched: RT throttling activated",
        CauseId::RealTimeTasks,
        StepId::FindRealTime,
    ),
    (
        "sched: DL replenish lagged too much",
        CauseId::RealTimeTasks,
        StepId::FindRealTime,
    ),
    (
        "TSC found unstable after boot, most likely due to broken BIOS.",
        CauseId::ClockDisturbed,
        StepId::RecordWhile,
    ),
    (
        "nfs: server nas1 not responding, still trying",
        CauseId::IoPressure,
        StepId::LookAtStorage,
    ),
    (
        "nvme nvme0: I/O 123 QID 4 timeout, aborting",
        CauseId::IoPressure,
        StepId::LookAtStorage,
    ),
    (
        "ata1: hard resetting link",
        CauseId::IoPressure,
        StepId::LookAtStorage,
    ),
    (
        "sd 0:0:0:0: [sda] tag#12 FAILED Result: hostbyte=DID_TIME_OUT driverbyte=DRIVER_OK",
        CauseId::IoPressure,
        StepId::LookAtStorage,
    ),
    (
        "Out of memory: Killed process 4711 (qemu-system-x86) total-vm:18445676kB",
        CauseId::MemoryPressure,
        StepId::StopReclaim,
    ),
    (
        "NETDEV WATCHDOG: eth0 (virtio_net): transmit queue 0 timed out",
        CauseId::NoStack,
        StepId::RecordWhile,
    ),
    (
        "sd 2:0:0:0: [sda] tag#12 task abort called for scmd(ffff8881)",
        CauseId::IoPressure,
        StepId::LookAtStorage,
    ),
    (
        "mpt3sas_cm0: issue target reset: handle = (0x0009)",
        CauseId::IoPressure,
        StepId::LookAtStorage,
    ),
    (
        "scsi host2: ABORT operation timed-out.",
        CauseId::IoPressure,
        StepId::LookAtStorage,
    ),
    (
        "nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",
        CauseId::IoPressure,
        StepId::LookAtStorage,
    ),
    (
        "blk_update_request: I/O error, dev vda, sector 91223344 op 0x1:(WRITE)",
        CauseId::IoPressure,
        StepId::AskTool,
    ),
    (
        "critical medium error, dev sdb, sector 91223344 op 0x0:(READ)",
        CauseId::IoPressure,
        StepId::AskTool,
    ),
    (
        include_str!("../inputs/logs-irq.txt"),
        CauseId::InterruptLoad,
        StepId::AskTool,
    ),
    (
        "task:qemu-system-x86 blocked on a rw-semaphore likely owned by task khugepaged:90",
        CauseId::WaitsForOwner,
        StepId::RecordWhile,
    ),
    (
        "workqueue: drm_fb_helper_damage_work hogged CPU for >10000us 4 times, consider",
        CauseId::KernelWork,
        StepId::RecordWhile,
    ),
    ("PM: suspend exit", CauseId::HostStopped, StepId::AskTool),
];

/// Linux 4.18 without its hardware's name: a vCPU's thread in KVM, and a worker of NFS.
#[test]
fn a_stack_says_whose_kernel_it_is_and_which_server_is_slow() {
    let lockup = "\
[99121.11] NMI watchdog: Watchdog detected hard LOCKUP on cpu 14
[99121.13] CPU: 14 PID: 33112 Comm: NAME Not tainted 4.18.0-513.el8.x86_64 #1
[99121.14] RIP: 0010:native_queued_spin_lock_slowpath+0x14a/0x1d0
[99121.16]  _raw_spin_lock+0x1d/0x20
[99121.17]  CALLER+0x7a/0x560
";
    for (name, caller, side) in [
        ("CPU 2/KVM Kdump: loaded", "page_fault", "host"),
        ("IO mon_iothread", "kvm_mmu_page_fault", "host"),
        ("mysqld", "page_fault", "unknown"),
    ] {
        let caller = match caller.starts_with("kvm") {
            true => format!("{caller}+0x7a/0x560 [kvm]"),
            false => format!("{caller}+0x7a/0x560"),
        };
        let text = lockup
            .replace("NAME", name)
            .replace("CALLER+0x7a/0x560", &caller);
        let (_, trace, findings) = whole(&text);
        assert_eq!(trace.table.unwrap().side, side, "{name}");
        let found = only(&findings, FindingId::KernelComplaint);
        assert_eq!(found.cause, CauseId::WaitsForLock, "{name}");
    }
    let nfs = "\
[12012.223] INFO: task kworker/u8:2:412 blocked for more than 245 seconds.
[12012.228]  __schedule+0x282/0x880
[12012.229]  rpc_wait_bit_killable+0x24/0x90 [sunrpc]
[12012.230]  nfs4_run_open_task+0x11d/0x180 [nfsv4]
[12012.231] INFO: task a:1 blocked on a mutex likely owned by task b:2.
";
    let found = complaint(nfs);
    assert_eq!(found.cause, CauseId::WaitsForIo);
    assert_eq!(found.next[0].name.as_deref(), Some("nfsiostat 1 10"));
}

#[test]
fn what_stops_tasks_is_a_complaint() {
    let boot = "\
[    0.000000] Linux version 6.1.0-18-amd64
[    0.600000] x86/split lock detection: #AC: crashing the kernel on kernel \
 split_locks and warning on user-space split_locks
[    0.900000] virtio_blk virtio0: [vda] 41943040 512-byte logical blocks
[    1.000000] random: crng init done
[    2.000000] systemd[1]: Detected virtualization kvm.
";
    assert_eq!(judged(boot).1, []);
    for (line, cause, step) in STOPS {
        let found = complaint(&format!("{boot}[  812.334455] {line}\n"));
        let severity = match line.contains("hogged CPU") {
            true => Severity::Minor,
            false => Severity::Major,
        };
        assert_eq!((found.cause, found.severity), (cause, severity), "{line}");
        assert_eq!(found.next[0].id, step, "{line}");
    }
}

#[test]
fn a_program_that_was_not_scheduled_complains_with_a_length() {
    let text = "\
Oct 24 01:36:33 node1 corosync[1234]:   [MAIN  ] Corosync main process was not scheduled for \
12345.6789 ms (threshold is 800.0000 ms). Consider token timeout increase.
";
    // Newer ones say at which time of their own it was.
    let newer = text.replace("scheduled for", "scheduled (@1681222048760) for");
    for text in [text, &newer] {
        let found = complaint(text);
        assert_eq!(
            (found.severity, found.lost_ns),
            (Severity::Severe, 12_345_000_000)
        );
    }
    // Programs speak of storage too, but not for the kernel.
    let other = "Oct 24 01:36:33 a app[1]: I/O error, dev x\n".repeat(9);
    assert!(steady_tables::read(&mut other.as_bytes(), "app").is_err());
}
