// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a scheme sees of the machine, and all that it can do to it.
//!
//! The verbs are those of hardware and of system software that keeps translations coherent: read
//! and write a line, walk, message the TLBs, flush, interrupt. Each counts what it did and honours
//! the planted faults, so that no scheme can forget either. What the initiator pays, a scheme
//! returns.

use super::{Fault, Machine, Walk};
use crate::cache::Entry;
use crate::layout::Key;
use crate::mmu::{Cached, Dimension, Holder, Mmu, TlbEntry};
use crate::os::{Mapping, Remap};

/// The machine, to look at.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a>(&'a Machine);

impl<'a> Look<'a> {
    pub(crate) const fn at(machine: &'a Machine) -> Self {
        Self(machine)
    }

    /// Every translation that some core's TLBs hold; L1 before L2, a core after the other.
    pub fn translations(&self) -> impl Iterator<Item = (Key, TlbEntry)> + use<'a> {
        let held = |mmu: &'a Mmu| mmu.entries().map(|(key, entry)| (key, *entry));
        self.0.mmu.iter().flat_map(held)
    }

    /// The VM and the frame of every guest table page that some core's nested TLB holds.
    pub fn tables_behind(&self) -> impl Iterator<Item = (u16, u64)> + use<'a> {
        let held = self.0.mmu.iter().flat_map(Mmu::nested);
        held.map(|(vm, cached)| (vm, cached.leads))
    }

    /// The VM that a core runs; `None` when it is idle.
    #[must_use]
    pub fn runs(&self, core: usize) -> Option<u16> {
        self.0.running[core]
    }

    /// Cores after `core` that run the VM, in turn, `core` itself left out.
    pub fn others(&self, core: usize, vm: u16) -> impl Iterator<Item = usize> + use<'a> {
        let running = &self.0.running;
        let all = (1..running.len()).map(move |step| (core + step) % running.len());
        all.filter(move |&other| running[other] == Some(vm))
    }

    /// Whether table pages may move in this run; where they stay, nothing need follow them.
    #[must_use]
    pub const fn tables_move(&self) -> bool {
        self.0.tables_move
    }

    /// Whether `fault` is planted.
    #[must_use]
    pub fn has(&self, fault: Fault) -> bool {
        self.0.fault == Some(fault)
    }
}

/// A page walker taken for a request.
#[derive(Debug)]
#[must_use = "a walker is given back by `View::release`"]
pub struct Walker {
    core: usize,
    number: usize,
    /// The cycle at which it can begin.
    pub start: u64,
}

/// Whether a look-up in a large table found the translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// It did.
    Hit,
    /// It did not.
    Miss,
}

/// A message to every TLB that names translations by the low bits of their page's number.
#[derive(Debug)]
pub struct Message<'a, F> {
    /// Any number whose low bits are the pages', of those that the TLBs' indices are made of.
    pub page_bits: u64,
    /// 2 MiB pages.
    pub large: bool,
    /// Whether the message names a translation that stands in such a set.
    pub names: F,
    /// The translations that an update has revoked; others named are dropped without need.
    pub revoked: &'a [Key],
}

/// The machine, for a scheme.
#[derive(Debug)]
pub struct View<'a> {
    m: &'a mut Machine,
}

impl<'a> View<'a> {
    #[inline]
    pub(crate) const fn of(m: &'a mut Machine) -> Self {
        Self { m }
    }

