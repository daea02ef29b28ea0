// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces of a whole emulated host: accesses of all processors with the frames that they reached,
//! the tables that translate them, and what invalidates translations.
//!
//! `lab/bochs-events` writes them; the format, to the byte, is in `docs/formats/hosttrace.md`.
//! [`Counts::read`] counts what happened and walks the recorded tables for each access. Left out:
//! instruction fetches, and the values of data.

mod batches;
mod beside;
mod counts;
mod overlap;
mod rates;
mod roles;
mod sequences;
mod stream;
mod tracker;
mod walk;

pub use batches::{Actor, Update};
pub use beside::{Beside, Comparison, Difference, NotAligned};
pub use counts::Counts;
pub use rates::{Owner, Rates, Updates};
pub use roles::Change;
pub use sequences::{Seen, Sequences, exit, written};
pub use stream::{Context, Event, HostTraceError, MAGIC, Stream};
pub use tracker::{Tracker, What};
pub use walk::{Frames, Step, Walk};
