// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time in which vCPUs were ready and did not run, and who ran instead.

use super::limits::{idle_beside, none_is_set, noted, quota};
use super::stacked::{are_too_many, of_siblings, steps_of_siblings};
use super::{Context, MOST, available_first, check, in_losses, share, step, unanswered};
use crate::build::permille;
use crate::model::{
    Assumption, CauseId, Check, CheckId, Confidence, Culprit, Evidence, EvidenceId, Finding,
    FindingId, PreemptTable, RivalRow, Severity, Sharpener, Step, StepId, WaitTable,
};
use crate::notes::VmNote;
use crate::role::{Role, role_of};
use crate::spread::{Spread, total};

/// From this part of the waits on, in thousandths, an idle pCPU elsewhere is their cause.
const IDLE_ELSEWHERE: u64 = 500;
/// Culprits that are named.
const CULPRITS_NAMED: usize = 4;
/// From this part of the waits on, in thousandths, it matters that a rival is not seen to the end.
const ASSUMED: u64 = 200;
/// From this part of the waits on, in thousandths, what stands for them is surely their cause.
const NEARLY_ALL: u64 = 667;

/// Time that vCPUs were ready but not running.
pub fn steal(context: &Context<'_>) -> Option<Finding> {
    let table = context.vm.preemption.as_ref()?;
    let waits = context.vm.waits.as_ref()?;
    let at_most_ns = total([waits.waited_ns, waits.unknown_ns]);
    let surely_ns = waits.waited_ns.saturating_sub(waits.doubted_ns);
    let (known, at_most) = (context.severity(surely_ns), context.severity(at_most_ns));
    if at_most < Severity::Major {
        return None;
    }
    // What lies in losses may be waiting, or not.
    let in_losses = known < Severity::Major;
    let groups = groups(waits);
    let (mut cause, ns) = cause(waits, &groups);
    if in_losses {
        cause = CauseId::Untold;
    }
    let quota = quota(context, waits, cause);
    if quota.is_some() {
        cause = CauseId::CpuMax;
    }
    if is_stopped(waits, cause) {
        cause = CauseId::RealTimeTasks;
    }
    let limit_is_sure = if cause == CauseId::CpuMax && quota.is_none() {
        let (is, sure) = idle_beside(context);
        cause = is;
        sure
    } else {
        Confidence::High
    };
    if cause == CauseId::OwnVm {
        cause = of_siblings(context);
    }
    let mut finding = context.finding(FindingId::Steal, surely_ns, cause);
    finding.severity = finding.severity.max(Severity::Major);
    finding.at_most_ns = (at_most_ns > surely_ns).then_some(at_most_ns);
    finding.evidence = evidence(context, table, waits)?;
    finding.culprits = culprits(waits);
    if cause == CauseId::IdleBeside {
        let idle = finding.culprits.iter_mut();
        let idle = idle.filter(|culprit| culprit.kind == "cpu-max");
        idle.for_each(|culprit| "idle".clone_into(&mut culprit.kind));
    }
    finding.checks = checks(context, waits, cause, ns);
    finding.confidence = confidence(context, waits, cause, ns).min(limit_is_sure);
    let unseen = unseen(context);
    if !unseen.is_empty() {
        finding.confidence = finding.confidence.min(Confidence::Medium);
        finding.evidence.extend(unseen);
    }
    if let Some(quota) = quota {
        finding.evidence.push(quota.evidence());
        finding.checks = vec![quota.check()];
        finding.culprits.insert(0, limit(waits.waited_ns));
        finding.culprits.truncate(CULPRITS_NAMED);
        // A limit and a neighbour that runs meanwhile look alike: the limit fits to its arithmetic.
        finding.confidence = Confidence::Medium;
    }
    finding.worst = waits.worst.clone();
    finding.next = available_first(steps(context, waits, cause, ns));
    let unsure = finding.confidence < Confidence::High && cause != CauseId::Untold;
    finding.sharper_with = [
        (!context.trace.saw_host_irqs).then_some(Sharpener::HostIrqs),
        table.wakeup_ns.is_none().then_some(Sharpener::Wakeups),
        (unsure && noted(context, |vcpu| vcpu.cpu_max.as_ref()).is_none())
            .then_some(Sharpener::Limits),
    ]
    .into_iter()
    .flatten()
    .collect();
    Some(finding)
}

