// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a guest program prints: one line of JSON with its own metrics and distributions.
//!
//! The program does not know which VM it runs in, so nothing in the line has a scope; whoever reads
//! it adds the VM and the workload.

use serde::{Deserialize, Serialize};

use crate::distribution::Distribution;
use crate::error::{Error, Invalid};
use crate::json;
use crate::metric::Metric;

/// The name of the format.
pub const WORKLOAD_SCHEMA: &str = "steady.workload";
/// The version of the format.
pub const WORKLOAD_VERSION: u32 = 1;

/// The result line of a guest program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadReport {
    schema: String,
    version: u32,
    /// The program's name, such as `shootdown`.
    pub program: String,
    /// Its numbers, without VM and workload.
    pub metrics: Vec<Metric>,
    /// Its histograms, without VM and workload; may be left out of the line.
    #[serde(default)]
    pub distributions: Vec<Distribution>,
}

impl WorkloadReport {
    /// A report of `program` without measures yet.
    #[must_use]
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            schema: WORKLOAD_SCHEMA.to_owned(),
            version: WORKLOAD_VERSION,
            program: program.into(),
            metrics: Vec::new(),
            distributions: Vec::new(),
        }
    }

    /// Parses and checks one line. `origin` stands for it in errors, for instance
    /// `VM vm0, workload latency`.
    ///
    /// # Errors
    /// If it is not such a line, is of a newer version, or contradicts itself.
    pub fn from_line(origin: &str, line: &str) -> Result<Self, Error> {
        let report: Self = json::parse(origin, line.as_bytes(), WORKLOAD_SCHEMA, WORKLOAD_VERSION)?;
        report.check().map_err(|invalid| Error::Invalid {
            origin: origin.to_owned(),
            invalid,
        })?;
        Ok(report)
    }

    /// The line, with a newline at its end and none inside.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut line = String::from_utf8(json::compact(self)).expect("JSON is UTF-8");
        line.push('\n');
        line
    }

    /// The metrics and distributions, of this workload in this VM. The
    /// [`Distribution::summary`] of each distribution joins the metrics, except where the program
    /// gave a metric of that name itself.
    ///
    /// # Errors
    /// If a value of a distribution does not fit a metric.
    pub fn scoped(
        self,
        vm: &str,
        workload: &str,
    ) -> Result<(Vec<Metric>, Vec<Distribution>), Invalid> {
        let mut metrics = self.metrics;
        for distribution in &self.distributions {
            for metric in distribution.summary()? {
                if metrics.iter().all(|known| known.name != metric.name) {
                    metrics.push(metric);
                }
            }
        }
        Ok((
            metrics
                .into_iter()
                .map(|metric| metric.in_vm(vm).of_workload(workload))
                .collect(),
            self.distributions
                .into_iter()
                .map(|found| found.in_vm(vm).of_workload(workload))
                .collect(),
        ))
    }

    fn check(&self) -> Result<(), Invalid> {
        let metrics = self.metrics.iter().map(|metric| {
            let scoped = metric.vm.is_some() || metric.workload.is_some();
            ("metric", metric.name.as_str(), scoped)
        });
        let distributions = self.distributions.iter().map(|found| {
            let scoped = found.vm().is_some() || found.workload().is_some();
            ("distribution", found.name(), scoped)
        });
        let mut seen = std::collections::BTreeSet::new();
        for (kind, name, scoped) in metrics.chain(distributions) {
            if scoped {
                return Err(Invalid::new(format!(
                    "{kind} {name:?} names a VM or a workload; a program leaves both out"
                )));
            }
            if !seen.insert((kind, name)) {
                return Err(Invalid::new(format!(
                    "{kind} {name:?} twice; expected each name once"
                )));
            }
        }
        Ok(())
    }
}
