// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rows of claims: a measure of one workload, or what follows from several in each run: a geometric
//! mean over workloads, or a share of a sum.

use serde::Deserialize;
use steady_measures::chance::geometric_mean;
use steady_measures::{Comparison, Metric, Repetition, Unit};

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
    /// The measures, its own among them, of whose sum it is the share, in each run.
    #[serde(default)]
    pub share_of: Vec<String>,
    /// The measure as results name it.
    pub measure: String,
    /// In words.
    pub what: String,
    /// How its numbers came to be; absent: as those of the claim.
    pub basis: Option<Basis>,
}

impl Row {
    /// Whether its values are the other's, whatever both are called.
    pub(crate) fn has_values_of(&self, other: &Self) -> bool {
        let of_one = (&self.vm, &self.workload, &self.measure)
            == (&other.vm, &other.workload, &other.measure);
        of_one && (&self.mean_over, &self.share_of) == (&other.mean_over, &other.share_of)
    }

    /// Whether a metric is this row's, or one of those that it follows from.
    #[must_use]
    pub fn is_of(&self, metric: &Metric) -> bool {
        let names = std::slice::from_ref(&self.measure);
        let mut names = names.iter().chain(&self.share_of);
        let workload = metric.workload.as_ref();
        let of_workload = match self.mean_over.as_slice() {
            [] => workload == self.workload.as_ref(),
            all => workload.is_some_and(|one| all.contains(one)),
        };
        metric.vm == self.vm && of_workload && names.any(|name| name == &metric.name)
    }

    /// Whether it is of one workload or of several.
    pub(crate) fn is_of_workload(&self) -> bool {
        self.workload.is_some() || !self.mean_over.is_empty()
    }

    /// The workload of its values in a comparison: what follows from several is not a run's own.
    pub(crate) fn compared_workload(&self) -> Option<String> {
        if !self.share_of.is_empty() {
            let of = self.workload.as_deref().unwrap_or_default();
            return Some(format!("{of} as a share of {}", self.share_of.join(" ")));
        }
        match self.mean_over.as_slice() {
            [] => self.workload.clone(),
            all => Some(format!("mean over {}", all.join(" "))),
        }
    }

    /// What follows from several metrics of one run; `None` where the row is of one metric, and
    /// where the run lacks one or their units differ.
    pub(crate) fn derived(&self, run: &Repetition) -> Option<Metric> {
        let metric = match self.share_of.as_slice() {
            [] => self.mean(run),
            _ => self.share(run),
        }?;
        Some(Metric {
            workload: self.compared_workload(),
            ..metric
        })
    }

    fn metric<'a>(
        &self,
        run: &'a Repetition,
        name: &str,
        workload: Option<&String>,
    ) -> Option<&'a Metric> {
        let named = |metric: &&Metric| {
            (metric.name.as_str(), &metric.vm) == (name, &self.vm)
                && metric.workload.as_ref() == workload
        };
        run.metrics.iter().find(named)
    }

    /// No mean where a value is below 1.
    fn mean(&self, run: &Repetition) -> Option<Metric> {
        let found = |workload| self.metric(run, &self.measure, Some(workload));
        let all: Option<Vec<&Metric>> = self.mean_over.iter().map(found).collect();
        let all = all?;
        let first = of_one_unit(&all)?;
        let values: Option<Vec<u64>> = all
            .iter()
            .map(|metric| u64::try_from(metric.value).ok())
            .collect();
        let mean = geometric_mean(&values?)?;
        Some(Metric {
            value: i64::try_from(mean).ok()?,
            ..first.clone()
        })
    }

    /// No share of a sum that is 0.
    fn share(&self, run: &Repetition) -> Option<Metric> {
        let found = |name: &String| self.metric(run, name, self.workload.as_ref());
        let all: Option<Vec<&Metric>> = self.share_of.iter().map(found).collect();
        let all = all?;
        of_one_unit(&all)?;
        let sum: i128 = all.iter().map(|metric| i128::from(metric.value)).sum();
        let own = found(&self.measure)?;
        let ppm = (i128::from(own.value) * 1_000_000).checked_div(sum)?;
        Some(Metric {
            value: i64::try_from(ppm).ok()?,
            unit: Unit::Ppm,
            ..own.clone()
        })
    }

    /// Its row of a comparison.
    pub(crate) fn of<'a>(&self, comparison: &'a Comparison) -> Option<&'a steady_measures::Row> {
        let wanted = (&self.measure, &self.vm, &self.compared_workload());
        let mut rows = comparison.rows.iter();
        rows.find(|row| (&row.key.name, &row.key.vm, &row.key.workload) == wanted)
    }
}

/// The first of them, if all have its unit: a program of the user's may give another to a name.
fn of_one_unit<'a>(all: &[&'a Metric]) -> Option<&'a Metric> {
    let first = all.first()?;
    let same = all.iter().all(|metric| metric.unit == first.unit);
    same.then_some(first)
}
