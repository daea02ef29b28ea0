// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exits that take much time, by reason and by what they were about; threads in D state.
//!
//! A reason is a finding from [`SHARE`] of the VM's time on, halts apart; pause-loop exits and
//! timers have findings of their own. Counted is the exits' own time, without waiting for a pCPU.

use steady_events::{ExitReason, Isa};

use super::{Context, MOST, below, check, share, step, unanswered};
use crate::about::groups;
use crate::build::{STALL_NS, permille};
use crate::model::{
    Assumption, CauseId, Check, CheckId, Confidence, Culprit, DetailRow, Evidence, EvidenceId,
    ExitRow, Finding, FindingId, Severity, Sharpener, Step, StepId,
};
use crate::spread::total;

/// From this share of the time of the VM's vCPUs on, in thousandths, an exit reason is a finding.
pub const SHARE: u64 = 50;
/// From this length on an exit that KVM answers itself is a long one, in nanoseconds: most take
/// microseconds.
pub const LONG_NS: u64 = 100_000;
/// What exits of one reason were about: the most that are named.
const NAMED: usize = 4;

/// A finding for each reason that takes its share.
pub fn exits(context: &Context<'_>) -> Vec<Finding> {
    let worth = |row: &&ExitRow| !is_apart(row) && permille(row.own_ns, context.vcpu_ns()) >= SHARE;
    let rows = context.vm.exits.iter().filter(worth);
    let each = |row| [interrupted(context, row), one(context, row)].map(|found| (row, found));
    let all = rows.flat_map(each);
    let all = all.filter_map(|(row, found)| Some((row, found?)));
    let stalls = |row: &ExitRow, found: &Finding| {
        matches!(
            found.cause,
            CauseId::HostInterrupts | CauseId::PassedThrough
        ) && is_one_stall(row, found.lost_ns)
    };
    let felt = all.filter(|(row, found)| !stalls(row, found));
    felt.map(|(_, found)| found).collect()
}

/// Halts, and what other findings are about: pause loops, expired timers, unknown reasons.
pub fn is_apart(row: &ExitRow) -> bool {
    let isa = Isa::from_word(&row.isa).zip(row.code);
    let reason = isa.map(|(isa, code)| ExitReason { isa, code });
    let apart =
        |reason: ExitReason| reason.is_halt() || reason.is_pause() || reason.is_preemption_timer();
    reason.is_some_and(apart) || row.name.starts_with("UNKNOWN_")
}

/// Exits of another reason in which the host's interrupts took much time.
fn interrupted(context: &Context<'_>, row: &ExitRow) -> Option<Finding> {
    let irq_ns = total(row.about.iter().map(|of| of.host_irq_ns));
    if is_interrupt(row) || permille(irq_ns, context.vcpu_ns()) < SHARE {
        return None;
    }
    let cause = of_interrupts(row);
    let mut finding = context.finding(FindingId::SlowExits, irq_ns, cause);
    finding.of = Some(row.name.clone());
    finding.evidence.push(
        Evidence::new(EvidenceId::ExitShare)
            .named("reason", &row.name)
            .count("exits", row.count)
            .ns("mean", irq_ns.checked_div(row.count).unwrap_or(0))
            .ns("max", row.time_ns.max),
    );
    let worst = row.about.iter().filter_map(|of| of.worst.clone());
    finding.worst = worst.max_by_key(|worst| worst.length_ns);
    finding.next = steps(row, cause, irq_ns, false);
    if cause == CauseId::PassedThrough {
        finding.confidence = Confidence::Medium;
    }
    Some(finding)
}