/// The numbers that show it.
fn evidence(
    context: &Context<'_>,
    table: &PreemptTable,
    waits: &WaitTable,
) -> Option<Vec<Evidence>> {
    let woken = table.wakeup_ns.clone().unwrap_or_default();
    let mut all = Vec::new();
    let of_spread = |id, spread: &Spread| {
        Evidence::new(id)
            .count("times", spread.count)
            .ns("mean", spread.mean)
            .ns("max", spread.max)
    };
    all.push(of_spread(
        EvidenceId::StealDescheduled,
        &table.descheduled_ns,
    ));
    if woken.count > 0 {
        let spread = of_spread(EvidenceId::StealWakeup, &woken);
        all.push(spread);
    }
    let in_guest = Evidence::new(EvidenceId::StealAsGuestCounts)
        .ns("descheduled", table.descheduled_ns.total)
        .maybe_ns("woken", table.wakeup_ns.as_ref().map(|spread| spread.total));
    all.push(in_guest);
    let worst = context.vm.vcpus.iter().max_by_key(|vcpu| vcpu.steal_ns)?;
    let worst = Evidence::new(EvidenceId::StealWorst)
        .number("vcpu", worst.number.into())
        .ns("steal", worst.steal_ns.unwrap_or(0));
    all.push(worst);
    if let Some(priority) = &waits.priority {
        all.push(Evidence::new(EvidenceId::OwnPriority).named("priority", priority));
    }
    if are_real_time(waits) {
        let share = permille(waits.real_time_ns, waits.waited_ns);
        all.push(Evidence::new(EvidenceId::RivalRealTime).permille("share", share));
    }
    let unplaced = permille(waits.unplaced_ns, waits.waited_ns);
    if unplaced > 0 {
        all.push(Evidence::new(EvidenceId::MayBeOwnVmm).permille("share", unplaced));
    }
    let more_ns = total([waits.unknown_ns, waits.doubted_ns]);
    if more_ns > 0 {
        all.push(in_losses(Some(waits), more_ns));
    }
    Some(all)
}

/// The waits by kind of what ran, in nanoseconds.
fn groups(waits: &WaitTable) -> Vec<(CauseId, u64)> {
    let mut groups: Vec<(CauseId, u64)> = Vec::new();
    for row in &waits.by {
        let cause = cause_of_kind(&row.kind);
        match groups.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, ns)) => *ns = ns.saturating_add(row.ns),
            None => groups.push((cause, row.ns)),
        }
    }
    groups
}

/// The cause that a kind of rival stands for.
pub fn cause_of_kind(kind: &str) -> CauseId {
    match kind {
        "vm" => CauseId::OtherVm,
        "own-vm" => CauseId::OwnVm,
        "vhost" => CauseId::Vhost,
        "interrupts" => CauseId::Interrupts,
        "host-task" => CauseId::HostTask,
        "own-vmm" => CauseId::OwnVmm,
        "cpu-max" => CauseId::CpuMax,
        "poller" => CauseId::Poller,
        "recorder" => CauseId::Recorder,
        "passed-through" => CauseId::PassedThrough,
        "waking-pcpu" => CauseId::WakingPcpu,
        _ => CauseId::Untold,
    }
}

/// The cause and for how much of the waits it stands. A limit comes first where it is as much as
/// any: the pCPU was free. Then an idle pCPU elsewhere, and then what ran for most of it.
fn cause(waits: &WaitTable, groups: &[(CauseId, u64)]) -> (CauseId, u64) {
    let of = |cause| {
        let group = groups.iter().find(|(known, _)| *known == cause);
        group.map_or(0, |(_, ns)| *ns)
    };
    let most = groups.iter().max_by_key(|(_, ns)| *ns);
    let Some(&(most, most_ns)) = most else {
        return (CauseId::Untold, 0);
    };
    let limit_ns = of(CauseId::CpuMax);
    assert!(limit_ns <= waits.waited_ns, "a part of the waits");
    // Who else ran in a wait in which the pCPU was idle too is not what it was for.
    let idled = permille(waits.idled_ns, waits.waited_ns) >= MOST;
    if limit_ns > 0 && (idled || limit_ns >= most_ns) {
        return (CauseId::CpuMax, limit_ns.max(waits.idled_ns));
    }
    let by_others = matches!(most, CauseId::OtherVm | CauseId::OwnVm) || is_of_threads(most);
    if by_others && permille(waits.elsewhere_idle_ns, waits.waited_ns) >= IDLE_ELSEWHERE {
        return (CauseId::Imbalance, waits.elsewhere_idle_ns);
    }
    (most, most_ns)
}

