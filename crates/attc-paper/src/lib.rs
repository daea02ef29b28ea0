// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The experiments of the ATTC paper, and some beyond it, on the simulator `steady_coherence`.
//!
//! One number is calibrated: the sweep rate of the generators, so that the mean overhead of
//! software shootdowns in virtualized runs is Figure 1's 37 %. The other numbers are predicted with
//! that rate, but for those that the claim marks as input. Beside them stands what they are with
//! inputs that others have published, settled before the runs (`published`), and how far some of
//! them move with inputs that the paper leaves open; those values were chosen afterwards and are
//! not predictions (`sensitivity`). Left out: what the paper has. `evidence/papers/attc.toml` holds
//! it, and `steady_evidence` compares.

#![forbid(unsafe_code)]

mod beyond;
mod calibrate;
mod closed;
mod figures;
mod headline;
mod inputs;
mod jobs;
mod measured;
mod measures;
mod number;
mod numbers;
mod protection;
mod published;
mod render;
mod reproduction;
mod runs;
mod scenarios;
mod sensitivity;
mod shares;
mod vendors;
mod workloads;

pub use beyond::{Beyond, beyond};
pub use calibrate::{Calibration, calibrate};
pub use closed::by_agent;
pub use headline::headline;
pub use measured::Measured;
pub use measures::result;
pub use number::{Kind, Number};
pub use protection::{Protection, Tried, protection};
pub use published::VICTIMA_WALK;
pub use reproduction::{Figure, Reproduction, reproduce};
pub use runs::{Settings, WorkloadResults};
pub use scenarios::{Scenario, keys, scenarios, simulate};
