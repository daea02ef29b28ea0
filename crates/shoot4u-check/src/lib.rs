// SPDX-License-Identifier: Apache-2.0 OR MIT
#![forbid(unsafe_code)]
//! Checks from a trace that no vCPU could run on a translation that a completed Shoot4U call had
//! revoked.
//!
//! It models a TLB whose entries are tagged by vCPU (VPID on VMX, ASID on SVM) and live on one
//! pCPU. Emulators keep no such entries over a world switch, so a forgotten invalidation never
//! shows there as a stale access; in this model it does. The model errs on one side: wherever a
//! vCPU may have run since the last whole invalidation, any translation may be cached.
//!
//! [`Checker`] takes [`Stamped`] events one by one and gives a [`Report`]; [`check_file`] feeds it
//! from a recorded trace.
//!
//! Left out: contexts of nested guests (VPID02), the host's own walks of guest page tables while
//! it emulates an instruction, translations of devices, and which PCID an entry has. A process
//! that holds two VMs counts as one VM, as the trace cannot distinguish them.

mod checker;
mod context;
mod decode;
mod doubt;
mod event;
mod ranges;
mod report;

pub use checker::Checker;
pub use decode::{Error, check_file, check_sources};
pub use doubt::{Doubt, DoubtKind};
pub use event::{Action, Event, FlushKind, Range, Stamped, VcpuId};
pub use ranges::Ranges;
pub use report::{Counts, Report, Use, Verdict, Violation};
