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
mod measured;
mod measures;
mod numbers;
mod protection;
mod published;
mod render;
mod reproduction;
mod runs;
mod sensitivity;
mod shares;

pub use beyond::{Beyond, beyond};
pub use calibrate::{Calibration, calibrate};
pub use headline::headline;
pub use measured::Measured;
pub use measures::{fingerprint, result};
pub use numbers::{Kind, Number, measures};
pub use protection::{Protection, Tried, protection};
pub use reproduction::{Figure, Reproduction, numbers_alone, reproduce};
pub use runs::{Settings, WorkloadResults};
