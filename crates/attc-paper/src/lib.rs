// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The experiments of the ATTC paper, and some beyond it, on the simulator `steady_coherence`.
//!
//! One number is calibrated: the sweep rate of the generators, so that the mean overhead of
//! software shootdowns in virtualized runs is Figure 1's 37 %. The other numbers of the main table
//! are predicted with that rate, but for the inputs marked so. Beside them stands what they are
//! with inputs that others have published, settled before the runs (`published`), and how far
//! some of them move with inputs that the paper leaves open; those values were chosen afterwards
//! and are not predictions (`sensitivity`).

#![forbid(unsafe_code)]

mod beyond;
mod calibrate;
mod closed;
mod figures;
mod headline;
mod measured;
mod measures;
mod protection;
mod published;
mod render;
mod reproduction;
mod rows;
mod runs;
mod sensitivity;
mod stated;
mod table;

pub use beyond::{Beyond, beyond};
pub use calibrate::{Calibration, calibrate};
pub use headline::headline;
pub use measured::Measured;
pub use measures::{fingerprint, measures, result};
pub use protection::{Protection, Tried, protection};
pub use reproduction::{Figure, Reproduction, numbers_alone, reproduce};
pub use runs::{FEWEST, Settings, WorkloadResults};
pub use table::{Basis, Row, Verdict};
