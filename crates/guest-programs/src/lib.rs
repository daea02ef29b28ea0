// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How each known program is run in a guest, and how its output becomes a [`WorkloadReport`].
//!
//! [`find`] gives a [`Program`]. It says what the guest's image must hold ([`Program::binaries`],
//! [`Program::own_binaries`], [`Program::data`], and [`image::closure`] for the shared libraries),
//! which commands prepare a run ([`Program::prepare`]) and which one is measured
//! ([`Program::command`]), and it reads the output ([`Program::parse`]).
//!
//! The table knows names and words of the programs as Debian 12 and 13 package them. What a report
//! holds is in the documentation of each parser; every report has `time`, the wall clock of the
//! measured command. All numbers are integers: decimals that a program prints are read digit by
//! digit, and throughput is in operations per 1000 seconds.
//!
//! Left out: running anything (an agent in the guest does), and what a scenario may say (that is
//! `steady-scenario`).
//!
//! [`WorkloadReport`]: steady_measures::WorkloadReport

#![forbid(unsafe_code)]

mod command;
mod decimal;
mod error;
mod gives;
pub mod image;
mod output;
mod parse;
mod program;
mod server;

pub use command::Setting;
pub use error::{ArgumentError, ParseError, UnknownProgram};
pub use output::{Exit, Output};
pub use parse::brought;
pub use program::{OWN_DIRECTORY, PROGRAMS, Program, SCRATCH, find};
