// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings about vCPUs that spin.

use steady_remedies::Stall;

use super::{Context, FEW, MOST, available_first, check, remedy, share, step, unanswered};
use crate::build::permille;
use crate::cause::Cause;
use crate::model::{
    Answer, Assumption, CauseId, CauseRow, Check, CheckId, Confidence, Evidence, EvidenceId,
    Finding, FindingId, PauseTable, PlaceRow, Severity, Sharpener, Step, StepId,
};

/// Under this share of its time ready but not running, in thousandths, no vCPU of the VM can have
/// kept another waiting for long.
const DESCHEDULED: u64 = 10;

/// From this length on a run of exits is called continuous.
const LONG_RUN: u64 = 10;

/// One finding for each cause that has a share worth a finding.
pub fn causes(context: &Context<'_>) -> Vec<Finding> {
    let Some(pauses) = &context.vm.pauses else {
        return Vec::new();
    };
    let worth = |row: &&CauseRow| context.matters(row.exits, row.took_ns());
    let rows = pauses.by_cause.iter().filter(worth);
    rows.map(|row| cause(context, pauses, row)).collect()
}

/// vCPUs that spin, nothing shows for what, while others of their VM are off their pCPUs most
/// likely wait for those: who keeps these off comes first where that is surer.
pub fn follow(findings: &mut [Finding]) {
    let steal = |of: &&Finding| of.id == FindingId::Steal && of.severity == Severity::Severe;
    let steal = findings.iter().filter(steal);
    let steal: Vec<_> = steal.map(|of| (of.vm.clone(), of.confidence)).collect();
    for finding in findings.iter_mut() {
        let spins = matches!(
            finding.id,
            FindingId::PauseUnknown | FindingId::PauseContinuous
        );
        let surer =
            |of: &(Option<String>, Confidence)| of.0 == finding.vm && of.1 > finding.confidence;
        if spins && steal.iter().any(surer) {
            finding.severity = finding.severity.min(Severity::Major);
        }
    }
}

fn cause(context: &Context<'_>, pauses: &PauseTable, row: &CauseRow) -> Finding {
    let lost_ns = row.took_ns();
    let (id, cause) = of_cause(row.cause);
    let receivers = receivers(context);
    // Where receivers ran, no absence explains the wait.
    let cause = match (cause, &receivers.answer) {
        (CauseId::ReceiverDescheduled, Answer::Refuted) => CauseId::SlowTargets,
        _ => cause,
    };
    let places = pauses
        .by_place
        .iter()
        .filter(|place| place.cause == row.cause);
    let mut finding = context.finding(id, lost_ns, cause);
    finding.evidence = vec![
        Evidence::new(EvidenceId::PauseShare)
            .count("exits", row.exits)
            .permille("share", row.permille)
            .count("all", pauses.exits),
        Evidence::new(EvidenceId::PauseTime)
            .maybe_ns("spun", row.spun_ns)
            .maybe_ns("outside", row.outside_ns),
    ];
    finding
        .evidence
        .extend(places.clone().take(3).map(of_place));
    finding.checks = checks(context, row.cause, receivers);
    // The place shows what is waited for. Which vCPU has it, and whether that one ran, the trace
    // shows of IPIs alone.
    let shown = finding
        .checks
        .iter()
        .all(|check| check.answer == Answer::Held);
    finding.confidence = match row.cause {
        Cause::Unknown => Confidence::Low,
        Cause::IpiWait | Cause::TimedDelay if shown => Confidence::High,
        _ => Confidence::Medium,
    };
    let longest = places.filter(|place| place.worst.is_some());
    finding.worst = longest
        .max_by_key(|place| place.longest_run)
        .and_then(|place| place.worst.clone());
    finding.next = available_first(steps(context, pauses, row, cause));
    if context.vm.vcpus.len() == 1 {
        finding.next.retain(|step| !is_boost(step.id));
    }
    if row.cause == Cause::Unknown {
        finding.sharper_with.push(Sharpener::Symbols);
    }
    if context.vm.preemption.is_none() {
        finding.sharper_with.push(Sharpener::Switches);
    }
    if row.cause == Cause::IpiWait && context.vm.calls.is_none() {
        finding.sharper_with.push(Sharpener::Ipis);
    }
    finding
}