    /// The same machine, to look at.
    #[must_use]
    pub const fn look(&self) -> Look<'_> {
        Look::at(self.m)
    }

    /// The number of cores.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.m.mmu.len()
    }

    /// The number of VMs.
    #[must_use]
    pub fn vms(&self) -> u16 {
        self.m.os.vms()
    }

    /// Cycles until each vCPU of a VM that is on no core will have run; 0 when all are on cores.
    #[must_use]
    pub fn preempted_wait(&self, vm: u16) -> u64 {
        self.m.preempted_wait[usize::from(vm)]
    }

    /// System-physical addresses of a page's leaf entries: the guest's, and the host's for `gpn`.
    #[must_use]
    pub fn leaf_entries(&mut self, key: Key, gpn: u64) -> (u64, u64) {
        self.m.os.leaf_entries(key, gpn)
    }

    /// Walks the page tables for `key`, waiting for a free walker first.
    pub fn walk(&mut self, core: usize, key: Key, now: u64) -> (Walk, Mapping) {
        self.m.walk(core, key, now)
    }

    /// Takes the core's walker that is free first.
    pub fn take_walker(&mut self, core: usize, now: u64) -> Walker {
        let (number, start) = self.m.mmu[core].walker(now);
        Walker {
            core,
            number,
            start,
        }
    }

    /// The reads of a walk, from cycle `start`; returns the mapping and the last read's cycle.
    pub fn walk_tables(&mut self, walker: &Walker, key: Key, start: u64) -> (Mapping, u64) {
        self.m.walk_tables(walker.core, key, start)
    }

    /// Frames of guest table pages that the last walk put into a nested TLB; none where table pages
    /// stay.
    pub fn take_nested_filled(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.m.nested_filled)
    }

    /// Gives a walker back, which was busy until `end`.
    pub fn release(&mut self, walker: Walker, end: u64) {
        self.m.mmu[walker.core].hold_walker(walker.number, end);
    }

    /// Reads a line through the core's L2 cache; returns the cycles.
    pub fn read_line(&mut self, core: usize, line: u64, now: u64) -> u64 {
        self.line(core, line, false, now)
    }

    /// Writes a line through the core's L2 cache; returns the cycles.
    pub fn write_line(&mut self, core: usize, line: u64, now: u64) -> u64 {
        self.line(core, line, true, now)
    }

    fn line(&mut self, core: usize, line: u64, write: bool, now: u64) -> u64 {
        let (caches, memory) = (&mut self.m.caches, &mut self.m.memory);
        caches
            .access(core, line, write, Entry::L2, now, memory)
            .cycles
    }

    /// Keeps the channels of DRAM busy for `cycles`, in the background.
    pub fn occupy_dram(&mut self, now: u64, cycles: u64) {
        self.m.memory.occupy_dram(now, cycles);
    }

    /// Counts a look-up in a large table of translations.
    pub const fn count_lookup(&mut self, found: Lookup) {
        self.m.counts.atlb_lookups += 1;
        self.m.counts.atlb_hits += matches!(found, Lookup::Hit) as u64;
    }

    /// Counts an update that ended in IPIs.
    pub const fn count_ipi_shootdown(&mut self) {
        self.m.counts.ipi_shootdowns += 1;
    }

    /// Whether a planted fault leaves a core out of invalidations.
    fn skips(&self, core: usize) -> bool {
        self.has(Fault::VictimSkipped) && core + 1 == self.m.mmu.len()
    }

    fn has(&self, fault: Fault) -> bool {
        self.m.fault == Some(fault)
    }

    /// Drops each translation that `remap` revoked from every core, and what walk caches and nested
    /// TLBs hold of the VM where a table page has changed.
    pub fn invalidate_each(&mut self, remap: &Remap) {
        let last = usize::from(self.has(Fault::LastUntold));
        for change in &remap.changes[..remap.changes.len().saturating_sub(last)] {
            self.invalidate(change.key);
        }
        if !remap.tables.is_empty() {
            self.flush_walks(remap.vm);
        }
    }

    /// Drops one revoked translation from every core.
    pub fn invalidate(&mut self, key: Key) {
        for core in self.m.holders[usize::from(key.vm())].iter() {
            if !self.skips(core) && self.m.mmu[core].invalidate(key) {
                self.m.counts.true_invalidations += 1;
            }
        }
    }

    /// Sends messages to every core whose effect another verb has, so that their way is waited for.
    pub fn broadcast(&mut self, messages: u64) {
        self.m.network.broadcast(messages);
    }

    /// Messages one core to drop one translation. `revoked`: an update made it void.
    pub fn message_core(&mut self, core: usize, key: Key, revoked: bool) {
        if self.skips(core) {
            return;
        }
        self.m.network.send(core, 1);
        let counts = &mut self.m.counts;
        counts.tlb_messages += 1;
        let dropped = u64::from(self.m.mmu[core].invalidate(key));
        if revoked {
            counts.true_invalidations += dropped;
        } else {
            counts.false_invalidations += dropped;
        }
    }

    /// Messages every TLB to drop what the message names.
    pub fn message(&mut self, message: &Message<'_, impl Fn(Key) -> bool>) {
        self.m.counts.tlb_messages += self.m.mmu.len() as u64;
        self.broadcast(1);
        let (mut meant, mut unmeant) = (0, 0);
        for core in 0..self.cores() {
            if self.skips(core) {
                continue;
            }
            let (skip_l1, skip_l2) = (self.has(Fault::L1Missed), self.has(Fault::SetMissed));
            let large = message.large && !self.has(Fault::LargeMissed);
            let mmu = &mut self.m.mmu[core];
            let l1 = if large {
                &mut mmu.l1_2m
            } else {
                &mut mmu.l1_4k
            };
            let levels = [(!skip_l1).then_some(l1), (!skip_l2).then_some(&mut mmu.l2)];
            for tlb in levels.into_iter().flatten() {
                let set = tlb.set_of(message.page_bits);
                tlb.clear_set(set, |key| {
                    let named = key.is_large() == message.large && (message.names)(key);
                    if named && message.revoked.contains(&key) {
                        meant += 1;
                    } else if named {
                        unmeant += 1;
                    }
                    named
                });
            }
        }
        self.m.counts.true_invalidations += meant;
        self.m.counts.false_invalidations += unmeant;
    }

    /// Sends `messages` messages to every TLB, each of which drops the entries that `named` says.
    /// `revoked` is sorted.
    pub fn message_entries(
        &mut self,
        messages: usize,
        named: impl Fn(&TlbEntry) -> bool,
        revoked: &[Key],
    ) {
        self.m.counts.tlb_messages += (messages * self.cores()) as u64;
        self.broadcast(messages as u64);
        for core in 0..self.cores() {
            let idle = self.m.running[core].is_none();
            if self.skips(core) || (idle && self.has(Fault::IdleSkipped)) {
                continue;
            }
            let (mut meant, mut unmeant) = (0, 0);
            self.m.mmu[core].invalidate_where(|key, entry| {
                let hit = named(entry);
                if hit && revoked.binary_search(&key).is_ok() {
                    meant += 1;
                } else if hit {
                    unmeant += 1;
                }
                hit
            });
            self.m.counts.true_invalidations += meant;
            self.m.counts.false_invalidations += unmeant;
        }
    }

    /// Drops all translations and walk-cache entries of a VM from every core; those translations
    /// not in `remap` were dropped needlessly. Where a table page has changed nested TLBs forget
    /// the VM too.
    pub fn flush_vm(&mut self, remap: &Remap) {
        let vm = usize::from(remap.vm);
        let revoked: Vec<Key> = remap.changes.iter().map(|change| change.key).collect();
        let skipped = (0..self.cores()).filter(|&core| self.skips(core)).count();
        self.m.counts.full_flushes += (self.cores() - skipped) as u64;
        let holders = self.m.holders[vm];
        for core in holders.iter() {
            let running = self.m.running[core] == Some(remap.vm);
            if self.skips(core) || (!running && self.has(Fault::PreemptedForgotten)) {
                continue;
            }
            self.flush_translations(core, remap.vm, &revoked);
        }
        if self.has(Fault::FlushLeavesWalkCaches) {
            return;
        }
        if remap.tables.is_empty() {
            self.flush_walk_caches(holders.iter(), remap.vm);
        } else {
            self.flush_walks(remap.vm);
        }
    }

    /// One core drops all translations of a VM; those not revoked needlessly.
    fn flush_translations(&mut self, core: usize, vm: u16, revoked: &[Key]) {
        let mmu = &mut self.m.mmu[core];
        let held = revoked.iter().filter(|&&key| mmu.holds(key)).count() as u64;
        let gone = mmu.invalidate_where(|key, _| key.vm() == vm);
        self.m.holders[usize::from(vm)].remove(core);
        self.m.counts.true_invalidations += held;
        self.m.counts.false_invalidations += gone.saturating_sub(held);
    }

    /// One core drops the translations revoked, or all that it holds of the VM, walk caches
    /// included, if it is to flush.
    pub fn drop_at(&mut self, core: usize, vm: u16, revoked: &[Key], flush: bool) {
        if self.skips(core) {
            return;
        }
        if flush {
            self.m.counts.full_flushes += 1;
            self.flush_translations(core, vm, revoked);
            self.flush_walk_caches(std::iter::once(core), vm);
            return;
        }
        for &key in revoked {
            self.m.counts.true_invalidations += u64::from(self.m.mmu[core].invalidate(key));
        }
    }

    /// Cores drop what their walk caches hold of a VM, as a flush does although no table page has
    /// changed. Nested TLBs keep what they hold.
    fn flush_walk_caches(&mut self, cores: impl Iterator<Item = usize>, vm: u16) {
        if !self.has(Fault::FlushSparesWalkCaches) {
            self.drop_walks_at(cores, |holder, of, _| of == vm && holder != Holder::Nested);
        }
    }

    /// Every core drops what walk caches and nested TLB hold of a VM; returns how many entries.
    pub fn flush_walks(&mut self, vm: u16) -> u64 {
        for core in 0..self.cores() {
            self.m.fifth.forget(core, vm);
        }
        self.drop_walks(|_, of, _| of == vm)
    }

    /// Messages every core to drop what walk caches and nested TLB hold of a VM; returns how many
    /// entries went.
    pub fn message_walks(&mut self, vm: u16) -> u64 {
        self.m.counts.tlb_messages += self.cores() as u64;
        self.broadcast(1);
        let named = if self.has(Fault::OtherWalkLine) {
            vm + 1
        } else {
            vm
        };
        self.flush_walks(named)
    }

    /// Every core drops the entries of walk caches and nested TLB that `named` says: where, of
    /// which VM, and what is held. Returns how many.
    pub fn drop_walks(&mut self, named: impl Fn(Holder, u16, &Cached) -> bool) -> u64 {
        self.drop_walks_at(0..self.cores(), named)
    }

    fn drop_walks_at(
        &mut self,
        cores: impl Iterator<Item = usize>,
        named: impl Fn(Holder, u16, &Cached) -> bool,
    ) -> u64 {
        if self.has(Fault::WalkCachesKept) {
            return 0;
        }
        let kept = match self.m.fault {
            Some(Fault::NestedKept) => Some(Holder::Nested),
            Some(Fault::HostWalksKept) => Some(Holder::Caches(Dimension::Host)),
            _ => None,
        };
        let mut gone = 0;
        for core in cores {
            if !self.skips(core) {
                gone += self.m.mmu[core]
                    .drop_walks(|holder, vm, held| kept != Some(holder) && named(holder, vm, held));
            }
        }
        gone
    }

    /// Interrupts the other cores that run `remap`'s VM, those after the initiator first and no
    /// more than `most`; each owes `cost` cycles. Returns how many took it.
    ///
    /// A recorded update has its number of victims, each of which ran when it was recorded. Those
    /// that wait for a core here, or have no more records, took it too: it is counted as time that
    /// some core was used.
    pub fn interrupt(&mut self, initiator: usize, remap: &Remap, cost: u64, most: usize) -> u64 {
        let most = remap.told_at_most(most);
        let on_cores = self.interrupt_cores(initiator, remap.vm, cost, most);
        let away = match remap.victims {
            Some(_) => (most as u64 - on_cores).min(self.m.away[usize::from(remap.vm)]),
            None => 0,
        };
        let counts = &mut self.m.counts;
        counts.victims += away;
        counts.victim_cycles += away * cost;
        counts.core_cycles += away * cost;
        on_cores + away
    }

    /// Interrupts no more than `most` of the other cores that run the VM; each owes `cost` cycles.
    /// Returns how many.
    pub fn interrupt_cores(&mut self, initiator: usize, vm: u16, cost: u64, most: usize) -> u64 {
        let told: Vec<usize> = self.look().others(initiator, vm).take(most).collect();
        for &core in &told {
            self.m.owed[core] += cost;
            self.m.counts.victim_cycles += cost;
            self.m.network.send(core, 1);
        }
        self.m.counts.victims += told.len() as u64;
        told.len() as u64
    }
}
