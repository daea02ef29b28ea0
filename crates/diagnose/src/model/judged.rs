// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which questions a trace could answer: "nothing found" means nothing where nothing was looked at.

use serde::{Deserialize, Serialize};

/// A question that a diagnosis asks of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// Why guests are left, and how often.
    Exits,
    /// How long each exit keeps a vCPU out of its guest.
    ExitTimes,
    /// How long vCPUs were ready and did not run.
    Steal,
    /// How long a woken vCPU waits for its turn.
    WakeupWait,
    /// Who ran while a vCPU waited.
    WhoRan,
    /// How often guests spin until they are made to leave.
    PauseLoops,
    /// In which function they spin, and so why.
    PauseCauses,
    /// Which vCPU KVM boosts after that, and whether it runs.
    Boosts,
    /// How long IPIs between vCPUs wait for their receivers.
    IpiWaits,
    /// What arming timers and their expiry cost.
    Timers,
    /// What the host's own ticks cost.
    HostTicks,
    /// Whether guests could have seen which of their vCPUs were descheduled.
    PreemptionMarks,
    /// How long the shootdowns of the traced kernel itself take.
    Shootdowns,
}

impl Question {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 13] = [
        Self::Exits,
        Self::ExitTimes,
        Self::Steal,
        Self::WakeupWait,
        Self::WhoRan,
        Self::PauseLoops,
        Self::PauseCauses,
        Self::Boosts,
        Self::IpiWaits,
        Self::Timers,
        Self::HostTicks,
        Self::PreemptionMarks,
        Self::Shootdowns,
    ];

    /// In a few words, as a list of them has it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Exits => "why guests are left",
            Self::ExitTimes => "how long exits take",
            Self::Steal => "how long ready vCPUs do not run",
            Self::WakeupWait => "how long woken vCPUs wait for their turn",
            Self::WhoRan => "who runs while a vCPU waits",
            Self::PauseLoops => "how often guests spin until they are made to leave",
            Self::PauseCauses => "in which function guests spin",
            Self::Boosts => "which vCPU KVM boosts, and whether it runs",
            Self::IpiWaits => "how long IPIs between vCPUs wait",
            Self::Timers => "what guests' timers cost",
            Self::HostTicks => "what the host's ticks cost",
            Self::PreemptionMarks => "whether guests see which of their vCPUs are descheduled",
            Self::Shootdowns => "how long TLB shootdowns of the traced kernel take",
        }
    }
}

/// How far a question could be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Judged {
    /// It was: what is not among the findings does not hurt.
    Yes,
    /// Of a part of what happened; `why` says of which.
    Partly,
    /// Not at all: what to record is in `record` and `cure`.
    No,
    /// It does not arise on this machine, or in this trace.
    NotHere,
}

/// One question, and how far the trace answers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// Which.
    pub question: Question,
    /// The same in words: [`Question::words`].
    pub words: String,
    /// How far it was answered.
    pub judged: Judged,
    /// Events from which it was answered.
    pub events: u64,
    /// Why not, or not wholly.
    pub why: Option<String>,
    /// Events to record for an answer, as `trace-cmd record -e` and `perf record -e` take them.
    pub record: Vec<String>,
    /// What else to do for an answer.
    pub cure: Option<String>,
}
