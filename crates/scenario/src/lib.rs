// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Scenario files: what is run, for every engine alike.
//!
//! A scenario names the emulated host, the VMs and their workloads, the variants to race and what
//! to measure. It is written in TOML (`docs/formats/scenario.md` is the reference) and means the
//! same to the simulator, to QEMU and to Bochs; an engine that cannot honour a key says so when it
//! runs, this crate does not.
//!
//! Reading reports every problem of a file at once, each with its line, column, the offending
//! source line, what was expected and the nearest right name:
//!
//! ```
//! let text = "schema = 2\nname = \"x\"\ntitel = \"t\"\n";
//! let problems = steady_scenario::Scenario::parse(text, "x.toml").unwrap_err();
//! let unknown = problems.iter().last().unwrap();
//! assert_eq!((unknown.line, unknown.column), (3, 1));
//! assert_eq!(unknown.message, "unknown key `titel` at the top level");
//! assert_eq!(unknown.label, "did you mean `title`?");
//! ```
//!
//! Left out: running anything, and checking a program's arguments, which are the program's own.

#![forbid(unsafe_code)]

mod conditions;
mod diagnostic;
mod kernel;
mod limits;
mod load;
mod model;
mod program;
mod read;
mod runs;
mod scheduler;
mod variant;
mod words;

pub use conditions::{Conditions, Part, Placement, PvOffered};
pub use diagnostic::{Diagnostic, Diagnostics, Severity};
pub use kernel::Kernel;
pub use limits::{HOST_RESERVE_MIB, MAX_FILE_BYTES, SCHEMA};
pub use load::{LoadError, Noted};
pub use model::{Host, Measure, Pv, Scenario, Switches, UnknownVariant, Vm, Workload};
pub use program::{Origin, PROGRAMS, Program};
pub use runs::{Brought, Runs};
pub use scheduler::Scheduler;
pub use variant::{Chosen, Variant, VmChange};
pub use words::{
    Cgroup, Collect, Dedicated, GuestKernel, Hypervisor, PvFeature, ResultFrom, VcpuPolicy, Vmm,
    Word,
};
