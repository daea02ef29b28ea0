// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the counters of runs come to: shares, ratios and counts, in basis points.

use steady_coherence::config::{CoreConfig, MachineConfig};
use steady_coherence::counts::Counts;
use steady_coherence::num::basis_points;

use crate::closed;
use crate::runs::WorkloadResults;

pub(crate) fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The results of a workload of Table 3.
pub(crate) fn named<'a>(all: &'a [WorkloadResults], name: &str) -> &'a WorkloadResults {
    let found = all.iter().find(|w| w.workload == name);
    found.expect("Table 3 has the workload")
}

/// Updates of a run.
pub(crate) fn updates(w: &WorkloadResults, label: &str) -> u64 {
    let (guest, host) = closed::by_agent(&w.get(label).counts);
    guest + host
}

pub(crate) fn guest_share(w: &WorkloadResults, label: &str) -> i64 {
    let (guest, host) = closed::by_agent(&w.get(label).counts);
    signed(basis_points(guest, guest + host))
}

/// Share of a run that guest updates took under software: each update as long as the mean.
pub(crate) fn guest_time(w: &WorkloadResults, label: &str) -> i64 {
    let counts = &w.get(label).counts;
    let (guest, host) = closed::by_agent(counts);
    let spent = counts.initiator_cycles + counts.victim_cycles;
    signed(basis_points(
        spent * guest / (guest + host).max(1),
        counts.core_cycles,
    ))
}

/// Share of ATLB look-ups that hit.
pub(crate) fn hit_ratio(w: &WorkloadResults, label: &str) -> i64 {
    let counts = &w.get(label).counts;
    signed(basis_points(counts.atlb_hits, counts.atlb_lookups))
}

/// Share of kvmtlb's coherence cycles that another does not spend.
pub(crate) fn removed(w: &WorkloadResults, label: &str) -> i64 {
    let cycles = |label: &str| {
        let counts = &w.get(label).counts;
        counts.initiator_cycles + counts.victim_cycles
    };
    10_000 - signed(basis_points(cycles(label), cycles("kvmtlb")))
}

/// TLB slots dropped without need, of those that its messages looked at.
pub(crate) fn false_per_slot(all: &[WorkloadResults], label: &str) -> i64 {
    let sum = |of: fn(&Counts) -> u64| {
        let counts = all.iter().map(|w| of(&w.get(label).counts));
        counts.sum::<u64>()
    };
    signed(basis_points(
        sum(|c| c.false_invalidations),
        sum(|c| c.tlb_messages) * slots(),
    ))
}

/// Slots that a message looks at: a set of either TLB for small pages.
pub(crate) fn slots() -> u64 {
    let mmu = MachineConfig::default().mmu;
    u64::from(mmu.l1_4k.ways + mmu.l2.ways)
}

/// Initiator cycles of an update under kvmtlb over those under another (1x = 10,000).
pub(crate) fn cost_ratio(all: &[WorkloadResults], label: &str) -> i64 {
    let per_update = |label: &str| {
        let cycles = all.iter().map(|w| w.get(label).counts.initiator_cycles);
        let count: u64 = all.iter().map(|w| updates(w, label)).sum();
        cycles.sum::<u64>() / count.max(1)
    };
    signed(basis_points(per_update("kvmtlb"), per_update(label)))
}

/// Updates in 10^9 instructions.
pub(crate) fn rate(w: &WorkloadResults, label: &str) -> i64 {
    let instructions = w.get(label).counts.instructions;
    signed(updates(w, label) * 1_000_000_000 / instructions.max(1))
}

/// What a shootdown of a workload is under software; shares in basis points.
pub(crate) struct Shootdown {
    /// Share of those of one page.
    pub one_page: i64,
    /// Share of those of two pages, no full flushes.
    pub two_pages: i64,
    /// Share of those that flush everything.
    pub full_flush: i64,
    /// Victims of a hundred.
    pub victims_of_100: i64,
    /// Cycles of the initiator.
    pub initiator: i64,
    /// Cycles of a victim.
    pub victim: i64,
}

impl Shootdown {
    /// Of the shootdowns under a label.
    pub(crate) fn of(w: &WorkloadResults, label: &str) -> Self {
        let c = &w.get(label).counts;
        let all = updates(w, label).max(1);
        let cores = u64::from(CoreConfig::default().count);
        let full = c.full_flushes / cores;
        // A migration exchanges two pages as a rule, and a program's update changes one: of two
        // pages are as many as there are pages more than updates.
        let two = c.pages_revoked.saturating_sub(all).min(all);
        let guest_two = two.saturating_sub(full);
        let share = |part| signed(basis_points(part, all));
        Self {
            one_page: share(all.saturating_sub(full + guest_two)),
            two_pages: share(guest_two),
            full_flush: share(full),
            victims_of_100: signed(c.victims * 100 / c.ipi_shootdowns.max(1)),
            initiator: signed(c.initiator_cycles / all),
            victim: signed(c.victim_cycles / c.victims.max(1)),
        }
    }

    /// Its parts in the order of Figure 7's table.
    pub(crate) const fn columns(&self) -> [i64; 6] {
        [
            self.one_page,
            self.two_pages,
            self.full_flush,
            self.victims_of_100,
            self.initiator,
            self.victim,
        ]
    }
}
