// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trace-driven, cycle-level simulator of TLB coherence on a multi-core machine.
//!
//! One machine, schemes behind one trait ([`scheme::Scheme`]), an oracle that checks every
//! access ([`oracle`]). A run takes records from a [`record::Source`], a workload generator or a
//! trace; [`compare()`] runs several schemes over one decoded stream. Model, parameters and limits:
//! `docs/COHERENCE.md`. Left out: the ATTC paper's experiments, which `steady_attc_paper` runs.

#![forbid(unsafe_code)]

pub mod block;
pub mod cache;
pub mod captured;
pub mod compare;
pub mod config;
pub mod cores;
pub mod counts;
pub mod dram;
mod error;
pub mod filler;
pub mod front;
pub mod host;
pub mod layout;
pub mod lines;
mod machine;
pub mod mmu;
mod nearest;
mod network;
pub mod num;
pub mod oracle;
pub mod os;
pub mod radix;
pub mod record;
pub mod result;
pub mod scheme;
pub mod sim;
pub mod table;
pub mod workload;

pub use compare::{Comparison, Outcome, compare};
pub use config::MachineConfig;
pub use error::Error;
pub use machine::{Fault, Look, Lookup, Message, View, Walk, Walker};
pub use scheme::{Registry, Scheme, Spec};
pub use sim::Options;
