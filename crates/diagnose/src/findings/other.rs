// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings about IPIs, unmarked deschedules, timers, unknown exits, and a kernel's own shootdowns.

use steady_remedies::Stall;

use super::{
    Context, FEW, available_first, check, fresh, listed, number, remedy, step, unanswered,
};
use crate::build::permille;
use crate::model::{
    Assumption, CallTable, CauseId, Check, CheckId, Confidence, Evidence, EvidenceId, Finding,
    FindingId, Severity, Sharpener, StepId, TimerTable, TraceDiagnosis,
};
use crate::spread::total;
use crate::timer::HZ;

/// From this share of all exits on, in thousandths, timers are a finding.
const TIMER_SHARE: u64 = 50;

/// What senders waited for descheduled receivers beyond what running ones take.
pub fn late_ns(calls: &CallTable) -> u64 {
    let of = |name: &str| calls.by_receiver.iter().find(|row| row.receiver == name);
    let (Some(late), Some(prompt)) = (of("descheduled"), of("running")) else {
        return 0;
    };
    let as_running = prompt.delay_ns.mean.saturating_mul(late.delay_ns.count);
    late.delay_ns.total.saturating_sub(as_running)
}

/// IPIs that wait for descheduled receivers.
pub fn calls(context: &Context<'_>) -> Option<Finding> {
    let calls = context.vm.calls.as_ref()?;
    let call_ns = calls.call_ns.as_ref()?;
    let of = |name: &str| calls.by_receiver.iter().find(|row| row.receiver == name);
    let (late, prompt) = (of("descheduled")?, of("running")?);
    let all: u64 = calls.by_receiver.iter().map(|row| row.delay_ns.count).sum();
    let lost_ns = late.delay_ns.total;
    if !context.matters(late.delay_ns.count, lost_ns) {
        return None;
    }
    let cause = CauseId::ReceiverDescheduled;
    let mut finding = context.finding(FindingId::IpiDescheduled, lost_ns, cause);
    finding.evidence = vec![
        Evidence::new(EvidenceId::IpiShare)
            .count("descheduled", late.delay_ns.count)
            .count("all", all)
            .permille("share", permille(late.delay_ns.count, all)),
        Evidence::new(EvidenceId::IpiDelay)
            .ns("mean", late.delay_ns.mean)
            .ns("max", late.delay_ns.max)
            .ns("running_mean", prompt.delay_ns.mean),
        Evidence::new(EvidenceId::IpiCalls)
            .count("calls", call_ns.count)
            .ns("mean", call_ns.mean)
            .ns("p99", call_ns.p99)
            .ns("max", call_ns.max),
    ];
    finding.confidence = Confidence::Medium;
    let longer = late.delay_ns.mean > prompt.delay_ns.mean;
    finding.checks = vec![
        check(CheckId::ReceiversDescheduled, longer, Vec::new()),
        unanswered(CheckId::GuestShootdownsSlow),
    ];
    finding.worst = calls.worst.clone();
    let invalidates = remedy(StepId::HostInvalidates, Stall::CallWait);
    finding.next = available_first(vec![
        invalidates.gives(late_ns(calls), lost_ns, Assumption::AnsweredAsByRunning),
        step(StepId::PvFlush),
    ]);
    finding.sharper_with.push(Sharpener::GuestTrace);
    Some(finding)
}

/// vCPUs that PV TLB flush takes for running.
pub fn unmarked(context: &Context<'_>) -> Option<Finding> {
    let table = context.vm.preemption.as_ref()?;
    let (marked, unmarked) = table.marked.zip(table.unmarked)?;
    if unmarked < FEW {
        return None;
    }
    let of_all = permille(unmarked, unmarked + marked);
    let after = table
        .after
        .iter()
        .filter(|row| row.name != "EXTERNAL_INTERRUPT" && row.name != "interrupt");
    // Whether anybody waited for them is in the finding about IPIs.
    let mut finding = context.finding(FindingId::PreemptedUnmarked, 0, CauseId::UnmarkedByKvm);
    finding.evidence = vec![
        Evidence::new(EvidenceId::UnmarkedShare)
            .count("unmarked", unmarked)
            .count("all", unmarked + marked)
            .permille("share", of_all),
        Evidence::new(EvidenceId::UnmarkedTime).maybe_ns("time", table.unmarked_ns),
        listed(EvidenceId::UnmarkedAfter, after.take(4)),
    ];
    finding.checks = vec![unanswered(CheckId::KvmCountsThem)];
    finding.worst = table.worst_unmarked.clone();
    finding.next = vec![remedy(StepId::HostInvalidates, Stall::CallWait)];
    Some(finding)
}

