// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The oracle: knows the true mapping at each instant and checks every access against it.
//!
//! It hears of changes from the system software and the walkers, never from a scheme, and keeps its
//! own table, with the bits for stores, dirty and accessed. An access may use a translation that is
//! true now, or one whose revocation has not completed. A store needs the dirty bit in the table,
//! any access the accessed bit: a TLB that goes past a cleared bit hides the page from writeback or
//! from aging. Of a walk it hears where walk caches led it astray.
//!
//! Where cores sweep at their scheduler's ticks, an update may be put off ([`Grace::Swept`]). The
//! oracle grants that only for pages that are gone, to cores other than the initiator, up to the
//! next tick, and no longer once the page is mapped again. No page may get the frame until then.

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

/// What an update leaves of the translation that it revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grace {
    /// Nothing.
    None,
    /// Every core may use it before this cycle.
    Until(u64),
    /// Cores but the initiator may use it before this cycle, the next tick, by which each sweeps.
    Swept {
        /// The tick.
        until: u64,
        /// The initiator, which has invalidated already.
        but: usize,
    },
}

/// What was true before an update that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Old {
    leaf: Leaf,
    /// It may be used before this cycle.
    until: u64,
    /// Of an update that was put off: its initiator.
    put_off_by: Option<usize>,
}

impl Old {
    /// Whether a core may use `used`.
    fn allows(&self, core: usize, used: &TlbEntry, write: bool, cycle: u64) -> bool {
        cycle < self.until
            && self.put_off_by != Some(core)
            && self.leaf.objects(used, write).is_none()
    }
}