/// How sure the cause is that stands for `ns` of the waits: only what the trace shows is high.
fn confidence(context: &Context<'_>, waits: &WaitTable, cause: CauseId, ns: u64) -> Confidence {
    let most = permille(ns, waits.waited_ns) >= NEARLY_ALL;
    let assumed = permille(waits.assumed_ns, waits.waited_ns);
    let vms = matches!(cause, CauseId::OtherVm | CauseId::OwnVm);
    let by_others = vms || is_of_threads(cause);
    let shown = permille(waits.shown_ns, waits.waited_ns) >= NEARLY_ALL;
    let more_ns = total([waits.unknown_ns, waits.doubted_ns]);
    match cause {
        CauseId::Untold => Confidence::Low,
        // A pin shows only in that the vCPU ran nowhere else.
        CauseId::Imbalance | CauseId::RealTimeTasks | CauseId::Stacked => Confidence::Medium,
        // It polls as it is meant to: that a vCPU shares its pCPU is the fault, and whose is not
        // shown. Which VM has the device is not either.
        CauseId::Poller | CauseId::PassedThrough => Confidence::Medium,
        CauseId::OwnVm if !are_too_many(context) => Confidence::Medium,
        // Two recordings, one behind the other: what was seen in one is not of the other.
        _ if context.trace.loss.clock_set_back > 0 => Confidence::Medium,
        // Core scheduling, or a hypervisor below the host, would look alike.
        CauseId::WakingPcpu => Confidence::Medium,
        _ if !most || more_ns > waits.waited_ns / 10 => Confidence::Medium,
        // Others may have followed the thread that was seen first.
        _ if by_others && assumed >= ASSUMED => Confidence::Medium,
        // By thread ids alone several VMs may be one.
        _ if vms && context.trace.vms_by == "adjacency" => Confidence::Medium,
        _ if (by_others || cause == CauseId::Interrupts) && !shown && !none_is_set(context) => {
            Confidence::Medium
        }
        // Its own VMM's threads are named alike.
        CauseId::HostTask | CauseId::Vhost if may_be_own_vmm(waits, ns) => Confidence::Medium,
        _ => Confidence::High,
    }
}

/// Whether real-time vCPUs wait for lesser threads or an idle pCPU: none comes before them, but in
/// what the kernel keeps of each second for others, or of a period where their own time is used up.
fn is_stopped(waits: &WaitTable, cause: CauseId) -> bool {
    let of_others = matches!(
        cause,
        CauseId::HostTask | CauseId::CpuMax | CauseId::OtherVm
    );
    let first = waits.by.first().and_then(|row| row.name.as_deref());
    of_others && is_real_time(waits.priority.as_deref()) && !is_real_time(first)
}

/// Whether vCPUs give way to others by their own priority.
fn is_weak(own: Option<&str>) -> bool {
    own.is_some_and(|own| own.starts_with("nice ") && !own.starts_with("nice -"))
}

fn is_real_time(name: Option<&str>) -> bool {
    let is = |name: &str| name.contains("real-time priority") || name.contains("deadline class");
    name.is_some_and(is)
}

/// Whether `ns` of the waits are not nearly all of them without threads that may be of its own VMM.
fn may_be_own_vmm(waits: &WaitTable, ns: u64) -> bool {
    let surely_ns = ns.saturating_sub(waits.unplaced_ns);
    permille(surely_ns, waits.waited_ns) < NEARLY_ALL
}

/// Whether a thread of the kernel belongs to its pCPU, and cannot be put on another. Its name is
/// without its pCPU's number, which those of programs with such a name do not have.
pub fn stays(name: &str) -> bool {
    matches!(role_of(name), Role::Kernel(work) if work.stays())
}

/// Whether a cause is that threads ran which are not vCPUs.
fn is_of_threads(cause: CauseId) -> bool {
    matches!(
        cause,
        CauseId::HostTask | CauseId::Vhost | CauseId::OwnVmm | CauseId::Poller | CauseId::Recorder
    )
}

/// Whether threads of a real-time priority or the deadline class ran for most of the waits.
fn are_real_time(waits: &WaitTable) -> bool {
    permille(waits.real_time_ns, waits.waited_ns) >= MOST
}

/// What the trace has no records of, so that who ran instead, or that a vCPU waited, is not sure.
pub fn unseen(context: &Context<'_>) -> Vec<Evidence> {
    let waits = context.vm.waits.as_ref();
    let silent = |waits: &WaitTable| {
        assert!(waits.silent_ns <= waits.waited_ns, "a part of the waits");
        let most = waits.silent_ns > waits.waited_ns / 10;
        let evidence = Evidence::new(EvidenceId::PcpuSilent);
        most.then(|| {
            evidence
                .ns("waited", waits.silent_ns)
                .ns("length", waits.longest_silent_ns)
        })
    };
    let only_vcpus = context.trace.only_vcpus;
    let filtered = only_vcpus.then(|| Evidence::new(EvidenceId::OnlyVcpus));
    let silent = waits.and_then(silent);
    let all = [pcpus_unseen(context), filtered, silent, from_begin(waits)];
    all.into_iter().flatten().collect()
}

