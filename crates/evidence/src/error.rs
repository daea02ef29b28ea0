// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be wrong with evidence: a file, a claim, a record, a page.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why what is written to a `String` is not checked.
pub(crate) const INFALLIBLE: &str = "writing to a String cannot fail";

/// Why evidence could not be read, recorded or rendered.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be read or written.
    #[error("cannot {action} {}: {error}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A file of claims or of a paper is not what its format says.
    #[error("{}: {text}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, what was found, what was expected.
        text: String,
    },
    /// Claims, papers, records or pages contradict each other or their scenarios.
    #[error("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Unsound {
        /// Every problem that was found.
        problems: Vec<Problem>,
    },
    /// A recorded result cannot be used.
    #[error("{}: {text}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong, and how to fix it.
        text: String,
    },
    /// The folder of evidence is empty or not there.
    #[error(
        "no {what} `{wanted}`: {} has none; expected the evidence of a checkout or of the whole \
         package", folder.display()
    )]
    None {
        /// What was asked for.
        what: &'static str,
        /// The name asked for.
        wanted: String,
        /// Where evidence is expected.
        folder: PathBuf,
    },
    /// No claim, system or paper of that name.
    #[error("no {what} `{wanted}`; there are: {}", known.join(", "))]
    Unknown {
        /// What was asked for: `claim`, `paper`.
        what: &'static str,
        /// The name asked for.
        wanted: String,
        /// The names that exist.
        known: Vec<String>,
    },
}

/// One thing that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// File, and the claim, row or item in it.
    pub place: String,
    /// What is wrong, what was expected.
    pub text: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

impl Problem {
    pub(crate) fn new(place: impl Into<String>, text: impl Into<String>) -> Self {
        let (place, text) = (place.into(), text.into());
        Self { place, text }
    }
}

impl Error {
    pub(crate) fn file(action: &'static str, path: &std::path::Path, error: io::Error) -> Self {
        let path = path.to_owned();
        Self::File {
            action,
            path,
            error,
        }
    }
}
