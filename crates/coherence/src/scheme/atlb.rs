// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The addressable TLB in DRAM, cached as lines: shared by ATTC and the schemes over it.
//!
//! A set is one 64-byte line of four entries; Equation 1 of the paper gives its address. An L2 TLB
//! miss reads the line through the L2 cache; a walk inserts into it, off the critical path. A
//! second table of the same form serves 2 MiB pages.

use crate::Error;
use crate::config::{Allowed, MachineConfig, Parameter, Value, bad, power_of_two};
use crate::layout::{ATLB_BASE, Key, LARGE_ATLB_BASE, LINE_SHIFT};
use crate::machine::{Fault, Lookup, View, Walk};
use crate::mmu::TlbEntry;
use crate::num::{ix, low16};
use crate::os::Mapping;
use crate::table::Table;

/// Size of the ATLB.
pub static KIB: Parameter = Parameter {
    key: "attc.atlb_kib",
    default: Value::Number(16_384),
    allowed: Allowed::Range(1024, 1 << 20),
    help: "ATLB size, KiB; at least 1024, so that the set index holds gVA bits 25:12.",
};
/// Ways of the ATLB.
pub static WAYS: Parameter = Parameter {
    key: "attc.atlb_ways",
    default: Value::Number(4),
    allowed: Allowed::Range(1, 16),
    help: "ATLB ways of 16 bytes; a set is one 64-byte line, so 4.",
};
/// Size of the ATLB for large pages.
pub static LARGE_KIB: Parameter = Parameter {
    key: "attc.large_atlb_kib",
    default: Value::Number(4096),
    allowed: Allowed::Range(1024, 1 << 20),
    help: "Second ATLB, for 2 MiB pages, KiB.",
};
/// How the tables begin.
pub static WARM: Parameter = Parameter {
    key: "attc.warm",
    default: Value::Flag(true),
    allowed: Allowed::Flag,
    help: "A steady start finds the pages of the workload in the ATLB; false begins with empty \
           tables.",
};

/// What must hold for the tables and for what private TLBs rebuild from a set's index.
pub(super) fn validate(config: &MachineConfig) -> Result<(), Error> {
    for key in [&KIB, &LARGE_KIB] {
        power_of_two(key.key, config.schemes.number(key))?;
    }
    let ways = config.schemes.number(&WAYS);
    if ways != 4 {
        let want = "4: a set is one 64-byte line of four 16-byte entries";
        return Err(bad(WAYS.key, ways.into(), want));
    }
    Ok(())
}

/// Bits by which Equation 1 shifts the VM id: twice those of the set index of the paper's L2 TLB,
/// since it folds two parts of the page's number.
const VM_SHIFT: u32 = 14;

/// The same on a machine: a larger L2 TLB folds more bits, and all of them must stand in the low
/// bits of an ATLB set's index as they do in the page's number.
pub(super) fn vm_shift(config: &MachineConfig) -> u32 {
    let sets = config.mmu.l2.entries / config.mmu.l2.ways;
    VM_SHIFT.max(2 * sets.ilog2())
}

/// Set index of a page in an ATLB of `sets` sets (Equation 1), for an L2 TLB of up to 128 sets.
/// `page` is `gVA >> 12`, or `gVA >> 21` for the large-page ATLB.
#[inline]
#[must_use]
pub const fn set_index(page: u64, vm_id: u64, sets: u64) -> u64 {
    shifted_index(page, vm_id, VM_SHIFT, sets)
}

const fn shifted_index(page: u64, vm_id: u64, shift: u32, sets: u64) -> u64 {
    (page ^ (vm_id << shift)) & (sets - 1)
}

/// Address of a set (Equation 1): 64 bytes each from `base`.
#[inline]
#[must_use]
pub const fn set_address(base: u64, index: u64) -> u64 {
    base + index * 64
}

/// An entry, packed in 64 bits so that untouched tables cost no memory: frame, rights, stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packed(u64);

impl Packed {
    const WRITABLE: u64 = 1 << 40;
    const DIRTY: u64 = 1 << 41;
    const STAMP_SHIFT: u32 = 48;

    fn new(entry: &TlbEntry, stamp: u16) -> Self {
        debug_assert!(entry.spn < 1 << 40, "frames have 40 bits");
        let mut bits = entry.spn | (u64::from(stamp) << Self::STAMP_SHIFT);
        if entry.writable {
            bits |= Self::WRITABLE;
        }
        if entry.dirty {
            bits |= Self::DIRTY;
        }
        Self(bits)
    }

    const fn spn(self) -> u64 {
        self.0 & (Self::WRITABLE - 1)
    }

    const fn stamp(self) -> u16 {
        low16(self.0 >> Self::STAMP_SHIFT)
    }

    const fn entry(self) -> TlbEntry {
        TlbEntry {
            spn: self.spn(),
            tag: 0,
            expires: u64::MAX,
            writable: self.0 & Self::WRITABLE != 0,
            dirty: self.0 & Self::DIRTY != 0,
        }
    }
}

