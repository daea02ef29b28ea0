// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From the records of a kernel trace to [`steady_events`]: the one place where it is written down
//! which tracepoint is which event, and in which of its fields what is.
//!
//! [`Decoder`] reads a record at a time; [`TraceEvents`] makes a whole trace a source of events.
//! Each event is one [`Row`] of a table; who wants another gives a row of his own
//! ([`Decoder::with`]).
//!
//! Left out: what only one remedy knows (the checker of Shoot4U reads its tracepoints itself; here
//! they are [`steady_events::RemedyEvent`]s like any other's), and every conclusion.

#![forbid(unsafe_code)]

mod decoder;
mod fields;
mod remedy;
mod rows;
mod stream;

pub use decoder::Decoder;
pub use fields::{Fields, MOST_FIELDS, MOST_NAMES, Row};
pub use stream::TraceEvents;
