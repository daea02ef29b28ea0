// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Races: the variants of a scenario, run one by one on an engine, become one result.
//!
//! [`race`] does what is the same for every engine: it asks the engine whether it can
//! ([`Engine::check`]), lets it build what is missing ([`Engine::prepare`]), gives each repetition
//! its seed ([`seed_of`]), runs as many beside each other as the engine allows, tries a lost run
//! again, shows a [`Watcher`] how far it has come, and puts the sealed result in its place
//! whole or not at all. An engine is a room of its own behind [`Engine`], and one [`Entry`] of the
//! [`Engines`] that a command offers.
//!
//! Left out: what a run is and how it is measured, which is the engine's; how results are shown.

#![forbid(unsafe_code)]

mod attempt;
mod engine;
mod engines;
mod error;
mod machine;
mod options;
mod place;
mod race;
mod result;
mod schedule;
mod seed;
mod shell;
mod until;
pub mod watcher;

pub use engine::{Engine, Failed, Fault, Info, Job, Outcome, Prepared, Refusal, Trouble, Why};
pub use engines::{Engines, Entry, UnknownEngine};
pub use error::{Kept, RaceError, Reason};
pub use machine::{Machine, ThisMachine, free_bytes, interrupted};
pub use options::Options;
pub use place::{FileError, NEED_MIB, NoRoom, check_room, replace};
pub use race::{Race, race, race_on};
pub use seed::seed_of;
pub use shell::{for_shell, quoted};
pub use until::Until;
pub use watcher::{Silent, Watcher};