/// What a walk that found `mapping` puts into a TLB.
const fn entry_of(mapping: &Mapping) -> TlbEntry {
    TlbEntry {
        spn: mapping.spn,
        tag: 0,
        expires: u64::MAX,
        writable: mapping.writable,
        dirty: mapping.dirty,
    }
}

/// What an L2 TLB miss got.
#[derive(Debug, Clone, Copy)]
pub struct Served {
    /// The translation and its cycles.
    pub walk: Walk,
    /// It came from a walk and is new in the ATLB.
    pub inserted: bool,
}

/// The two tables.
#[derive(Debug, Clone)]
pub struct Atlb {
    tables: [Table<u64>; 2],
    sets: [u64; 2],
    vm_shift: u32,
    /// Time stamp of each VM's valid entries.
    stamps: Vec<u16>,
    /// Takes in what was used before the run.
    warms: bool,
}

impl Atlb {
    /// Empty tables.
    #[must_use]
    pub fn new(config: &MachineConfig) -> Self {
        let sets = [&KIB, &LARGE_KIB].map(|kib| u64::from(config.schemes.number(kib)) * 1024 / 64);
        let ways = config.schemes.number(&WAYS) as usize;
        Self {
            tables: sets.map(|sets| Table::new(ix(sets), ways)),
            sets,
            vm_shift: vm_shift(config),
            stamps: Vec::new(),
            warms: config.schemes.flag(&WARM),
        }
    }

    /// Sets of the table for the page size.
    #[must_use]
    pub const fn sets(&self, large: bool) -> u64 {
        self.sets[large as usize]
    }

    /// The set that holds `key`.
    #[inline]
    #[must_use]
    pub const fn index(&self, key: Key) -> u64 {
        let sets = self.sets(key.is_large());
        shifted_index(key.page(), key.vm_id(), self.vm_shift, sets)
    }

    /// The line of a set.
    #[must_use]
    pub const fn line(index: u64, large: bool) -> u64 {
        let base = if large { LARGE_ATLB_BASE } else { ATLB_BASE };
        set_address(base, index) >> LINE_SHIFT
    }

    fn stamp(&self, vm: u16) -> u16 {
        self.stamps.get(usize::from(vm)).copied().unwrap_or(0)
    }

    fn is_live(&self, raw: u64, value: u64) -> bool {
        raw != 0 && Packed(value).stamp() == self.stamp(Key::from_raw(raw).vm())
    }

    /// Serves an L2 TLB miss: the set, or a walk whose result goes into the set.
    pub fn serve(&mut self, m: &mut View<'_>, core: usize, key: Key, now: u64) -> Served {
        let index = self.index(key);
        let line = Self::line(index, key.is_large());
        let walker = m.take_walker(core, now);
        let read = walker.start + m.read_line(core, line, walker.start);
        let found = if m.look().has(Fault::VmIdIgnored) {
            self.get_any_vm(key, m.vms())
        } else {
            self.get(key)
        };
        if let Some(mut entry) = found {
            entry.dirty |= m.look().has(Fault::AtlbDirty);
            m.count_lookup(Lookup::Hit);
            m.release(walker, read);
            let cycles = read - now;
            return Served {
                walk: Walk { entry, cycles },
                inserted: false,
            };
        }
        m.count_lookup(Lookup::Miss);
        let (mapping, end) = m.walk_tables(&walker, key, read);
        m.release(walker, end);
        let entry = entry_of(&mapping);
        self.insert(key, &entry);
        // Posted: the access waits for the walk only.
        m.write_line(core, line, end);
        let cycles = end - now;
        Served {
            walk: Walk { entry, cycles },
            inserted: true,
        }
    }

    /// The valid entry of `key`.
    pub fn get(&mut self, key: Key) -> Option<TlbEntry> {
        let set = ix(self.index(key));
        let table = &mut self.tables[usize::from(key.is_large())];
        let slot = table.find(set, key.raw())?;
        let value = *table.value(slot);
        self.is_live(key.raw(), value)
            .then(|| Packed(value).entry())
    }

    /// The planted fault: the VM id is neither hashed nor compared.
    fn get_any_vm(&mut self, key: Key, vms: u16) -> Option<TlbEntry> {
        (0..vms).find_map(|vm| {
            self.get(if key.is_large() {
                Key::large(vm, key.page())
            } else {
                Key::small(vm, key.page())
            })
        })
    }

    /// Takes in a translation that was used before the run, unless the tables begin empty.
    pub fn warm(&mut self, mapping: &Mapping) {
        if self.warms {
            self.insert(mapping.key, &entry_of(mapping));
        }
    }

    /// Whether the tables take in what was used before the run.
    #[must_use]
    pub const fn warms(&self) -> bool {
        self.warms
    }

    fn insert(&mut self, key: Key, entry: &TlbEntry) {
        let set = ix(self.index(key));
        let packed = Packed::new(entry, self.stamp(key.vm())).0;
        let table = &mut self.tables[usize::from(key.is_large())];
        match table.find(set, key.raw()) {
            Some(slot) => *table.value_mut(slot) = packed,
            None => {
                table.insert(set, key.raw(), packed);
            }
        }
    }

