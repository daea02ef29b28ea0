// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong with a result: reading it, writing it, or what it says.
//!
//! The text of an error names the file and the place, and says what was expected. It does not
//! repeat its source, because the chain is printed.

use std::path::PathBuf;

/// Why a result or a workload report could not be read, written or compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened or read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file named by the caller.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file could not be written; what stood there before is untouched.
    #[error("cannot write {}; nothing was left behind", path.display())]
    Write {
        /// The file named by the caller.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is larger than any result can be.
    #[error(
        "{} is larger than {limit} bytes, which no result is; is it the right file?",
        path.display()
    )]
    TooLarge {
        /// The file named by the caller.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// A file of another kind.
    #[error(
        "{origin} is not a result: it begins with {found}, expected the result.json that a race \
         wrote; `steady diagnose` reads traces, tables and logs"
    )]
    NotResult {
        /// File name, or what the caller called the text.
        origin: String,
        /// Its first bytes.
        found: String,
    },
    /// Not JSON, or JSON of another shape.
    #[error("{origin}:{line}:{column}: {text}{}", at_key(key))]
    Syntax {
        /// File name, or what the caller called the text.
        origin: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1, as `serde_json` counts them.
        column: usize,
        /// What was found and what was expected.
        text: String,
        /// The key at which reading stopped, such as `variants[0].name`; may be empty.
        key: String,
    },
    /// A document of another kind.
    #[error("{origin}: schema is {found:?}, expected {expected:?}; this is not such a document")]
    WrongSchema {
        /// File name, or what the caller called the text.
        origin: String,
        /// What the document says it is.
        found: String,
        /// What was asked for.
        expected: &'static str,
    },
    /// A document written by a newer program.
    #[error(
        "{origin}: {schema} version {found} is newer than version {newest}, the newest this \
         program reads; use the program that wrote it, or run the scenario again"
    )]
    NewerVersion {
        /// File name, or what the caller called the text.
        origin: String,
        /// The schema's name.
        schema: &'static str,
        /// The version found.
        found: u64,
        /// The newest version known here.
        newest: u32,
    },
    /// The JSON has the right shape but contradicts itself.
    #[error("{origin}: {invalid}")]
    Invalid {
        /// File name, or what the caller called the text.
        origin: String,
        /// What is wrong.
        invalid: Invalid,
    },
    /// A result that is not a piece of the same race as those before it.
    #[error("cannot join {origin}: {why}")]
    CannotJoin {
        /// What the caller called it.
        origin: String,
        /// What stands against it.
        why: Invalid,
    },
    /// A comparison was asked for against a variant that the result does not have.
    #[error("no variant {name:?} to compare against; the result has {}", known.join(", "))]
    NoSuchVariant {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
}

fn at_key(key: &str) -> String {
    if key.is_empty() || key == "." {
        String::new()
    } else {
        format!(" (at {key})")
    }
}

/// A contradiction inside a document: a text that says what is wrong and what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);

impl Invalid {
    /// What is wrong and what was expected, in words.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
