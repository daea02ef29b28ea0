// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The words between host and guest, one JSON value per line over the guest's `ttyS1`.
//!
//! A workload goes: [`ToGuest::Prepare`], [`FromGuest::Prepared`], [`ToGuest::Go`],
//! [`FromGuest::End`], [`ToGuest::Report`], [`FromGuest::Output`]. The output is a word of its
//! own so that the exits that it costs stay outside of the measured window.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plan::{Link, WorkloadPlan};

/// The I/O port at which a guest asks `steady-vmm` for a clean stop.
pub const STOP_PORT: u16 = 0x0604;
/// The byte that it writes there.
pub const STOP_BYTE: u8 = 0x34;

/// Host to guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToGuest {
    /// Run the set-up of this workload and wait.
    Prepare {
        /// The workload.
        workload: WorkloadPlan,
        /// Whether it runs until [`ToGuest::Stop`].
        background: bool,
    },
    /// Run this beside all workloads, until the guest powers off.
    Beside {
        /// The command.
        command: WorkloadPlan,
    },
    /// Start this end of a channel to another VM.
    Link {
        /// The channel.
        link: Link,
    },
    /// Start the prepared workload.
    Go,
    /// Send the output of the workload that has ended.
    Report,
    /// End what runs, report it, and power off.
    Stop,
}

/// Guest to host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromGuest {
    /// The guest is up.
    Hello {
        /// Kernel release.
        release: String,
        /// CPUs online.
        cpus: u32,
        /// Time since its boot, in nanoseconds.
        uptime_ns: u64,
        /// Its clock source.
        clocksource: String,
        /// What it still lacks of having settled, in words.
        #[serde(default)]
        unsettled: Vec<String>,
    },
    /// The set-up is done.
    Prepared,
    /// A background workload runs, a command beside all of them, or an end of a channel.
    Started,
    /// The workload has ended.
    End,
    /// What the workload left.
    Output(Box<Output>),
    /// Something went wrong inside the guest.
    Fault {
        /// What, and what was being done.
        text: String,
    },
    /// The guest is about to power off.
    Bye,
}

/// What a workload left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// Exit code, if it ended by itself.
    pub exit_code: Option<i32>,
    /// Signal that ended it.
    pub signal: Option<i32>,
    /// Whether it was ended at its time limit.
    pub timed_out: bool,
    /// Whether it still ran when it was asked to end, by SIGTERM: the way of a background program.
    #[serde(default)]
    pub asked_to_end: bool,
    /// Time from start to end by the guest's clock, in nanoseconds.
    pub wall_ns: u64,
    /// Standard output.
    pub stdout: String,
    /// End of standard error.
    pub stderr: String,
    /// Guest counters over the workload: `irq.TLB` and its kin from `/proc/interrupts` (summed
    /// over CPUs), `cpu.user` and its kin from `/proc/stat` in clock ticks.
    pub counters: BTreeMap<String, u64>,
}

/// What a program that does not handle it dies of when it is asked to end.
const SIGTERM: i32 = 15;

impl Output {
    /// Whether it ended because it was asked to: by the signal, or with an exit code of its own for
    /// that (fio's is 128).
    #[must_use]
    pub fn ended_as_asked(&self) -> bool {
        let ended = self.exit_code.is_some() || self.signal == Some(SIGTERM);
        self.asked_to_end && !self.timed_out && ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_program_that_ran_when_it_was_asked_to_end_ended_as_asked() {
        let ended = |asked_to_end, exit_code, signal| {
            let output = Output {
                asked_to_end,
                exit_code,
                signal,
                ..Output::default()
            };
            output.ended_as_asked()
        };
        assert!(ended(true, Some(0), None));
        assert!(ended(true, Some(128), None), "fio's way");
        assert!(ended(true, None, Some(SIGTERM)));
        assert!(!ended(true, None, Some(11)), "it crashed");
        assert!(!ended(true, None, None), "it did not end, and was killed");
        assert!(!ended(false, Some(1), None), "it had ended before");
        assert!(!ended(false, None, Some(SIGTERM)));
    }
}
