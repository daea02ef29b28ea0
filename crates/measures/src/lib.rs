// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measures and results: one schema for every engine.
//!
//! Whatever ran a scenario (the host simulator, real kernels under QEMU or Bochs, the coherence
//! simulator), the outcome is a [`RunResult`]: for each variant, for each repetition, a list of
//! [`Metric`]s and [`Distribution`]s. A guest program reports the same two things in one line, a
//! [`WorkloadReport`]. [`Comparison`] puts the variants of one result side by side.
//!
//! All measures are integers with a unit. There are no floats in a result, and nothing in it
//! depends on the wall clock of the machine that ran the engine, except [`RunInfo`], which the
//! digest leaves out. The formats are described in `docs/formats/result.md` and
//! `docs/formats/workload.md`.
//!
//! Left out: what a measure means for an operator (that is diagnosis) and how it is shown (that is
//! the report).

#![forbid(unsafe_code)]

mod against;
mod atomic;
pub mod chance;
mod clock;
mod comparison;
mod distribution;
mod error;
mod histogram;
mod join;
mod json;
mod metric;
pub mod names;
mod ratio;
mod result;
mod validate;
mod workload;

pub use against::Against;
pub use atomic::{WholeFile, write_atomic};
pub use clock::Clock;
pub use comparison::{Cell, Comparison, Key, Row, median};
pub use distribution::{Bucket, Distribution};
pub use error::{Error, Invalid};
pub use histogram::Histogram;
pub use metric::{Better, Metric, Unit};
pub use ratio::Ratio;
pub use result::{
    Artifact, EngineInfo, MAX_RESULT_BYTES, Phase, Repetition, RunInfo, RunResult, SCHEMA,
    ScenarioInfo, VERSION, VariantResult, Warning,
};
pub use validate::{check_metric_name, sha256_hex};
pub use workload::{WORKLOAD_SCHEMA, WORKLOAD_VERSION, WorkloadReport};
