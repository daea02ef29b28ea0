// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings about the host as a whole: more ready vCPUs than pCPUs, and a host that stood still.
//!
//! Where several VMs wait for each other and no pCPU is idle, that is one finding: what one of them
//! gains another loses, wherever it is moved among these pCPUs.

use std::collections::{BTreeMap, BTreeSet};

use super::{fresh, step};
use crate::build::permille;
use crate::model::{
    CauseId, Check, CheckId, Confidence, Culprit, Evidence, EvidenceId, Finding, FindingId,
    HostTable, Severity, StepId, TraceDiagnosis, VmTable,
};
use crate::spread::{add, total};

/// From this share of idle time on, in thousandths, VMs have somewhere to go.
const IDLE: u64 = 50;
/// From this length on a silence of the whole host is severe, in nanoseconds.
const LONG_NS: u64 = 1_000_000_000;

/// Whether pCPUs have idle time that VMs could use, as far as the trace shows.
pub fn has_room(trace: &TraceDiagnosis) -> bool {
    let Some(host) = &trace.host else {
        return true;
    };
    let unseen = trace
        .pcpus
        .is_some_and(|pcpus| u64::from(pcpus) > host.pcpus);
    unseen || host.idle_permille >= IDLE
}

/// Puts the findings of VMs that wait for each other into one about the host.
pub fn overcommitted(at: usize, trace: &TraceDiagnosis, findings: &mut Vec<Finding>) {
    let Some(host) = &trace.host else { return };
    let wanted = host.wanted_permille;
    let full = wanted > host.pcpus.saturating_mul(1050) && !has_room(trace);
    let each_other = |finding: &Finding| {
        let cause = matches!(
            finding.cause,
            CauseId::OtherVm | CauseId::OwnVm | CauseId::Stacked
        );
        // One that comes first by its priority does not wait for the others.
        let real_time = |of: &Evidence| of.id == EvidenceId::RivalRealTime;
        let alike = cause && !finding.evidence.iter().any(real_time);
        finding.id == FindingId::Steal && alike && finding.severity >= Severity::Major
    };
    let waiting = findings.iter().filter(|finding| each_other(finding));
    let by_others = waiting
        .clone()
        .filter(|finding| finding.cause == CauseId::OtherVm);
    if !full || waiting.count() < 2 || by_others.count() < 2 {
        return;
    }
    let (own, mut others): (Vec<Finding>, Vec<Finding>) =
        std::mem::take(findings).into_iter().partition(each_other);
    let all = one(at, trace, host, &own);
    let worst = own.into_iter().max_by_key(|finding| finding.lost_permille);
    match worst {
        // One of them is worse off than the rest: the finding is about it, and has the others'.
        Some(mut worst) if worst.lost_permille * 20 > all.lost_permille * 23 => {
            worst.evidence.extend(all.evidence);
            others.push(worst);
        }
        _ => others.push(all),
    }
    *findings = others;
}