/// What most of the interrupts' time in exits was for, if the trace shows it.
fn irq_of(row: &ExitRow) -> Option<&str> {
    let all_ns = total(row.about.iter().map(|of| of.host_irq_ns));
    let kinds = row.about.iter().filter_map(|of| of.irq.as_deref());
    let of = |kind: &str| {
        let same = row
            .about
            .iter()
            .filter(|of| of.irq.as_deref() == Some(kind));
        total(same.map(|of| of.host_irq_ns))
    };
    let most = kinds.max_by_key(|kind| of(kind))?;
    (permille(of(most), all_ns) >= MOST).then_some(most)
}

/// The cause of exits by the host's interrupts. Which VM has a device that is passed through is not
/// shown.
fn of_interrupts(row: &ExitRow) -> CauseId {
    match irq_of(row) {
        Some("passed-through") => CauseId::PassedThrough,
        _ => CauseId::HostInterrupts,
    }
}

fn one(context: &Context<'_>, row: &ExitRow) -> Option<Finding> {
    // Exits that arm a timer have another finding.
    let timer_ns = total(
        row.about
            .iter()
            .filter(|of| of.kind == "timer")
            .map(|of| of.own_ns),
    );
    let rows = || row.about.iter().filter(|of| of.kind != "timer");
    // The host's interrupts in exits of another reason are not the exit's own.
    let apart = rows().filter(|_| !is_interrupt(row));
    let irq_ns = total(apart.map(|of| of.host_irq_ns));
    let own_ns = row.own_ns.saturating_sub(total([timer_ns, irq_ns]));
    if permille(own_ns, context.vcpu_ns()) < SHARE {
        return None;
    }
    let exits = total(rows().map(|of| of.exits));
    let by_vmm = by_vmm(row, own_ns, exits);
    let scheduled = context.vm.waits.is_some();
    let mut cause = cause(row, by_vmm, scheduled);
    if matches!(cause, CauseId::UserDevice | CauseId::KernelDevice) && sleeps(context, own_ns) {
        cause = CauseId::VmmSleeps;
    }
    let mut finding = context.finding(FindingId::SlowExits, own_ns, cause);
    finding.of = Some(row.name.clone());
    let mean_ns = own_ns.checked_div(exits).unwrap_or(0);
    let worst = rows().filter_map(|of| of.worst.clone());
    finding.worst = worst.max_by_key(|worst| worst.length_ns);
    let max_ns = finding.worst.as_ref().map(|worst| worst.length_ns);
    finding.evidence.push(
        Evidence::new(EvidenceId::ExitShare)
            .named("reason", &row.name)
            .count("exits", exits)
            .ns("mean", mean_ns)
            .ns("max", max_ns.unwrap_or(row.time_ns.max)),
    );
    let groups = groups(row);
    let told = || groups.iter().filter(|of| of.kind != "timer").take(NAMED);
    finding.evidence.extend(told().map(about));
    finding.culprits = told().map(|of| culprit(row, of, own_ns)).collect();
    finding.checks = checks(cause, by_vmm);
    finding.confidence = confidence(context, row, cause);
    if cause == CauseId::VmmSleeps {
        let wakers = context.vm.asleep.iter().flat_map(|table| &table.wakers);
        finding
            .culprits
            .extend(wakers.take(2).map(super::held::waker));
    }
    // Interrupts of a pCPU's own timer stay where they are.
    let by_timer = context.vm.timers.host_ticks.unwrap_or(0);
    let of_timers = permille(by_timer, row.count) >= MOST;
    finding.next = steps(row, cause, own_ns, of_timers);
    let untold = rows().any(|of| of.kind == "untold" && of.own_ns.saturating_mul(2) > own_ns);
    let access = untold && is_access(&row.name);
    finding.sharper_with = [
        (!scheduled).then_some(Sharpener::Switches),
        by_vmm.is_none().then_some(Sharpener::UserExits),
        access.then_some(Sharpener::Accesses),
    ]
    .into_iter()
    .flatten()
    .collect();
    Some(finding)
}

