// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From what happened on a KVM host to what hurts its guests, why, and what would help.
//!
//! [`Diagnoser`] takes streams of events, of traces or of a simulator, one after another, each in
//! one pass and in memory bounded by the number of vCPUs, and gives a [`Diagnosis`]: first what is
//! missing and cannot be concluded, then [`Finding`]s, worst first, then the tables behind them.
//!
//! Left out: how a diagnosis is shown (`steady_diagnosis_view`), and what a remedy in the kernel
//! would give (that is for a race in the lab).

#![forbid(unsafe_code)]

mod about;
mod analysis;
mod asleep;
mod before;
mod boost;
mod build;
mod calls;
mod cause;
mod clock;
mod compare;
mod detail;
mod diagnoser;
mod exits;
mod findings;
mod guest;
mod judged;
mod machine;
mod missing;
mod model;
mod names;
mod notes;
mod of_vcpu;
mod owner;
mod pause;
mod pcpus;
mod placement;
mod preempt;
mod remedies;
mod rivals;
mod role;
mod seen;
mod servers;
mod silence;
mod spread;
mod symbols;
pub mod timer;
mod vmm;
mod waits;

pub use analysis::{Analysis, Effect, NO_CPU};
pub use boost::{Decided, Instead, Outcome, Tally};
pub use calls::Receiver;
pub use cause::{Cause, cause_of};
pub use compare::{Change, Compared, Comparison, compare};
pub use detail::{Detail, device};
pub use diagnoser::{DiagnoseError, Diagnoser, Slice, Sought};
pub use machine::{Ground, Machine, State, Vcpu, VcpuId, VmId};
pub use model::*;
pub use names::Who;
pub use notes::{NOTES_SCHEMA, NOTES_VERSION, NotesError, VcpuNote, VmNote, VmNotes};
pub use of_vcpu::OfVcpu;
pub use remedies::{OfRemedy, Remedies};
pub use role::{Role, Work, role_of};
pub use seen::Seen;
pub use spread::Spread;
pub use symbols::{Shift, Symbols, SymbolsError};
pub use waits::{Rival, Stall};
