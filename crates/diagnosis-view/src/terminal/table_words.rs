// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What tables and logs show, in words. They stand apart from those of traces: a table has no time
//! line, and what it cannot show is said with it.

use steady_diagnose::{
    CauseId, CheckId, Diagnosis, EvidenceId, Finding, FindingId, Quantity, StepId, TableNote,
    TraceDiagnosis,
};

use super::{evidence_words, percent, time};

/// Pieces of evidence that the short text has.
pub const EVIDENCE_SHOWN: usize = 3;

/// What can be seen in a table.
#[must_use]
pub fn symptom(finding: &Finding) -> String {
    let of = finding.of.as_deref();
    match finding.id {
        FindingId::ExitCounts => "KVM's events are counted without times".to_owned(),
        FindingId::ThreadsWait => "threads of the host wait long for a pCPU".to_owned(),
        FindingId::Throttled => "the cgroup is throttled".to_owned(),
        FindingId::CpuPressure => match of {
            Some("pressure") => "all runnable tasks of the cgroup wait for a CPU".to_owned(),
            Some("a cgroup") => "runnable tasks of the cgroup wait for a CPU".to_owned(),
            Some(of) => format!("runnable tasks wait for a CPU ({of})"),
            None => "runnable tasks wait for a CPU".to_owned(),
        },
        FindingId::HostBusy => "the host's CPUs have hardly any idle time".to_owned(),
        FindingId::OtherPressure => match of {
            Some("interrupts") => "interrupts take CPUs from tasks".to_owned(),
            of => format!("tasks wait for {}", of.unwrap_or("memory or I/O")),
        },
        FindingId::ForcedIdle => "CPUs are kept idle beside the group's tasks".to_owned(),
        FindingId::NotMeasured => format!("it does not show {}", of.unwrap_or("waits")),
        _ => format!("the kernel's log: {}", complaint(finding)),
    }
}

/// What a log complains of: of which machine and CPU, and for how long, as far as its lines say it.
fn complaint(finding: &Finding) -> String {
    let of = finding.of.as_deref().unwrap_or("a stall");
    assert!(!of.is_empty(), "a complaint has a name");
    let mut evidence = finding.evidence.iter();
    let times = evidence.find(|of| of.id == EvidenceId::LogTimes);
    let value = |name: &str| times.and_then(|of| of.value(name));
    let named = |name: &str| match value(name) {
        Some(Quantity::Name(name)) => Some(name.as_str()),
        _ => None,
    };
    let machine = named("machine").map(|name| format!(", on a machine named {name}"));
    let which = named("which").map(|cpus| format!(", CPU {cpus}"));
    let longest = match value("longest") {
        Some(Quantity::Ns(longest_ns)) => Some(format!(", {}", time(*longest_ns))),
        _ => None,
    };
    let lacks = which.is_none() && longest.is_none() && matches!(of, "soft lockup" | "hard lockup");
    let lacks = lacks.then(|| " (CPU and length not in it)".to_owned());
    let parts = [machine, which, longest, lacks];
    parts
        .into_iter()
        .flatten()
        .fold(of.to_owned(), |all, part| all + &part)
}

