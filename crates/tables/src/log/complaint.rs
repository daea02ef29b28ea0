// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which lines of a kernel's log complain of a stall, over the versions of Linux from 3.10 to 6.12:
//! `kernel/watchdog.c`, `kernel/rcu/tree_stall.h`, `kernel/hung_task.c`,
//! `kernel/time/clocksource.c`, `kernel/smp.c`, `kernel/workqueue.c`, `kernel/time/hrtimer.c`,
//! `arch/x86/kernel/cpu/{intel,bus_lock}.c`, `drivers/thermal/intel/therm_throt.c`,
//! `kernel/sched/{rt,deadline}.c`, `mm/{oom_kill,page_alloc}.c`, `net/sched/sch_generic.c`,
//! `kernel/irq/spurious.c`, `kernel/power/suspend.c`, and those of storage: NFS, libata, SCSI,
//! NVMe, the block layer. Of programs that notice a stall of their own, corosync's.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::number::decimal;

/// What a line complains of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Of {
    SoftLockup,
    HardLockup,
    RcuStall,
    RcuStarved,
    CsdLock,
    HungTask,
    Workqueue,
    Clocksource,
    LateTimer,
    SplitLock,
    Hot,
    RealTime,
    Storage,
    Failed,
    Memory,
    Network,
    Irq,
    Hog,
    Suspended,
    Owned,
    Program,
    Stack,
}

impl Of {
    pub fn words(self) -> &'static str {
        match self {
            Self::SoftLockup => "soft lockup",
            Self::HardLockup => "hard lockup",
            Self::RcuStall => "RCU stall",
            Self::RcuStarved => "RCU's thread got no CPU",
            Self::CsdLock => "a CPU does not answer an IPI (csd lock)",
            Self::HungTask => "hung task",
            Self::Workqueue => "workqueue lockup",
            Self::Clocksource => "clocksource",
            Self::LateTimer => "a timer's or a counter's interrupt took long",
            Self::SplitLock => "split lock",
            Self::Hot => "the processor slowed itself down",
            Self::RealTime => "real-time tasks stopped",
            Self::Storage => "storage did not answer in time",
            Self::Failed => "storage answered with an error",
            Self::Memory => "memory ran out",
            Self::Network => "a network device did not send in time",
            Self::Irq => "an interrupt that nothing handles is off",
            Self::Hog => "a work item kept its CPU for long",
            Self::Suspended => "the machine was suspended",
            Self::Owned => "a task waits for a lock that another one has",
            Self::Program => "a program was not scheduled for long",
            Self::Stack => "the stack of a thread",
        }
    }

    /// Whether it is about memory or a device.
    pub fn is_of_devices(self) -> bool {
        matches!(
            self,
            Self::Storage | Self::Failed | Self::Memory | Self::Network
        )
    }

    /// Whether it says that a CPU, or what ran on it, made no progress.
    pub fn is_stall(self) -> bool {
        !matches!(
            self,
            Self::HungTask
                | Self::Clocksource
                | Self::LateTimer
                | Self::SplitLock
                | Self::Hot
                | Self::RealTime
                | Self::Storage
                | Self::Failed
                | Self::Memory
                | Self::Irq
                | Self::Hog
                | Self::Suspended
                | Self::Owned
                | Self::Stack
        )
    }
}

/// One complaint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Complaint {
    pub of: Of,
    pub cpu: Option<u32>,
    /// How long, if the line says it.
    pub ns: Option<u64>,
}

const SECOND: u64 = 1_000_000_000;

/// One of these is in every complaint; most lines of a log have none.
static MARKS: LazyLock<[Finder<'static>; 25]> = LazyLock::new(|| {
    let marks: [&[u8]; 25] = [
        b"exception Emask",
        b"timing out",
        b"not responding",
        b"resetting link",
        b"TIME_OUT",
        b"timeout,",
        b"I/O error",
        b"error, dev",
        b" reset",
        b"abort",
        b"timed-out",
        b" cared (try",
        b"hogged CPU",
        b"PM: ",
        b"lagged",
        b"f memory",
        b"timed out",
        b"for ",
        b"lock",
        b"LOCKUP",
        b"stall",
        b"kthread",
        b"took ",
        b"unstable",
        b"throttl",
    ];
    marks.map(Finder::new)
});

/// What a line complains of.
pub(super) fn complaint(text: &str) -> Option<Complaint> {
    let marked = |mark: &Finder<'_>| mark.find(text.as_bytes()).is_some();
    if !MARKS.iter().any(marked) {
        return None;
    }
    let of = kind(text)?;
    let (cpu, ns) = match of {
        Of::SoftLockup => (number(text, "CPU#"), seconds(text, "stuck for ")),
        Of::HardLockup => (number(text, "LOCKUP on cpu "), None),
        Of::RcuStall | Of::RcuStarved => (number(text, "->cpu="), None),
        Of::CsdLock => (number(text, "for CPU#"), waited(text)),
        Of::HungTask => (None, seconds(text, "blocked for more than ")),
        Of::Workqueue => (number(text, "cpus="), seconds(text, "stuck for ")),
        Of::Clocksource => (number(text, "watchdog on CPU"), None),
        Of::LateTimer => (None, nanoseconds(text, "interrupt took ")),
        Of::Hot => (number(text, "CPU"), None),
        Of::Memory => (None, milliseconds(text, "stalls for ")),
        Of::Program => (
            None,
            ["scheduled for ", ") for ", "detected for "]
                .iter()
                .find_map(|before| milliseconds(text, before)),
        ),
        Of::Hog => (None, microseconds(text, "hogged CPU for >")),
        _ => (None, None),
    };
    Some(Complaint { of, cpu, ns })
}

