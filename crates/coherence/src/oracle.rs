// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The oracle: knows the true mapping at each instant and checks every access against it.
//!
//! It hears of changes from the system software and the walkers, never from a scheme, and keeps its
//! own table, with the bits for stores, dirty and accessed. An access may use a translation that is
//! true now, or one whose revocation has not completed. A store needs the dirty bit in the table,
//! any access the accessed bit: a TLB that goes past a cleared bit hides the page from writeback or
//! from aging. Of a walk it hears where walk caches led it astray.

use crate::layout::{Key, PageMap};
use crate::mmu::TlbEntry;
use crate::os::Mapping;

/// What a leaf entry of the page tables says, as far as an access can be wrong about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Leaf {
    spn: u64,
    writable: bool,
    dirty: bool,
    accessed: bool,
}

impl Leaf {
    const fn of(mapping: &Mapping) -> Self {
        Self {
            spn: mapping.spn,
            writable: mapping.writable,
            dirty: mapping.dirty,
            accessed: mapping.accessed,
        }
    }

    /// What is wrong with an access by `used`, if this is what the tables say.
    const fn objects(&self, used: &TlbEntry, write: bool) -> Option<Wrong> {
        if used.spn != self.spn {
            Some(Wrong::Frame)
        } else if write && !self.writable {
            Some(Wrong::Right)
        } else if write && !self.dirty {
            Some(Wrong::Dirty)
        } else if !self.accessed {
            Some(Wrong::Accessed)
        } else {
            None
        }
    }
}

/// A mapping as the page tables have it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Truth {
    leaf: Leaf,
    mapped: bool,
    /// What was true before, and the cycle before which it may still be used: one for each update
    /// under way.
    grace: Vec<(Leaf, u64)>,
}

/// What was wrong with a use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wrong {
    /// The page is elsewhere, or nowhere.
    Frame,
    /// A store, and the page is read-only.
    Right,
    /// A store, and the table's dirty bit is clear: it would never be written back.
    Dirty,
    /// The table's accessed bit is clear: the page would pass for unused.
    Accessed,
    /// A walk went on in a page that is not, or not there, the table that it took it for.
    Table,
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
    /// What was wrong.
    pub wrong: Wrong,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match (self.wrong, self.write) {
            (Wrong::Table, _) => "walk",
            (_, true) => "store",
            (_, false) => "load",
        };
        write!(
            f,
            "cycle {}: core {}: {kind} through a revoked translation: VM {} page {:#x} used frame \
             {:#x}, ",
            self.cycle, self.core, self.vm, self.vpn, self.used_spn
        )?;
        match (self.wrong, self.true_spn) {
            (Wrong::Right, _) => write!(f, "which is read-only now"),
            (Wrong::Dirty, _) => write!(f, "whose dirty bit is clear in the page table"),
            (Wrong::Accessed, _) => write!(f, "whose accessed bit is clear in the page table"),
            (Wrong::Table, Some(spn)) => write!(f, "but the table is in {spn:#x}"),
            (_, Some(spn)) => write!(f, "the page tables say {spn:#x}"),
            (_, None) => write!(f, "the page is no longer mapped"),
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
        let leaf = Leaf::of(mapping);
        let entry = self.truth.entry(mapping.key.raw()).or_insert(Truth {
            leaf,
            mapped: true,
            grace: Vec::new(),
        });
        assert!(
            !entry.mapped || entry.leaf.spn == leaf.spn,
            "the page tables changed without an update"
        );
        // More rights, and bits set, need no update.
        (entry.leaf, entry.mapped) = (leaf, true);
    }

    /// A walker set the dirty bit of `key`, and with it the accessed bit. A core whose clock is
    /// behind sets them in what was there.
    pub fn dirtied(&mut self, key: Key) {
        if let Some(truth) = self.truth.get_mut(&key.raw()) {
            let old = truth.grace.iter_mut().map(|(old, _)| old);
            for leaf in old.chain(truth.mapped.then_some(&mut truth.leaf)) {
                (leaf.dirty, leaf.accessed) = (true, true);
            }
        }
    }

    /// An update of `key` took effect; the old translation may be used before cycle `until`.
    pub fn updated(&mut self, key: Key, now_maps: Option<&Mapping>, until: u64) {
        if let Some(entry) = self.truth.get_mut(&key.raw()) {
            // An update that ended long before this one is over on every core's clock.
            entry.grace.retain(|&(_, end)| end + SLACK > until);
            if until > 0 {
                entry.grace.push((entry.leaf, until));
            }
            entry.mapped = now_maps.is_some();
            if let Some(mapping) = now_maps {
                entry.leaf = Leaf::of(mapping);
            }
        }
    }

    /// Checks one access.
    #[inline]
    pub fn check(&mut self, core: usize, key: Key, used: &TlbEntry, write: bool, cycle: u64) {
        let truth = self.truth.get(&key.raw());
        let wrong = match truth {
            Some(truth) if truth.mapped => truth.leaf.objects(used, write),
            _ => Some(Wrong::Frame),
        };
        let Some(wrong) = wrong else { return };
        let in_grace =
            |&(leaf, until): &(Leaf, u64)| cycle < until && leaf.objects(used, write).is_none();
        if truth.is_some_and(|truth| truth.grace.iter().any(in_grace)) {
            return;
        }
        let true_spn = truth
            .filter(|truth| truth.mapped)
            .map(|truth| truth.leaf.spn);
        self.report(Violation {
            core,
            cycle,
            vm: key.vm(),
            vpn: key.first_vpn(),
            used_spn: used.spn,
            true_spn,
            write,
            wrong,
        });
    }

    /// A walk for `key` went on in frame `used`, while the table's page is in `true_spn`.
    pub fn strayed(&mut self, core: usize, key: Key, used: u64, true_spn: u64, cycle: u64) {
        self.report(Violation {
            core,
            cycle,
            vm: key.vm(),
            vpn: key.first_vpn(),
            used_spn: used,
            true_spn: Some(true_spn),
            write: false,
            wrong: Wrong::Table,
        });
    }

    #[cold]
    fn report(&mut self, violation: Violation) {
        self.violations += 1;
        if self.first.len() < KEPT {
            self.first.push(violation);
        }
    }
}
