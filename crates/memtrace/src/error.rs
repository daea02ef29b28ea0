// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors: each says which file, where in it, what was expected and what was found.

use std::fmt;
use std::io;

/// Where in a trace something is: file, chunk and byte offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file's path, or the name given to a stream.
    pub file: String,
    /// Chunk, counted from 0, if the place lies in one.
    pub chunk: Option<u64>,
    /// Record within the chunk, counted from 0, if the place is one record.
    pub record: Option<u64>,
    /// Byte offset from the start of the file. For a place inside a compressed chunk, the offset
    /// of the chunk.
    pub offset: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if let Some(chunk) = self.chunk {
            write!(f, "chunk {chunk}, ")?;
        }
        if let Some(record) = self.record {
            write!(f, "record {record}, ")?;
        }
        write!(f, "byte {}", self.offset)
    }
}

/// What can go wrong with a trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The operating system refused.
    #[error("{file}: cannot {action}: {error}")]
    Io {
        /// The file's path or the stream's name.
        file: String,
        /// What was tried, as a verb phrase: "read", "create".
        action: &'static str,
        /// The system's reason.
        error: io::Error,
    },
    /// The file is empty.
    #[error("{file}: the file is empty; expected a trace. Capture it again")]
    Empty {
        /// The file's path or the stream's name.
        file: String,
    },
    /// The input holds no access, so nothing can be simulated on it.
    #[error(
        "{file}: it holds no memory access; expected one load or store at least. \
         Is it a trace, and whole?"
    )]
    NoAccesses {
        /// The file's path or the inputs' names.
        file: String,
    },
    /// The file is something else.
    #[error(
        "{file}: not a memory trace: it begins with {found}, expected {expected}. \
         Traces of other tools must be converted first: steady coherence convert"
    )]
    Foreign {
        /// The file's path or the stream's name.
        file: String,
        /// The first bytes, printable.
        found: String,
        /// The magic, printable.
        expected: String,
    },
    /// A later version of the format.
    #[error(
        "{file}: format version {found}, this program reads version {expected}. \
         Capture again or use the program that wrote it"
    )]
    Version {
        /// The file's path or the stream's name.
        file: String,
        /// Version in the file.
        found: u32,
        /// Version this program reads.
        expected: u32,
    },
    /// The file ends too early.
    #[error(
        "{place}: the file ends inside the {what}: expected {expected} bytes, found {found}. \
         It is truncated; copy or capture it again"
    )]
    Truncated {
        /// Where the part that is cut begins.
        place: Box<Place>,
        /// Which part is cut.
        what: &'static str,
        /// Bytes that part needs.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// The bytes contradict themselves.
    #[error("{place}: damaged: {what}: expected {expected}, found {found}")]
    Damaged {
        /// Where.
        place: Box<Place>,
        /// Which fact is wrong.
        what: &'static str,
        /// What would be right.
        expected: String,
        /// What the file says.
        found: String,
    },
    /// The file is intact, but what it says cannot have happened.
    #[error("{place}: invariant broken: {what}: expected {expected}, found {found}")]
    Invariant {
        /// Where.
        place: Box<Place>,
        /// Which invariant.
        what: &'static str,
        /// What would be right.
        expected: String,
        /// What the trace says.
        found: String,
    },
    /// A known format, or a combination of inputs, that is not read.
    #[error("{file}: cannot be read: {what}")]
    Unsupported {
        /// The file's path or the stream's name.
        file: String,
        /// What it is, and how to fix.
        what: String,
    },
    /// The caller asked for something the format cannot hold.
    #[error("{file}: cannot write this trace: {what}")]
    Unwritable {
        /// The file's path or the stream's name.
        file: String,
        /// What does not fit, and the limit.
        what: String,
    },
}
