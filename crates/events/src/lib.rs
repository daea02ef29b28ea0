// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What happens on a KVM host: one model, whatever recorded it.
//!
//! An [`Event`] is one thing at one time on one pCPU in one thread. A trace of trace-cmd, perf or
//! ftrace decodes to it, a simulator makes it, and analyses know nothing else: they take an
//! [`EventSource`]. Raw numbers stay raw (exit code, interrupt vector, guest RIP) and carry what
//! gives them meaning, so that nothing unknown is lost.
//!
//! Left out: the content of guest memory and registers, devices, and everything that does not bear
//! on how vCPUs are scheduled, interrupted and made to wait.

#![forbid(unsafe_code)]

mod event;
mod isa;
pub mod probe;
mod remedy;
mod source;
mod thread;
pub mod timer;
pub mod user_exit;
pub mod vector;

pub use event::{Event, Gap, IrqOf, Kind, Task, TaskState};
pub use isa::{ExitReason, Isa, RipClass};
pub use remedy::{RemedyEvent, RemedyStep};
pub use source::{About, Cut, EventSource, Feed, Loss, ReadError};
pub use thread::vcpu_number;