    /// The page's dirty bit has been set: the entry has one too (paper, footnote 1). The walker's
    /// write of the set is posted, and as it revokes nothing it is not a message to any TLB.
    pub fn dirtied(&mut self, m: &mut View<'_>, core: usize, key: Key, now: u64) {
        let index = self.index(key);
        let stamp = self.stamp(key.vm());
        let table = &mut self.tables[usize::from(key.is_large())];
        let Some(slot) = table.peek(ix(index), key.raw()) else {
            return;
        };
        let held = Packed(*table.value(slot));
        if held.stamp() == stamp && !held.entry().dirty {
            *table.value_mut(slot) = held.0 | Packed::DIRTY;
            m.write_line(core, Self::line(index, key.is_large()), now);
        }
    }

    /// Drops one entry.
    pub fn remove(&mut self, key: Key) {
        let set = ix(self.index(key));
        let table = &mut self.tables[usize::from(key.is_large())];
        if let Some(slot) = table.peek(set, key.raw()) {
            table.remove(slot);
        }
    }

    /// Drops the entries of one set that satisfy `doomed`; returns how many.
    pub fn clear_set(&mut self, index: u64, large: bool, doomed: impl Fn(Key, u64) -> bool) -> u64 {
        let table = &mut self.tables[usize::from(large)];
        let mut gone = 0;
        for slot in table.slots(ix(index)) {
            let raw = table.key(slot);
            if raw != 0 && doomed(Key::from_raw(raw), Packed(*table.value(slot)).spn()) {
                table.remove(slot);
                gone += 1;
            }
        }
        gone
    }

    /// Drops the entries that satisfy `doomed`, wherever they are.
    pub fn remove_where(&mut self, doomed: impl Fn(Key) -> bool) -> u64 {
        let mut gone = 0;
        for table in &mut self.tables {
            gone += table.retain_not(|raw, _| doomed(Key::from_raw(raw)));
        }
        gone
    }

    /// Makes every entry of `vm` invalid by a new stamp. False: the stamps of this VM are used up
    /// and its entries must be dropped in another way first.
    pub fn restamp(&mut self, vm: u16) -> bool {
        let at = usize::from(vm);
        if self.stamps.len() <= at {
            self.stamps.resize(at + 1, 0);
        }
        self.stamps[at] = self.stamps[at].wrapping_add(1);
        self.stamps[at] != 0
    }

    /// The valid entries of a set: key and frame.
    pub fn entries_of(&self, index: u64, large: bool) -> impl Iterator<Item = (Key, u64)> {
        let table = &self.tables[usize::from(large)];
        let slots = table.slots(ix(index));
        slots
            .map(|slot| (table.key(slot), *table.value(slot)))
            .filter(|&(raw, value)| self.is_live(raw, value))
            .map(|(raw, value)| (Key::from_raw(raw), Packed(value).spn()))
    }

    /// The planted fault: a write that nothing stops gives the set's entries other frames.
    pub fn trample(&mut self, index: u64) {
        let table = &mut self.tables[0];
        for slot in table.slots(ix(index)) {
            if table.key(slot) != 0 {
                *table.value_mut(slot) ^= 1;
            }
        }
    }

    /// Every valid entry: its key and frame.
    pub fn entries(&self) -> impl Iterator<Item = (Key, u64)> {
        self.tables
            .iter()
            .flat_map(Table::entries)
            .filter(|&(raw, &value)| self.is_live(raw, value))
            .map(|(raw, &value)| (Key::from_raw(raw), Packed(value).spn()))
    }
}

#[cfg(test)]
mod tests {
    use super::{set_address, set_index};

    /// The paper's example: 16 MiB of 64-byte sets are 2^18 sets.
    const SETS: u64 = 1 << 18;

    #[test]
    fn equation_1_for_16_mib_takes_eighteen_bits_and_steps_by_64_bytes() {
        let gva = 0x7FAB_CDEF_1234_u64;
        let index = set_index(gva >> 12, 0, SETS);
        assert_eq!(index, (gva >> 12) & 0x3_FFFF);
        assert_eq!(index, 0xDEF1, "bits 29:12 of the address");
        assert_eq!(set_address(0x1000_0000, index), 0x1000_0000 + 64 * index);
    }

    #[test]
    fn low_fourteen_index_bits_are_gva_25_to_12_whatever_the_vm() {
        for vm_id in [0, 1, 2, 15, 16, 300] {
            for gva in [0x1234_5678_9000_u64, 0xFFFF_FFFF_F000, 0x3FF_F000] {
                let index = set_index(gva >> 12, vm_id, SETS);
                assert_eq!(index & 0x3FFF, (gva >> 12) & 0x3FFF);
            }
        }
    }

    #[test]
    fn one_address_in_two_vms_has_two_sets() {
        let page = 0x12345;
        assert_ne!(set_index(page, 1, SETS), set_index(page, 2, SETS));
        assert_eq!(set_index(page, 1, SETS) ^ set_index(page, 2, SETS), 3 << 14);
    }
}
