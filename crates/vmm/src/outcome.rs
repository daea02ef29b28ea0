// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What made a guest's life end, and the outcome that the report gives for it.
//!
//! The outcome is the agent's type: the host's init reads the report.

pub use steady_agent::outcome::Outcome;

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
