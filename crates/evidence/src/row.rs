// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows of claims: a measure of one workload, or its geometric mean over several in each run.

use serde::Deserialize;
use steady_measures::chance::geometric_mean;
use steady_measures::{Comparison, Metric, Repetition};

use crate::claim::Basis;

/// One measure of a claim.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Its word, unique in the claim.
    pub id: String,
    /// The VM; absent for the whole host.
    pub vm: Option<String>,
    /// The workload as results name it; absent for the VM as a whole.
    pub workload: Option<String>,
    /// The workloads of whose values it is the geometric mean, in each run; in place of `workload`.
    #[serde(default)]
    pub mean_over: Vec<String>,
    /// The measure as results name it.
    pub measure: String,
    /// In words.
    pub what: String,
    /// How its numbers came to be; absent: as those of the claim.
    pub basis: Option<Basis>,
}

impl Row {
    /// Whether a metric is this row's, or one of those of which it is the mean.
    #[must_use]
    pub fn is_of(&self, metric: &Metric) -> bool {
        let of = |workload: &Option<String>| {
            (&metric.name, &metric.vm, &metric.workload) == (&self.measure, &self.vm, workload)
        };
        match self.mean_over.as_slice() {
            [] => of(&self.workload),
            all => all.iter().any(|workload| of(&Some(workload.clone()))),
        }
    }

    /// The workload of its values in a comparison: that of a mean is not a run's.
    pub(crate) fn compared_workload(&self) -> Option<String> {
        match self.mean_over.as_slice() {
            [] => self.workload.clone(),
            all => Some(format!("mean over {}", all.join(" "))),
        }
    }

    /// The metric of which it is the mean, in one run; `None` where it is of one metric, where the
    /// run lacks one, where their units differ, and where one is below 1.
    pub(crate) fn mean(&self, run: &Repetition) -> Option<Metric> {
        let found = |workload: &String| {
            let named = |metric: &&Metric| {
                (&metric.name, &metric.vm) == (&self.measure, &self.vm)
                    && metric.workload.as_ref() == Some(workload)
            };
            run.metrics.iter().find(named)
        };
        let all: Option<Vec<&Metric>> = self.mean_over.iter().map(found).collect();
        let all = all?;
        let first = all.first()?;
        // A program of the user's may give another unit to a name.
        if all.iter().any(|metric| metric.unit != first.unit) {
            return None;
        }
        let values: Option<Vec<u64>> = all
            .iter()
            .map(|metric| u64::try_from(metric.value).ok())
            .collect();
        let mean = geometric_mean(&values?)?;
        Some(Metric {
            workload: self.compared_workload(),
            value: i64::try_from(mean).ok()?,
            ..(*first).clone()
        })
    }

    /// Its row of a comparison.
    pub(crate) fn of<'a>(&self, comparison: &'a Comparison) -> Option<&'a steady_measures::Row> {
        let wanted = (&self.measure, &self.vm, &self.compared_workload());
        let mut rows = comparison.rows.iter();
        rows.find(|row| (&row.key.name, &row.key.vm, &row.key.workload) == wanted)
    }
}
