// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings about IPIs, preemption, timers, and what is not known.

use steady_remedies::Stall;

use super::{Context, FEW, advice, per_second, remedy, severity};
use crate::build::permille;
use crate::model::{Confidence, Count, Evidence, EvidenceId, Finding, Severity, TraceDiagnosis};
use crate::spread::{Spread, total};

/// IPIs that wait for descheduled receivers.
pub fn calls(context: &Context<'_>) -> Option<Finding> {
    let calls = context.vm.calls.as_ref()?;
    let call_ns = calls.call_ns.as_ref()?;
    let late = calls
        .by_receiver
        .iter()
        .find(|row| row.receiver == "descheduled")?;
    let prompt = calls
        .by_receiver
        .iter()
        .find(|row| row.receiver == "running")?;
    let all: u64 = calls.by_receiver.iter().map(|row| row.delay_ns.count).sum();
    let lost_ns = context.per_second(late.delay_ns.total);
    if !context.matters(late.delay_ns.count, lost_ns) {
        return None;
    }
    Some(Finding {
        id: "ipi-descheduled".to_owned(),
        severity: context.severity(lost_ns),
        trace: context.at,
        vm: Some(context.vm.name.clone()),
        symptom: "vCPUs send IPIs that they wait for to vCPUs that do not run".to_owned(),
        evidence: vec![
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
        ],
        lost_ns_per_s: lost_ns,
        cause: "TLB shootdowns and other calls wait for every receiver, and these had to wait for \
             their turn on a pCPU."
            .to_owned(),
        confidence: Confidence::Medium,
        refuted_by: "A trace of the guest itself (`steady record --guest`) whose shootdowns are \
             short."
            .to_owned(),
        next: vec![
            remedy(
                "invalidate from the host instead of waiting",
                Stall::CallWait,
            ),
            advice(
                "offer kvm-pv-tlb-flush to the guest, if it is off: it spares vCPUs that KVM \
                 marks preempted",
            ),
        ],
    })
}

/// Time that vCPUs were ready but not running.
pub fn preemption(context: &Context<'_>) -> Option<Finding> {
    let table = context.vm.preemption.as_ref()?;
    let woken = table.wakeup_ns.clone().unwrap_or_default();
    let waited_ns = table.descheduled_ns.total.saturating_add(woken.total);
    let lost_ns = context.per_second(waited_ns);
    if !context.matters(table.descheduled_ns.count + woken.count, lost_ns) {
        return None;
    }
    let waits = |id, spread: &Spread| {
        Evidence::new(id)
            .count("times", spread.count)
            .ns("mean", spread.mean)
            .ns("max", spread.max)
    };
    let mut evidence = vec![waits(EvidenceId::StealDescheduled, &table.descheduled_ns)];
    if woken.count > 0 {
        evidence.push(waits(EvidenceId::StealWakeup, &woken));
    }
    let worst = context.vm.vcpus.iter().max_by_key(|vcpu| vcpu.steal_ns)?;
    let worst = Evidence::new(EvidenceId::StealWorst)
        .number("vcpu", worst.number.into())
        .ns("steal", worst.steal_ns.unwrap_or(0));
    evidence.push(worst);
    Some(Finding {
        id: "steal".to_owned(),
        severity: context.severity(lost_ns),
        trace: context.at,
        vm: Some(context.vm.name.clone()),
        symptom: "vCPUs are ready and do not run".to_owned(),
        evidence,
        lost_ns_per_s: lost_ns,
        cause:
            "More vCPUs want to run than there are pCPUs: the overcommitment itself. It is what \
             makes the other waits long; no remedy gives the time back."
                .to_owned(),
        confidence: Confidence::High,
        refuted_by: "pCPUs that were idle meanwhile: then pinning or a cgroup's limit keeps vCPUs \
             away from them."
            .to_owned(),
        next: vec![
            advice("give the VM more pCPUs, fewer vCPUs, or a larger cpu.weight"),
            advice("check pinning and cpu.max of its cgroups against idle pCPUs"),
        ],
    })
}

/// vCPUs that PV TLB flush takes for running.
pub fn unmarked(context: &Context<'_>) -> Option<Finding> {
    let table = context.vm.preemption.as_ref()?;
    let (unmarked, marked) = table.unmarked.zip(table.marked)?;
    if unmarked < FEW {
        return None;
    }
    let share = permille(unmarked, unmarked + marked);
    let after = table
        .after
        .iter()
        .filter(|row| row.name != "EXTERNAL_INTERRUPT" && row.name != "interrupt");
    let after = listed(EvidenceId::UnmarkedAfter, after.take(4));
    // Whether anybody waited for them is in the finding about IPIs.
    Some(Finding {
        id: "preempted-unmarked".to_owned(),
        severity: severity(0),
        trace: context.at,
        vm: Some(context.vm.name.clone()),
        symptom: "descheduled vCPUs look to their guest as if they ran".to_owned(),
        evidence: vec![
            Evidence::new(EvidenceId::UnmarkedShare)
                .count("unmarked", unmarked)
                .count("all", unmarked + marked)
                .permille("share", share),
            Evidence::new(EvidenceId::UnmarkedTime).maybe_ns("time", table.unmarked_ns),
            after,
        ],
        lost_ns_per_s: 0,
        cause: "KVM marks a vCPU as preempted only if it left its guest on a host interrupt. PV \
             TLB flush, PV IPI and PV spinlocks wait for one that left for another \
             reason."
            .to_owned(),
        confidence: Confidence::High,
        refuted_by: "KVM's statistics preemption_reported and preemption_other of the same \
             time."
            .to_owned(),
        next: vec![remedy(
            "look at where the vCPU is, not at why it left",
            Stall::CallWait,
        )],
    })
}

