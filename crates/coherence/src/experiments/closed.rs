// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a closed form gives from event counts and Table 2, so that a reader sees what simulation
//! adds.
//!
//! The work is what `ideal` took. Each update costs Table 2's initiator and a victim on each other
//! core, or ATTC's 500 cycles a page (section 3.3). Nothing else differs between schemes: no entry
//! is lost to a flush, no walk saved by an ATLB, no core idle.

use super::{WorkloadResults, mean};
use crate::config::{MachineConfig, Mode};
use crate::counts::Counts;

/// Cycles of one page's update under ATTC.
const ATTC_PAGE: u64 = 500;
/// Initiator and victim of Shoot4U, as its parameters have them.
const SHOOT4U: (u64, u64) = (11_016, 3_500);

/// Mean over workloads of the gain of one label over another, basis points.
pub(super) fn gain(all: &[WorkloadResults], label: &str, base: &str) -> i64 {
    mean(all, |w| gain_of(w, label, base))
}

/// The gain of one workload.
pub(super) fn gain_of(w: &WorkloadResults, label: &str, base: &str) -> i64 {
    let work = work(w, base);
    let whole = |label: &str| u128::from(work + coherence(w, label));
    let ratio = whole(base) * 10_000 / whole(label).max(1);
    i64::try_from(ratio).unwrap_or(i64::MAX) - 10_000
}

/// Core cycles without coherence on the machine of a label.
fn work(w: &WorkloadResults, label: &str) -> u64 {
    let own = |label: &str| w.get(label).counts;
    match label.split_once('@') {
        None => own("ideal").core_cycles,
        Some((_, "native")) => own("ideal@native").core_cycles,
        Some(_) => {
            let counts = own(label);
            counts.core_cycles - counts.initiator_cycles - counts.victim_cycles
        }
    }
}

/// Cycles of coherence by Table 2 and the updates counted.
fn coherence(w: &WorkloadResults, label: &str) -> u64 {
    let outcome = w.get(label);
    let native = label.ends_with("@native");
    let mut machine = MachineConfig::default();
    if native {
        machine.mode = Mode::Native;
    }
    let others = u64::from(machine.core.count) - 1;
    let (initiator, victim) = machine.ipi_costs();
    let ipi = initiator + others * victim;
    let (guest, host) = by_agent(&outcome.counts);
    match outcome.scheme {
        "ipi" | "kvmtlb" | "pom-tlb" => (guest + host) * ipi,
        "hatric" if !native => guest * ipi,
        "shoot4u" => guest * (SHOOT4U.0 + others * SHOOT4U.1) + host * ipi,
        "attc" => outcome.counts.pages_revoked * ATTC_PAGE,
        _ => 0,
    }
}

/// Updates of guests and of the host.
pub(super) const fn by_agent(counts: &Counts) -> (u64, u64) {
    let guest = counts.guest_migrations + counts.program_updates;
    (guest, counts.host_migrations)
}

/// Share of a run that guest updates take under software, by Table 2, basis points.
pub(super) fn guest_time(w: &WorkloadResults, label: &str) -> i64 {
    let machine = MachineConfig::default();
    let (initiator, victim) = machine.ipi_costs();
    let counts = &w.get(label).counts;
    let each = initiator + (u64::from(machine.core.count) - 1) * victim;
    let spent = by_agent(counts).0 * each;
    i64::try_from(crate::num::basis_points(spent, counts.core_cycles)).unwrap_or(i64::MAX)
}
