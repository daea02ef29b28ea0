// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From tables to findings: what hurts, why, how sure, and what to do.

mod other;
mod pauses;

use std::collections::BTreeMap;

use steady_remedies::Stall;

use crate::model::{
    Confidence, Evidence, EvidenceId, Finding, Severity, Step, TraceDiagnosis, VmTable,
};

/// From this share of lost events on, causes are less sure than they look, in thousandths.
const LOSS_MATTERS: u64 = 20;
/// Fewer events than this are no finding, unless they take a share of time that is.
const FEW: u64 = 20;

/// What findings are made from.
#[derive(Debug, Clone, Copy)]
struct Context<'a> {
    at: usize,
    trace: &'a TraceDiagnosis,
    vm: &'a VmTable,
    knobs: &'a BTreeMap<String, String>,
}

/// The findings of one trace.
#[must_use]
pub fn of(at: usize, trace: &TraceDiagnosis, knobs: &BTreeMap<String, String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for vm in &trace.vms {
        let context = Context {
            at,
            trace,
            vm,
            knobs,
        };
        findings.extend(pauses::causes(&context));
        findings.extend(pauses::runs(&context));
        findings.extend(pauses::boosts(&context));
        findings.extend(other::calls(&context));
        findings.extend(other::preemption(&context));
        findings.extend(other::unmarked(&context));
        findings.extend(other::timers(&context));
        findings.extend(other::unknown(&context));
    }
    findings.extend(other::shootdowns(at, trace));
    if trace.loss.lost_permille >= LOSS_MATTERS {
        let lost = trace.loss.lost_permille;
        findings.iter_mut().for_each(|finding| doubt(finding, lost));
    }
    findings
}

fn doubt(finding: &mut Finding, lost_permille: u64) {
    finding.confidence = match finding.confidence {
        Confidence::High => Confidence::Medium,
        _ => Confidence::Low,
    };
    let lost = Evidence::new(EvidenceId::EventsLost).permille("share", lost_permille);
    finding.evidence.push(lost);
}

impl Context<'_> {
    /// Time lost in each second of the trace.
    fn per_second(&self, ns: u64) -> u64 {
        per_second(ns, self.trace.span_ns)
    }

    /// How bad that is, measured by the time that the VM's vCPUs have.
    fn severity(&self, lost_ns_per_s: u64) -> Severity {
        let vcpus = u64::try_from(self.vm.vcpus.len()).unwrap_or(1).max(1);
        severity(lost_ns_per_s / vcpus)
    }

    /// Whether it is worth a finding: it happened often, or what it took is felt. A few long
    /// stalls hurt as much as many short ones.
    fn matters(&self, times: u64, lost_ns_per_s: u64) -> bool {
        times >= FEW || (times > 0 && self.severity(lost_ns_per_s) >= Severity::Major)
    }

    /// A step that turns a knob, with its value.
    fn knob(&self, what: &str, knob: &str, value: Option<String>) -> Step {
        Step {
            what: what.to_owned(),
            knob: Some(knob.to_owned()),
            value: value.or_else(|| self.knobs.get(knob).cloned()),
            remedy: None,
        }
    }
}

fn per_second(ns: u64, span_ns: u64) -> u64 {
    let lost = u128::from(ns) * 1_000_000_000 / u128::from(span_ns.max(1));
    u64::try_from(lost).unwrap_or(u64::MAX)
}

fn severity(lost_ns_per_vcpu_second: u64) -> Severity {
    match lost_ns_per_vcpu_second {
        100_000_000.. => Severity::Severe,
        10_000_000.. => Severity::Major,
        _ => Severity::Minor,
    }
}

fn remedy(what: &str, stall: Stall) -> Step {
    Step {
        what: what.to_owned(),
        knob: None,
        value: None,
        remedy: Some(steady_remedies::answer(stall).name.to_owned()),
    }
}

fn advice(what: &str) -> Step {
    Step {
        what: what.to_owned(),
        knob: None,
        value: None,
        remedy: None,
    }
}
