// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings about IPIs, preemption, timers, and what is not known.

use super::{Context, advice, per_second, percent, remedy, severity, time};
use crate::build::permille;
use crate::model::{Confidence, Finding, TraceDiagnosis};
use crate::spread::total;
use steady_remedies::Stall;

/// Fewer events than this are no finding.
const FEW: u64 = 20;

/// IPIs that wait for descheduled receivers.
pub fn calls(context: &Context<'_>) -> Option<Finding> {
    let calls = context.vm.calls.as_ref()?;
    let late = calls
        .by_receiver
        .iter()
        .find(|row| row.receiver == "descheduled")?;
    let prompt = calls
        .by_receiver
        .iter()
        .find(|row| row.receiver == "running")?;
    if late.delay_ns.count < FEW {
        return None;
    }
    let all: u64 = calls.by_receiver.iter().map(|row| row.delay_ns.count).sum();
    let lost_ns = context.per_second(late.delay_ns.total);
    Some(Finding {
        id: "ipi-descheduled".to_owned(),
        severity: context.severity(lost_ns),
        trace: context.at,
        vm: Some(context.vm.name.clone()),
        symptom: "vCPUs send IPIs that they wait for to vCPUs that do not run".to_owned(),
        evidence: vec![
            format!(
                "{} of {all} call-function IPIs went to a descheduled vCPU, {}",
                late.delay_ns.count,
                percent(permille(late.delay_ns.count, all))
            ),
            format!(
                "it took them after {} on average and {} at most; a running vCPU after {}",
                time(late.delay_ns.mean),
                time(late.delay_ns.max),
                time(prompt.delay_ns.mean)
            ),
            format!(
                "inferred: {} calls took {} on average, p99 {}, max {}",
                calls.call_ns.count,
                time(calls.call_ns.mean),
                time(calls.call_ns.p99),
                time(calls.call_ns.max)
            ),
        ],
        lost_ns_per_s: lost_ns,
        cause: "TLB shootdowns and other calls wait for every receiver, and these had to wait for their turn on a pCPU.".to_owned(),
        confidence: Confidence::Medium,
        refuted_by: "A trace of the guest itself (`steady record --guest`) whose shootdowns are short.".to_owned(),
        next: vec![
            remedy("invalidate from the host instead of waiting", Stall::CallWait),
            advice("offer kvm-pv-tlb-flush to the guest, if it is off: it spares vCPUs that KVM marks preempted"),
        ],
    })
}

/// Time that vCPUs were ready but not running.
pub fn preemption(context: &Context<'_>) -> Option<Finding> {
    let table = context.vm.preemption.as_ref()?;
    let waited_ns = table
        .descheduled_ns
        .total
        .saturating_add(table.wakeup_ns.total);
    let lost_ns = context.per_second(waited_ns);
    if table.descheduled_ns.count + table.wakeup_ns.count < FEW {
        return None;
    }
    let mut evidence = vec![format!(
        "descheduled {} times for {} on average, {} at most",
        table.descheduled_ns.count,
        time(table.descheduled_ns.mean),
        time(table.descheduled_ns.max)
    )];
    if table.wakeup_ns.count > 0 {
        evidence.push(format!(
            "woken {} times and kept waiting {} on average, {} at most",
            table.wakeup_ns.count,
            time(table.wakeup_ns.mean),
            time(table.wakeup_ns.max)
        ));
    }
    let worst = context.vm.vcpus.iter().max_by_key(|vcpu| vcpu.steal_ns)?;
    evidence.push(format!(
        "worst: vCPU {}, {} in all",
        worst.number,
        time(worst.steal_ns)
    ));
    Some(Finding {
        id: "steal".to_owned(),
        severity: context.severity(lost_ns),
        trace: context.at,
        vm: Some(context.vm.name.clone()),
        symptom: "vCPUs are ready and do not run".to_owned(),
        evidence,
        lost_ns_per_s: lost_ns,
        cause: "More vCPUs want to run than there are pCPUs: the overcommitment itself. It is what makes the other waits long; no remedy gives the time back.".to_owned(),
        confidence: Confidence::High,
        refuted_by: "pCPUs that were idle meanwhile: then pinning or a cgroup's limit keeps vCPUs away from them.".to_owned(),
        next: vec![
            advice("give the VM more pCPUs, fewer vCPUs, or a larger cpu.weight"),
            advice("check pinning and cpu.max of its cgroups against idle pCPUs"),
        ],
    })
}

