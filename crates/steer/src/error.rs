// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a remedy cannot go on.

use std::io;
use std::path::PathBuf;

/// A reason to end. All that was changed is given back first.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SteerError {
    /// Another process has the state file.
    #[error("{0} is held by another that acts already: end that first, or give --state FILE")]
    Held(PathBuf),
    /// The state file cannot be read or written.
    #[error(
        "cannot {what} {path}: {error}; this file keeps what must be undone: give another one with \
         --state FILE"
    )]
    State {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// The kernel refuses to place a thread.
    #[error(
        "not allowed to place thread {tid}: run as root or with CAP_SYS_NICE; without --apply \
         nothing is placed"
    )]
    Denied {
        /// The thread.
        tid: i32,
    },
    /// The host cannot be read.
    #[error("{0} has no threads' times: a Linux with CONFIG_SCHED_INFO is needed")]
    NoTimes(PathBuf),
    /// The guest does not say what is stolen from it.
    #[error(
        "{0} shows no steal: a guest is needed whose hypervisor reports it (KVM_FEATURE_STEAL_TIME)"
    )]
    NoSteal(PathBuf),
    /// There are no control groups that can keep programs on CPUs.
    #[error(
        "{0} has no cpuset controller: cgroup v2 with cpuset is needed, and \
         root's rights to enable it"
    )]
    NoCpuset(PathBuf),
    /// Changes could not be undone.
    #[error(
        "{count} changes could not be undone, since the kernel refused; they stay in {path}: give \
         --undo as root"
    )]
    Refused {
        /// How many.
        count: usize,
        /// The state file.
        path: PathBuf,
    },
    /// The guard could not be started.
    #[error("cannot start the guard, which undoes everything if this process is killed: {0}")]
    Guard(io::Error),
    /// Signals could not be watched for.
    #[error("cannot watch for signals, by which it is ended: {0}")]
    Signals(io::Error),
    /// Words could not be written.
    #[error("cannot write: {0}")]
    Write(io::Error),
}
