// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lab for real: emulated hosts, nested guests, and every fault that a test can provoke.
//!
//! These tests boot kernels. What runs in QEMU, whose clock is the wall, or looks at processes and
//! limits takes the machine alone (a lock). Tests run in the order of their names: those that take
//! it behind long runs in Bochs are in rooms of their own at the end, so that no CPU waits idle.

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
mod rivals;
mod selftest;
mod shoot4u;
mod support;
mod task_scheduler;
mod under_qemu;
mod under_qemu_kernels;
mod unit_tests;