/// Exits for the guest's timers.
pub fn timers(context: &Context<'_>) -> Option<Finding> {
    let timers = &context.vm.timers;
    let exits = timers.arms.unwrap_or(0) + timers.expiry_exits.unwrap_or(0);
    let all: u64 = context.vm.exits.iter().map(|row| row.count).sum();
    let of_all = permille(exits, all);
    let lost_ns = own_ns(context);
    if !context.matters(exits, lost_ns) || of_all < TIMER_SHARE {
        return None;
    }
    let mut finding = context.finding(FindingId::TimerExits, lost_ns, CauseId::GuestTicks);
    finding.evidence = vec![
        Evidence::new(EvidenceId::TimerExits)
            .maybe_count("arms", timers.arms)
            .maybe_count("stops", timers.stops)
            .maybe_count("expiries", timers.expiry_exits)
            .permille("share", of_all),
        Evidence::new(EvidenceId::TimerTime).ns("time", lost_ns),
        Evidence::new(EvidenceId::TimerFormulas)
            .hz("tick", timers.tick_hz)
            .maybe_count("idle_entries", timers.idle_entries)
            .count("periodic", timers.periodic)
            .maybe_count("tickless", timers.tickless)
            .maybe_count("paratick_at_most", timers.paratick_at_most),
    ];
    let (cause, check) = ticks_or_timers(timers, exits);
    finding.cause = cause;
    finding.checks = vec![check];
    if !is_sure(timers, cause, exits) {
        finding.confidence = Confidence::Medium;
    }
    // A constant period is a tick's, or that of one program.
    let steady = timers.steady_hz.filter(|&hz| hz > timers.tick_hz);
    let steady = steady.filter(|_| cause == CauseId::GuestTimers);
    if steady.is_some() {
        finding.cause = CauseId::GuestTicks;
        finding.checks = vec![unanswered(CheckId::ArmsFollowTicks)];
    }
    let rows = context.vm.exits.iter().flat_map(|row| &row.about);
    let armed = rows.filter(|of| of.kind == "timer");
    finding.worst = armed
        .filter_map(|of| of.worst.clone())
        .max_by_key(|worst| worst.length_ns);
    let own = match cause {
        _ if let Some(hz) = steady => step(StepId::GiveHz).named(Some(&hz.to_string())),
        CauseId::GuestTimers => step(StepId::LookAtGuest).named(Some("timers of its programs")),
        // One that never idles has nothing to poll for.
        _ if timers.idle_entries.unwrap_or(0) == 0 => step(StepId::FewerTicks),
        _ => context.knob(StepId::HaltPoll, "kvm.halt_poll_ns", None),
    };
    let ticks = remedy(StepId::HostTicks, Stall::Tick).gives(
        without_ticks(timers, exits, lost_ns),
        lost_ns,
        Assumption::OneExitForEachIdle,
    );
    let steps = match cause {
        CauseId::GuestTimers => vec![own, ticks],
        _ => vec![ticks, own],
    };
    finding.next = available_first(steps);
    Some(finding)
}

/// Whether exits for timers are about as many as ticks need, and what shows it.
fn ticks_or_timers(timers: &TimerTable, exits: u64) -> (CauseId, Check) {
    let Some((_, tickless)) = timers.arms.zip(timers.tickless) else {
        return (CauseId::GuestTicks, unanswered(CheckId::ArmsFollowTicks));
    };
    // Half as many again is what other timers of a kernel may take.
    let (cause, id) = if exits <= tickless.saturating_mul(3) / 2 {
        (CauseId::GuestTicks, CheckId::ArmsFollowTicks)
    } else {
        (CauseId::GuestTimers, CheckId::MoreThanTicks)
    };
    let values = vec![number("exits", exits), number("tickless", tickless)];
    (cause, check(id, true, values))
}

/// Whether there are more exits than the ticks and idle times of any kernel need. Ticks are never
/// sure: how often the guest's kernel ticks is an assumption, and a program may arm a timer as
/// regularly. Without exits for halts how often a vCPU became idle is not known.
fn is_sure(timers: &TimerTable, cause: CauseId, exits: u64) -> bool {
    let most = HZ
        .iter()
        .max()
        .map_or(1, |&hz| hz.div_ceil(timers.tick_hz.max(1)));
    assert!(most > 0, "a kernel ticks");
    let tickless = timers.tickless.unwrap_or(u64::MAX).saturating_mul(most);
    cause == CauseId::GuestTimers
        && timers.idle_entries.is_some_and(|times| times > 0)
        && exits > tickless.saturating_mul(3) / 2
}

