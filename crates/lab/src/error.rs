// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong in the lab. Each text says what, where to read more, and how to fix it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steady_agent::event::FaultKind;
use steady_lab_artifacts::ArtifactError;
use steady_race::{Fault, Trouble, Why};
use thiserror::Error;

/// An error of the lab.
#[derive(Debug, Error)]
pub enum LabError {
    /// What an emulated host is made of cannot be had.
    #[error(transparent)]
    Artifact(ArtifactError),
    /// The scenario asks for what the engine cannot give.
    #[error("scenario {scenario}: {what}; {limit}")]
    Beyond {
        /// Name of the scenario.
        scenario: String,
        /// What it asks for.
        what: String,
        /// What the engine gives, and how to fix it.
        limit: String,
    },
    /// A run of a variant failed.
    #[error("variant {variant}: {fault}\nlogs: {}", logs.display())]
    Run {
        /// Which variant.
        variant: String,
        /// What happened.
        fault: Box<RunFault>,
        /// The folder of its logs.
        logs: PathBuf,
    },
    /// The user asked to stop.
    #[error("interrupted; every emulator was ended")]
    Interrupted,
}

impl LabError {
    /// A file that could not be read or written: [`ArtifactError::Io`].
    #[must_use]
    pub fn io(action: &'static str, path: &Path, error: io::Error) -> Self {
        ArtifactError::io(action, path, error).into()
    }

    /// The part that must act on it.
    #[must_use]
    pub fn why(&self) -> Why {
        match self {
            Self::Artifact(error) => error.why(),
            Self::Beyond { .. } => Why::Input,
            Self::Run { .. } => Why::Machine,
            Self::Interrupted => Why::Interrupted,
        }
    }
}

impl From<ArtifactError> for LabError {
    fn from(error: ArtifactError) -> Self {
        match error {
            ArtifactError::Interrupted => Self::Interrupted,
            other => Self::Artifact(other),
        }
    }
}

impl From<LabError> for Trouble {
    fn from(error: LabError) -> Self {
        Self {
            why: error.why(),
            error: Box::new(error),
        }
    }
}

impl From<RunFault> for Fault {
    fn from(fault: RunFault) -> Self {
        Self {
            lost: fault.lost(),
            error: Box::new(fault),
        }
    }
}

/// How a run of a variant failed.
#[derive(Debug, Error)]
pub enum RunFault {
    /// The emulated host's kernel panicked.
    #[error("the emulated host panicked: {line} (read serial.log)")]
    HostPanic {
        /// The kernel's words.
        line: String,
    },
    /// Something inside the emulated host failed.
    #[error("{what} (read {file}){tail}")]
    Inside {
        /// Which kind of thing, as the host's init reported it.
        kind: FaultKind,
        /// Which VM and what happened.
        what: String,
        /// The log that has more.
        file: String,
        /// The last words of the guest's console.
        tail: String,
    },
    /// The emulator ended too early.
    #[error(
        "the emulator ended before the host was done: {status}, last step: {step} \
         (read emulator.log and serial.log){disk}"
    )]
    EmulatorEnded {
        /// How it ended.
        status: String,
        /// Whether it ended without an error.
        by_itself: bool,
        /// The last thing that the host reported.
        step: String,
        /// A note if the disk is full.
        disk: String,
    },
    /// Nothing happened within the limit.
    #[error(
        "no end within {limit:?}, last step: {step}; the emulator was killed (read serial.log)"
    )]
    TimeLimit {
        /// The limit.
        limit: Duration,
        /// The last thing that the host reported.
        step: String,
    },
    /// The host no longer gave a sign of life, while the emulator went on or slept.
    #[error(
        "the emulated host stood still: no sign of life in {} s in which its emulator could run; \
         last step: {step}",
        silent.as_secs()
    )]
    StoodStill {
        /// How long the emulator ran or slept since the last one.
        silent: Duration,
        /// The last thing that the host reported.
        step: String,
    },
    /// What the host sent is damaged.
    #[error("the stream from the host is damaged: {0} (read stream.bin){1}")]
    Stream(String, String),
    /// What a program printed cannot be read.
    #[error("VM {vm}, {program}: {what}")]
    Output {
        /// The VM.
        vm: String,
        /// The program.
        program: String,
        /// What is wrong.
        what: String,
    },
    /// What the host reported does not fit the scenario.
    #[error("{0} (read stream.bin)")]
    Report(String),
    /// The run's files could not be read or written.
    #[error("{0}")]
    Files(String),
}

/// The end of a kernel whose registers a world switch lost, as its GS base.
const IN_AN_EXCEPTION: &str = "Fatal exception in interrupt";

impl RunFault {
    /// What was lost if a world switch went wrong: a guest by a triple fault or by a panic in an
    /// exception, or the host by such a panic, by standing still, or by a triple fault, at which
    /// QEMU ends without an error.
    /// `None` for every other fault.
    #[must_use]
    pub fn lost(&self) -> Option<&'static str> {
        match self {
            Self::Inside {
                kind: FaultKind::GuestTripleFault,
                ..
            } => Some("a guest triple-faulted"),
            Self::Inside {
                kind: FaultKind::GuestPanic,
                what,
                ..
            } if what.contains(IN_AN_EXCEPTION) => Some("a guest panicked in an exception"),
            Self::HostPanic { line } if line.contains(IN_AN_EXCEPTION) => {
                Some("the host panicked in an exception")
            }
            Self::EmulatorEnded {
                by_itself: true, ..
            } => Some("the host triple-faulted"),
            Self::StoodStill { .. } => Some("the host stood still"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_lost_by_a_panic_in_an_exception_and_by_no_other() {
        let panics = |words: &str| RunFault::Inside {
            kind: FaultKind::GuestPanic,
            what: format!("VM a: its kernel panicked: Kernel panic - not syncing: {words}"),
            file: "a.console.log".to_owned(),
            tail: String::new(),
        };
        assert!(panics("Fatal exception in interrupt").lost().is_some());
        for other in ["Attempted to kill init!", "VFS: Unable to mount root fs"] {
            assert!(panics(other).lost().is_none(), "{other}");
        }
    }

    #[test]
    fn a_host_is_lost_where_qemu_ends_by_itself_and_not_where_it_was_killed() {
        let ended = |by_itself| RunFault::EmulatorEnded {
            status: "in some way".to_owned(),
            by_itself,
            step: "guest victim up".to_owned(),
            disk: String::new(),
        };
        assert!(ended(true).lost().is_some());
        assert!(ended(false).lost().is_none());
    }

    #[test]
    fn a_guest_is_lost_by_a_triple_fault_and_not_by_one_that_words_speak_of() {
        let inside = |kind| RunFault::Inside {
            kind,
            what: "VM a: triple fault: so it said".to_owned(),
            file: "a.console.log".to_owned(),
            tail: String::new(),
        };
        assert!(inside(FaultKind::GuestTripleFault).lost().is_some());
        for other in [FaultKind::GuestPanic, FaultKind::Vmm, FaultKind::Workload] {
            assert!(inside(other).lost().is_none(), "{other:?}");
        }
    }
}
