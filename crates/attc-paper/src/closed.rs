// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a closed form gives from event counts and Table 2, so that a reader sees what simulation
//! adds.
//!
//! The work is what `ideal` took. Each update costs Table 2's initiator and a victim on each other
//! core, or ATTC's 500 cycles a page (section 3.3). Nothing else differs between schemes: no entry
//! is lost to a flush, no walk saved by an ATLB, no core idle.

use steady_coherence::config::{MachineConfig, Mode, TlbConfig};
use steady_coherence::counts::Counts;
use steady_coherence::num::basis_points;
use steady_coherence::workload::find;

use crate::runs::{WorkloadResults, mean};
use crate::shares::signed;

/// Cycles of one page's update under ATTC.
const ATTC_PAGE: u64 = 500;

/// Mean over workloads of the gain of one label over another, basis points.
pub(crate) fn gain(all: &[WorkloadResults], label: &str, base: &str) -> i64 {
    mean(all, |w| gain_of(w, label, base))
}

/// The gain of one workload.
pub(crate) fn gain_of(w: &WorkloadResults, label: &str, base: &str) -> i64 {
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
    let ipi = ipi_cycles(&machine);
    let (guest, host) = by_agent(&outcome.counts);
    match outcome.scheme {
        "ipi" | "kvmtlb" | "pom-tlb" => (guest + host) * ipi,
        "hatric" if !native => guest * ipi,
        "attc" => outcome.counts.pages_revoked * ATTC_PAGE,
        _ => 0,
    }
}

/// Updates of guests and of the host.
#[must_use]
pub const fn by_agent(counts: &Counts) -> (u64, u64) {
    let guest = counts.guest_migrations + counts.program_updates;
    (guest, counts.host_migrations)
}

/// Cycles of one shootdown by software: the initiator and a victim on each other core (Table 2).
pub(crate) fn ipi_cycles(machine: &MachineConfig) -> u64 {
    let (initiator, victim) = machine.ipi_costs();
    initiator + (u64::from(machine.core.count) - 1) * victim
}

/// Share of a run that guest updates take under software, basis points: what `ideal` took, and each
/// update at its cost.
pub(crate) fn guest_time(w: &WorkloadResults) -> i64 {
    let (guest, host) = by_agent(&w.get("kvmtlb").counts);
    let each = ipi_cycles(&MachineConfig::default());
    let whole = w.get("ideal").counts.core_cycles + (guest + host) * each;
    signed(basis_points(guest * each, whole))
}

/// Share of ATLB look-ups that miss when an entry is lost to nothing but an update, and each page
/// updated is used again; basis points.
pub(crate) fn steady_misses(w: &WorkloadResults) -> i64 {
    let counts = &w.get("attc").counts;
    signed(basis_points(counts.pages_revoked, counts.atlb_lookups))
}

/// The same from an empty ATLB, if look-ups were drawn alike from the working set: after `n` of
/// them a page of `pages` is still missing with probability (1 - 1/pages)^n. `warmup`: accesses
/// before counting.
pub(crate) fn cold_misses(w: &WorkloadResults, warmup: u64) -> i64 {
    let counts = &w.get("attc@cold").counts;
    let workload = find(w.workload).expect("results are of Table 3's workloads");
    let pages = (u64::from(workload.footprint_mib) << 8)
        * u64::from(workload.pattern.working_set_percent)
        / 100;
    let before = counts.atlb_lookups * warmup / counts.accesses.max(1);
    let missing = |lookups| (u128::from(pages) * u128::from(survival(pages, lookups))) >> 32;
    let first = missing(before) - missing(before + counts.atlb_lookups);
    let all = u64::try_from(first).unwrap_or(u64::MAX) + counts.pages_revoked;
    signed(basis_points(all, counts.atlb_lookups))
}

/// (1 - 1/pages)^draws in units of 2^-32.
fn survival(pages: u64, mut draws: u64) -> u64 {
    let one = 1_u64 << 32;
    let mut factor = one - one / pages.max(1);
    let mut result = one;
    while draws > 0 {
        if draws & 1 == 1 {
            result = (result * factor) >> 32;
        }
        factor = (factor * factor) >> 32;
        draws >>= 1;
    }
    assert!(result <= one, "a probability");
    result
}

/// TLB slots that one of ATTC's messages names by chance, of those it looks at, basis points: page
/// numbers drawn alike agree in the set-index bits of the ATLB that the TLB's own index leaves
/// open.
pub(crate) fn false_per_slot() -> i64 {
    let machine = MachineConfig::default();
    let sets = u64::from(machine.schemes.number(&steady_coherence::scheme::atlb::KIB)) * 16;
    let named = |tlb: &TlbConfig| {
        let own = u64::from(tlb.entries / tlb.ways);
        u64::from(tlb.ways) * own * 1_000_000 / sets
    };
    let tlbs = [&machine.mmu.l1_4k, &machine.mmu.l2];
    let slots: u64 = tlbs.iter().map(|tlb| u64::from(tlb.ways)).sum();
    let millionths = tlbs.iter().map(|tlb| named(tlb)).sum::<u64>() / slots;
    signed((millionths + 50) / 100)
}

#[cfg(test)]
mod tests {
    use super::{false_per_slot, survival};

    #[test]
    fn a_page_is_still_missing_with_the_probability_that_a_table_of_exponentials_gives() {
        // (1 - 1/1000)^1000 is 0.36770; ^5000 is 0.006721.
        let share = |draws| (survival(1000, draws) * 100_000) >> 32;
        assert!(share(1000).abs_diff(36_770) <= 1, "{}", share(1000));
        assert!(share(5000).abs_diff(672) <= 1, "{}", share(5000));
        assert_eq!(share(0), 100_000);
    }

    #[test]
    fn table_2_s_machine_names_one_slot_in_2600_by_chance() {
        // 12 ways at 2^-11 and 4 at 2^-14, of 16 slots: 3.8 of 10,000.
        assert_eq!(false_per_slot(), 4);
    }
}