/// Of a finding whose cause says more where it is known on which side of virtualization it was
/// written, or whose group it is: the fault, and why.
#[must_use]
pub fn placed(finding: &Finding) -> Option<(&'static str, Option<&'static str>)> {
    let times = finding.evidence.iter();
    let mut times = times.filter(|of| of.id == EvidenceId::LogTimes);
    let side = match times.next().and_then(|of| of.value("side")) {
        Some(Quantity::Name(side)) => Some(side.as_str()),
        _ => None,
    };
    let by_cpus = matches!(
        finding.cause,
        CauseId::WaitsForShootdown | CauseId::WaitsForIpi | CauseId::CpuStoodStill
    );
    let complaint = finding.id == FindingId::KernelComplaint;
    if let Some(said) = of_complaint(finding) {
        return Some(said);
    }
    Some(match (side, finding.cause, finding.of.as_deref()) {
        (Some("host"), CauseId::WaitsForShootdown | CauseId::WaitsForIpi, _) => (
            "a CPU with its interrupts off, or firmware",
            Some(
                "its stack waits for other CPUs to answer an IPI: one of them had its interrupts \
                 off, or stood in firmware (SMI)",
            ),
        ),
        (Some("host"), CauseId::CpuStoodStill, _) => (
            "a CPU with its interrupts off, or firmware",
            Some("its stack was idle or in a program: the CPU itself stood still (SMI, NMI)"),
        ),
        (Some("host"), CauseId::WaitsForLock, _) => (
            "the lock's holder",
            Some("its stack spins for a lock, which another CPU had for long"),
        ),
        (Some("guest"), _, _) if by_cpus => ("a vCPU off its pCPU", None),
        (Some("guest"), CauseId::KernelWork, _) => ("its own kernel, or a vCPU off its pCPU", None),
        (None, CauseId::KernelWork, _) if complaint => ("the kernel that wrote it", None),
        (_, CauseId::Quota, Some("emulator")) => (
            "its limit (cpu.max)",
            Some(
                "threads of the VMM that are not vCPUs used up their limit (cpu.max), and stood \
                 still until the next period: devices that they serve wait, not the vCPUs",
            ),
        ),
        (_, CauseId::Quota, Some("other")) => (
            "its limit (cpu.max)",
            Some(
                "the cgroup, which by its name is not a VM's, used up its limit (cpu.max), and its \
                 tasks stood still until the next period",
            ),
        ),
        (_, CauseId::Quota, Some("pressure")) => (
            "its limit (cpu.max), or what runs instead",
            Some("all tasks of the cgroup waited at once, as those of a group that is throttled"),
        ),
        _ => return None,
    })
}

/// Of what says more by its name, or the place of its stack, than by its cause.
fn of_complaint(finding: &Finding) -> Option<(&'static str, Option<&'static str>)> {
    let of = finding.of.as_deref()?;
    let stacks = finding.evidence.iter();
    let mut stacks = stacks.filter(|of| of.id == EvidenceId::LogStack);
    let function = stacks.next().and_then(|of| of.value("function"));
    let nfs = |name: &str| {
        ["rpc_", "__rpc_", "nfs"]
            .iter()
            .any(|of| name.starts_with(of))
    };
    Some(match (finding.cause, of) {
        (CauseId::WaitsForIo, _) if matches!(function, Some(Quantity::Name(name)) if nfs(name)) => {
            (
                "the NFS server, or the network to it",
                Some("its stack waits for an NFS server to answer"),
            )
        }
        (CauseId::IoPressure, "storage answered with an error") => (
            "failing storage, or the path to it",
            Some("a disk answered that it could not read or write"),
        ),
        (CauseId::IoPressure, "paused") => (
            "an I/O error of its disk, such as a full file system",
            Some(
                "a disk gave an error (state.reason 5), often because the host's file system or \
                 pool is full; once that is repaired, virsh resume lets it run on",
            ),
        ),
        (CauseId::MemoryPressure, "memory that its balloon took") => (
            "its balloon",
            Some("the guest swaps, and its balloon has memory that virsh setmem gives back"),
        ),
        (CauseId::InterruptLoad, "an interrupt that nothing handles is off") => (
            "a device, or its driver",
            Some(
                "almost all of 100,000 interrupts had no driver that wanted them, so the kernel \
                 switched their line off: every device on that line is slow or dead",
            ),
        ),
        (CauseId::WaitsForOwner, "a task waits for a lock that another one has") => (
            "the task that has the lock",
            Some("the task that the line names second has a lock, and the first one waits for it"),
        ),
        (CauseId::HostStopped, "the machine was suspended") => (
            "a suspension of the machine",
            Some("it was suspended: all that it runs stood still until it woke up"),
        ),
        (CauseId::KernelWork, "a work item kept its CPU for long") => (
            "a driver's work in the kernel that wrote it",
            Some("a work item ran for long without giving its CPU to others"),
        ),
        _ => return None,
    })
}

