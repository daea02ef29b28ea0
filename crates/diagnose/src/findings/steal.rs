// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time in which vCPUs were ready and did not run, and who ran instead.

use super::{Context, MOST, available_first, check, share, step, unanswered};
use crate::build::permille;
use crate::model::{
    Assumption, CauseId, Check, CheckId, Confidence, Culprit, Evidence, EvidenceId, Finding,
    FindingId, RivalRow, Severity, Sharpener, Step, StepId, WaitTable,
};
use crate::notes::VcpuNote;
use crate::spread::{Spread, total};

/// From this part of the waits on, in thousandths, an idle pCPU elsewhere is their cause.
const IDLE_ELSEWHERE: u64 = 500;
/// Culprits that are named.
const CULPRITS_NAMED: usize = 4;

/// Time that vCPUs were ready but not running.
pub fn steal(context: &Context<'_>) -> Option<Finding> {
    let table = context.vm.preemption.as_ref()?;
    let waits = context.vm.waits.as_ref()?;
    let woken = table.wakeup_ns.clone().unwrap_or_default();
    if context.severity(waits.waited_ns) < Severity::Major {
        return None;
    }
    let groups = groups(waits);
    let (cause, ns) = cause(waits, &groups);
    let mut finding = context.finding(FindingId::Steal, waits.waited_ns, cause);
    let of_spread = |id, spread: &Spread| {
        Evidence::new(id)
            .count("times", spread.count)
            .ns("mean", spread.mean)
            .ns("max", spread.max)
    };
    finding.evidence.push(of_spread(
        EvidenceId::StealDescheduled,
        &table.descheduled_ns,
    ));
    if woken.count > 0 {
        let spread = of_spread(EvidenceId::StealWakeup, &woken);
        finding.evidence.push(spread);
    }
    let in_guest = Evidence::new(EvidenceId::StealAsGuestCounts)
        .ns("descheduled", table.descheduled_ns.total)
        .maybe_ns("woken", table.wakeup_ns.as_ref().map(|spread| spread.total));
    finding.evidence.push(in_guest);
    let worst = context.vm.vcpus.iter().max_by_key(|vcpu| vcpu.steal_ns)?;
    let worst = Evidence::new(EvidenceId::StealWorst)
        .number("vcpu", worst.number.into())
        .ns("steal", worst.steal_ns.unwrap_or(0));
    finding.evidence.push(worst);
    finding.culprits = culprits(waits);
    finding.checks = checks(waits, cause, ns);
    finding.confidence = match (cause, permille(ns, waits.waited_ns)) {
        (CauseId::Untold, _) => Confidence::Low,
        // A pin shows only in that the vCPU ran nowhere else.
        (CauseId::Imbalance, _) => Confidence::Medium,
        (_, MOST..) => Confidence::High,
        _ => Confidence::Medium,
    };
    finding.worst = waits.worst.clone();
    finding.next = available_first(steps(context, waits, cause, ns));
    let irqs = context.trace.saw_host_irqs;
    let wakeups = table.wakeup_ns.is_some();
    finding.sharper_with = [
        (!irqs).then_some(Sharpener::HostIrqs),
        (!wakeups).then_some(Sharpener::Wakeups),
    ]
    .into_iter()
    .flatten()
    .collect();
    Some(finding)
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

fn cause_of_kind(kind: &str) -> CauseId {
    match kind {
        "vm" => CauseId::OtherVm,
        "own-vm" => CauseId::OwnVm,
        "vhost" => CauseId::Vhost,
        "interrupts" => CauseId::Interrupts,
        "host-task" => CauseId::HostTask,
        "cpu-max" => CauseId::CpuMax,
        "waking-pcpu" => CauseId::WakingPcpu,
        _ => CauseId::Untold,
    }
}

/// The cause and for how much of the waits it stands. A limit comes first where it is as much as
/// any: the pCPU was free. Then an idle pCPU elsewhere, and then whoever ran for most of it.
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
    if limit_ns > 0 && limit_ns >= most_ns {
        return (CauseId::CpuMax, limit_ns);
    }
    let by_vcpus = matches!(
        most,
        CauseId::OtherVm | CauseId::OwnVm | CauseId::HostTask | CauseId::Vhost
    );
    if by_vcpus && permille(waits.elsewhere_idle_ns, waits.waited_ns) >= IDLE_ELSEWHERE {
        return (CauseId::Imbalance, waits.elsewhere_idle_ns);
    }
    (most, most_ns)
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

fn checks(waits: &WaitTable, cause: CauseId, ns: u64) -> Vec<Check> {
    let idle = permille(waits.elsewhere_idle_ns, waits.waited_ns);
    let own_idle = waits.by.iter().find(|row| row.kind == "cpu-max");
    let own_idle = permille(own_idle.map_or(0, |row| row.ns), waits.waited_ns);
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
        CauseId::CpuMax => vec![check(
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

/// What the recording noted of the VM's vCPUs, without repeats.
fn noted(context: &Context<'_>, of: fn(&VcpuNote) -> Option<&String>) -> Option<String> {
    let vcpus = context.vm.note.iter().flat_map(|note| &note.vcpus);
    let mut values: Vec<&str> = vcpus.filter_map(of).map(String::as_str).collect();
    values.sort_unstable();
    values.dedup();
    (!values.is_empty()).then(|| values.join(" and "))
}

/// A step with its knob, if the recording noted where that stands.
fn of_note(id: StepId, knob: &str, value: Option<String>) -> Step {
    Step {
        knob: value.is_some().then(|| knob.to_owned()),
        value,
        ..step(id)
    }
}

fn steps(context: &Context<'_>, waits: &WaitTable, cause: CauseId, ns: u64) -> Vec<Step> {
    let whole_ns = waits.waited_ns;
    let nobody = |step: Step| step.gives(ns, whole_ns, Assumption::NobodyTakesItsPlace);
    let kind = match cause {
        CauseId::OtherVm => "vm",
        CauseId::HostTask => "host-task",
        CauseId::Vhost => "vhost",
        _ => "",
    };
    let first = waits.by.iter().find(|row| row.kind == kind);
    let name = first.and_then(|row| row.name.as_deref());
    match cause {
        CauseId::CpuMax => {
            let limit = noted(context, |vcpu| vcpu.cpu_max.as_ref());
            let raise = of_note(StepId::RaiseCpuMax, "cpu.max", limit);
            vec![nobody(raise), step(StepId::FewerVcpus)]
        }
        CauseId::Imbalance => {
            let pins = noted(context, |vcpu| vcpu.cpus.as_ref());
            let moved = of_note(StepId::SpreadPins, "pCPUs of its vCPUs", pins);
            vec![moved.gives(ns, whole_ns, Assumption::MovesAtOnce)]
        }
        CauseId::OtherVm => {
            let rows = waits.by.iter().filter(|row| row.kind == "vm");
            let by_first = total(rows.take(1).map(|row| row.ns));
            let away = step(StepId::MoveOtherVm).named(name);
            vec![
                away.gives(by_first, whole_ns, Assumption::NobodyTakesItsPlace),
                step(StepId::ShareOrSplit),
            ]
        }
        CauseId::OwnVm => vec![nobody(step(StepId::FewerVcpus)), step(StepId::ShareOrSplit)],
        CauseId::Vhost => vec![nobody(step(StepId::MoveVhost).named(name))],
        CauseId::HostTask => vec![nobody(step(StepId::MoveHostTask).named(name))],
        CauseId::Interrupts => vec![nobody(step(StepId::MoveInterrupts))],
        CauseId::WakingPcpu => vec![step(StepId::ShallowIdle)],
        _ => vec![step(StepId::RecordScheduler)],
    }
}