fn one(at: usize, trace: &TraceDiagnosis, host: &HostTable, own: &[Finding]) -> Finding {
    let lost_ns = total(own.iter().map(|finding| finding.lost_ns));
    let vcpus = |finding: &&Finding| {
        let vms = trace.vms.iter();
        let mut vms = vms.filter(|vm| Some(&vm.name) == finding.vm.as_ref());
        vms.next().map_or(0, |vm| vm.vcpus.len())
    };
    let count: usize = own.iter().map(|finding| vcpus(&finding)).sum();
    let whole_ns = trace
        .span_ns
        .saturating_mul(u64::try_from(count).unwrap_or(u64::MAX));
    let id = FindingId::HostOvercommitted;
    let cause = CauseId::TooManyVcpus;
    let mut finding = fresh(id, lost_ns, cause, at, None, whole_ns, trace.span_ns);
    let demand = Evidence::new(EvidenceId::HostDemand)
        .count("vcpus", host.vcpus)
        .permille("wanted", host.wanted_permille)
        .count("pcpus", host.pcpus)
        .permille("idle", host.idle_permille);
    let waits = host.vms.iter().take(8);
    let waits = waits.fold(Evidence::new(EvidenceId::HostWaits), |all, vm| {
        all.ns(&vm.name, vm.waited_ns)
    });
    finding.evidence = vec![demand, waits];
    let ran_ns = total(host.vms.iter().map(|vm| vm.ran_ns));
    let mut culprits: Vec<Culprit> = host
        .vms
        .iter()
        .map(|vm| Culprit {
            kind: "vm".to_owned(),
            name: Some(vm.name.clone()),
            ns: vm.ran_ns,
            permille: permille(vm.ran_ns, ran_ns),
        })
        .collect();
    culprits.sort_by(|a, b| b.ns.cmp(&a.ns).then(a.name.cmp(&b.name)));
    finding.culprits = culprits.into_iter().take(4).collect();
    finding.checks = own.iter().flat_map(|of| of.checks.clone()).collect();
    finding.checks = worst_answers(&finding.checks);
    let least = own.iter().map(|of| of.confidence).min();
    finding.confidence = least.unwrap_or(Confidence::Medium);
    let worst = own.iter().filter_map(|of| of.worst.clone());
    finding.worst = worst.max_by_key(|worst| worst.length_ns);
    finding.next = vec![step(StepId::FewerVcpusOnHost), step(StepId::WeighVms)];
    let mut sharper: Vec<_> = own.iter().flat_map(|of| of.sharper_with.clone()).collect();
    sharper.sort();
    sharper.dedup();
    finding.sharper_with = sharper;
    let at_most = own
        .iter()
        .map(|of| of.at_most_ns.unwrap_or(of.lost_ns))
        .fold(0, |mut sum, ns| {
            add(&mut sum, ns);
            sum
        });
    finding.at_most_ns = own
        .iter()
        .any(|of| of.at_most_ns.is_some())
        .then_some(at_most);
    finding
}

/// Of the same check of several VMs the least favourable answer.
fn worst_answers(checks: &[Check]) -> Vec<Check> {
    let mut worst: BTreeMap<CheckId, Check> = BTreeMap::new();
    for check in checks {
        let known = worst.entry(check.id).or_insert_with(|| check.clone());
        if check.answer > known.answer {
            *known = check.clone();
        }
    }
    worst.into_values().collect()
}

/// Names the weights that the notes have, in the steps that would change them.
pub fn weights(trace: &TraceDiagnosis, findings: &mut [Finding]) {
    let of_vm = |vm: &VmTable| {
        let vcpus = vm.note.iter().flat_map(|note| &note.vcpus);
        let weights: BTreeSet<&String> = vcpus.filter_map(|of| of.cpu_weight.as_ref()).collect();
        let weights: Vec<&str> = weights.into_iter().map(String::as_str).collect();
        (!weights.is_empty()).then(|| format!("{} {}", vm.name, weights.join(" and ")))
    };
    let known: Vec<String> = trace.vms.iter().filter_map(of_vm).collect();
    if known.is_empty() {
        return;
    }
    let steps = findings.iter_mut().flat_map(|finding| &mut finding.next);
    let weigh = [StepId::WeighVms, StepId::ShareOrSplit, StepId::MoveOtherVm];
    for step in steps.filter(|step| weigh.contains(&step.id)) {
        step.knob = Some("cpu.weight".to_owned());
        step.value = Some(known.join(", "));
    }
}

/// All pCPUs were silent at once.
pub fn stood_still(at: usize, trace: &TraceDiagnosis) -> Option<Finding> {
    let host = trace.host.as_ref()?;
    let longest = host.silent.first().filter(|_| trace.clock_is_ns)?;
    let lost_ns = total(host.silent.iter().map(|silent| silent.length_ns));
    let id = FindingId::HostStoodStill;
    let span_ns = trace.span_ns;
    let mut finding = fresh(id, lost_ns, CauseId::StoodStill, at, None, span_ns, span_ns);
    finding.severity = match longest.length_ns {
        LONG_NS.. => Severity::Severe,
        _ => Severity::Major,
    };
    finding.evidence = vec![
        Evidence::new(EvidenceId::StallLength).ns("length", longest.length_ns),
        Evidence::new(EvidenceId::StallOthers)
            .count("more", u64::try_from(host.silent.len() - 1).unwrap_or(0)),
    ];
    // One pCPU may just have had nothing to record.
    finding.confidence = match host.pcpus {
        0..=1 => Confidence::Low,
        _ => Confidence::Medium,
    };
    finding.worst = Some(longest.clone());
    finding.next = vec![step(StepId::LookBelowHost)];
    Some(finding)
}
