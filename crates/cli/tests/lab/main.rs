// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab for real: emulated hosts, nested guests, and every fault that a test can provoke.
//!
//! These tests boot kernels. They take the machine one after another (a lock), since QEMU's clock
//! is the wall; Bochs runs use both CPUs by themselves.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

mod capture;
mod fault;
mod host;
mod images;
mod interrupt;
mod paratick;
mod place;
mod programs;
mod race;
mod record;
mod scx;
mod selftest;
mod shoot4u;
mod support;
mod talk;
mod unit_tests;