/// Whether a step lets another vCPU of the VM run, which one vCPU has not.
fn is_boost(id: StepId) -> bool {
    matches!(id, StepId::BoostWaitedFor | StepId::ObeyBoost)
}

/// What must be so if the cause is right.
fn checks(context: &Context<'_>, cause: Cause, receivers: Check) -> Vec<Check> {
    match cause {
        Cause::IpiWait if receivers.answer == Answer::Refuted => vec![Check {
            id: CheckId::ReceiversRan,
            answer: Answer::Held,
            values: receivers.values,
        }],
        Cause::IpiWait => vec![receivers],
        Cause::Spinlock | Cause::OtherLock => vec![others(context)],
        Cause::TimedDelay => vec![check(CheckId::SymbolsNamePlaces, true, Vec::new())],
        Cause::UserSpin => vec![unanswered(CheckId::KernelInUpperHalf)],
        Cause::Unknown => vec![unanswered(CheckId::SymbolsNamePlaces)],
    }
}

/// Whether receivers of IPIs did not run when these came.
fn receivers(context: &Context<'_>) -> Check {
    let Some(calls) = &context.vm.calls else {
        return unanswered(CheckId::ReceiversDescheduled);
    };
    let of = |name: &str| {
        let rows = calls.by_receiver.iter();
        let mut rows = rows.filter(|row| name.is_empty() || row.receiver == name);
        rows.try_fold(0_u64, |sum, row| sum.checked_add(row.delay_ns.total))
            .unwrap_or(u64::MAX)
    };
    if of("") == 0 {
        return unanswered(CheckId::ReceiversDescheduled);
    }
    let late = permille(of("descheduled"), of(""));
    check(
        CheckId::ReceiversDescheduled,
        late >= MOST,
        vec![share("share", late)],
    )
}

/// Whether vCPUs of this VM were off their pCPUs while ready: if none was, no lock's holder was.
fn others(context: &Context<'_>) -> Check {
    let Some(waits) = &context.vm.waits else {
        return unanswered(CheckId::OthersDescheduled);
    };
    let waited = permille(waits.waited_ns, context.vcpu_ns());
    check(
        CheckId::OthersDescheduled,
        waited >= DESCHEDULED,
        vec![share("share", waited)],
    )
}

fn of_place(place: &PlaceRow) -> Evidence {
    Evidence::new(EvidenceId::PausePlace)
        .count("exits", place.exits)
        .named("rip", &place.rip)
        .maybe_named("function", place.function.as_deref())
        .count("longest", place.longest_run)
        .maybe_count("ipi_pending", place.ipi_pending)
}

fn of_cause(cause: Cause) -> (FindingId, CauseId) {
    match cause {
        Cause::IpiWait => (FindingId::PauseIpiWait, CauseId::ReceiverDescheduled),
        Cause::Spinlock => (FindingId::PauseSpinlock, CauseId::HolderDescheduled),
        Cause::OtherLock => (FindingId::PauseOtherLock, CauseId::OwnerDescheduled),
        Cause::TimedDelay => (FindingId::PauseTimedDelay, CauseId::Delay),
        Cause::UserSpin => (FindingId::PauseUserSpin, CauseId::SpinningProgram),
        Cause::Unknown => (FindingId::PauseUnknown, CauseId::UnknownPlace),
    }
}

