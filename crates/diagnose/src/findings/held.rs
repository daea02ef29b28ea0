// SPDX-License-Identifier: Apache-2.0 OR MIT
//! vCPU threads that sleep though their guests have not halted, and threads that serve a VM and
//! wait for their pCPUs.

use super::steal::cause_of_kind;
use super::{Context, MOST, check, share, step, unanswered};
use crate::build::{STALL_NS, permille};
use crate::model::{
    AsleepTable, Assumption, CauseId, CheckId, Confidence, Count, Culprit, Evidence, EvidenceId,
    Finding, FindingId, ServerRow, Severity, Sharpener, StepId,
};
use crate::spread::total;

/// Culprits that are named.
const NAMED: usize = 4;

/// Sleep outside halts, but for that in which the VMM did a device's work.
pub fn asleep(context: &Context<'_>) -> Option<Finding> {
    let table = context.vm.asleep.as_ref()?;
    let lost_ns = table.times_ns.total.saturating_sub(table.device_ns);
    if context.severity(lost_ns) < Severity::Major {
        return None;
    }
    let (cause, sure) = why(table);
    let mut finding = context.finding(FindingId::Asleep, lost_ns, cause);
    finding.evidence.push(
        Evidence::new(EvidenceId::AsleepTimes)
            .count("times", table.times_ns.count)
            .ns("mean", table.times_ns.mean)
            .ns("max", table.times_ns.max),
    );
    let reasons = table.by_reason.iter().take(NAMED);
    finding.evidence.push(
        reasons.fold(Evidence::new(EvidenceId::AsleepReasons), |all, row| {
            all.ns(&row.name, row.count)
        }),
    );
    finding.culprits = table.wakers.iter().take(NAMED).map(waker).collect();
    finding.confidence = sure;
    let to_vmm = table
        .by_reason
        .iter()
        .filter(|row| row.name != "not to the VMM");
    let to_vmm = total(to_vmm.map(|row| row.count));
    let of_all = permille(to_vmm, table.times_ns.total);
    let told = context.trace_has_user_exits();
    finding.checks = vec![if told {
        let holds = of_all >= MOST || cause == CauseId::SleepNotShown;
        check(CheckId::SleepsInVmm, holds, vec![share("share", of_all)])
    } else {
        unanswered(CheckId::SleepsInVmm)
    }];
    finding.worst = table.worst.clone();
    let first = match cause {
        CauseId::DirtyRing => StepId::LargerDirtyRing,
        _ => StepId::LookAtVmmJobs,
    };
    finding.next = vec![
        step(first).gives(lost_ns, lost_ns, Assumption::NobodyTakesItsPlace),
        step(StepId::LookAtVmm),
    ];
    if !told {
        finding.sharper_with.push(Sharpener::UserExits);
    }
    if table.wakers.is_empty() {
        finding.sharper_with.push(Sharpener::Wakeups);
    }
    Some(finding)
}

/// What the sleep was for, and how sure that is: by most of its time.
fn why(table: &AsleepTable) -> (CauseId, Confidence) {
    let of = |name: &str| {
        let rows = table.by_reason.iter().filter(|row| row.name == name);
        permille(total(rows.map(|row| row.count)), table.times_ns.total)
    };
    match (of("DIRTY_RING_FULL"), of("INTR")) {
        (MOST.., _) => (CauseId::DirtyRing, Confidence::Medium),
        (_, MOST..) => (CauseId::VmmHolds, Confidence::Medium),
        _ if of("not to the VMM") < MOST => (CauseId::VmmHolds, Confidence::Low),
        _ => (CauseId::SleepNotShown, Confidence::Low),
    }
}

pub fn waker(row: &Count) -> Culprit {
    Culprit {
        kind: "waker".to_owned(),
        name: Some(row.name.clone()),
        ns: row.count,
        permille: row.permille,
    }
}

/// Threads that serve the VM and wait for their pCPUs while vCPUs sleep.
pub fn servers(context: &Context<'_>) -> Option<Finding> {
    let rows = &context.vm.servers;
    let first = rows.first()?;
    let lost_ns = total(rows.iter().map(|row| row.ns));
    let long = |row: &&ServerRow| context.trace.clock_is_ns && row.long_ns >= STALL_NS;
    let longest = rows.iter().filter(long).max_by_key(|row| row.long_ns);
    // Much in all, or one wait that is felt.
    let first = match context.severity(lost_ns) {
        Severity::Major | Severity::Severe => first,
        _ => longest?,
    };
    let cause = match first.culprit.as_deref() {
        Some("kernel-wait") => CauseId::KernelWait,
        Some("own-vm") => CauseId::OwnVm,
        Some(kind) => cause_of_kind(kind),
        None => CauseId::Untold,
    };
    let mut finding = context.finding(FindingId::ServerWaits, lost_ns, cause);
    finding.of = Some(first.name.clone());
    finding.severity = finding.severity.max(Severity::Major);
    let mean_ns = first.ns.checked_div(first.times).unwrap_or(0);
    let longest_ns = first.worst.as_ref().map_or(0, |worst| worst.length_ns);
    finding.evidence.push(
        Evidence::new(EvidenceId::ServerTimes)
            .count("times", first.times)
            .ns("mean", mean_ns)
            .ns("max", longest_ns),
    );
    let kind = first.culprit.clone().unwrap_or_default();
    let named = first.by.iter().take(NAMED).map(|row| Culprit {
        kind: kind.clone(),
        name: Some(row.name.clone()),
        ns: row.count,
        permille: row.permille,
    });
    finding.culprits = named.collect();
    // That the vCPU had to wait for the thread is inferred from its waking it.
    finding.confidence = Confidence::Medium;
    finding.worst = first.worst.clone();
    let away = step(StepId::MoveServer).named(Some(&first.name));
    finding.next = vec![away.gives(first.ns, lost_ns, Assumption::NobodyTakesItsPlace)];
    if cause == CauseId::CpuMax {
        finding.next = vec![step(StepId::RaiseServerLimit).named(Some(&first.name))];
    }
    if cause == CauseId::KernelWait {
        finding.confidence = Confidence::Low;
        finding.next = vec![step(StepId::LookAtStack)];
    }
    Some(finding)
}
