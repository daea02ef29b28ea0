// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong with a trace, and where.

use std::fmt;

/// Where in a trace something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// Bytes from the start of the file.
    Byte(u64),
    /// A line of a text trace; the first is 1.
    Line(u64),
    /// Bytes from the start of what a compressed section unpacks to; the section is at `section`.
    Unpacked {
        /// Byte of the file where the section begins.
        section: u64,
        /// Byte of the unpacked section.
        byte: u64,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Byte(byte) => write!(f, "byte {byte}"),
            Self::Line(line) => write!(f, "line {line}"),
            Self::Unpacked { section, byte } => {
                write!(f, "byte {byte} of the section packed at byte {section}")
            }
        }
    }
}

/// Why a trace cannot be read. Names the trace, the place, and what was expected there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    #[error("{name}: cannot read the trace")]
    Io {
        /// The trace.
        name: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// There is nothing in it.
    #[error(
        "{name}: the trace is empty; was the recording ended before it was written? Record again: \
         sudo steady record"
    )]
    Empty {
        /// The trace.
        name: String,
    },
    /// It is not of a format that this crate reads.
    #[error(
        "{name}: not a trace: {what}; expected trace-cmd's trace.dat, perf.data, a Perfetto trace, \
         or the text of ftrace's trace file, trace-cmd report, perf script or perf trace; unpack a \
         packed table or log first (gunzip FILE), or record with `sudo steady record` on the host \
         while it stalls"
    )]
    Foreign {
        /// The trace.
        name: String,
        /// What it seems to be.
        what: String,
    },
    /// It is such a trace, but of a kind that this crate does not read.
    #[error("{name}: {place}: {what}")]
    Unsupported {
        /// The trace.
        name: String,
        /// Where that shows.
        place: Place,
        /// What it is, and what to do instead.
        what: String,
    },
    /// It is cut off or damaged before its first record.
    #[error("{name}: {place}: {what}; copy the whole file again, or record again")]
    Malformed {
        /// The trace.
        name: String,
        /// Where the fault is.
        place: Place,
        /// What was found and what was expected.
        what: String,
    },
}

/// A fault in a trace whose name the caller adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub place: Place,
    pub what: String,
}

impl Fault {
    pub fn new(place: Place, what: impl Into<String>) -> Self {
        Self {
            place,
            what: what.into(),
        }
    }

    pub fn named(self, name: &str) -> Error {
        Error::Malformed {
            name: name.to_owned(),
            place: self.place,
            what: self.what,
        }
    }
}
