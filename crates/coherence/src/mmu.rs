// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The translation hardware of one core: TLBs, page-walk caches, nested TLB, walkers.
//!
//! L1 TLBs are indexed by the low bits of the page number, the L2 by the fold that Skylake uses
//! (for 128 sets: page bits 6:0 XOR bits 13:7, "XOR-7"). All entries carry their VM, so a switch
//! between VMs flushes nothing. Walk caches hold entries above the leaves, the nested TLB the
//! nested entries of guest page-table pages: each with what it says, so that it can be stale.

use crate::config::{MachineConfig, TlbConfig};
use crate::layout::Key;
use crate::num::ix;
use crate::table::Table;

/// A cached translation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TlbEntry {
    /// Frame of the page's start.
    pub spn: u64,
    /// What a scheme's hardware compares with coherence messages (HATRIC, UNITD); else 0.
    pub tag: u64,
    /// Cycle from which the entry is void (SITE); `u64::MAX` otherwise.
    pub expires: u64,
    /// Stores allowed.
    pub writable: bool,
    /// The dirty bit was set when this was read, or since by this core.
    pub dirty: bool,
}

impl TlbEntry {
    /// Usable at cycle `now` as it is: it has not expired, and a store needs no fault and no
    /// dirty bit.
    #[inline]
    #[must_use]
    pub const fn serves(&self, write: bool, now: u64) -> bool {
        self.expires > now && (!write || (self.writable && self.dirty))
    }
}

/// The entry that a set of an L1 TLB used last, if it does not expire: what a look-up needs, in one
/// place. Using it again moves nothing in the set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recent {
    /// The translation's name; 0 for none.
    raw: u64,
    /// The frame, and in the low bit whether stores need no fault and no dirty bit.
    packed: u64,
}

impl Recent {
    const NONE: Self = Self { raw: 0, packed: 0 };

    #[inline]
    pub const fn of(key: Key, entry: &TlbEntry) -> Self {
        let stores = entry.writable && entry.dirty;
        Self {
            raw: key.raw(),
            packed: (entry.spn << 1) | stores as u64,
        }
    }

    /// Frame of the page's start.
    #[inline]
    pub const fn spn(self) -> u64 {
        self.packed >> 1
    }

    /// Stores need no fault and no dirty bit.
    #[inline]
    pub const fn stores(self) -> bool {
        self.packed & 1 != 0
    }
}

/// One TLB.
#[derive(Debug, Clone)]
pub struct Tlb {
    table: Table<TlbEntry>,
    /// By set, for an L1; empty for an L2. Whatever touches a set by another way than
    /// [`Mmu::l1_recent`] forgets it here.
    recent: Vec<Recent>,
    mask: u64,
    /// Bits of a set index when it is folded; 0 when it is the low bits.
    fold: u32,
}

impl Tlb {
    fn new(config: &TlbConfig, folded: bool) -> Self {
        let sets = u64::from(config.entries / config.ways);
        Self {
            table: Table::new(ix(sets), config.ways as usize),
            recent: vec![Recent::NONE; if folded { 0 } else { ix(sets) }],
            mask: sets - 1,
            fold: if folded { sets.trailing_zeros() } else { 0 },
        }
    }

    /// The set of a page, from its number or from any number with the same low 14 bits.
    #[inline]
    #[must_use]
    pub fn set_of(&self, page: u64) -> usize {
        let folded = if self.fold == 0 {
            page
        } else {
            page ^ (page >> self.fold)
        };
        ix(folded & self.mask)
    }

    #[inline]
    fn forget_recent(&mut self, set: usize) {
        if let Some(recent) = self.recent.get_mut(set) {
            *recent = Recent::NONE;
        }
    }

    /// Drops the translations of a set that satisfy `doomed`.
    pub(crate) fn clear_set(&mut self, set: usize, mut doomed: impl FnMut(Key) -> bool) {
        self.forget_recent(set);
        for slot in self.table.slots(set) {
            let raw = self.table.key(slot);
            if raw != 0 && doomed(Key::from_raw(raw)) {
                self.table.remove(slot);
            }
        }
    }