/// That vCPUs may have run where the trace has no records: on pCPUs that its head counts.
fn pcpus_unseen(context: &Context<'_>) -> Option<Evidence> {
    let pcpus = u64::from(context.trace.pcpus?);
    let seen = context.trace.host.as_ref()?.pcpus;
    let all_pinned = context.vm.note.as_ref().is_some_and(VmNote::is_pinned);
    let evidence = Evidence::new(EvidenceId::PcpusUnseen)
        .count("seen", seen)
        .count("pcpus", pcpus);
    (seen < pcpus && !all_pinned).then_some(evidence)
}

/// That a wait which matters began before the trace did. That it was one is inferred.
fn from_begin(waits: Option<&WaitTable>) -> Option<Evidence> {
    let length_ns = waits?.from_begin_ns;
    (length_ns > waits?.waited_ns / 10)
        .then(|| Evidence::new(EvidenceId::FromBegin).ns("length", length_ns))
}

/// The limit as a culprit of all waits.
fn limit(ns: u64) -> Culprit {
    Culprit {
        kind: "cpu-max".to_owned(),
        name: None,
        ns,
        permille: 1000,
    }
}

fn culprits(waits: &WaitTable) -> Vec<Culprit> {
    let rows = waits.by.iter().filter(|row| row.permille > 0);
    let named = |row: &RivalRow| Culprit {
        kind: row.kind.clone(),
        name: row.name.clone(),
        ns: row.ns,
        permille: row.permille,
    };
    rows.take(CULPRITS_NAMED).map(named).collect()
}

fn checks(context: &Context<'_>, waits: &WaitTable, cause: CauseId, ns: u64) -> Vec<Check> {
    if context.trace.only_vcpus {
        return vec![unanswered(CheckId::RivalRan)];
    }
    let idle = permille(waits.elsewhere_idle_ns, waits.waited_ns);
    let own_idle = permille(ns, waits.waited_ns);
    let ran = check(
        CheckId::RivalRan,
        permille(ns, waits.waited_ns) >= MOST,
        vec![share("share", permille(ns, waits.waited_ns))],
    );
    let none_idle = check(
        CheckId::NoneIdleElsewhere,
        idle < IDLE_ELSEWHERE,
        vec![share("idle", idle)],
    );
    let fixed = check(
        CheckId::RanOnOnePcpu,
        waits.fixed_vcpus == waits.vcpus,
        vec![
            super::number("vcpus", waits.vcpus),
            super::number("fixed", waits.fixed_vcpus),
        ],
    );
    match cause {
        CauseId::CpuMax | CauseId::IdleBeside => vec![check(
            CheckId::OwnPcpuIdle,
            own_idle >= MOST,
            vec![share("idle", own_idle)],
        )],
        CauseId::Imbalance => vec![
            check(CheckId::IdleElsewhere, true, vec![share("idle", idle)]),
            fixed,
        ],
        CauseId::Untold => vec![unanswered(CheckId::RivalRan)],
        _ => vec![ran, none_idle],
    }
}

/// A step with its knob, if the recording noted where that stands.
pub fn of_note(id: StepId, knob: &str, value: Option<String>) -> Step {
    Step {
        knob: value.is_some().then(|| knob.to_owned()),
        value,
        ..step(id)
    }
}

/// A step that moves who ran instead gives no more than the idle time of other pCPUs.
fn moved(context: &Context<'_>, step: Step, ns: u64, whole_ns: u64) -> Step {
    if !super::host::has_room(context.trace) {
        return step;
    }
    let seen = context.trace.host.as_ref().filter(|host| {
        let pcpus = context.trace.pcpus.map_or(host.pcpus, u64::from);
        pcpus <= host.pcpus
    });
    match seen {
        Some(host) if host.idle_ns < ns => {
            step.gives(host.idle_ns, whole_ns, Assumption::IdleTimeIsUsed)
        }
        _ => step.gives(ns, whole_ns, Assumption::NobodyTakesItsPlace),
    }
}