fn steps(context: &Context<'_>, pauses: &PauseTable, row: &CauseRow, cause: CauseId) -> Vec<Step> {
    let window = pauses.window.map(|window| format!("{window} cycles"));
    let ple = "kvm_intel.ple_window";
    let whole_ns = row.took_ns();
    // Of each run the exits behind its first are in vain.
    let vain = permille(row.in_runs.saturating_sub(row.runs), row.exits);
    let vain_ns = whole_ns / 1000 * vain;
    let longer = || {
        let longer = context.knob(StepId::LongerWindow, ple, window.clone());
        let outside_ns = row.outside_ns.unwrap_or(0);
        longer.gives(outside_ns, whole_ns, Assumption::NoSuchExits)
    };
    match row.cause {
        Cause::IpiWait if cause == CauseId::SlowTargets => vec![longer()],
        Cause::IpiWait => {
            let late_ns = context.vm.calls.as_ref().map_or(0, super::other::late_ns);
            let invalidates = remedy(StepId::HostInvalidates, Stall::CallWait);
            let boost = remedy(StepId::BoostWaitedFor, Stall::BoostTarget);
            vec![
                invalidates.gives(late_ns, whole_ns, Assumption::AnsweredAsByRunning),
                step(StepId::PvFlush),
                boost.gives(vain_ns, whole_ns, Assumption::FirstExitEndsRun),
            ]
        }
        Cause::Spinlock | Cause::OtherLock => vec![
            remedy(StepId::ObeyBoost, Stall::BoostOutcome).gives(
                vain_ns,
                whole_ns,
                Assumption::FirstExitEndsRun,
            ),
            step(StepId::PvSpinlocks),
            context.knob(StepId::ShorterWindow, ple, window),
        ],
        Cause::TimedDelay => vec![longer(), step(StepId::FindDelay)],
        Cause::UserSpin => vec![step(StepId::FindSpinner)],
        Cause::Unknown => vec![step(StepId::GiveSymbols)],
    }
}

/// Exits that come again at the same place.
pub fn runs(context: &Context<'_>) -> Option<Finding> {
    let pauses = context.vm.pauses.as_ref()?;
    let longest = pauses.longest.as_ref()?;
    if longest.exits < LONG_RUN || pauses.exits < FEW {
        return None;
    }
    let of_runs = |from: u64| {
        let runs = pauses
            .runs
            .buckets
            .iter()
            .filter(|bucket| bucket[0] >= from);
        runs.map(|bucket| bucket[2]).sum::<u64>()
    };
    let outside_ns = pauses.outside_ns.unwrap_or(0);
    let lost_ns = outside_ns.saturating_mul(pauses.in_runs_permille) / 1000;
    // Which vCPU the host ran instead is seen with the scheduler's events only.
    let cause = if context.vm.preemption.is_some() {
        CauseId::WrongRunner
    } else {
        CauseId::LongWait
    };
    let mut finding = context.finding(FindingId::PauseContinuous, lost_ns, cause);
    finding.evidence = vec![
        Evidence::new(EvidenceId::RunShare).permille("share", pauses.in_runs_permille),
        Evidence::new(EvidenceId::RunLongest)
            .count("exits", longest.exits)
            .number("vcpu", longest.vcpu.into())
            .named("rip", &longest.rip)
            .maybe_named("function", longest.function.as_deref())
            .ns("length", longest.length_ns),
        Evidence::new(EvidenceId::RunCounts)
            .count("runs_10", of_runs(LONG_RUN))
            .count("runs_100", of_runs(100))
            .count("runs", pauses.runs.count),
    ];
    if cause == CauseId::WrongRunner {
        // That a vCPU which another spin waits for was not run is inferred.
        finding.confidence = Confidence::Medium;
    }
    finding.checks = vec![others(context)];
    let by_run = pauses.by_place.iter().max_by_key(|row| row.longest_run);
    finding.worst = by_run.and_then(|row| row.worst.clone());
    let first = pauses.runs.count;
    let all: u64 = pauses.exits;
    let vain_ns = outside_ns / 1000 * permille(all.saturating_sub(first), all);
    finding.next = available_first(vec![
        remedy(StepId::BoostWaitedFor, Stall::BoostTarget).gives(
            vain_ns,
            lost_ns,
            Assumption::FirstExitEndsRun,
        ),
        remedy(StepId::ObeyBoost, Stall::BoostOutcome),
    ]);
    if context.vm.vcpus.len() == 1 {
        finding.next = vec![step(StepId::FindSpinner)];
    }
    if context.vm.boosts.is_none() {
        finding.sharper_with.push(Sharpener::Probes);
    }
    if context.vm.preemption.is_none() {
        finding.sharper_with.push(Sharpener::Switches);
    }
    Some(finding)
}
