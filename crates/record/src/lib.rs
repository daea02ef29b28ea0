// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records what happens on a KVM host into one file that `steady diagnose` reads: for some seconds,
//! or whenever a vCPU waits for long.
//!
//! Recording uses tracefs alone, through an instance of its own ([`Instance`]), and leaves nothing
//! behind however it ends (`guard.rs`). What it costs is probed before ([`Estimate`]); memory, disk
//! and time are bounded.
//!
//! Left out: programs of BPF, hardware counters, and what guests do inside.

#![forbid(unsafe_code)]

mod condition;
mod dat;
mod error;
mod estimate;
mod flight;
mod gather;
mod guard;
mod incident;
mod instance;
mod pages;
mod plan;
mod recorder;
mod redact;
mod shelf;
mod tables;
mod vms;
mod watch;

pub use condition::Condition;
pub use error::RecordError;
pub use estimate::{Estimate, PROBED};
pub use gather::knobs;
pub use incident::{About, Incident, SCHEMA, Waited};
pub use instance::{Events, Instance, Sink};
pub use plan::{Plan, ready};
pub use recorder::{Options, Recorder, fits};
pub use shelf::{Shelf, free};
pub use watch::{Wait, Watch};
