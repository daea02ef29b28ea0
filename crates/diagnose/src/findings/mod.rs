// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From tables to findings: what hurts, why, what of that was checked, and what to do.
//!
//! A finding is data; the report says it in words. Its cause is derived from the trace where the
//! trace shows it, and what must be so if the cause is right is checked as far as the trace goes.

mod alone;
mod below;
mod boosts;
mod held;
mod host;
mod limits;
mod many;
mod other;
mod pauses;
mod slow;
mod stacked;
mod stalls;
mod steal;
mod storms;

use std::collections::BTreeMap;

use steady_remedies::Stall;

use crate::model::{
    Answer, Assumption, CauseId, Check, CheckId, Confidence, Count, Evidence, EvidenceId, Finding,
    FindingId, Gain, Quantity, Severity, Sharpener, Step, StepId, TraceDiagnosis, Value, VmTable,
    WaitTable,
};

pub use alone::alone;
pub use other::late_ns;
pub use steal::stays;

/// From this share of lost events on, in thousandths, causes are less sure, and nothing is judged
/// wholly.
pub const LOSS_MATTERS: u64 = 20;
/// Fewer events than this are not a finding, unless they take a share of time that is.
const FEW: u64 = 20;
/// A check that asks for most of something asks for this many thousandths.
pub const MOST: u64 = 500;

/// What findings are made from.
#[derive(Debug, Clone, Copy)]
struct Context<'a> {
    at: usize,
    trace: &'a TraceDiagnosis,
    vm: &'a VmTable,
    knobs: &'a BTreeMap<String, String>,
}

/// Under this length a trace is an excerpt: what holds for it may not hold for longer, in
/// nanoseconds.
const EXCERPT_NS: u64 = 100_000_000;
/// Under this length it holds one or two events of a kind, in nanoseconds.
const GLIMPSE_NS: u64 = 1_000_000;

/// The findings of one trace; `alone` are those of single vCPUs.
#[must_use]
pub fn of(
    at: usize,
    trace: &TraceDiagnosis,
    knobs: &BTreeMap<String, String>,
    alone: &[Finding],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let contexts = trace.vms.iter().map(|vm| Context {
        at,
        trace,
        vm,
        knobs,
    });
    for context in contexts.clone() {
        findings.extend(steal::steal(&context));
        findings.extend(held::asleep(&context));
        findings.extend(held::servers(&context));
        findings.extend(slow::uninterruptible(&context));
        findings.extend(slow::exits(&context));
        findings.extend(many::reasons(&context));
        findings.extend(storms::storms(&context));
        findings.extend(pauses::causes(&context));
        findings.extend(pauses::runs(&context));
        findings.extend(boosts::boosts(&context));
        findings.extend(other::calls(&context));
        findings.extend(other::unmarked(&context));
        findings.extend(other::timers(&context));
        findings.extend(other::unknown(&context));
    }
    // What went on while the host stood still is reported once, of the host.
    findings.retain(|finding| !is_of_silence(trace, finding));
    below::doubt(&mut findings);
    pauses::follow(&mut findings);
    host::overcommitted(at, trace, &mut findings);
    alone::add(trace, &mut findings, alone);
    let stalls: Vec<Finding> = contexts
        .filter_map(|context| stalls::longest(&context, &findings))
        .collect();
    findings.extend(stalls);
    findings.extend(host::stood_still(at, trace));
    findings.extend(other::shootdowns(at, trace));
    if trace.loss.lost_permille >= LOSS_MATTERS {
        let lost = trace.loss.lost_permille;
        findings.iter_mut().for_each(|finding| doubt(finding, lost));
    }
    if trace.clock_is_ns && trace.span_ns < EXCERPT_NS {
        let excerpt = |finding: &mut Finding| excerpt(finding, trace.span_ns);
        findings.iter_mut().for_each(excerpt);
    }
    host::weights(trace, &mut findings);
    for finding in &mut findings {
        let refuted = |check: &Check| check.answer == Answer::Refuted;
        if finding.checks.iter().any(refuted) || trace.loss.is_unordered() {
            finding.confidence = Confidence::Low;
        }
    }
    findings
}

/// What lies in losses of events, and who ran until then.
fn in_losses(waits: Option<&WaitTable>, more_ns: u64) -> Evidence {
    let until = waits.and_then(|waits| waits.until_loss.as_deref());
    Evidence::new(EvidenceId::InLosses)
        .ns("more", more_ns)
        .maybe_named("until", until)
}

/// Whether most of what a finding lost, of each vCPU, is the time in which the host was silent.
fn is_of_silence(trace: &TraceDiagnosis, finding: &Finding) -> bool {
    let Some(worst) = &finding.worst else {
        return false;
    };
    let vms = trace.vms.iter();
    let mut vms = vms.filter(|vm| Some(&vm.name) == finding.vm.as_ref());
    let vcpus = vms.next().map_or(1, |vm| vm.vcpus.len());
    let vcpus = u64::try_from(vcpus).unwrap_or(1);
    let of_all = worst.length_ns.saturating_mul(vcpus);
    of_all >= finding.lost_ns / 2 && stalls::in_silence(trace, worst)
}

/// What a short trace shows is there, and how much it is in the long run is not known.
fn excerpt(finding: &mut Finding, span_ns: u64) {
    finding.severity = finding.severity.min(Severity::Major);
    if span_ns < GLIMPSE_NS {
        finding.confidence = finding.confidence.min(Confidence::Medium);
    }
    let length = Evidence::new(EvidenceId::ShortExcerpt).ns("length", span_ns);
    finding.evidence.push(length);
}

