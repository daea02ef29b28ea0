// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the tables and logs that people have in place of a trace: of perf, `kvm_stat`, libvirt,
//! bcc, the kernel's files and its log. Each is recognised by the shape of its lines, never by the
//! name of the file, and several may stand in one file.
//!
//! [`read`] takes a file line by line in bounded memory. [`Incident`] puts the tables of one
//! incident together and gives what a diagnosis has of each. A table shows little: no finding here
//! has high confidence, and each says what it cannot show and which command would decide it.
//!
//! Left out: traces (`steady-tracefile` reads them), and tables of other hypervisors.

#![forbid(unsafe_code)]

mod cgroup;
mod clean;
mod counts;
mod cpu_max;
mod domstats;
mod draft;
mod exits;
mod histogram;
mod kind;
mod latency;
mod log;
mod number;
mod proc_sched;
mod psi;
mod read;
mod shapes;
mod slower;
mod steal;
mod table;
mod threads;
mod timehist;
mod together;

pub use kind::Kind;
pub use read::{ReadError, Tables, complains, looks_like_text, read};
pub use together::Incident;