/// What to do about a thread of the host, of which one is to put it elsewhere.
fn of_host_task(waits: &WaitTable, name: Option<&str>, away: Step) -> Vec<Step> {
    let own = waits.priority.clone();
    let weigh = of_note(StepId::WeighVms, "priority of its vCPU threads", own);
    let work = step(StepId::FindKernelWork).named(name);
    match name.map(role_of) {
        Some(Role::Kernel(kind)) if kind.stays() => vec![work],
        Some(Role::Kernel(_)) => vec![work, away],
        // No weight comes before a real-time priority.
        _ if is_real_time(name) => vec![away, step(StepId::LowerRealTime).named(name)],
        _ if is_weak(waits.priority.as_deref()) => vec![weigh, away],
        _ => vec![away, weigh],
    }
}

fn steps(context: &Context<'_>, waits: &WaitTable, cause: CauseId, ns: u64) -> Vec<Step> {
    let whole_ns = waits.waited_ns;
    let nobody = |step: Step| step.gives(ns, whole_ns, Assumption::NobodyTakesItsPlace);
    let kind = match cause {
        CauseId::OtherVm => "vm",
        CauseId::HostTask => "host-task",
        CauseId::Vhost => "vhost",
        CauseId::OwnVmm => "own-vmm",
        CauseId::Poller => "poller",
        CauseId::Recorder => "recorder",
        _ => "",
    };
    let first = waits.by.iter().find(|row| row.kind == kind);
    // Of many, none of which ran for most of it, moving one alone gives little.
    let alone = |row: &&RivalRow| permille(row.ns, ns) >= MOST;
    let name = match first.filter(alone) {
        Some(row) => row.name.as_deref(),
        None => Some("them"),
    };
    match cause {
        CauseId::CpuMax => {
            let limit = noted(context, |vcpu| vcpu.cpu_max.as_ref());
            let raise = of_note(StepId::RaiseCpuMax, "cpu.max", limit);
            let other = match context.vm.note {
                Some(_) => StepId::FewerVcpus,
                None => StepId::LookAtIdle,
            };
            // What others take meanwhile is not there to be had.
            vec![moved(context, raise, ns, whole_ns), step(other)]
        }
        CauseId::IdleBeside => vec![step(StepId::LookAtIdle)],
        CauseId::Imbalance => {
            let pins = noted(context, |vcpu| vcpu.cpus.as_ref());
            let moved = of_note(StepId::SpreadPins, "pCPUs of its vCPUs", pins);
            vec![moved.gives(ns, whole_ns, Assumption::MovesAtOnce)]
        }
        // No weight comes before a real-time priority.
        CauseId::OtherVm if are_real_time(waits) => {
            vec![
                step(StepId::LowerRealTime).named(name),
                step(StepId::FewerVcpusOnHost),
            ]
        }
        // Where no pCPU is idle there is nowhere to go.
        CauseId::OtherVm if !super::host::has_room(context.trace) => {
            vec![step(StepId::FewerVcpusOnHost), step(StepId::ShareOrSplit)]
        }
        CauseId::OtherVm => {
            let rows = waits.by.iter().filter(|row| row.kind == "vm");
            let by_first = total(rows.take(1).map(|row| row.ns));
            let away = step(StepId::MoveOtherVm).named(name);
            let own = waits.priority.clone();
            let share = of_note(StepId::ShareOrSplit, "priority of its vCPU threads", own);
            vec![moved(context, away, by_first, whole_ns), share]
        }
        CauseId::OwnVm | CauseId::Stacked => steps_of_siblings(context, ns, whole_ns),
        CauseId::Vhost => vec![nobody(step(StepId::MoveVhost).named(name))],
        CauseId::OwnVmm => vec![nobody(step(StepId::MoveServer).named(name))],
        CauseId::Poller => vec![step(StepId::LeavePoller).named(name)],
        CauseId::Recorder => vec![step(StepId::RecordLess).named(name)],
        CauseId::HostTask => {
            let away = step(StepId::MoveHostTask).named(name);
            of_host_task(waits, name, moved(context, away, ns, whole_ns))
        }
        CauseId::PassedThrough => vec![step(StepId::PostInterrupts)],
        CauseId::RealTimeTasks => vec![step(StepId::RealTimeShare)],
        CauseId::Interrupts => vec![step(StepId::MoveInterrupts)],
        CauseId::WakingPcpu => vec![step(StepId::ShallowIdle)],
        // The scheduler's events are there, but for those that were lost.
        _ if total([waits.unknown_ns, waits.doubted_ns]) > 0 => vec![step(StepId::LargerBuffers)],
        _ => vec![step(StepId::RecordScheduler)],
    }
}
