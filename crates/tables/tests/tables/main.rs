// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is each kind of table read in the versions that its tools print, and is what it shows right? The
//! inputs are written for these tests in the tools' layouts; what is expected was worked out by
//! hand from their numbers, beside each.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod any_bytes;
mod cases;
mod complaints;
mod counts;
mod cpus;
mod exits;
mod histograms;
mod kernel_files;
mod libvirt;
mod logs;
mod threads;
mod together;
mod unknown;

use steady_diagnose::{Evidence, EvidenceId, Finding, FindingId, Quantity, TraceDiagnosis};
use steady_tables::{Incident, Kind, Tables, read};

/// The tables of a text.
fn tables(text: &str) -> Tables {
    read(&mut text.as_bytes(), "input").unwrap()
}

/// The one kind of table that a text has, and what is found in it.
fn judged(text: &str) -> (Kind, Vec<Finding>) {
    let (kind, _, findings) = whole(text);
    (kind, findings)
}

fn whole(text: &str) -> (Kind, TraceDiagnosis, Vec<Finding>) {
    let tables = tables(text);
    let kinds = tables.kinds();
    assert_eq!(kinds.len(), 1, "{kinds:?} in {text}");
    let mut incident = Incident::default();
    incident.add(tables);
    let (trace, findings) = incident.judge().remove(0);
    for finding in &findings {
        assert!(
            !finding.next.is_empty() || finding.of.is_some(),
            "{finding:?}"
        );
    }
    (kinds[0], trace, findings)
}

/// The only finding of this kind.
fn only(findings: &[Finding], id: FindingId) -> &Finding {
    let found: Vec<&Finding> = findings.iter().filter(|finding| finding.id == id).collect();
    assert_eq!(found.len(), 1, "{id:?} in {findings:#?}");
    found[0]
}

/// The first piece of evidence of this kind.
fn evidence(finding: &Finding, id: EvidenceId) -> &Evidence {
    let found = finding.evidence.iter().find(|evidence| evidence.id == id);
    found.unwrap_or_else(|| panic!("{id:?} in {finding:#?}"))
}

/// A number of a piece of evidence, whatever its unit.
fn number(evidence: &Evidence, name: &str) -> u64 {
    match evidence.value(name) {
        Some(
            Quantity::Count(value)
            | Quantity::Ns(value)
            | Quantity::Permille(value)
            | Quantity::Number(value),
        ) => *value,
        other => panic!("{name} is {other:?} in {evidence:?}"),
    }
}

/// A name in a piece of evidence.
fn name<'e>(evidence: &'e Evidence, name: &str) -> &'e str {
    match evidence.value(name) {
        Some(Quantity::Name(value)) => value,
        other => panic!("{name} is {other:?} in {evidence:?}"),
    }
}