    fn insert(&mut self, key: Key, entry: TlbEntry) {
        let set = self.set_of(key.page());
        self.forget_recent(set);
        match self.table.peek(set, key.raw()) {
            Some(slot) => *self.table.value_mut(slot) = entry,
            None => {
                self.table.insert(set, key.raw(), entry);
            }
        }
    }

    fn invalidate(&mut self, key: Key) -> bool {
        let set = self.set_of(key.page());
        let slot = self.table.peek(set, key.raw());
        if let Some(slot) = slot {
            self.forget_recent(set);
            self.table.remove(slot);
        }
        slot.is_some()
    }
}

/// What a walk cache or the nested TLB holds of one entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cached {
    /// System-physical address of the entry.
    pub entry: u64,
    /// The frame of the table page that it leads to, as the table's owner sees it: of a nested
    /// table the system-physical one.
    pub leads: u64,
}

/// Page-walk caches of one dimension: the entries of the three upper levels.
#[derive(Debug, Clone)]
struct WalkCache {
    levels: [Table<Cached>; 3],
}

impl WalkCache {
    fn new(entries: u32) -> Self {
        let table = Table::new((entries / 4) as usize, 4);
        Self {
            levels: [table.clone(), table.clone(), table],
        }
    }

    fn place(&self, level: usize, vm: u16, page: u64) -> (usize, u64) {
        let prefix = page >> (9 * (3 - level));
        let set = ix(prefix & (self.levels[level].sets() as u64 - 1));
        (set, Key::small(vm, prefix).raw())
    }

    /// The first level that must be read in a walk `depth` deep, and the table page to read there,
    /// if it is not the root.
    fn start(&mut self, vm: u16, page: u64, depth: usize) -> (usize, u64) {
        for level in (0..depth - 1).rev() {
            let (set, key) = self.place(level, vm, page);
            if let Some(slot) = self.levels[level].find(set, key) {
                return (level + 1, self.levels[level].value(slot).leads);
            }
        }
        (0, 0)
    }

    /// As [`WalkCache::start`], recency untouched.
    fn peek(&self, vm: u16, page: u64, depth: usize) -> (usize, u64) {
        let found = (0..depth - 1).rev().find_map(|level| {
            let (set, key) = self.place(level, vm, page);
            let slot = self.levels[level].peek(set, key)?;
            Some((level + 1, self.levels[level].value(slot).leads))
        });
        found.unwrap_or_default()
    }

    fn insert(&mut self, level: usize, vm: u16, page: u64, cached: Cached) {
        let (set, key) = self.place(level, vm, page);
        match self.levels[level].peek(set, key) {
            Some(slot) => *self.levels[level].value_mut(slot) = cached,
            None => {
                self.levels[level].insert(set, key, cached);
            }
        }
    }

    fn drop_where(&mut self, mut doomed: impl FnMut(u16, &Cached) -> bool) -> u64 {
        let of = |table: &mut Table<Cached>| {
            table.retain_not(|key, cached| doomed(Key::from_raw(key).vm(), cached))
        };
        self.levels.iter_mut().map(of).sum()
    }
}

/// Which page table a walk cache is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// The guest's (natively: the only one).
    Guest,
    /// The nested one.
    Host,
}

/// A structure that walks fill and use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holder {
    /// The walk cache of a table's entries above the leaves.
    Caches(Dimension),
    /// The nested TLB.
    Nested,
}

/// The translation hardware of one core.
#[derive(Debug, Clone)]
pub struct Mmu {
    /// L1 for 4 KiB pages.
    pub l1_4k: Tlb,
    /// L1 for 2 MiB pages.
    pub l1_2m: Tlb,
    /// Unified L2.
    pub l2: Tlb,
    caches: [WalkCache; 2],
    nested: Table<Cached>,
    walker_free: Vec<u64>,
}

impl Mmu {
    /// Empty hardware.
    #[must_use]
    pub fn new(config: &MachineConfig) -> Self {
        let m = &config.mmu;
        let cache = WalkCache::new(m.walk_cache_entries);
        Self {
            l1_4k: Tlb::new(&m.l1_4k, false),
            l1_2m: Tlb::new(&m.l1_2m, false),
            l2: Tlb::new(&m.l2, true),
            caches: [cache.clone(), cache],
            nested: Table::new((m.nested_tlb_entries / 4) as usize, 4),
            walker_free: vec![0; m.walkers as usize],
        }
    }

