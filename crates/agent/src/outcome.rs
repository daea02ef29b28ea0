// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a guest's life ended: the word in the report of `steady-vmm` that the host's init reads.
//!
//! | outcome | exit code | what happened |
//! |---|---|---|
//! | `clean` | 0 | the guest wrote 0x34 to I/O port 0x604 |
//! | `error` | 1 | the VMM itself failed; bad command line included |
//! | `guest-panic` | 10 | a reset, and the console has "Kernel panic - not syncing" |
//! | `triple-fault` | 11 | KVM reported a shutdown |
//! | `guest-reset` | 12 | a reset by the keyboard controller without a panic message |
//! | `kvm-error` | 13 | KVM reported an internal error or an exit that should not occur |
//! | `killed` | 14 | SIGTERM or SIGINT |
//!
//! A snapshot of a running guest has the outcome `running`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How it ended, as reports name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Not at all yet.
    Running,
    /// The guest said that it had finished.
    Clean,
    /// The VMM failed.
    Error,
    /// The guest's kernel panicked and reset the machine.
    GuestPanic,
    /// A triple fault.
    TripleFault,
    /// The guest reset the machine without a panic.
    GuestReset,
    /// KVM failed.
    KvmError,
    /// A signal ended it.
    Killed,
}

impl fmt::Display for Outcome {
    /// The name as in reports.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(out)
    }
}

impl Outcome {
    /// The process exit code for this outcome.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Outcome::Running | Outcome::Clean => 0,
            Outcome::Error => 1,
            Outcome::GuestPanic => 10,
            Outcome::TripleFault => 11,
            Outcome::GuestReset => 12,
            Outcome::KvmError => 13,
            Outcome::Killed => 14,
        }
    }
}

/// The part of the VMM's report that says how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct End {
    /// How.
    pub outcome: Outcome,
}