/// How much of the exits' own time went to the VMM, in thousandths, if the trace shows it.
fn by_vmm(row: &ExitRow, own_ns: u64, exits: u64) -> Option<u64> {
    let rows = row.about.iter().filter(|of| of.kind != "timer");
    // By time: of a hundred exits one may have gone to the VMM and taken nearly all of it.
    let by_vmm = rows
        .clone()
        .map(|of| of.by_vmm_ns)
        .sum::<Option<u64>>()
        .map(|by_vmm_ns| permille(by_vmm_ns.min(own_ns), own_ns));
    // A device that the VMM answers for is its own, also where most time goes to accesses that
    // KVM only hands on to it.
    let counted = rows.clone().map(|of| of.by_vmm).sum::<Option<u64>>();
    let counted = counted.map_or(0, |by_vmm| permille(by_vmm, exits));
    let device = rows
        .clone()
        .next()
        .is_some_and(|of| matches!(of.kind.as_str(), "device" | "port"));
    by_vmm.map(|share| if device { share.max(counted) } else { share })
}

/// Whether one exit took nearly all of it, which is a stall of its own; interrupts are shorter.
fn is_one_stall(row: &ExitRow, own_ns: u64) -> bool {
    let max_ns = row.time_ns.max;
    max_ns >= STALL_NS && max_ns >= own_ns / 2 && !most(row, |of| of.host_irq_ns)
}

/// Reasons whose exits have an event that shows what they were about.
fn is_access(name: &str) -> bool {
    let names = [
        "IO_INSTRUCTION",
        "io",
        "EPT_VIOLATION",
        "EPT_MISCONFIG",
        "npf",
        "MSR_READ",
        "MSR_WRITE",
        "msr",
    ];
    names.contains(&name)
}

/// Whether exits of this name are for memory that the host has not mapped: on arm64 and RISC-V a
/// device's memory leaves by the same.
pub fn is_memory(name: &str) -> bool {
    matches!(name, "EPT_VIOLATION" | "npf" | "DABT_LOW" | "IABT_LOW")
        || name.ends_with("_GUEST_PAGE_FAULT")
}

/// Whether an interrupt of the host brought the exits of a row, on whatever architecture.
fn is_interrupt(row: &ExitRow) -> bool {
    let isa = Isa::from_word(&row.isa).zip(row.code);
    let reason = isa.map(|(isa, code)| ExitReason { isa, code });
    reason.is_some_and(ExitReason::is_host_interrupt)
}

/// The same by their name, of x86 and arm64.
pub fn is_interrupt_name(name: &str) -> bool {
    matches!(name, "EXTERNAL_INTERRUPT" | "interrupt" | "IRQ")
}

/// Whether exits of this name are for a device.
pub fn is_io(name: &str) -> bool {
    matches!(name, "IO_INSTRUCTION" | "io" | "EPT_MISCONFIG")
}

/// How sure the cause is.
fn confidence(context: &Context<'_>, row: &ExitRow, cause: CauseId) -> Confidence {
    match cause {
        CauseId::InterruptsOrWait | CauseId::HostStopped => Confidence::Low,
        CauseId::KernelDevice if is_unnamed(row) => Confidence::Medium,
        // What the host served meanwhile is not recorded.
        CauseId::KernelDevice if !context.trace.saw_host_irqs && is_long(row) => Confidence::Medium,
        // Most were short: that the few long ones are the VMM's own work is not shown.
        CauseId::UserDevice if is_long(row) && row.time_ns.p50 < LONG_NS => Confidence::Medium,
        // Without the scheduler's events waiting for a pCPU counts as the exit's time.
        _ if context.vm.waits.is_none() => Confidence::Medium,
        // Without those of sleeping threads sleep does.
        _ if !context.trace.saw_sleeps => Confidence::Medium,
        // That an interrupt came is shown; that it took the time is only by its own events.
        CauseId::HostInterrupts if !most(row, |of| of.host_irq_ns) => Confidence::Medium,
        CauseId::PassedThrough => Confidence::Medium,
        // Without the interrupt's arrival at the APIC that it came by an IPI is inferred.
        CauseId::OwnIpis if context.vm.calls.is_none() => Confidence::Medium,
        // The host may have had it mapped before, and taken it away (NUMA balancing, compaction).
        CauseId::MappingMemory | CauseId::WriteProtected => Confidence::Medium,
        // A debugger, a filter or the end of the VM goes to the VMM too.
        CauseId::UserDevice if !is_for(row, "IO") && !is_for(row, "MMIO") => Confidence::Medium,
        CauseId::VmmSleeps | CauseId::VmmHolds | CauseId::DirtyRing | CauseId::Handling => {
            Confidence::Medium
        }
        _ => Confidence::High,
    }
}