    /// The L1 TLB for the key's page size.
    #[inline]
    pub fn l1(&mut self, key: Key) -> &mut Tlb {
        if key.is_large() {
            &mut self.l1_2m
        } else {
            &mut self.l1_4k
        }
    }

    /// Looks in L1 only.
    #[inline]
    pub fn l1_entry(&mut self, key: Key) -> Option<&TlbEntry> {
        let tlb = self.l1(key);
        let set = tlb.set_of(key.page());
        tlb.forget_recent(set);
        let slot = tlb.table.find_again(set, key.raw())?;
        Some(tlb.table.value(slot))
    }

    /// As [`Mmu::l1_entry`], for an entry that does not expire.
    #[inline]
    pub(crate) fn l1_recent(&mut self, key: Key) -> Option<Recent> {
        let tlb = self.l1(key);
        let set = ix(key.page() & tlb.mask);
        let recent = tlb.recent[set];
        if recent.raw == key.raw() {
            return Some(recent);
        }
        let slot = tlb.table.find_again(set, key.raw())?;
        let entry = tlb.table.value(slot);
        let found = Recent::of(key, entry);
        let keeps = entry.expires == u64::MAX;
        tlb.recent[set] = if keeps { found } else { Recent::NONE };
        keeps.then_some(found)
    }

    /// Looks in L2, and brings what it finds to L1.
    pub fn l2_entry(&mut self, key: Key) -> Option<TlbEntry> {
        let slot = self.l2.table.find(self.l2.set_of(key.page()), key.raw())?;
        let entry = *self.l2.table.value(slot);
        self.l1(key).insert(key, entry);
        Some(entry)
    }

    /// Installs a translation in both levels.
    pub fn fill(&mut self, key: Key, entry: TlbEntry) {
        self.l1(key).insert(key, entry);
        self.l2.insert(key, entry);
    }

    /// Notes that the page's dirty bit is set, where the translation is cached.
    pub fn mark_dirty(&mut self, key: Key) {
        let set = self.l2.set_of(key.page());
        if let Some(slot) = self.l2.table.peek(set, key.raw()) {
            self.l2.table.value_mut(slot).dirty = true;
        }
        let l1 = self.l1(key);
        let set = l1.set_of(key.page());
        if let Some(slot) = l1.table.peek(set, key.raw()) {
            l1.forget_recent(set);
            l1.table.value_mut(slot).dirty = true;
        }
    }

    /// Drops one translation; true when it was held.
    pub fn invalidate(&mut self, key: Key) -> bool {
        let in_l1 = self.l1(key).invalidate(key);
        self.l2.invalidate(key) | in_l1
    }

    /// Drops what walk caches and nested TLB hold that satisfies `doomed`; returns how many.
    pub fn drop_walks(&mut self, mut doomed: impl FnMut(Holder, u16, &Cached) -> bool) -> u64 {
        let mut gone = self
            .nested
            .retain_not(|key, cached| doomed(Holder::Nested, Key::from_raw(key).vm(), cached));
        for dimension in [Dimension::Guest, Dimension::Host] {
            let cache = &mut self.caches[dimension as usize];
            gone += cache.drop_where(|vm, cached| doomed(Holder::Caches(dimension), vm, cached));
        }
        gone
    }

    /// Drops the translations that satisfy `doomed`; returns how many L2 and L1 slots that were.
    pub fn invalidate_where(&mut self, mut doomed: impl FnMut(Key, &TlbEntry) -> bool) -> u64 {
        let mut gone = 0;
        for tlb in [&mut self.l1_4k, &mut self.l1_2m, &mut self.l2] {
            tlb.recent.fill(Recent::NONE);
            gone += tlb
                .table
                .retain_not(|key, entry| doomed(Key::from_raw(key), entry));
        }
        gone
    }

    /// Whether some level holds the translation.
    #[must_use]
    pub fn holds(&self, key: Key) -> bool {
        [&self.l1_4k, &self.l1_2m, &self.l2]
            .iter()
            .any(|tlb| tlb.table.peek(tlb.set_of(key.page()), key.raw()).is_some())
    }