/// Why, where a table or a log gives a reason.
#[must_use]
pub fn cause(cause: CauseId) -> Option<&'static str> {
    Some(match cause {
        CauseId::NotShown => "such a table does not show what ran instead",
        CauseId::CountsOnly => "counts do not show how long each took, and so not what costs most",
        CauseId::Quota => {
            "the cgroup used up its limit (cpu.max), and its vCPUs stood still until the next \
             period"
        }
        CauseId::HostFull => "more threads want to run than the host has CPUs",
        CauseId::WaitsForShootdown => {
            "its stack waits for other CPUs to flush their TLBs; in a guest, one of them was \
             probably off its pCPU"
        }
        CauseId::WaitsForIpi => {
            "its stack waits for other CPUs to answer an IPI; in a guest, one of them was \
             probably off its pCPU"
        }
        CauseId::WaitsForLock => {
            "its stack spins for a lock; in a guest, the holder was probably off its pCPU"
        }
        CauseId::WaitsForOwner => {
            "its stack sleeps until another task gives a lock back, or ends a work"
        }
        CauseId::WaitsForIo => "its stack waits for I/O",
        CauseId::TimerWork => "its stack handles timers, or waits for a time to pass",
        CauseId::CpuStoodStill => {
            "its stack was idle or in a program: the CPU itself stood still, as a vCPU off its \
             pCPU does"
        }
        CauseId::KvmWork => "the host's KVM worked for the guest without a pause",
        CauseId::KernelWork => "the kernel ran one function for long, or its CPU stood still",
        CauseId::ClockDisturbed => {
            "a reading of two clocks was interrupted, as in a vCPU off its pCPU, or a clock is \
             wrong"
        }
        CauseId::NoStack => "the log has no stack that would show what was waited for",
        CauseId::MemoryPressure => "memory is short: it is reclaimed, swapped or compacted first",
        CauseId::IoPressure => "storage or a network file system is slow to answer",
        CauseId::InterruptLoad => "interrupts and what they defer (softirqs) run in their place",
        CauseId::CoreScheduling => {
            "core scheduling lets no task without the same cookie run on the sibling of its core"
        }
        CauseId::SplitLocks => {
            "a program makes atomic accesses across cache lines: each stops all CPUs, and the \
             kernel slows the program on purpose (split_lock_mitigate)"
        }
        CauseId::HotProcessor => "the processor slowed itself down: too hot, or too much power",
        CauseId::RealTimeTasks => {
            "real-time tasks took all of a CPU until the kernel stopped them \
             (sched_rt_runtime_us), or one in the deadline class had used up its own time"
        }
        CauseId::NotCounted => "it was not counted, so that nothing can be said of it",
        _ => return None,
    })
}

/// What was checked against the incident's other files.
#[must_use]
pub fn check(id: CheckId) -> Option<&'static str> {
    Some(match id {
        CheckId::AnotherFileAgrees => "another file of the incident shows the same",
        CheckId::AnotherFileHasLimit => "another file of the incident shows a limit reached",
        CheckId::AnotherFileHasWaits => "another file shows vCPUs that wait for pCPUs",
        CheckId::AnotherFileHasNoLimit => "another file shows that no limit is set",
        _ => return None,
    })
}

/// What to do after a table; `{}` stands for a command.
#[must_use]
pub fn step(id: StepId) -> Option<&'static str> {
    Some(match id {
        StepId::RecordWhile => "run `{}` on the host while it happens, to see who ran instead",
        StepId::AllBacktraces => {
            "see what the other CPUs did then: kernel.softlockup_all_cpu_backtrace=1, and the \
             firmware's log"
        }
        StepId::RaiseGroupLimit => "raise cpu.max of {}, if it is meant to have more",
        StepId::AskTool => "run `{}`: it shows what this table lacks",
        StepId::GuestClock => {
            "if {} is a clock (0x608, 0xb008: ACPI; 0x40: PIT; 0x70, 0x71: RTC), give the guest a \
             better one: hv-time (Windows), kvm-clock (Linux), or hpet=on"
        }
        StepId::FindSplitLocks => {
            "find the program by the line's name and address; or split_lock_detect=off, which \
             leaves the stops of all CPUs to the hardware"
        }
        StepId::CoolProcessor => "see its temperature and power limit (turbostat, sensors)",
        StepId::RealTimeShare => {
            "let real-time vCPUs idle, or have all of their pCPU (kernel.sched_rt_runtime_us)"
        }
        StepId::FindRealTime => {
            "find the real-time task that never sleeps: ps -eLo cls,rtprio,comm"
        }
        _ => return None,
    })
}

