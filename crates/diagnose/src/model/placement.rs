// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What another placement of a VM's vCPUs would have given, by fair shares of the pCPUs.

use serde::{Deserialize, Serialize};

/// Of one VM. Nothing in it is measured: each number is what the model of
/// `docs/formats/diagnosis.md` makes of the times that the trace shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlacementTable {
    /// Why nothing is predicted; all that follows is then 0 or `None`.
    pub why_not: Option<NotPredicted>,
    /// For how long it is known where its vCPUs were.
    pub known_ns: u64,
    /// vCPUs that wanted to run, on average, in thousandths of one.
    pub wanted_permille: u64,
    /// For how long its vCPUs were seen running.
    pub ran_ns: u64,
    /// For how long fair shares would have let them run, as they were placed.
    pub fair_ns: u64,
    /// While two vCPUs were on one pCPU, and another that they may use had none of the VM.
    pub stacked_ns: u64,
    /// Its share of `known_ns`.
    pub stacked_permille: u64,
    /// The pCPU that was without the VM longest meanwhile.
    pub spare: Option<SpareRow>,
    /// How much more it would have run with its vCPUs parted (`steady place`).
    pub parted: Option<Predicted>,
    /// How far it would have come in the same time with its vCPUs parted; `None` if it has more
    /// vCPUs than pCPUs.
    pub reach: Option<Reach>,
    /// How much more it would have run with a pCPU for each vCPU by pins; `None` if it has more
    /// vCPUs than pCPUs.
    pub pinned: Option<Predicted>,
    /// What fewer vCPUs would have given (`steady fold`).
    pub fold: Option<FoldTable>,
    /// What its vCPUs would have waited less for IPIs if the host had answered for descheduled
    /// ones (Hyper-V's flush, Shoot4U), at most; `None` if no interrupt was recorded.
    pub calls_at_most_ns: Option<u64>,
}

/// A pCPU that two vCPUs on another could have used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpareRow {
    /// Its number.
    pub pcpu: u32,
    /// For how long it was idle meanwhile.
    pub idle_ns: u64,
    /// For how long it ran what is not of the VM.
    pub stranger_ns: u64,
}

/// A difference, in nanoseconds of its vCPUs' time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Predicted {
    /// At least.
    pub low_ns: i64,
    /// Most likely.
    pub likely_ns: i64,
    /// At most.
    pub high_ns: i64,
}

/// How far a VM would have come, in thousandths of what it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reach {
    /// At least.
    pub low_permille: u64,
    /// Most likely.
    pub likely_permille: u64,
    /// At most.
    pub high_permille: u64,
}

/// What fewer vCPUs would have given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldTable {
    /// While more of its vCPUs wanted to run than ran.
    pub short_ns: u64,
    /// Its share of `known_ns`.
    pub short_permille: u64,
    /// How many ran then, on average, rounded up: the number to fold to.
    pub vcpus: u64,
    /// How far the VM would have come in the same time. At least: it folds alone. Likely: all VMs
    /// fold.
    pub reach: Option<Reach>,
    /// What its vCPUs spun for locks of the guest's kernel and waited after that, which is the
    /// most that folding saves; `None` if the trace does not show what they spun for.
    pub locks_at_most_ns: Option<u64>,
}

/// Why nothing is predicted of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotPredicted {
    /// Events were lost, or the clock was set back.
    EventsLost,
    /// Switches are missing, as from a recording of some threads alone.
    SwitchesMissing,
    /// Records do not name their pCPU.
    NoPcpus,
    /// The host has more pCPUs or VMs than are looked at.
    TooLarge,
    /// Which threads are the VM was known at the end alone.
    PutTogetherLate,
    /// Its vCPUs may use different pCPUs, by the notes of the recording.
    PinnedAlready,
}
