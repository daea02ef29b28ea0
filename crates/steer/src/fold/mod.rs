// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady fold`: in a guest, keeps programs on as many vCPUs as the guest is given time for.
//!
//! A guest with more running vCPUs than its share has vCPUs that wait for the host while they hold
//! a lock or are to answer a shootdown. On fewer CPUs its own scheduler decides who waits. Where
//! all guests of a host fold, all gain. One that folds alone leaves its time to others: it sees
//! that no less is stolen, and stops (`judge`). All is undone at the end, also after SIGKILL
//! (`groups`).
//!
//! Left out: guests whose hypervisor does not report steal.

mod folder;
mod groups;
mod judge;
mod run;
mod share;
mod threads;

pub use folder::{Act, Folder, What};
pub use groups::Written;
pub use judge::{Bounds, Judge, Verdict};
pub use run::{Arguments, run};
pub use share::Did;