fn doubt(finding: &mut Finding, lost_permille: u64) {
    finding.confidence = match finding.confidence {
        Confidence::High => Confidence::Medium,
        _ => Confidence::Low,
    };
    let lost = Evidence::new(EvidenceId::EventsLost).permille("share", lost_permille);
    finding.evidence.push(lost);
    finding
        .sharper_with
        .retain(|of| *of != Sharpener::LostEvents);
    finding.sharper_with.push(Sharpener::LostEvents);
}

impl Context<'_> {
    /// The time that the VM's vCPUs have.
    fn vcpu_ns(&self) -> u64 {
        let vcpus = u64::try_from(self.vm.vcpus.len()).unwrap_or(1).max(1);
        self.trace.span_ns.saturating_mul(vcpus)
    }

    /// How bad a loss is, measured by the time that the VM's vCPUs have.
    fn severity(&self, lost_ns: u64) -> Severity {
        severity(crate::build::permille(lost_ns, self.vcpu_ns()))
    }

    /// Whether it is worth a finding: it happened often, or what it took is felt. A few long
    /// stalls hurt as much as many short ones.
    fn matters(&self, times: u64, lost_ns: u64) -> bool {
        times >= FEW || (times > 0 && self.severity(lost_ns) >= Severity::Major)
    }

    /// Whether the trace shows when KVM goes back to its VMM.
    fn trace_has_user_exits(&self) -> bool {
        let rows = self.vm.exits.iter().flat_map(|row| &row.about);
        let mut told = rows.filter(|of| of.by_vmm.is_some());
        told.next().is_some()
    }

    /// A finding that its maker completes.
    fn finding(&self, id: FindingId, lost_ns: u64, cause: CauseId) -> Finding {
        let vm = Some(self.vm.name.clone());
        let whole_ns = self.vcpu_ns();
        fresh(
            id,
            lost_ns,
            cause,
            self.at,
            vm,
            whole_ns,
            self.trace.span_ns,
        )
    }

    /// A step that turns a knob, with its value.
    fn knob(&self, id: StepId, knob: &str, value: Option<String>) -> Step {
        Step {
            knob: Some(knob.to_owned()),
            value: value.or_else(|| self.knobs.get(knob).cloned()),
            ..step(id)
        }
    }
}

fn fresh(
    id: FindingId,
    lost_ns: u64,
    cause: CauseId,
    trace: usize,
    vm: Option<String>,
    whole_ns: u64,
    span_ns: u64,
) -> Finding {
    let lost_permille = crate::build::permille(lost_ns, whole_ns);
    Finding {
        id,
        of: None,
        severity: severity(lost_permille),
        trace,
        vm,
        vcpu: None,
        lost_ns,
        lost_ns_per_s: per_second(lost_ns, span_ns),
        at_most_ns: None,
        lost_permille,
        evidence: Vec::new(),
        cause,
        culprits: Vec::new(),
        confidence: Confidence::High,
        checks: Vec::new(),
        worst: None,
        next: Vec::new(),
        sharper_with: Vec::new(),
    }
}

fn per_second(ns: u64, span_ns: u64) -> u64 {
    let lost = u128::from(ns) * 1_000_000_000 / u128::from(span_ns.max(1));
    u64::try_from(lost).unwrap_or(u64::MAX)
}

fn severity(lost_permille: u64) -> Severity {
    match lost_permille {
        100.. => Severity::Severe,
        10.. => Severity::Major,
        _ => Severity::Minor,
    }
}

/// A remedy of this project; one that is not shipped is named as not available.
fn remedy(id: StepId, stall: Stall) -> Step {
    let answer = steady_remedies::answer(stall);
    Step {
        remedy: Some(answer.name.to_owned()),
        available: answer.shipped,
        ..step(id)
    }
}

fn step(id: StepId) -> Step {
    Step {
        id,
        name: None,
        knob: None,
        value: None,
        remedy: None,
        available: true,
        gain: None,
    }
}

impl Step {
    fn named(mut self, name: Option<&str>) -> Self {
        self.name = name.map(str::to_owned);
        self
    }

    /// What of `whole_ns` the step removes.
    fn gives(mut self, removes_ns: u64, whole_ns: u64, assumes: Assumption) -> Self {
        let removes_ns = removes_ns.min(whole_ns);
        self.gain = (removes_ns > 0).then_some(Gain {
            removes_ns,
            leaves_ns: whole_ns - removes_ns,
            assumes,
        });
        self
    }
}

/// What can be had first, in the given order; the rest behind it.
fn available_first(mut steps: Vec<Step>) -> Vec<Step> {
    steps.sort_by_key(|step| !step.available);
    steps
}

/// A check that this trace decides.
fn check(id: CheckId, holds: bool, values: Vec<Value>) -> Check {
    let answer = if holds { Answer::Held } else { Answer::Refuted };
    Check { id, answer, values }
}

/// A check that it cannot decide.
fn unanswered(id: CheckId) -> Check {
    Check {
        id,
        answer: Answer::NotAnswerable,
        values: Vec::new(),
    }
}

fn share(name: &str, permille: u64) -> Value {
    Value {
        name: name.to_owned(),
        quantity: Quantity::Permille(permille),
    }
}

fn number(name: &str, count: u64) -> Value {
    Value {
        name: name.to_owned(),
        quantity: Quantity::Count(count),
    }
}

/// A count for each row, under its name.
fn listed<'a>(id: EvidenceId, rows: impl Iterator<Item = &'a Count>) -> Evidence {
    rows.fold(Evidence::new(id), |evidence, row| {
        evidence.count(&row.name, row.count)
    })
}
