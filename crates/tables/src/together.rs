// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The files of one incident, put together: what one shows is compared with what the others do, a
//! trace's findings among them.
//!
//! Whether they are of the same time and host the files do not say; so what agrees is `medium` at
//! most, and what disagrees is `low`. A trace is surer than any table: a table takes the cause from
//! it, and takes none away, but where a limit is reached, or none is set.

use steady_diagnose::{
    Answer, CauseId, Check, CheckId, Confidence, Diagnosis, Finding, FindingId, Quantity, Severity,
    StepId, TraceDiagnosis, Value, VmTable,
};

use crate::draft::step;
use crate::number::permille;
use crate::read::Tables;
use crate::table::{Fact, Table};

/// Up to this share of a VM's time, in thousandths, its vCPUs did not wait.
const NO_WAITS: u64 = 2;

/// The tables of one incident.
#[derive(Debug, Default)]
pub struct Incident {
    tables: Vec<(String, Table)>,
}

/// What a file says, that others are compared with.
#[derive(Debug, Clone)]
struct Known {
    /// Place of the table that says it; of a trace there is none.
    table: Option<usize>,
    name: String,
    fact: Fact,
    /// Why vCPUs waited, as a trace shows it.
    why: Option<CauseId>,
    /// Groups that it is about, if the file names them.
    groups: Vec<String>,
}

/// What the other files say.
struct Others<'k>(Vec<&'k Known>);

impl<'k> Others<'k> {
    /// Of several files a trace, or the first by name, whatever their order.
    fn has(&self, wanted: Fact) -> Option<&'k Known> {
        let of = self.0.iter().filter(|known| known.fact == wanted);
        of.min_by_key(|known| (known.table.is_some(), &known.name))
            .copied()
    }
}

impl Incident {
    /// Adds what one file has.
    pub fn add(&mut self, of_file: Tables) {
        let name = of_file.name;
        let tables = of_file
            .tables
            .into_iter()
            .map(|table| (name.clone(), table));
        self.tables.extend(tables);
    }

    /// Whether there is no table.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Each table as it stands in a trace's place, with what was found in it, in the order in
    /// which they were added.
    #[must_use]
    pub fn judge(self) -> Vec<(TraceDiagnosis, Vec<Finding>)> {
        let known = self.known();
        self.held(&known)
    }

    /// Puts the tables to what traces of the same incident say, and holds each against the other.
    #[must_use]
    pub fn beside(self, mut traces: Diagnosis) -> Diagnosis {
        let of_tables = self.known();
        let mut known = of_tables.clone();
        known.extend(of_traces(&traces));
        let Diagnosis {
            findings,
            traces: all,
            ..
        } = &mut traces;
        for found in findings {
            let vms = all.get(found.trace).map_or(&[][..], |trace| &trace.vms);
            let vm = vms.iter().find(|vm| Some(&vm.name) == found.vm.as_ref());
            let others = of_tables.iter().filter(|known| may_be_of(known, vm));
            hold_trace(found, &Others(others.collect()));
        }
        for (table, findings) in self.held(&known) {
            traces.add_table(table, findings);
        }
        traces.sort();
        traces
    }

    fn known(&self) -> Vec<Known> {
        let tables = self.tables.iter().enumerate();
        let known = tables.flat_map(|(at, (name, table))| {
            table.facts.iter().map(move |fact| Known {
                table: Some(at),
                name: name.clone(),
                fact: *fact,
                why: None,
                groups: table.groups.clone(),
            })
        });
        known.collect()
    }

    fn held(mut self, known: &[Known]) -> Vec<(TraceDiagnosis, Vec<Finding>)> {
        for (at, (_, table)) in self.tables.iter_mut().enumerate() {
            let others = known.iter().filter(|known| known.table != Some(at));
            let others = Others(others.collect());
            table
                .findings
                .iter_mut()
                .for_each(|found| hold(found, &others));
        }
        let tables = self.tables.into_iter();
        tables
            .map(|(name, table)| table.into_trace(&name))
            .collect()
    }
}

/// What the traces show of waits.
fn of_traces(traces: &Diagnosis) -> Vec<Known> {
    let mut known = Vec::new();
    for (at, trace) in traces.traces.iter().enumerate() {
        let mut say = |fact, why| {
            known.push(Known {
                table: None,
                name: trace.name.clone(),
                fact,
                why,
                groups: Vec::new(),
            });
        };
        let waits = |finding: &&Finding| finding.trace == at && is_wait(finding);
        if let Some(worst) = traces.findings.iter().find(waits) {
            say(Fact::Waits, Some(worst.cause));
        } else if !trace.vms.is_empty() && trace.vms.iter().all(|vm| has_no_waits(trace, vm)) {
            say(Fact::NoWaits, None);
        }
    }
    known
}

/// Whether what a table says may be about a VM: what it says of another VM's group is not.
fn may_be_of(known: &Known, vm: Option<&VmTable>) -> bool {
    let vcpus = vm.and_then(|vm| vm.note.as_ref()).map(|note| &note.vcpus);
    let mut own = vcpus
        .into_iter()
        .flatten()
        .filter_map(|vcpu| vcpu.cgroup.as_deref())
        .peekable();
    if known.groups.is_empty() || own.peek().is_none() {
        return true;
    }
    // Its own group, and all above it.
    let mut above = own.flat_map(|group| std::path::Path::new(group).ancestors());
    above.any(|group| {
        let group = group.to_string_lossy();
        group.len() > 1 && known.groups.iter().any(|known| known.ends_with(&*group))
    })
}

fn is_wait(finding: &Finding) -> bool {
    let stall = finding.id == FindingId::LongStall && finding.of.as_deref() == Some("ready");
    stall || matches!(finding.id, FindingId::Steal | FindingId::HostOvercommitted)
}

