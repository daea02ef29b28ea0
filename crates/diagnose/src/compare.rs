// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Before and after: the findings of two groups of traces, matched, and what of their difference
//! may be chance.
//!
//! Findings are the same where kind, exit reason and VM are. A trace in which a finding is below
//! its bound counts with 0. No trace belongs to a certain one of the other group, so the groups
//! are judged as unpaired (`steady_measures::chance::unpaired_ppm`), with the rule for many
//! measures over all rows. One trace of each shows what differs between these two, and no more.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use steady_measures::chance::{least_unpaired_ppm, threshold_ppm, unpaired_ppm};

use crate::model::{CauseId, Diagnosis, Finding, FindingId};

/// Error that a comparison may have, in parts per million.
const LEVEL_PPM: u64 = 50_000;

/// What may be said of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// Less is lost, by more than chance.
    Better,
    /// More is lost, by more than chance.
    Worse,
    /// The traces do not distinguish it from chance.
    NoDifferenceShown,
    /// So few traces could not have shown any.
    TooFewTraces,
}

/// Two groups of traces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// Places of the traces of before.
    pub before: Vec<usize>,
    /// Places of those of after.
    pub after: Vec<usize>,
    /// The findings of either, greatest change first.
    pub rows: Vec<Compared>,
}

/// One finding in both groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    /// What can be seen.
    pub id: FindingId,
    /// The exit reason, where it is about one.
    pub of: Option<String>,
    /// The VM.
    pub vm: Option<String>,
    /// Causes in either group, without repeats.
    pub causes: Vec<CauseId>,
    /// Of the VM's time, thousandths lost in each trace of before.
    pub before_permille: Vec<u64>,
    /// In each of after.
    pub after_permille: Vec<u64>,
    /// Their means.
    pub mean_before_permille: u64,
    /// Their means.
    pub mean_after_permille: u64,
    /// Probability that chance alone sets them as far apart, in parts per million.
    pub chance_ppm: u64,
    /// What may be said.
    pub change: Change,
}

type Key = (FindingId, Option<String>, Option<String>);

/// Compares the findings of two groups of a diagnosis' traces.
#[must_use]
pub fn compare(diagnosis: &Diagnosis, before: &[usize], after: &[usize]) -> Comparison {
    let mut found: BTreeMap<Key, Vec<&Finding>> = BTreeMap::new();
    // What one vCPU of several loses is not a share of its VM's time.
    let of_vms = diagnosis.findings.iter();
    for finding in of_vms.filter(|finding| finding.vcpu.is_none()) {
        let key = (finding.id, finding.of.clone(), finding.vm.clone());
        found.entry(key).or_default().push(finding);
    }
    let rows = found.into_iter();
    let mut rows: Vec<Compared> = rows
        .map(|(key, all)| row(key, &all, before, after))
        .collect();
    let chances: Vec<u64> = rows.iter().map(|row| row.chance_ppm).collect();
    let threshold = threshold_ppm(&chances, LEVEL_PPM);
    let few = least_unpaired_ppm(before.len(), after.len()) > LEVEL_PPM;
    for row in &mut rows {
        let shown = threshold.is_some_and(|threshold| row.chance_ppm <= threshold);
        let (then, now) = (row.mean_before_permille, row.mean_after_permille);
        row.change = match shown {
            _ if few => Change::TooFewTraces,
            true if now < then => Change::Better,
            true if now > then => Change::Worse,
            _ => Change::NoDifferenceShown,
        };
    }
    let by = |row: &Compared| row.mean_before_permille.abs_diff(row.mean_after_permille);
    rows.sort_by(|a, b| {
        by(b)
            .cmp(&by(a))
            .then(a.id.cmp(&b.id))
            .then(a.vm.cmp(&b.vm))
    });
    Comparison {
        before: before.to_vec(),
        after: after.to_vec(),
        rows,
    }
}

fn row((id, of, vm): Key, all: &[&Finding], before: &[usize], after: &[usize]) -> Compared {
    let in_traces = |traces: &[usize]| -> Vec<u64> {
        let lost = |at: &usize| {
            let own = all.iter().filter(|finding| finding.trace == *at);
            own.map(|finding| finding.lost_permille).max().unwrap_or(0)
        };
        traces.iter().map(lost).collect()
    };
    let mean = |values: &[u64]| {
        let count = u64::try_from(values.len()).unwrap_or(1).max(1);
        (values.iter().sum::<u64>() + count / 2) / count
    };
    let (then, now) = (in_traces(before), in_traces(after));
    let mut causes: Vec<CauseId> = all.iter().map(|finding| finding.cause).collect();
    causes.sort();
    causes.dedup();
    Compared {
        id,
        of,
        vm,
        causes,
        mean_before_permille: mean(&then),
        mean_after_permille: mean(&now),
        chance_ppm: unpaired_ppm(&then, &now),
        before_permille: then,
        after_permille: now,
        change: Change::NoDifferenceShown,
    }
}
