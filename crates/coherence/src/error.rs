// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong, each with what, where and how to fix.

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A machine or run that cannot be.
    #[error("{0}")]
    Config(String),
    /// A record that cannot be simulated; `index` counts records of the stream from 0.
    #[error("record {index}: {what}")]
    Record {
        /// Position in the stream.
        index: u64,
        /// What is wrong, and what was expected.
        what: String,
    },
    /// The source of records failed.
    #[error("{0}")]
    Source(String),
    /// A scheme that cannot run in this mode.
    #[error("scheme `{scheme}` {why}")]
    Scheme {
        /// The scheme's name.
        scheme: &'static str,
        /// Why not, and what to do.
        why: &'static str,
    },
}
