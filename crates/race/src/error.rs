// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a race has no result, and what of it was kept.

use std::fmt;
use std::path::PathBuf;

use thiserror::Error;

use crate::engine::{Fault, Refusal, Trouble, Why};
use crate::place::{FileError, NoRoom};

/// A race without a result.
#[derive(Debug, Error)]
#[error("{reason}{}", Note(kept.as_ref()))]
pub struct RaceError {
    /// Why.
    pub reason: Reason,
    /// What was kept of the runs that were whole, if any was.
    pub kept: Option<Kept>,
}

/// Why a race has no result.
#[derive(Debug, Error)]
pub enum Reason {
    /// The scenario has no such variant.
    #[error("scenario {scenario}: {what}; name one that it has with --variant")]
    Variant {
        /// Name of the scenario.
        scenario: String,
        /// Which variant, and the nearest that there is.
        what: String,
    },
    /// The engine cannot honour the scenario.
    #[error("scenario {scenario}: {refusal}")]
    Refused {
        /// Name of the scenario.
        scenario: String,
        /// What it cannot.
        refusal: Refusal,
    },
    /// There is not enough room.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// A folder of the race could not be made or moved.
    #[error(transparent)]
    File(#[from] FileError),
    /// Something around the runs.
    #[error("{0}")]
    Engine(Trouble),
    /// A run of a variant failed.
    #[error("variant {variant}: {fault}\nlogs: {}", logs.display())]
    Run {
        /// Which variant.
        variant: String,
        /// What happened.
        fault: Fault,
        /// The folder of its logs.
        logs: PathBuf,
    },
    /// What `Until` waits for is not measured.
    #[error("cannot go on until intervals are narrow: {what}")]
    Measure {
        /// What is missing, and what there is.
        what: String,
    },
    /// The result could not be written, or would break the rules of its own schema.
    #[error("the result is not sound: {0}")]
    Unsound(String),
    /// All runs were whole, but there is no result of them.
    #[error("{reason}\nfiles of the runs: {}", files.display())]
    Lost {
        /// Why.
        reason: Box<Reason>,
        /// Folder of the runs.
        files: PathBuf,
    },
}

/// What is kept of a race that did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// How many runs were whole.
    pub whole: usize,
    /// How many were asked for.
    pub runs: usize,
    /// The result of the whole ones, marked as partial.
    pub result: PathBuf,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            whole,
            runs,
            result,
        } = self;
        let verb = if *whole == 1 { "was" } else { "were" };
        write!(
            f,
            "{whole} of {runs} runs {verb} whole, and kept: {}",
            result.display()
        )
    }
}

/// A line on what was kept, or nothing.
struct Note<'a>(Option<&'a Kept>);

impl fmt::Display for Note<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |kept| write!(f, "\n{kept}"))
    }
}

impl<T: Into<Reason>> From<T> for RaceError {
    fn from(reason: T) -> Self {
        Self {
            reason: reason.into(),
            kept: None,
        }
    }
}

impl From<Trouble> for Reason {
    fn from(trouble: Trouble) -> Self {
        Self::Engine(trouble)
    }
}

impl RaceError {
    /// Exit code of the command for this error, as `steady --help` lists them.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match &self.reason {
            Reason::Variant { .. } | Reason::Refused { .. } | Reason::Measure { .. } => 2,
            Reason::Engine(trouble) => trouble.why.exit_code(),
            Reason::Run { .. } => 5,
            Reason::NoRoom(_) | Reason::File(_) | Reason::Unsound(_) | Reason::Lost { .. } => 1,
        }
    }
}

impl Why {
    /// Exit code of the command, as `steady --help` lists them.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Machine => 1,
            Self::Input => 2,
            Self::Missing => 3,
            Self::Build => 4,
            Self::Interrupted => 130,
        }
    }
}
