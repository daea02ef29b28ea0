// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A VM that `place` looks after: its threads, its judge, and what both need of the host.

use steady_hostview::{Cpus, Pcpus, Topology, Vmm};

use super::judge::{Interval, Judge};
use super::sets::{allowed, busy};
use super::stacked::Stacked;
use super::threads::Thread;

/// A VM that is looked after.
#[derive(Debug)]
pub(super) struct Managed {
    pub label: String,
    pub vmm: Vmm,
    pub threads: Vec<Thread>,
    pub judge: Judge,
    pub stacked: Stacked,
    /// Intervals since its pCPUs were split, and the vCPUs that they were split for.
    pub since_split: u32,
    pub split_for: Vec<i32>,
}

impl Managed {
    /// Whether other vCPUs are busy than those that the pCPUs were split for.
    pub fn is_stale(&self) -> bool {
        self.split_for != busy(&self.threads)
    }

    pub fn interval(&self, length_ns: u64) -> Interval {
        let sum = |of: fn(&Thread) -> u64| self.threads.iter().map(of).sum();
        Interval {
            length_ns,
            run_ns: sum(|thread| thread.did.run_ns),
            wait_ns: sum(|thread| thread.did.wait_ns),
            idle: 0,
        }
    }

    /// How idle the pCPUs that it may use were, in thousandths; 0 where that is not known.
    pub fn idle(
        &self,
        now: &Pcpus,
        before: &Option<Pcpus>,
        length_ns: u64,
        topology: &Topology,
    ) -> u64 {
        let (Some(before), Some(allowed)) = (before, allowed(&self.threads)) else {
            return 0;
        };
        let usable = allowed.and(&topology.online);
        let idle_ns: u64 = usable.iter().map(|cpu| now.idle_since(before, cpu)).sum();
        let all_ns = length_ns * usable.len() as u64;
        (idle_ns * 1000).checked_div(all_ns).unwrap_or(0).min(1000)
    }

    /// Looks where its vCPUs are.
    pub fn look(&mut self) {
        let places = self
            .threads
            .iter()
            .filter_map(|thread| thread.meter.place());
        self.stacked.look(places, allowed(&self.threads).as_ref());
    }

    pub fn named(&self, sets: &[(usize, Cpus)]) -> Vec<(u32, Cpus)> {
        sets.iter()
            .map(|(at, set)| (self.threads[*at].number, set.clone()))
            .collect()
    }
}
