// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the simulator of TLB coherence gives for a scenario's word, and whether a row can be of it.
//!
//! Left out: the simulator. A caller that can run it says what it gives.

use std::collections::{BTreeMap, BTreeSet};

use crate::claim::{Claim, Row};

/// Conditions by their words.
pub type Words = BTreeMap<String, String>;

/// What is simulated for one word.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Simulated {
    /// Of what the simulator does with it.
    pub key: String,
    /// Measures of no workload, each with its conditions; none of what follows by arithmetic.
    pub numbers: BTreeMap<String, Words>,
    /// Measures of each workload.
    pub measures: BTreeSet<String>,
    /// The workloads.
    pub workloads: BTreeSet<String>,
    /// The variants that have measures of workloads, each with its conditions.
    pub variants: BTreeMap<String, Words>,
}

impl Simulated {
    /// Why it cannot give a claim's row; `None` where it can.
    pub(crate) fn lacking(&self, claim: &Claim, row: &Row) -> Option<String> {
        let mut names = std::iter::once(&row.measure).chain(&row.share_of);
        let mut variants = claim.all_variants();
        if !row.is_of_workload() {
            let unknown = names.find(|name| !self.numbers.contains_key(*name));
            let unknown = unknown.map(|name| format!("the simulator gives no measure `{name}`"));
            return unknown.or_else(|| {
                let name = variants.find(|name| self.variants.contains_key(*name))?;
                let measure = &row.measure;
                Some(format!(
                    "the variant `{name}` is of workloads, and `{measure}` of none"
                ))
            });
        }
        if let Some(name) = names.find(|name| !self.measures.contains(*name)) {
            return Some(format!(
                "the simulator gives no measure `{name}` of workloads"
            ));
        }
        let mut workloads = row.workload.iter().chain(&row.mean_over);
        if let Some(name) = workloads.find(|name| !self.workloads.contains(*name)) {
            return Some(format!("the simulator has no workload `{name}`"));
        }
        let name = variants.find(|name| !self.variants.contains_key(*name))?;
        Some(format!(
            "the simulator has no variant `{name}` of workloads"
        ))
    }
}