/// The sentence of a piece of evidence, as `evidence::template` has them.
#[must_use]
pub fn template(id: EvidenceId) -> Option<&'static str> {
    Some(match id {
        EvidenceId::TableThread => {
            "{name}[: {waits} waits][, {mean} on average][, {max} at most][, begun at {at}]"
        }
        EvidenceId::TableWait => {
            "{who}: {waited} ready but not running[, {ran} running][: {share} of what it wanted]"
        }
        EvidenceId::TableSteal => {
            "{who}: steal {mean} on average, {max} at most, in {samples} samples"
        }
        EvidenceId::TableThrottle => {
            "[{name}: ]throttled in {throttled} of {periods} periods, {share}[; {time} in all]"
        }
        EvidenceId::TablePressure => {
            "{who} tasks waited {avg10} of the last 10 s, {avg60} of 60 s, {avg300} of 300 s[; \
             {time} in all]"
        }
        EvidenceId::TableExits => {
            "{reason}: {exits} exits[, {share} of all][, {time_share} of the time][, {mean} on \
             average][, {max} at most]"
        }
        EvidenceId::TableEvents => "{name}: {count}[; {rate} each second]",
        EvidenceId::TableHistogram => {
            "[{name}: ]{waits} waits, {late} of {bound} and more, the longest up to {longest}"
        }
        EvidenceId::TableIdle => {
            "idle {idle} of the time[, guests ran {guest}][, {ready} ready threads][, on {cpus} \
             CPUs]"
        }
        EvidenceId::TableInterrupts => {
            "interrupts and softirqs took {mean} of the time[, {max} at most][, of {who}]"
        }
        EvidenceId::TableIoWait => "CPUs waited for I/O {mean} of the time, {max} at most",
        EvidenceId::TableSwap => "swapped {in} KiB in and {out} KiB out each second",
        EvidenceId::TableForcedIdle => {
            "[{name}: ]CPUs beside it kept idle for {time}[, it ran for {ran}]"
        }
        EvidenceId::TableBlocked => "{name}: blocked for {max} at once[, {time} in all]",
        EvidenceId::TableLimit => "[{name}: ]a limit of {quota} in each {period}",
        EvidenceId::TableLacks => "looked for it in {rows} rows[, of {who}]",
        EvidenceId::LogLine => "line {line}: {text}",
        EvidenceId::LogStack => "stack: {function}[, called for {caller}]",
        EvidenceId::LogTimes => {
            "such lines: {times}[, CPU {which}][, on a machine named {machine}][; {longest} at \
             most]"
        }
        _ => return None,
    })
}

/// How much a table says that a finding costs; nothing if it does not say.
#[must_use]
pub fn share(finding: &Finding) -> Option<String> {
    match (finding.lost_permille, finding.lost_ns) {
        (0, 0) => None,
        (0, ns) if finding.id == FindingId::KernelComplaint => {
            Some(format!("{} at most, by the log", time(ns)))
        }
        (0, ns) => Some(format!("{} in all, by the table", time(ns))),
        (permille, 0) => Some(format!("{}, by the table", percent(permille))),
        (permille, ns) => Some(format!(
            "{} by the table, {} in all",
            percent(permille),
            time(ns)
        )),
    }
}

/// What stands in the second line of the answer: the numbers of a table.
#[must_use]
pub fn seen(finding: &Finding) -> Option<String> {
    finding.evidence.first().map(evidence_words)
}

/// Whether a finding is of a table or a log.
#[must_use]
pub fn of_table(finding: &Finding, all: &Diagnosis) -> bool {
    let trace = all.traces.get(finding.trace);
    trace.is_some_and(|trace| trace.table.is_some())
}

/// What a table is, what it cannot show, and what would decide it.
#[must_use]
pub fn note(name: &str, trace: &TraceDiagnosis, table: &TableNote) -> String {
    let TableNote {
        rows,
        cannot_show,
        decide,
        ..
    } = table;
    format!(
        "{name}: {}, {rows} rows; it cannot show {}; `{decide}` would decide it",
        trace.format,
        cannot_show.join(", ")
    )
}