fn kind(text: &str) -> Option<Of> {
    let has = |part: &str| memchr::memmem::find(text.as_bytes(), part.as_bytes()).is_some();
    if has("soft lockup - CPU") || has("soft lockup detected on CPU") {
        return Some(Of::SoftLockup);
    }
    if has("hard LOCKUP on cpu") || has("Hard LOCKUP") || has("-detected hard LOCKUP") {
        return Some(Of::HardLockup);
    }
    if has("kthread starved for ") || has("kthread timer wakeup didn't happen") {
        return Some(Of::RcuStarved);
    }
    let stall = has("detected stall") || has("detected expedited stall");
    if stall && (has("rcu") || has("RCU")) {
        return Some(Of::RcuStall);
    }
    if has("non-responsive CSD lock") {
        return Some(Of::CsdLock);
    }
    if has("blocked for more than ") && has("task ") {
        return Some(Of::HungTask);
    }
    if has("blocked on a ") && has(" likely owned by task ") {
        return Some(Of::Owned);
    }
    if has("workqueue lockup") {
        return Some(Of::Workqueue);
    }
    let watchdog = has("timekeeping watchdog on CPU")
        || has("skipping watchdog check")
        || has("clocksource: Watchdog ");
    let marked = has("Marking clocksource") || has("Marking TSC unstable due to clocksource");
    let tsc = has("Clocksource tsc unstable") || has("TSC found unstable after boot");
    if watchdog || marked || tsc {
        return Some(Of::Clocksource);
    }
    let stopped = has("took a split_lock trap") || has("took a bus_lock trap");
    if stopped {
        return Some(Of::SplitLock);
    }
    if has("cpu clock is throttled") || has("cpu clock throttled") {
        return Some(Of::Hot);
    }
    if has("sched: RT throttling activated") || has("sched: DL replenish lagged too much") {
        return Some(Of::RealTime);
    }
    let paused = has("main process was not scheduled ") && has(" for ");
    if paused || has("Process pause detected for ") {
        return Some(Of::Program);
    }
    let late = has("hrtimer: interrupt took ") || has("perf: interrupt took too long");
    if late || has("NMI handler") && has("took too long") {
        return Some(Of::LateTimer);
    }
    of_device(has)
}

/// Of memory, devices and suspensions.
fn of_device(has: impl Fn(&str) -> bool) -> Option<Of> {
    if has("Out of memory: Kill") || has("emory cgroup out of memory") || has("on stalls for ") {
        return Some(Of::Memory);
    }
    if has("NETDEV WATCHDOG: ") {
        return Some(Of::Network);
    }
    if has("hogged CPU for >") {
        return Some(Of::Hog);
    }
    if has("irq ") && has(" cared (try booting with ") {
        return Some(Of::Irq);
    }
    if has("PM: suspend exit") || has("hibernation exit") || has("PM: Finishing wakeup") {
        return Some(Of::Suspended);
    }
    if has("I/O error, dev ") || has("I/O error on dev ") || has("medium error, dev ") {
        return Some(Of::Failed);
    }
    let storage = [
        "not responding, ",
        "resetting link",
        "DID_TIME_OUT",
        "task abort",
        "ABORT operation timed-out",
        "target reset",
        "device reset!",
        "host reset!",
        "controller is down; will reset",
        ": exception Emask ",
        "timing out command, waited ",
    ];
    let late = storage.iter().any(|part| has(part)) || has("nvme") && has(" timeout, ");
    late.then_some(Of::Storage)
}

/// The digits behind a text.
fn digits<'t>(text: &'t str, before: &str) -> Option<&'t str> {
    let rest = text.split_once(before)?.1;
    let end = rest
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

fn number(text: &str, before: &str) -> Option<u32> {
    digits(text, before)?.parse().ok()
}

fn seconds(text: &str, before: &str) -> Option<u64> {
    decimal(digits(text, before)?, SECOND)
}

fn milliseconds(text: &str, before: &str) -> Option<u64> {
    decimal(digits(text, before)?, SECOND / 1000)
}

fn microseconds(text: &str, before: &str) -> Option<u64> {
    decimal(digits(text, before)?, SECOND / 1_000_000)
}

fn nanoseconds(text: &str, before: &str) -> Option<u64> {
    digits(text, before)?.parse().ok()
}

/// `waiting 5000000042 ns for`, or `waiting 5.001 secs` of its first version.
fn waited(text: &str) -> Option<u64> {
    let rest = text.split_once("waiting ")?.1;
    let (number, unit) = rest.split_once(' ')?;
    decimal(number, if unit.starts_with("secs") { SECOND } else { 1 })
}
