// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The oracle: knows the true mapping at each instant and checks every access against it.
//!
//! It hears of changes from the system software, never from a scheme, and keeps its own table. An
//! access may use a translation that is true now, or one whose revocation has not completed.

use crate::layout::{Key, PageMap};
use crate::mmu::TlbEntry;
use crate::os::Mapping;

/// A mapping as the page tables have it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Truth {
    spn: u64,
    writable: bool,
    mapped: bool,
    /// What was true before, and the cycle before which it may still be used: one for each update
    /// under way.
    grace: Vec<(u64, bool, u64)>,
}

/// A use of a translation that was no longer true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// The core that used it.
    pub core: usize,
    /// Its cycle.
    pub cycle: u64,
    /// VM, from 0.
    pub vm: u16,
    /// The page's first 4 KiB page.
    pub vpn: u64,
    /// The frame used.
    pub used_spn: u64,
    /// The true frame; `None` when the page is not mapped.
    pub true_spn: Option<u64>,
    /// The access was a store.
    pub write: bool,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.write { "store" } else { "load" };
        write!(
            f,
            "cycle {}: core {}: {kind} through a revoked translation: VM {} page {:#x} used frame \
             {:#x}, ",
            self.cycle, self.core, self.vm, self.vpn, self.used_spn
        )?;
        match self.true_spn {
            Some(spn) if spn == self.used_spn => write!(f, "which is read-only now"),
            Some(spn) => write!(f, "the page tables say {spn:#x}"),
            None => write!(f, "the page is no longer mapped"),
        }
    }
}

/// More cycles than the clocks of two cores are ever apart.
const SLACK: u64 = 10_000_000;

/// Violations kept in full; the rest are only counted.
const KEPT: usize = 16;

/// The oracle's table and what it found.
#[derive(Debug, Clone, Default)]
pub struct Oracle {
    truth: PageMap<Truth>,
    /// Violations in all.
    pub violations: u64,
    /// The first of them.
    pub first: Vec<Violation>,
}

impl Oracle {
    /// A walk read `mapping` from the page tables; a page seen for the first time becomes known.
    pub fn walked(&mut self, mapping: &Mapping) {
        let entry = self.truth.entry(mapping.key.raw()).or_insert(Truth {
            spn: mapping.spn,
            writable: mapping.writable,
            mapped: true,
            grace: Vec::new(),
        });
        if !entry.mapped {
            (entry.spn, entry.mapped) = (mapping.spn, true);
        }
        assert!(
            entry.spn == mapping.spn,
            "the page tables changed without an update"
        );
        // More rights need no update.
        entry.writable = mapping.writable;
    }

    /// An update of `key` took effect; the old translation may be used before cycle `until`.
    pub fn updated(&mut self, key: Key, now_maps: Option<(u64, bool)>, until: u64) {
        if let Some(entry) = self.truth.get_mut(&key.raw()) {
            // An update that ended long before this one is over on every core's clock.
            entry.grace.retain(|&(_, _, end)| end + SLACK > until);
            if until > 0 {
                entry.grace.push((entry.spn, entry.writable, until));
            }
            entry.mapped = now_maps.is_some();
            if let Some((spn, writable)) = now_maps {
                (entry.spn, entry.writable) = (spn, writable);
            }
        }
    }

    /// Checks one access.
    #[inline]
    pub fn check(&mut self, core: usize, key: Key, used: &TlbEntry, write: bool, cycle: u64) {
        let Some(truth) = self.truth.get(&key.raw()) else {
            self.report(core, key, used, write, cycle, None);
            return;
        };
        let fits = |spn: u64, writable: bool| used.spn == spn && (writable || !write);
        if truth.mapped && fits(truth.spn, truth.writable) {
            return;
        }
        let in_grace =
            |&(spn, writable, until): &(u64, bool, u64)| cycle < until && fits(spn, writable);
        if truth.grace.iter().any(in_grace) {
            return;
        }
        let spn = truth.mapped.then_some(truth.spn);
        self.report(core, key, used, write, cycle, spn);
    }

    #[cold]
    fn report(
        &mut self,
        core: usize,
        key: Key,
        used: &TlbEntry,
        write: bool,
        cycle: u64,
        true_spn: Option<u64>,
    ) {
        self.violations += 1;
        if self.first.len() < KEPT {
            self.first.push(Violation {
                core,
                cycle,
                vm: key.vm(),
                vpn: key.first_vpn(),
                used_spn: used.spn,
                true_spn,
                write,
            });
        }
    }
}
