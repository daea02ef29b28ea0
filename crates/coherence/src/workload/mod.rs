// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Generators that stand for the workloads of the paper's Table 3.
//!
//! Threads and footprints are the paper's; the access patterns are assumptions of ours, one
//! sentence each in [`table3`]. What a generator is calibrated to is the mean overhead of
//! shootdowns and nothing else, by [`CALIBRATED_RATE`].

mod generator;
mod space;
mod table3;

pub use generator::{Generator, GeneratorOptions};
pub use table3::{Mix, Pattern, TABLE_3, Workload, find};

/// Pages swept per 10^11 instructions and MiB of footprint at which software shootdowns cost the
/// paper's 37 % in the mean (Figure 1). `steady reproduce attc --calibrate` finds it.
pub const CALIBRATED_RATE: u32 = 631;
