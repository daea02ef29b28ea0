// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a guest's life ended, told apart for the report and the exit code.
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

use serde::Serialize;

/// The first thing that made the machine stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopCause {
    /// The guest wrote the stop byte to the stop port.
    StopPort,
    /// The guest pulsed the reset line of the keyboard controller.
    KeyboardReset,
    /// KVM reported a shutdown, that is a triple fault, on this vCPU.
    TripleFault(u32),
    /// KVM failed, with the details.
    Kvm(String),
    /// This signal arrived.
    Signal(&'static str),
    /// The VMM failed, with the chain of reasons.
    Vmm(String),
}

/// How it ended, as reports name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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

/// The outcome and its one-line explanation, given the cause and the console's panic line.
#[must_use]
pub fn judge(cause: &StopCause, panic_line: Option<&str>) -> (Outcome, String) {
    let aside = panic_line
        .map(|line| format!("; the console has \"{line}\""))
        .unwrap_or_default();
    match cause {
        StopCause::StopPort => (
            Outcome::Clean,
            format!("the guest stopped by itself{aside}"),
        ),
        StopCause::KeyboardReset => match panic_line {
            Some(line) => (Outcome::GuestPanic, line.to_owned()),
            None => (
                Outcome::GuestReset,
                "the guest reset the machine by the keyboard controller".to_owned(),
            ),
        },
        StopCause::TripleFault(cpu) => (
            Outcome::TripleFault,
            format!("vCPU {cpu} had a triple fault{aside}"),
        ),
        StopCause::Kvm(detail) => (Outcome::KvmError, format!("{detail}{aside}")),
        StopCause::Signal(name) => (Outcome::Killed, format!("{name}{aside}")),
        StopCause::Vmm(detail) => (Outcome::Error, format!("{detail}{aside}")),
    }
}
