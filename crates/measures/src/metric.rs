// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One number with its unit: what it is of, what it is called, and which way is better.
//!
//! A value is an integer. Where a rate needs a fraction, the unit carries it: throughput is counted
//! in operations per 1000 seconds, a share in parts per million.

use serde::{Deserialize, Deserializer, Serialize};

use crate::validate::check_metric_name;

/// The unit of a metric or of a distribution's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Unit {
    /// Nanoseconds of the engine's clock (see [`crate::Clock`]).
    #[serde(rename = "ns")]
    Ns,
    /// Processor cycles.
    #[serde(rename = "cycles")]
    Cycles,
    /// Retired instructions.
    #[serde(rename = "instructions")]
    Instructions,
    /// How many times something happened, or how many there were.
    #[serde(rename = "count")]
    Count,
    /// Parts per million of a whole.
    #[serde(rename = "ppm")]
    Ppm,
    /// Instructions per million cycles: a rate to a millionth of an instruction per cycle.
    #[serde(rename = "instructions/Mcycle")]
    InstructionsPerMcycle,
    /// Bytes.
    #[serde(rename = "bytes")]
    Bytes,
    /// Bytes per second.
    #[serde(rename = "bytes/s")]
    BytesPerSecond,
    /// Operations per 1000 seconds: a throughput to a thousandth of an operation per second.
    #[serde(rename = "ops/ks")]
    OpsPerKs,
}

impl Unit {
    /// The unit as the result file writes it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ns => "ns",
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
            Self::Count => "count",
            Self::Ppm => "ppm",
            Self::InstructionsPerMcycle => "instructions/Mcycle",
            Self::Bytes => "bytes",
            Self::BytesPerSecond => "bytes/s",
            Self::OpsPerKs => "ops/ks",
        }
    }
}

impl std::fmt::Display for Unit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Which direction of a metric an operator wishes for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Smaller is better: a latency, a number of VM exits.
    Lower,
    /// Larger is better: a throughput.
    Higher,
    /// Neither: a number that explains others.
    Neutral,
}

/// One number measured in one repetition of one variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// The VM it is of; `None` for the whole host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<String>,
    /// The workload in that VM; `None` for the VM as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// Dotted name, such as `shootdown.latency.p99` or `exits.EXTERNAL_INTERRUPT`; the rules are
    /// those of [`check_metric_name`].
    #[serde(deserialize_with = "checked_name")]
    pub name: String,
    /// Unit of `value`.
    pub unit: Unit,
    /// Which way is better.
    pub better: Better,
    /// The number.
    pub value: i64,
}

impl Metric {
    /// A metric of the whole host; narrow it with [`Metric::in_vm`] and [`Metric::of_workload`].
    ///
    /// The name is checked when the result is saved, not here.
    #[must_use]
    pub fn new(name: impl Into<String>, unit: Unit, better: Better, value: i64) -> Self {
        Self {
            vm: None,
            workload: None,
            name: name.into(),
            unit,
            better,
            value,
        }
    }

    /// The same metric, of this VM.
    #[must_use]
    pub fn in_vm(mut self, vm: impl Into<String>) -> Self {
        self.vm = Some(vm.into());
        self
    }

    /// The same metric, of this workload.
    #[must_use]
    pub fn of_workload(mut self, workload: impl Into<String>) -> Self {
        self.workload = Some(workload.into());
        self
    }
}

/// Refuses a bad name where it stands, so that the error carries line and column.
pub(crate) fn checked_name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    check_metric_name(&name).map_err(serde::de::Error::custom)?;
    Ok(name)
}
