// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab: real Linux/KVM hosts with real nested guests, emulated, so that no virtualization
//! hardware is needed.
//!
//! [`race::Lab`] is an engine of `steady-race`: QEMU or Bochs. It builds what is missing
//! ([`artifact`]), makes the images ([`image`]), boots one emulated host for each run ([`engine`]),
//! and turns what the host's init reports into measures ([`measure`]). What happens inside the
//! emulated host is in the package `steady-agent`. [`selftest::run`] runs KVM selftests on such a
//! host instead, [`host`] a shell or a program of the user's. Left out: how a result is shown.

#![forbid(unsafe_code)]

pub mod artifact;
pub mod chance;
mod describe;
pub mod doctor;
pub mod engine;
pub mod error;
pub mod home;
pub mod host;
pub mod image;
mod kernels;
pub mod measure;
pub mod process;
pub mod race;
pub mod selftest;
pub mod translate;

pub use error::{LabError, RunFault};
pub use home::Home;
pub use race::Lab;
pub use steady_race::watcher::{self, Silent, Watcher};