/// Exits for the guest's timers.
pub fn timers(context: &Context<'_>) -> Option<Finding> {
    let timers = &context.vm.timers;
    let exits = timers.arms.unwrap_or(0) + timers.expiry_exits.unwrap_or(0);
    let all: u64 = context.vm.exits.iter().map(|row| row.count).sum();
    let share = permille(exits, all);
    let lost_ns = context.per_second(timers.guest_timer_ns.unwrap_or(0));
    if !context.matters(exits, lost_ns) || share < 50 {
        return None;
    }
    Some(Finding {
        id: "timer-exits".to_owned(),
        severity: context.severity(lost_ns),
        trace: context.at,
        vm: Some(context.vm.name.clone()),
        symptom: "the guest leaves to arm timers and to be told that they expired".to_owned(),
        evidence: vec![
            Evidence::new(EvidenceId::TimerExits)
                .maybe_count("arms", timers.arms)
                .maybe_count("stops", timers.stops)
                .maybe_count("expiries", timers.expiry_exits)
                .permille("share", share),
            Evidence::new(EvidenceId::TimerTime).maybe_ns("time", timers.guest_timer_ns),
            Evidence::new(EvidenceId::TimerFormulas)
                .hz("tick", timers.tick_hz)
                .maybe_count("idle_entries", timers.idle_entries)
                .count("periodic", timers.periodic)
                .maybe_count("tickless", timers.tickless)
                .maybe_count("paratick_at_most", timers.paratick_at_most),
        ],
        lost_ns_per_s: lost_ns,
        cause:
            "Each tick is armed by the guest, which exits, and expires, which exits again; each \
             idle period stops and restarts it."
                .to_owned(),
        confidence: Confidence::High,
        refuted_by: "Timers that are the application's own: then arming does not follow the \
             tick."
            .to_owned(),
        next: vec![
            remedy("let the host inject its own ticks", Stall::Tick),
            context.knob(
                "let idle vCPUs poll for a while, if idle periods are short",
                "kvm.halt_poll_ns",
                None,
            ),
        ],
    })
}

/// Exits of unknown reason.
pub fn unknown(context: &Context<'_>) -> Option<Finding> {
    let rows = context
        .vm
        .exits
        .iter()
        .filter(|row| row.name.starts_with("UNKNOWN_"));
    let rows: Vec<_> = rows.collect();
    let count: u64 = rows.iter().map(|row| row.count).sum();
    let total_ns = total(rows.iter().map(|row| row.time_ns.total));
    if count == 0 {
        return None;
    }
    let lost_ns = context.per_second(total_ns);
    Some(Finding {
        id: "exit-unknown".to_owned(),
        severity: context.severity(lost_ns),
        trace: context.at,
        vm: Some(context.vm.name.clone()),
        symptom: "exits of unknown reason".to_owned(),
        evidence: rows
            .iter()
            .map(|row| {
                Evidence::new(EvidenceId::UnknownReason)
                    .count("exits", row.count)
                    .named("isa", &row.isa)
                    .named("reason", &row.name)
                    .ns("time", row.time_ns.total)
            })
            .collect(),
        lost_ns_per_s: lost_ns,
        cause: "The processor or kernel is newer than the tables here, or the trace is damaged."
            .to_owned(),
        confidence: Confidence::Low,
        refuted_by: "The processor's manual.".to_owned(),
        next: vec![advice(
            "look the code up in the processor's manual, and report it",
        )],
    })
}

/// Shootdowns that the traced kernel shows itself.
pub fn shootdowns(at: usize, trace: &TraceDiagnosis) -> Option<Finding> {
    let table = trace.shootdowns.as_ref()?;
    let latency = &table.latency_ns;
    let lost_ns = per_second(latency.total, trace.span_ns);
    let cpus = u64::from(trace.pcpus.unwrap_or(1).max(1));
    if latency.count < FEW && severity(lost_ns / cpus) < Severity::Major {
        return None;
    }
    // Descheduled targets make a tail; a slow handler makes a slow median.
    let tail = latency.p99 > latency.p50.saturating_mul(10);
    Some(Finding {
        id: "shootdown".to_owned(),
        severity: severity(lost_ns / cpus),
        trace: at,
        vm: None,
        symptom: "TLB shootdowns wait".to_owned(),
        evidence: vec![
            Evidence::new(EvidenceId::ShootdownLatency)
                .count("shootdowns", latency.count)
                .count("targets", table.targets.mean)
                .ns("mean", latency.mean)
                .ns("p50", latency.p50)
                .ns("p99", latency.p99)
                .ns("max", latency.max),
            Evidence::new(EvidenceId::ShootdownTime).ns("time", latency.total),
        ],
        lost_ns_per_s: lost_ns,
        cause: if tail {
            "A few take far longer than most, as when a target is descheduled by the host."
        } else {
            "All take about as long: the targets are slow to take the IPI, not absent."
        }
        .to_owned(),
        confidence: Confidence::Medium,
        refuted_by: "A trace of the host at the same time that shows the targets running."
            .to_owned(),
        next: vec![
            remedy(
                "let the host invalidate for vCPUs that do not run",
                Stall::CallWait,
            ),
            advice("record the host too, and look whether its vCPUs were descheduled"),
        ],
    })
}

/// A count for each row, under its name.
pub fn listed<'a>(id: EvidenceId, rows: impl Iterator<Item = &'a Count>) -> Evidence {
    rows.fold(Evidence::new(id), |evidence, row| {
        evidence.count(&row.name, row.count)
    })
}
