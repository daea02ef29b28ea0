// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady place`: parts the busy vCPUs of a VM from each other, on a stock kernel, by
//! sched_setaffinity(2).
//!
//! Two vCPUs of one VM on one pCPU wait for each other, also while another pCPU runs a stranger's
//! thread: the scheduler balances load and does not know siblings. Each busy vCPU gets a set of
//! pCPUs that none of its busy siblings may use (`split`). That is a trial, which ends where the
//! VM does not wait less (`judge`), and all of it is undone at the end, also after SIGKILL
//! (`moved`).
//!
//! Left out: which VM runs how much. Weights and limits stay as they are.

mod act;
mod hands;
mod judge;
mod managed;
mod moved;
mod placer;
mod run;
mod sets;
mod split;
mod stacked;
mod threads;

pub use act::{Act, What};
pub use hands::{Hands, Kernel, Tied};
pub use judge::{Bounds, Interval, Judge, Verdict};
pub use moved::Moved;
pub use placer::{Options, Placer};
pub use run::{Arguments, run};
pub use stacked::StackedShare;