/// Whether most of the time is of exits that take longer than KVM does for a device of its own.
fn is_long(row: &ExitRow) -> bool {
    let own_ns = row.about.iter().filter_map(|of| of.worst.as_ref());
    if own_ns.map(|worst| worst.length_ns).max() < Some(LONG_NS) {
        return false;
    }
    let spread = &row.time_ns;
    let within_ns = spread.p99.saturating_mul(spread.count);
    spread.p99 >= LONG_NS || spread.total / 2 > within_ns
}

/// Whether the trace does not show what most of the exits' time was about. What KVM answers itself
/// may be the doorbell of a virtio device (ioeventfd), which has no event of its own.
fn is_unnamed(row: &ExitRow) -> bool {
    most(row, |of| if of.kind == "untold" { of.own_ns } else { 0 })
}

/// Whether the vCPUs' threads slept for most of this time, in exits that the VMM had for devices.
fn sleeps(context: &Context<'_>, own_ns: u64) -> bool {
    let asleep = context.vm.asleep.as_ref();
    asleep.is_some_and(|table| permille(table.device_ns, own_ns) >= MOST)
}

/// Whether a part of the exits' own time is most of it.
fn most(row: &ExitRow, part: fn(&DetailRow) -> u64) -> bool {
    permille(total(row.about.iter().map(part)), row.own_ns) >= MOST
}

/// Whether IPIs of the VM's own vCPUs brought most of these exits' time.
fn by_ipis(row: &ExitRow) -> bool {
    let ipis = row.about.iter().filter(|of| of.kind == "ipi");
    permille(total(ipis.map(|of| of.own_ns)), row.own_ns) >= MOST
}

/// The own time of exits about memory that the host write-protected.
fn protected_ns(of: &DetailRow) -> u64 {
    if of.kind == "protected" { of.own_ns } else { 0 }
}

fn cause(row: &ExitRow, by_vmm: Option<u64>, scheduled: bool) -> CauseId {
    let name = row.name.as_str();
    let of_device = row.about.first().is_some_and(|of| of.kind == "device");
    let to_vmm = by_vmm.is_some_and(|share| share >= MOST);
    match by_vmm {
        Some(MOST..) if is_for(row, "DIRTY_RING_FULL") => CauseId::DirtyRing,
        Some(MOST..) if is_for(row, "INTR") => CauseId::VmmHolds,
        _ if is_interrupt(row) && by_ipis(row) => CauseId::OwnIpis,
        _ if is_interrupt(row) && !scheduled => CauseId::InterruptsOrWait,
        _ if is_interrupt(row) && !to_vmm => of_interrupts(row),
        Some(MOST..) => CauseId::UserDevice,
        _ if is_memory(name) && !of_device && most(row, protected_ns) => CauseId::WriteProtected,
        _ if is_memory(name) && !of_device => CauseId::MappingMemory,
        // An I/O instruction leaves for the VMM unless KVM has the device itself.
        None if is_io(name) || of_device => CauseId::UserDevice,
        Some(_) if is_io(name) || of_device => CauseId::KernelDevice,
        _ if scheduled && below::is_stopped(row) => CauseId::HostStopped,
        _ => CauseId::Handling,
    }
}

