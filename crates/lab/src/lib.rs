// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab: real Linux/KVM hosts with real nested guests, emulated, so that no virtualization
//! hardware is needed.
//!
//! [`race::Lab`] is an engine of `steady-race`: QEMU or Bochs. It lets `steady_lab_artifacts` build
//! what is missing and pack the images, boots one emulated host for each run ([`engine`]), and
//! turns what the host's init reports into measures ([`measure`]). What happens inside the emulated
//! host is in the package `steady-agent`. [`host`] runs a shell or a program of the user's on such
//! a host instead. Left out: KVM's selftests (`steady_selftest`), and how a result is shown.

#![forbid(unsafe_code)]

pub mod chance;
mod describe;
pub mod engine;
pub mod error;
pub mod host;
mod kernels;
pub mod measure;
pub mod race;
pub mod translate;
pub mod wanted;

pub use error::{LabError, RunFault};
pub use race::Lab;
