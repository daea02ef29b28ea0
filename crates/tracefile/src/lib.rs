// SPDX-License-Identifier: Apache-2.0 OR MIT
#![forbid(unsafe_code)]
//! Readers of kernel traces: trace-cmd's `trace.dat`, `perf.data`, the text of ftrace, `perf
//! script` and `perf trace`, and Perfetto's traces.
//!
//! [`open`] recognises a trace by its content and gives a [`Source`], which yields [`Record`]s in
//! the order of time, merged over CPUs, in constant memory. Fields are read where the trace's own
//! format descriptions say they are, never at offsets that this crate knows; in text they are read
//! from what was printed. What is missing from a trace is counted in [`Loss`]: a trace that was cut
//! off or damaged gives the records that can be read, and says what could not.
//!
//! Left out: samples of perf that are not tracepoints (they are counted), function-graph and other
//! tracer output that is not an event, the correction of a guest's clock to its host's (its data
//! are in [`About::time_shifts`]), big-endian perf data.

mod about;
mod dat;
mod describe;
mod error;
mod event;
mod format;
mod input;
mod loss;
mod merge;
mod packed;
mod perf;
mod perfetto;
mod recent;
mod record;
mod source;
mod text;
mod words;

pub use about::{About, Endian, Format, Guest, TimeShift, TscToNs};
pub use error::{Error, Place};
pub use event::{EventDef, Field, FieldId, FieldKind};
pub use loss::{CpuLoss, Damage, Gap, Loss, Truncation};
pub use record::Record;
pub use source::{Source, open, open_stream};