/// vCPUs that PV TLB flush takes for running.
pub fn unmarked(context: &Context<'_>) -> Option<Finding> {
    let table = context.vm.preemption.as_ref()?;
    if table.unmarked < FEW {
        return None;
    }
    let share = permille(table.unmarked, table.unmarked + table.marked);
    let after = table
        .after
        .iter()
        .filter(|row| row.name != "EXTERNAL_INTERRUPT" && row.name != "interrupt");
    let after: Vec<String> = after
        .take(4)
        .map(|row| format!("{} {}", row.name, row.count))
        .collect();
    // Whether anybody waited for them is in the finding about IPIs.
    Some(Finding {
        id: "preempted-unmarked".to_owned(),
        severity: severity(0),
        trace: context.at,
        vm: Some(context.vm.name.clone()),
        symptom: "descheduled vCPUs look to their guest as if they ran".to_owned(),
        evidence: vec![
            format!(
                "{} of {} times that a ready vCPU was descheduled, {}: KVM had not marked it preempted",
                table.unmarked,
                table.unmarked + table.marked,
                percent(share)
            ),
            format!("{} in all", time(table.unmarked_ns)),
            format!("their last exits: {}", after.join(", ")),
        ],
        lost_ns_per_s: 0,
        cause: "KVM marks a vCPU as preempted only if it left its guest on a host interrupt. PV TLB flush, PV IPI and PV spinlocks wait for one that left for another reason.".to_owned(),
        confidence: Confidence::High,
        refuted_by: "KVM's statistics preemption_reported and preemption_other of the same time.".to_owned(),
        next: vec![remedy("look at where the vCPU is, not at why it left", Stall::CallWait)],
    })
}

/// Exits for the guest's timers.
pub fn timers(context: &Context<'_>) -> Option<Finding> {
    let timers = &context.vm.timers;
    let exits = timers.arms + timers.expiry_exits;
    let all: u64 = context.vm.exits.iter().map(|row| row.time_ns.count).sum();
    let share = permille(exits, all);
    if exits < FEW || share < 50 {
        return None;
    }
    let lost_ns = context.per_second(timers.guest_timer_ns);
    Some(Finding {
        id: "timer-exits".to_owned(),
        severity: context.severity(lost_ns),
        trace: context.at,
        vm: Some(context.vm.name.clone()),
        symptom: "the guest leaves to arm timers and to be told that they expired".to_owned(),
        evidence: vec![
            format!(
                "{} exits to arm ({} to stop) and {} at expiry: {} of all",
                timers.arms,
                timers.stops,
                timers.expiry_exits,
                percent(share)
            ),
            format!("{} outside the guest for them", time(timers.guest_timer_ns)),
            format!(
                "by the Paratick paper's formulas, at {} Hz and {} idle entries: periodic ticks {}, tickless {}, paratick at most {}",
                timers.tick_hz, timers.idle_entries, timers.periodic, timers.tickless, timers.paratick_at_most
            ),
        ],
        lost_ns_per_s: lost_ns,
        cause: "Each tick is armed by the guest, which exits, and expires, which exits again; each idle period stops and restarts it.".to_owned(),
        confidence: Confidence::High,
        refuted_by: "Timers that are the application's own: then arming does not follow the tick.".to_owned(),
        next: vec![
            remedy("let the host inject its own ticks", Stall::Tick),
            context.knob("let idle vCPUs poll for a while, if idle periods are short", "kvm.halt_poll_ns", None),
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
    let count: u64 = rows.iter().map(|row| row.time_ns.count).sum();
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
                format!(
                    "{} of {} {}: {}",
                    row.time_ns.count,
                    row.isa,
                    row.name,
                    time(row.time_ns.total)
                )
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
    if latency.count < FEW {
        return None;
    }
    let lost_ns = per_second(latency.total, trace.span_ns);
    let cpus = u64::from(trace.pcpus.max(1));
    // Descheduled targets make a tail; a slow handler makes a slow median.
    let tail = latency.p99 > latency.p50.saturating_mul(10);
    Some(Finding {
        id: "shootdown".to_owned(),
        severity: severity(lost_ns / cpus),
        trace: at,
        vm: None,
        symptom: "TLB shootdowns wait".to_owned(),
        evidence: vec![
            format!(
                "{} shootdowns of {} targets on average: mean {}, median {}, p99 {}, max {}",
                latency.count,
                table.targets.mean,
                time(latency.mean),
                time(latency.p50),
                time(latency.p99),
                time(latency.max)
            ),
            format!("{} waited in all", time(latency.total)),
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
