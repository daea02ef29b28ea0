// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The remedies that need no kernel of ours: they act on a running host or guest by what every
//! Linux has.
//!
//! - [`place`]: on a host, parts the busy vCPUs of a VM from each other.
//! - [`fold`]: in a guest, runs on as many vCPUs as it is given time for.
//!
//! Both read through `hostview`, do nothing unless asked to, and undo all of it at their end. The
//! lab runs the same code as an operator, as the program `steady-steer`.

#![forbid(unsafe_code)]

mod error;
pub mod fold;
mod guard;
mod pace;
pub mod place;
mod state;

pub use error::SteerError;
pub use state::{Change, End, State, Undone};