/// Whether the trace shows that a VM's vCPUs hardly waited.
fn has_no_waits(trace: &TraceDiagnosis, vm: &VmTable) -> bool {
    let vcpus = u64::try_from(vm.vcpus.len()).unwrap_or(u64::MAX);
    let whole_ns = trace.span_ns.saturating_mul(vcpus);
    vm.waits.as_ref().is_some_and(|waits| {
        let at_most_ns = waits.waited_ns.saturating_add(waits.unknown_ns);
        permille(at_most_ns, whole_ns) <= NO_WAITS
    })
}

/// Holds a trace's finding against the tables. What a trace shows stays; that an idle pCPU or
/// another thread kept a vCPU waiting may have been a limit, or not.
fn hold_trace(finding: &mut Finding, others: &Others<'_>) {
    if !is_wait(finding) {
        return;
    }
    let idle = matches!(finding.cause, CauseId::CpuMax | CauseId::IdleBeside);
    if let Some(limit) = others.has(Fact::Limit) {
        finding
            .checks
            .push(check(CheckId::AnotherFileHasLimit, Answer::Held, limit));
        if idle || finding.cause == CauseId::Untold {
            finding.cause = CauseId::CpuMax;
        }
        if finding.confidence == Confidence::High && !idle {
            finding.confidence = Confidence::Medium;
        }
        finding.next.retain(|step| step.id != StepId::RaiseCpuMax);
        let at = usize::from(finding.cause != CauseId::CpuMax).min(finding.next.len());
        finding.next.insert(at, step(StepId::RaiseCpuMax, None));
    } else if let Some(none) = others.has(Fact::NoLimit)
        && finding.cause == CauseId::CpuMax
        && finding.confidence != Confidence::High
        && !finding.is_by_quota()
    {
        finding.cause = CauseId::IdleBeside;
        finding
            .checks
            .push(check(CheckId::AnotherFileHasNoLimit, Answer::Held, none));
        finding.next = vec![step(StepId::LookAtIdle, None)];
        let limits = finding
            .culprits
            .iter_mut()
            .filter(|of| of.kind == "cpu-max");
        limits.for_each(|of| "idle".clone_into(&mut of.kind));
    } else if let Some(waits) = others.has(Fact::Waits) {
        finding
            .checks
            .push(check(CheckId::AnotherFileAgrees, Answer::Held, waits));
    }
}

/// Holds a table's finding against the other files.
fn hold(finding: &mut Finding, others: &Others<'_>) {
    match finding.id {
        FindingId::Steal => steal(finding, others),
        FindingId::KernelComplaint if needs_a_vcpu(finding) => {
            if let Some(known) = others.has(Fact::Waits).or_else(|| others.has(Fact::Limit)) {
                held(finding, CheckId::AnotherFileHasWaits, known);
            } else if let Some(known) = others.has(Fact::NoWaits) {
                refuted(finding, CheckId::AnotherFileHasWaits, known);
            }
        }
        FindingId::KernelComplaint if finding.cause == CauseId::WaitsForIo => {
            if let Some(known) = others.has(Fact::IoWaits) {
                held(finding, CheckId::AnotherFileAgrees, known);
            }
        }
        // Of groups without vCPUs, that vCPUs wait says nothing.
        FindingId::Throttled if finding.of.is_some() => {}
        FindingId::Throttled | FindingId::CpuPressure | FindingId::HostBusy => {
            if let Some(known) = others.has(Fact::Waits) {
                held(finding, CheckId::AnotherFileHasWaits, known);
            }
        }
        _ => {}
    }
}

/// Whether a wait in a log is one that a vCPU off its pCPU would explain.
fn needs_a_vcpu(finding: &Finding) -> bool {
    let mut sides = finding.evidence.iter().filter_map(|of| of.value("side"));
    let of_host = sides.any(|side| matches!(side, Quantity::Name(side) if side == "host"));
    let other = matches!(
        finding.cause,
        CauseId::WaitsForIo | CauseId::WaitsForOwner | CauseId::KvmWork
    );
    !of_host && !other
}

fn steal(finding: &mut Finding, others: &Others<'_>) {
    if let Some(known) = others.has(Fact::Limit) {
        // A limit keeps vCPUs off pCPUs whatever else runs; it comes first.
        finding.cause = CauseId::Quota;
        held(finding, CheckId::AnotherFileHasLimit, known);
        finding.next.insert(0, step(StepId::RaiseCpuMax, None));
    } else if let Some((known, why)) = others.has(Fact::Waits).and_then(|of| Some((of, of.why?))) {
        finding.cause = why;
        held(finding, CheckId::AnotherFileAgrees, known);
    } else if let Some(known) = others.has(Fact::HostFull) {
        finding.cause = CauseId::HostFull;
        held(finding, CheckId::AnotherFileAgrees, known);
    } else if let Some(known) = others.has(Fact::Waits) {
        held(finding, CheckId::AnotherFileAgrees, known);
    } else if let Some(known) = others.has(Fact::NoWaits) {
        refuted(finding, CheckId::AnotherFileAgrees, known);
    }
}

fn check(id: CheckId, answer: Answer, known: &Known) -> Check {
    let quantity = Quantity::Name(known.name.clone());
    let name = "name".to_owned();
    let values = vec![Value { name, quantity }];
    Check { id, answer, values }
}

fn held(finding: &mut Finding, id: CheckId, known: &Known) {
    finding.checks.push(check(id, Answer::Held, known));
    finding.confidence = Confidence::Medium;
    finding.severity = finding.severity.max(Severity::Major);
}

fn refuted(finding: &mut Finding, id: CheckId, known: &Known) {
    finding.checks.push(check(id, Answer::Refuted, known));
    finding.confidence = Confidence::Low;
}
