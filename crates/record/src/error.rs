// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong while a host is recorded, and with a file that was.

use std::io;
use std::path::{Path, PathBuf};

/// Why a recording does not begin, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// tracefs is not mounted where it was expected.
    #[error(
        "{0} is not tracefs: mount it (mount -t tracefs tracefs {0}), on a kernel with tracing \
         (CONFIG_FTRACE); --dry-run prints the commands for elsewhere"
    )]
    NoTracefs(PathBuf),
    /// It may not be used.
    #[error("{0} cannot be used: recording needs root (sudo steady record …)")]
    NoRights(PathBuf),
    /// Root may not use it either.
    #[error("{0} is refused to root too, by a lockdown of the kernel or by a container's rights")]
    Locked(PathBuf),
    /// It may be read alone.
    #[error("{0} is mounted read-only: remount it (mount -o remount,rw {0})")]
    ReadOnly(PathBuf),
    /// None of the tracepoints is there.
    #[error("this kernel has none of the tracepoints; are the KVM modules loaded (modprobe kvm)?")]
    NoEvents,
    /// The ring does not fit.
    #[error("{0}; use a smaller --buffer-kib")]
    Memory(String),
    /// A condition that is not known.
    #[error("`{0}` is not a condition; expected `vCPU waits 100 ms`, from 10 ms to 60 s")]
    Condition(String),
    /// A VM that is not there.
    #[error("no VM `{wanted}` runs here; expected a name or a process of: {there}")]
    NoVm {
        /// What was asked for.
        wanted: String,
        /// The VMs that run.
        there: String,
    },
    /// The kernel does not count waits.
    #[error(
        "the kernel does not count how long threads wait (all zero in {0}): switch it on \
         (sysctl kernel.task_delayacct=1, or boot with `delayacct`)"
    )]
    NoWaits(PathBuf),
    /// The operating system refused.
    #[error("cannot {what} {path}")]
    Io {
        /// A verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file of ours that is damaged.
    #[error("{path}: {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found and expected.
        what: String,
    },
}

impl RecordError {
    /// Names what was done, and where.
    pub(crate) fn io<'p>(
        what: &'static str,
        path: &'p Path,
    ) -> impl FnOnce(io::Error) -> Self + 'p {
        move |source| Self::Io {
            what,
            path: path.to_owned(),
            source,
        }
    }
}
