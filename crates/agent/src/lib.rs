// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the lab, the init of the emulated host and the init of a guest say to each other.
//!
//! [`plan`] goes into the emulated host, [`event`] comes out of it as [`frame`]s over a debug
//! port, [`outcome`] is how the VMM reports a guest's end, and [`channel`] is spoken between host and
//! guest over the guest's second serial line. [`complaint`] knows the lines by which a kernel says
//! that something is wrong with it.
//! The program of this package is both inits; this library leaves out everything that it does.

#![forbid(unsafe_code)]

pub mod channel;
pub mod complaint;
pub mod event;
pub mod frame;
pub mod outcome;
pub mod plan;