/// A mapping as the page tables have it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Truth {
    leaf: Leaf,
    mapped: bool,
    /// An update has changed it, so that a translation of before would be wrong.
    changed: bool,
    /// One for each update under way.
    grace: Vec<Old>,
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
    /// A page got a frame to which translations of another may still lead.
    Reused,
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
        if self.wrong == Wrong::Reused {
            return write!(
                f,
                "cycle {}: core {}: a frame was given out too early: VM {} page {:#x} got frame \
                 {:#x}, to which translations of a page that is gone may lead until the next sweep",
                self.cycle, self.core, self.vm, self.vpn, self.used_spn
            );
        }
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
    /// Frames of pages that are gone by updates put off, and the cycle before which no page may
    /// get them.
    leaving: PageMap<u64>,
    /// The latest tick: a core that was idle for long resumes with a clock behind it.
    latest_tick: u64,
    /// Accesses to pages that an update had changed. Without any, nothing could be violated but by
    /// a walk.
    pub used_again: u64,
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
            changed: false,
            grace: Vec::new(),
        });
        assert!(
            !entry.mapped || entry.leaf.spn == leaf.spn,
            "the page tables changed without an update"
        );
        if !entry.mapped {
            // No core may see the old memory of an address that has new memory.
            entry.grace.retain(|old| old.put_off_by.is_none());
        }
        // More rights, and bits set, need no update.
        (entry.leaf, entry.mapped) = (leaf, true);
    }

    /// A walker set the dirty bit of `key`, and with it the accessed bit. A core whose clock is
    /// behind sets them in what was there.
    pub fn dirtied(&mut self, key: Key) {
        if let Some(truth) = self.truth.get_mut(&key.raw()) {
            let old = truth.grace.iter_mut().map(|old| &mut old.leaf);
            for leaf in old.chain(truth.mapped.then_some(&mut truth.leaf)) {
                (leaf.dirty, leaf.accessed) = (true, true);
            }
        }
    }

    /// An update of `key` took effect; `grace` is what it leaves of the old translation. Where the
    /// page is still there, rights or memory have changed, and nothing may be put off.
    pub fn updated(&mut self, key: Key, now_maps: Option<&Mapping>, grace: Grace) {
        if let Some(entry) = self.truth.get_mut(&key.raw()) {
            let (until, put_off_by) = match grace {
                Grace::None => (0, None),
                Grace::Until(cycle) => (cycle, None),
                Grace::Swept { .. } if now_maps.is_some() => (0, None),
                Grace::Swept { until, but } => (until, Some(but)),
            };
            // An update that ended long before this one is over on every core's clock.
            entry.grace.retain(|old| old.until + SLACK > until);
            if until > 0 {
                entry.grace.push(Old {
                    leaf: entry.leaf,
                    until,
                    put_off_by,
                });
            }
            if put_off_by.is_some() && entry.mapped {
                let last = self.leaving.entry(entry.leaf.spn).or_insert(0);
                *last = until.max(*last);
            }
            (entry.mapped, entry.changed) = (now_maps.is_some(), true);
            if let Some(mapping) = now_maps {
                entry.leaf = Leaf::of(mapping);
            }
        }
    }

    /// Some core's tick.
    pub fn ticked(&mut self, tick: u64) {
        self.latest_tick = self.latest_tick.max(tick);
    }

    /// A page has got frame `spn`, by a core at `cycle`.
    pub fn given(&mut self, core: usize, key: Key, spn: u64, cycle: u64) {
        if let Some(until) = self.leaving.remove(&spn)
            && cycle.max(self.latest_tick) < until
        {
            self.report(Violation {
                core,
                cycle,
                vm: key.vm(),
                vpn: key.first_vpn(),
                used_spn: spn,
                true_spn: Some(spn),
                write: false,
                wrong: Wrong::Reused,
            });
        }
    }

    /// Checks one access.
    #[inline]
    pub fn check(&mut self, core: usize, key: Key, used: &TlbEntry, write: bool, cycle: u64) {
        let truth = self.truth.get(&key.raw());
        self.used_again += u64::from(truth.is_some_and(|truth| truth.changed));
        let wrong = match truth {
            Some(truth) if truth.mapped => truth.leaf.objects(used, write),
            _ => Some(Wrong::Frame),
        };
        let Some(wrong) = wrong else { return };
        let allows = |old: &Old| old.allows(core, used, write, cycle);
        if truth.is_some_and(|truth| truth.grace.iter().any(allows)) {
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

#[cfg(test)]
mod tests {
    use super::{Grace, Oracle, Wrong};
    use crate::layout::Key;
    use crate::mmu::TlbEntry;
    use crate::os::Mapping;

    const KEY: Key = Key::small(0, 7);
    const TICK: u64 = 1_000;

    fn mapping(spn: u64) -> Mapping {
        Mapping {
            key: KEY,
            gpn: spn,
            spn,
            writable: true,
            dirty: true,
            accessed: true,
        }
    }

    /// What is wrong with loads from frame 5 at these cores and cycles, after the page has lost it
    /// by an update that core 0 put off, and `then`.
    fn after(
        now_maps: Option<&Mapping>,
        then: impl FnOnce(&mut Oracle),
        loads: &[(usize, u64)],
    ) -> Vec<Wrong> {
        let mut oracle = Oracle::default();
        oracle.walked(&mapping(5));
        let grace = Grace::Swept {
            until: TICK,
            but: 0,
        };
        oracle.updated(KEY, now_maps, grace);
        then(&mut oracle);
        let used = TlbEntry {
            spn: 5,
            tag: 0,
            expires: u64::MAX,
            writable: true,
            dirty: true,
        };
        for &(core, cycle) in loads {
            oracle.check(core, KEY, &used, false, cycle);
        }
        oracle.first.iter().map(|found| found.wrong).collect()
    }

    #[test]
    fn what_is_put_off_serves_others_before_the_tick() {
        assert_eq!(after(None, |_| {}, &[(1, TICK - 1)]), vec![]);
        assert_eq!(after(None, |_| {}, &[(1, TICK)]), vec![Wrong::Frame]);
        assert_eq!(after(None, |_| {}, &[(0, 1)]), vec![Wrong::Frame]);
    }

    #[test]
    fn nothing_is_put_off_of_a_page_that_is_there_or_there_again() {
        let moved = mapping(6);
        assert_eq!(after(Some(&moved), |_| {}, &[(1, 1)]), vec![Wrong::Frame]);
        let again = |oracle: &mut Oracle| oracle.walked(&mapping(6));
        assert_eq!(after(None, again, &[(1, 1)]), vec![Wrong::Frame]);
    }

    #[test]
    fn a_frame_is_given_out_from_the_tick_on() {
        let other = Key::small(1, 9);
        let given = |at| after(None, |oracle| oracle.given(2, other, 5, at), &[]);
        assert_eq!(given(TICK - 1), vec![Wrong::Reused]);
        assert_eq!(given(TICK), vec![]);
    }
}
