// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is assumed where a trace does not say what would be, and the clock of a VM in each of three
//! such worlds.

use crate::machine::VcpuId;

/// A whole pCPU, or all of a time.
pub const ALL: u64 = 1024;

/// What is assumed where a trace does not say what would be.
#[derive(Debug, Clone, Copy)]
pub struct Assumed {
    /// While siblings shared a pCPU: what stays of pause loops, and of the waits of a vCPU without
    /// a sibling beside it, in parts of [`ALL`]. A sibling may have held what it spun for, and
    /// strangers crowd where the stacked vCPUs are not.
    pub stays: u64,
    /// How far a vCPU may be ahead of its fair share, in nanoseconds.
    pub lead_ns: u64,
}

/// The slowest, the likely and the fastest. A base slice is 3 ms with eight pCPUs and more, and the
/// lag is at most two (`update_entity_lag()`, kernel/sched/fair.c, Linux 6.12).
pub const WORLDS: [Assumed; 3] = [
    Assumed {
        stays: ALL,
        lead_ns: 0,
    },
    Assumed {
        stays: ALL / 2,
        lead_ns: 3_000_000,
    },
    Assumed {
        stays: 0,
        lead_ns: u64::MAX,
    },
];

/// A time in each world, in nanoseconds.
pub type Times = [u64; WORLDS.len()];

/// The clock of one VM.
#[derive(Debug, Clone)]
pub struct Front {
    /// The share of a pCPU that a vCPU has beside strangers, in parts of [`ALL`].
    pub share: u64,
    pub began_ns: u64,
    pub at_ns: Times,
    /// vCPUs that run or wait.
    pub awake: usize,
    /// Since when none does.
    pub idle_since_ns: u64,
    /// By pCPU, those that run or wait there.
    pub on: Vec<Vec<VcpuId>>,
    /// pCPUs with two of them or more.
    pub stacked: usize,
    /// What its vCPUs ran in the fastest world, summed.
    pub worked_ns: u64,
}

impl Front {
    pub fn new(now_ns: u64) -> Self {
        Self {
            share: ALL,
            began_ns: now_ns,
            at_ns: Times::default(),
            awake: 0,
            idle_since_ns: now_ns,
            on: Vec::new(),
            stacked: 0,
            worked_ns: 0,
        }
    }

    /// The time in which none of its vCPUs was awake counts as it is.
    pub fn idles(&mut self, now_ns: u64) {
        if self.awake == 0 {
            let idle_ns = now_ns.saturating_sub(self.idle_since_ns);
            self.at_ns = self.at_ns.map(|at_ns| at_ns.saturating_add(idle_ns));
            self.idle_since_ns = self.idle_since_ns.max(now_ns);
        }
    }
}

pub fn part(ns: u64, of: u64) -> u64 {
    ns.saturating_mul(of) / ALL
}

/// A lead after a time without running.
pub fn regained(lead_ns: u64, ns: u64, share: u64, assumed: Assumed) -> u64 {
    lead_ns.saturating_add(part(ns, share)).min(assumed.lead_ns)
}
