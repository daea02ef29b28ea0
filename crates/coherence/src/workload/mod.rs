// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Generators that stand for the workloads of the paper's Table 3.
//!
//! Threads and footprints are the paper's; the access patterns are assumptions of ours, one
//! sentence each in [`table3`]. What a generator is calibrated to is the mean overhead of
//! shootdowns and nothing else; see [`crate::experiments`].

mod generator;
mod space;
mod table3;

pub use generator::{Generator, GeneratorOptions};
pub use table3::{Mix, Pattern, TABLE_3, Workload, find};
