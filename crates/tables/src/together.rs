// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of one incident, put together: what one shows is held against what the others do.
//!
//! Whether they are of the same time and host the files do not say; so what agrees is `medium` at
//! most, and what disagrees is `low`.

use steady_diagnose::{
    Answer, CauseId, Check, CheckId, Confidence, Finding, FindingId, Quantity, Severity, StepId,
    TraceDiagnosis, Value,
};

use crate::draft::step;
use crate::read::Tables;
use crate::table::{Fact, Table};

/// The tables of one incident.
#[derive(Debug, Default)]
pub struct Incident {
    tables: Vec<(String, Table)>,
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
    pub fn judge(mut self) -> Vec<(TraceDiagnosis, Vec<Finding>)> {
        let facts: Vec<(usize, String, Fact)> = self
            .tables
            .iter()
            .enumerate()
            .flat_map(|(at, (name, table))| {
                table
                    .facts
                    .iter()
                    .map(move |fact| (at, name.clone(), *fact))
            })
            .collect();
        for (at, (_, table)) in self.tables.iter_mut().enumerate() {
            let others: Vec<(&str, Fact)> = facts
                .iter()
                .filter(|(of, ..)| *of != at)
                .map(|(_, name, fact)| (name.as_str(), *fact))
                .collect();
            for finding in &mut table.findings {
                hold(finding, &others);
            }
        }
        let tables = self.tables.into_iter();
        tables
            .map(|(name, table)| table.into_trace(&name))
            .collect()
    }
}

/// Holds a finding against the other files.
fn hold(finding: &mut Finding, others: &[(&str, Fact)]) {
    // Of several files the first by name, whatever their order.
    let has = |wanted: Fact| {
        let of = others.iter().filter(|(_, fact)| *fact == wanted);
        of.map(|(name, _)| *name).min()
    };
    match finding.id {
        FindingId::Steal => steal(finding, has),
        FindingId::KernelComplaint if needs_a_vcpu(finding.cause) => {
            if let Some(name) = has(Fact::Waits).or_else(|| has(Fact::Limit)) {
                held(finding, CheckId::AnotherFileHasWaits, name);
            } else if let Some(name) = has(Fact::NoWaits) {
                refuted(finding, CheckId::AnotherFileHasWaits, name);
            }
        }
        FindingId::Throttled | FindingId::CpuPressure | FindingId::HostBusy => {
            if let Some(name) = has(Fact::Waits) {
                held(finding, CheckId::AnotherFileHasWaits, name);
            }
        }
        _ => {}
    }
}

/// Whether a wait in a log is one that a vCPU off its pCPU would explain.
fn needs_a_vcpu(cause: CauseId) -> bool {
    !matches!(
        cause,
        CauseId::WaitsForIo | CauseId::WaitsForOwner | CauseId::KvmWork
    )
}

fn steal<'n>(finding: &mut Finding, has: impl Fn(Fact) -> Option<&'n str>) {
    if let Some(name) = has(Fact::Limit) {
        // A limit keeps vCPUs off pCPUs whoever else runs; it comes first.
        finding.cause = CauseId::Quota;
        held(finding, CheckId::AnotherFileHasLimit, name);
        finding.next.insert(0, step(StepId::RaiseCpuMax, None));
    } else if let Some(name) = has(Fact::HostFull) {
        finding.cause = CauseId::HostFull;
        held(finding, CheckId::AnotherFileAgrees, name);
    } else if let Some(name) = has(Fact::Waits) {
        held(finding, CheckId::AnotherFileAgrees, name);
    } else if let Some(name) = has(Fact::NoWaits) {
        refuted(finding, CheckId::AnotherFileAgrees, name);
    }
}

fn check(id: CheckId, answer: Answer, name: &str) -> Check {
    let quantity = Quantity::Name(name.to_owned());
    let name = "name".to_owned();
    let values = vec![Value { name, quantity }];
    Check { id, answer, values }
}

fn held(finding: &mut Finding, id: CheckId, name: &str) {
    finding.checks.push(check(id, Answer::Held, name));
    finding.confidence = Confidence::Medium;
    finding.severity = finding.severity.max(Severity::Major);
}

fn refuted(finding: &mut Finding, id: CheckId, name: &str) {
    finding.checks.push(check(id, Answer::Refuted, name));
    finding.confidence = Confidence::Low;
}