/// Whether KVM went back to the VMM for this in most of the time of these exits.
fn is_for(row: &ExitRow, user: &str) -> bool {
    let rows = row
        .about
        .iter()
        .filter(|of| of.user.as_deref() == Some(user));
    let ns = total(rows.map(|of| of.by_vmm_ns.unwrap_or(0)));
    permille(ns, row.own_ns) >= MOST
}

fn about(of: &DetailRow) -> Evidence {
    Evidence::new(EvidenceId::ExitAbout)
        .named("kind", &of.kind)
        .maybe_named("value", of.value.as_deref())
        .maybe_named("name", of.name.as_deref())
        .count("exits", of.exits)
        .ns("time", of.own_ns)
}

fn culprit(row: &ExitRow, of: &DetailRow, own_ns: u64) -> Culprit {
    let place = of
        .value
        .as_ref()
        .map(|value| format!("{} {value}", of.kind));
    let name = match (&of.name, place) {
        (Some(name), Some(place)) => format!("{name} ({place})"),
        (Some(name), None) => name.clone(),
        (None, Some(place)) => place,
        (None, None) => row.name.clone(),
    };
    Culprit {
        kind: "exit".to_owned(),
        name: Some(name),
        ns: of.own_ns,
        permille: permille(of.own_ns, own_ns),
    }
}

/// That exits went on to the VMM is asked of a device's alone.
fn checks(cause: CauseId, by_vmm: Option<u64>) -> Vec<Check> {
    if cause != CauseId::UserDevice {
        return Vec::new();
    }
    vec![match by_vmm {
        Some(by_vmm) => check(
            CheckId::WentToVmm,
            by_vmm >= MOST,
            vec![share("share", by_vmm)],
        ),
        None => unanswered(CheckId::WentToVmm),
    }]
}

/// What a guest can have instead of a device: another clock, a virtio device, or neither, which is
/// also so where a port shows no device.
fn instead(of: Option<&DetailRow>, name: Option<&str>) -> Step {
    const CLOCKS: [&str; 4] = ["ACPI timer", "timer (PIT)", "clock (RTC)", "HPET"];
    const REPLACED: [&str; 4] = ["IDE disk", "VGA", "serial line COM1", "serial line COM2"];
    let known = of.and_then(|of| of.name.as_deref());
    match (known, of.map(|of| of.kind.as_str())) {
        (Some(device), _) if CLOCKS.contains(&device) => {
            let place = of.and_then(|of| of.value.as_deref());
            step(StepId::GuestClock).named(place.or(name))
        }
        (Some(device), _) if !REPLACED.contains(&device) => step(StepId::LookAtGuest).named(name),
        (None, Some("port")) => step(StepId::LookAtGuest).named(name),
        _ => step(StepId::Virtio).named(name),
    }
}