/// What exits for timers took themselves: waiting for a pCPU meanwhile is steal.
fn own_ns(context: &Context<'_>) -> u64 {
    let rows = context.vm.exits.iter();
    let of_row = |row: &crate::model::ExitRow| {
        let expiry = row.isa == "vmx" && row.code == Some(52);
        let arming = row.about.iter().filter(|of| of.kind == "timer");
        // The host's interrupts meanwhile are not the timer's.
        let own_ns = |of: &crate::model::DetailRow| of.own_ns.saturating_sub(of.host_irq_ns);
        if expiry {
            total(row.about.iter().map(own_ns))
        } else {
            total(arming.map(own_ns))
        }
    };
    total(rows.map(of_row))
}

/// The time of the exits for ticks, but for one for each idle period: timers that programs arm
/// stay.
fn without_ticks(timers: &TimerTable, exits: u64, lost_ns: u64) -> u64 {
    let for_ticks = timers.tickless.unwrap_or(timers.periodic).min(exits);
    let kept = timers.paratick_at_most.unwrap_or(for_ticks).min(for_ticks);
    let gone = u128::from(lost_ns) * u128::from(for_ticks - kept) / u128::from(exits.max(1));
    u64::try_from(gone).unwrap_or(lost_ns).min(lost_ns)
}

/// Exits of unknown reason.
pub fn unknown(context: &Context<'_>) -> Option<Finding> {
    let rows = context.vm.exits.iter();
    let rows: Vec<_> = rows
        .filter(|row| row.name.starts_with("UNKNOWN_"))
        .collect();
    let count: u64 = rows.iter().map(|row| row.count).sum();
    if count == 0 {
        return None;
    }
    let lost_ns = total(rows.iter().map(|row| row.own_ns));
    let mut finding = context.finding(FindingId::ExitUnknown, lost_ns, CauseId::NewReason);
    finding.evidence = rows
        .iter()
        .map(|row| {
            Evidence::new(EvidenceId::UnknownReason)
                .count("exits", row.count)
                .named("isa", &row.isa)
                .named("reason", &row.name)
                .ns("time", row.own_ns)
        })
        .collect();
    finding.confidence = Confidence::Low;
    finding.checks = vec![unanswered(CheckId::ManualHasCode)];
    let about = rows.iter().flat_map(|row| &row.about);
    finding.worst = about
        .filter_map(|of| of.worst.clone())
        .max_by_key(|worst| worst.length_ns);
    finding.next = vec![step(StepId::LookUpCode)];
    Some(finding)
}

/// Shootdowns that the traced kernel shows itself.
pub fn shootdowns(at: usize, trace: &TraceDiagnosis) -> Option<Finding> {
    let table = trace.shootdowns.as_ref()?;
    let latency = &table.latency_ns;
    let cpus = u64::from(trace.pcpus.unwrap_or(1).max(1));
    // Descheduled targets make a tail; a slow handler makes a slow median.
    let tail = latency.p99 > latency.p50.saturating_mul(10);
    let cause = if tail {
        CauseId::AbsentTargets
    } else {
        CauseId::SlowTargets
    };
    let whole_ns = trace.span_ns.saturating_mul(cpus);
    let id = FindingId::Shootdown;
    let span_ns = trace.span_ns;
    let mut finding = fresh(id, latency.total, cause, at, None, whole_ns, span_ns);
    if latency.count < FEW && finding.severity < Severity::Major {
        return None;
    }
    finding.evidence = vec![
        Evidence::new(EvidenceId::ShootdownLatency)
            .count("shootdowns", latency.count)
            .count("targets", table.targets.mean)
            .ns("mean", latency.mean)
            .ns("p50", latency.p50)
            .ns("p99", latency.p99)
            .ns("max", latency.max),
        Evidence::new(EvidenceId::ShootdownTime).ns("time", latency.total),
    ];
    finding.confidence = Confidence::Medium;
    finding.checks = vec![unanswered(CheckId::HostShowsTargets)];
    finding.worst = table.worst.clone();
    let as_median_ns = latency.p50.saturating_mul(latency.count);
    let beyond_ns = latency.total.saturating_sub(as_median_ns);
    let invalidates = remedy(StepId::HostInvalidates, Stall::CallWait);
    finding.next = available_first(vec![
        invalidates.gives(beyond_ns, latency.total, Assumption::AnsweredAsByRunning),
        step(StepId::RecordHost),
    ]);
    finding.sharper_with.push(Sharpener::HostTrace);
    Some(finding)
}
