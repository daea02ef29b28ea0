// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what the emulated host counted to the measures of a repetition.

pub mod assemble;
pub mod complaint;
pub mod over_vms;
pub mod spans;
pub mod symbol;