fn steps(row: &ExitRow, cause: CauseId, own_ns: u64, of_timers: bool) -> Vec<Step> {
    let groups = groups(row);
    let first = groups.first();
    let name = first.and_then(|of| of.name.clone().or_else(|| of.value.clone()));
    let name = name.as_deref().or(Some(row.name.as_str()));
    let first_ns = first.map_or(own_ns, |of| of.own_ns);
    let without = |step: Step| step.gives(first_ns, own_ns, Assumption::NoSuchExits);
    match cause {
        CauseId::UserDevice => vec![without(instead(first, name)), step(StepId::LookAtVmm)],
        CauseId::KernelDevice if is_unnamed(row) => {
            vec![without(step(StepId::LookAtGuest).named(Some(&format!(
                "{}, which a virtio device's doorbell is too",
                row.name
            ))))]
        }
        CauseId::KernelDevice => vec![without(instead(first, name))],
        CauseId::VmmSleeps => vec![step(StepId::LookAtVmm), step(StepId::LookAtVmmJobs)],
        CauseId::WriteProtected => vec![without(step(StepId::StopProtecting))],
        CauseId::MappingMemory => vec![
            without(step(StepId::Preallocate)),
            step(StepId::StopReclaim),
        ],
        CauseId::InterruptsOrWait => vec![step(StepId::RecordScheduler)],
        CauseId::DirtyRing => vec![
            without(step(StepId::LargerDirtyRing)),
            step(StepId::LookAtVmmJobs),
        ],
        CauseId::VmmHolds => vec![step(StepId::LookAtVmmJobs), step(StepId::LookAtVmm)],
        CauseId::HostInterrupts if of_timers || irq_of(row) == Some("timers") => {
            vec![step(StepId::FewerHostTimers)]
        }
        CauseId::HostInterrupts if irq_of(row) == Some("rcu") => vec![step(StepId::OffloadRcu)],
        CauseId::PassedThrough => vec![step(StepId::PostInterrupts)],
        CauseId::HostStopped => vec![step(StepId::LookBelowHost)],
        CauseId::HostInterrupts => vec![step(StepId::MoveInterrupts)],
        CauseId::OwnIpis => vec![
            without(step(StepId::DeliverByProcessor)),
            step(StepId::LookAtGuest).named(Some("IPIs between its vCPUs")),
        ],
        // Of the host's profiler or watchdog, or what the guest's programs run into.
        _ if row.name == "EXCEPTION_NMI" => vec![without(
            step(StepId::LookAtGuest)
                .named(Some("exceptions, or NMIs of the host (perf, watchdog)")),
        )],
        _ => vec![without(step(StepId::LookAtGuest).named(name))],
    }
}

/// vCPU threads that wait where no signal reaches them.
pub fn uninterruptible(context: &Context<'_>) -> Option<Finding> {
    let table = context.vm.preemption.as_ref()?;
    let spread = &table.uninterruptible_ns;
    if context.severity(spread.total) < Severity::Major {
        return None;
    }
    let after_ns = |fits: fn(&str) -> bool| {
        let rows = table.uninterruptible_after.iter();
        total(rows.filter(|row| fits(&row.name)).map(|row| row.count))
    };
    let memory = permille(after_ns(is_memory), spread.total);
    let io = permille(after_ns(is_io), spread.total);
    let untold = permille(after_ns(|name| name == "not in the trace"), spread.total);
    let cause = match (memory, io) {
        (MOST.., _) => CauseId::MemoryReturns,
        (_, MOST..) => CauseId::VmmIo,
        _ => CauseId::KernelWait,
    };
    let mut finding = context.finding(FindingId::Uninterruptible, spread.total, cause);
    finding.evidence.push(
        Evidence::new(EvidenceId::StuckTimes)
            .count("times", spread.count)
            .ns("mean", spread.mean)
            .ns("max", spread.max),
    );
    let after = table.uninterruptible_after.iter();
    let after = after
        .take(NAMED)
        .fold(Evidence::new(EvidenceId::StuckAfter), |all, row| {
            all.ns(&row.name, row.count)
        });
    finding.evidence.push(after);
    finding.checks = match cause {
        CauseId::MemoryReturns => vec![check(
            CheckId::AfterMemoryFault,
            true,
            vec![share("share", memory)],
        )],
        _ if untold >= MOST => vec![unanswered(CheckId::AfterMemoryFault)],
        _ => Vec::new(),
    };
    finding.confidence = if cause == CauseId::KernelWait {
        Confidence::Low
    } else {
        Confidence::Medium
    };
    finding.worst = table.worst_uninterruptible.clone();
    let first = step(match cause {
        CauseId::MemoryReturns => StepId::StopReclaim,
        CauseId::VmmIo => StepId::LookAtStorage,
        _ => StepId::LookAtStack,
    });
    finding.next = vec![first.gives(spread.total, spread.total, Assumption::NobodyTakesItsPlace)];
    Some(finding)
}
