// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts of what became of attempts.

use std::collections::BTreeMap;

use steady_measures::Histogram;

use crate::machine::VcpuId;

/// Places whose outcomes are counted each; further ones share place 0.
const MOST_PLACES: usize = 1024;

/// What became of one look for a vCPU to boost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// The chosen vCPU ran next, and nothing shows that it was the wrong one.
    RanNext,
    /// The chosen vCPU ran next, but the spinner waits for another that has not taken its IPI, or
    /// has sent none while the chosen one had been halted.
    Overboost,
    /// The scheduler agreed, then ran somebody else.
    SchedulerMismatch,
    /// The scheduler refused every vCPU that KVM tried: each was running already or not ready, or
    /// no other vCPU was there to run.
    Refused,
    /// KVM tried none, though a vCPU of the VM stood ready.
    LostOpportunity,
    /// KVM tried none, and none stood ready.
    NobodyReady,
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 6] = [
        Self::RanNext,
        Self::Overboost,
        Self::SchedulerMismatch,
        Self::Refused,
        Self::LostOpportunity,
        Self::NobodyReady,
    ];

    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RanNext => "ran-next",
            Self::Overboost => "overboost",
            Self::SchedulerMismatch => "scheduler-mismatch",
            Self::Refused => "refused",
            Self::LostOpportunity => "lost-opportunity",
            Self::NobodyReady => "nobody-ready",
        }
    }
}

/// What ran in the place of a boosted vCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Instead {
    /// The vCPU that had yielded.
    Yielder,
    /// Another vCPU of the VM.
    Sibling,
    /// A vCPU of another VM.
    OtherVm,
    /// Another thread of the host.
    Host,
    /// Nothing: the pCPU went idle.
    Idle,
    /// Whoever: the yielder had to choose again before its choice ran.
    Unseen,
}

impl Instead {
    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Yielder => "yielder",
            Self::Sibling => "sibling",
            Self::OtherVm => "other-vm",
            Self::Host => "host-thread",
            Self::Idle => "idle",
            Self::Unseen => "not-seen",
        }
    }
}

/// Outcomes of one VM or of all.
#[derive(Debug, Default, Clone)]
pub struct Tally {
    /// Outcomes by the guest RIP of the exit before.
    pub by_place: BTreeMap<u64, BTreeMap<Outcome, u64>>,
    /// Who ran instead, where the scheduler had agreed.
    pub instead: BTreeMap<Instead, u64>,
    /// From the request to the target's turn, where it was next, in nanoseconds.
    pub delay_ns: Histogram,
    /// Of those that ran next, how many on the yielder's pCPU.
    pub same_pcpu: u64,
    /// Looks during which a vCPU stood ready that had yet to take the spinner's IPI, and another
    /// was chosen or none.
    pub passed_over: u64,
    /// Which vCPUs KVM tried: how often, and how often that vCPU ran next.
    pub chosen: BTreeMap<VcpuId, (u64, u64)>,
    /// Looks for a vCPU.
    pub spins: u64,
    /// Vcpus that KVM tried.
    pub tries: u64,
    /// Tries that the scheduler agreed to.
    pub agreed: u64,
    /// Tries without a look before: a guest's own hint (`KVM_HC_SCHED_YIELD`).
    pub hinted: u64,
    /// Tries whose target or end is not in the trace.
    pub unresolved: u64,
}

impl Tally {
    pub(super) fn count(&mut self, rip: u64, outcome: Outcome) {
        let full = self.by_place.len() >= MOST_PLACES && !self.by_place.contains_key(&rip);
        let places = self.by_place.entry(if full { 0 } else { rip }).or_default();
        *places.entry(outcome).or_default() += 1;
        assert!(
            places.len() <= Outcome::ALL.len(),
            "an outcome is one of all"
        );
        // Place 0 may come on top.
        assert!(
            self.by_place.len() <= MOST_PLACES + 1,
            "memory stays bounded"
        );
    }

    /// How often this was the outcome.
    #[must_use]
    pub fn of(&self, outcome: Outcome) -> u64 {
        let counts = self.by_place.values();
        counts.filter_map(|place| place.get(&outcome)).sum()
    }
}