    /// Every translation held, in slot order; L1 before L2.
    pub fn entries(&self) -> impl Iterator<Item = (Key, &TlbEntry)> {
        [&self.l1_4k, &self.l1_2m, &self.l2]
            .into_iter()
            .flat_map(|tlb| tlb.table.entries())
            .map(|(raw, entry)| (Key::from_raw(raw), entry))
    }

    /// The walker that is free first, and the cycle it can begin a request made at `now`.
    #[must_use]
    pub fn walker(&self, now: u64) -> (usize, u64) {
        let (at, &free) = self
            .walker_free
            .iter()
            .enumerate()
            .min_by_key(|&(_, &free)| free)
            .expect("a core has a walker");
        (at, free.max(now))
    }

    /// Keeps a walker until `end`.
    pub fn hold_walker(&mut self, walker: usize, end: u64) {
        self.walker_free[walker] = end;
    }

    /// First level to read of a walk, by the walk caches, and the table page to read there, if it
    /// is not the root.
    pub fn walk_start(&mut self, dim: Dimension, vm: u16, page: u64, depth: usize) -> (usize, u64) {
        self.caches[dim as usize].start(vm, page, depth)
    }

    /// As [`Mmu::walk_start`], and nothing is used by it.
    #[must_use]
    pub fn walk_peek(&self, dim: Dimension, vm: u16, page: u64, depth: usize) -> (usize, u64) {
        self.caches[dim as usize].peek(vm, page, depth)
    }

    /// Remembers an upper-level entry.
    pub fn walk_insert(&mut self, dim: Dimension, level: usize, vm: u16, page: u64, held: Cached) {
        self.caches[dim as usize].insert(level, vm, page, held);
    }

    fn nested_place(&self, vm: u16, gpn: u64) -> (usize, u64) {
        let set = ix(gpn & (self.nested.sets() as u64 - 1));
        (set, Key::small(vm, gpn).raw())
    }

    /// The frame behind guest table page `gpn`, by the nested TLB.
    pub fn nested_find(&mut self, vm: u16, gpn: u64) -> Option<u64> {
        let (set, key) = self.nested_place(vm, gpn);
        let slot = self.nested.find(set, key)?;
        Some(self.nested.value(slot).leads)
    }

    /// As [`Mmu::nested_find`], and nothing is used by it.
    #[must_use]
    pub fn nested_peek(&self, vm: u16, gpn: u64) -> Option<u64> {
        let (set, key) = self.nested_place(vm, gpn);
        let slot = self.nested.peek(set, key)?;
        Some(self.nested.value(slot).leads)
    }

    /// Remembers the nested entry of a guest table page that it does not hold.
    pub fn nested_insert(&mut self, vm: u16, gpn: u64, cached: Cached) {
        let (set, key) = self.nested_place(vm, gpn);
        self.nested.insert(set, key, cached);
    }

    /// What the nested TLB holds: of which VM.
    pub fn nested(&self) -> impl Iterator<Item = (u16, Cached)> {
        let entries = self.nested.entries();
        entries.map(|(key, cached)| (Key::from_raw(key).vm(), *cached))
    }
}

#[cfg(test)]
mod tests {
    use super::Mmu;
    use crate::config::MachineConfig;

    #[test]
    fn skylake_l2_set_is_bits_6_0_xor_13_7_and_l1_set_the_low_4() {
        let mmu = Mmu::new(&MachineConfig::default());
        let page = 0b10_1100_1010_1101_0110_u64;
        assert_eq!(mmu.l1_4k.set_of(page), (page & 15) as usize);
        assert_eq!(mmu.l2.set_of(page), ((page ^ (page >> 7)) & 127) as usize);
    }

    #[test]
    fn bits_above_13_do_not_move_a_page_between_sets() {
        let mmu = Mmu::new(&MachineConfig::default());
        for page in [0_u64, 0x3FFF, 0x1555, 0x2AAA] {
            let far = page | (0x2B << 14);
            assert_eq!(mmu.l2.set_of(page), mmu.l2.set_of(far));
            assert_eq!(mmu.l1_4k.set_of(page), mmu.l1_4k.set_of(far));
        }
    }
}
