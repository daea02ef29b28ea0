// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The inverse table: from a system-physical page to the ATLB sets that may hold it.
//!
//! Entries of 4 bytes: the frame's tag, an ATLB set index, and one bit that says which ATLB. A
//! frame with several guest-virtual pages has an entry for each, at most as many as the ways.

use crate::config::{Allowed, MachineConfig, Parameter, Value};
use crate::layout::{INVTBL_BASE, LARGE_SHIFT, LINE_SHIFT};
use crate::num::ix;
use crate::table::Table;

/// Size of the inverse table.
pub static KIB: Parameter = Parameter {
    key: "attc.invtbl_kib",
    default: Value::Number(4096),
    allowed: Allowed::Range(1, 1 << 20),
    help: "Inverse table size, KiB.",
};
/// Ways of the inverse table.
pub static WAYS: Parameter = Parameter {
    key: "attc.invtbl_ways",
    default: Value::Number(4),
    allowed: Allowed::Range(1, 16),
    help: "Inverse table ways of 4 bytes: the most synonyms of one page.",
};

/// Where an entry points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pointer {
    /// Set of the ATLB.
    pub set: u64,
    /// The ATLB for large pages.
    pub large: bool,
}

impl Pointer {
    const fn pack(self) -> u64 {
        (self.set << 1) | self.large as u64
    }
    const fn unpack(bits: u64) -> Self {
        Self {
            set: bits >> 1,
            large: bits & 1 != 0,
        }
    }
}

/// Set in every key, since key 0 means an empty way.
const VALID: u64 = 1 << 63;

/// The inverse table.
#[derive(Debug, Clone)]
pub struct Invtbl {
    table: Table<u64>,
    set_bytes: u64,
}

impl Invtbl {
    /// An empty table.
    #[must_use]
    pub fn new(config: &MachineConfig) -> Self {
        let ways = config.schemes.number(&WAYS) as usize;
        let entries = config.schemes.number(&KIB) as usize * 256;
        Self {
            table: Table::new(entries / ways, ways),
            set_bytes: 4 * ways as u64,
        }
    }

    /// The set of a frame; a large page's frames share one.
    #[must_use]
    pub fn index(&self, spn: u64, large: bool) -> u64 {
        let page = if large { spn >> LARGE_SHIFT } else { spn };
        page & (self.table.sets() as u64 - 1)
    }

    /// The line that holds a frame's set.
    #[must_use]
    pub fn line(&self, spn: u64, large: bool) -> u64 {
        (INVTBL_BASE + self.index(spn, large) * self.set_bytes) >> LINE_SHIFT
    }

    /// Stores a pointer; returns the frame and pointer it had to give up, if any.
    pub fn insert(&mut self, spn: u64, pointer: Pointer) -> Option<(u64, Pointer)> {
        let set = ix(self.index(spn, pointer.large));
        let same = self.table.slots(set).any(|slot| {
            self.table.key(slot) == spn | VALID && *self.table.value(slot) == pointer.pack()
        });
        if same {
            return None;
        }
        let (key, old) = self.table.insert(set, spn | VALID, pointer.pack())?;
        Some((key & !VALID, Pointer::unpack(old)))
    }

    /// Takes out the pointers of a frame.
    pub fn take(&mut self, spn: u64, large: bool) -> Vec<Pointer> {
        let mut pointers = Vec::new();
        for slot in self.table.slots(ix(self.index(spn, large))) {
            let pointer = Pointer::unpack(*self.table.value(slot));
            if self.table.key(slot) == spn | VALID && pointer.large == large {
                self.table.remove(slot);
                pointers.push(pointer);
            }
        }
        pointers
    }

    /// Whether the frame has a pointer to the set.
    #[must_use]
    pub fn points(&self, spn: u64, pointer: Pointer) -> bool {
        self.table
            .slots(ix(self.index(spn, pointer.large)))
            .any(|slot| {
                self.table.key(slot) == spn | VALID && *self.table.value(slot) == pointer.pack()
            })
    }
}

#[cfg(test)]
mod tests {
    use super::{Invtbl, Pointer};
    use crate::config::MachineConfig;

    fn pointer(set: u64) -> Pointer {
        Pointer { set, large: false }
    }

    #[test]
    fn four_mib_of_four_byte_entries_are_2_to_the_18_sets_of_16_bytes() {
        let table = Invtbl::new(&MachineConfig::default());
        assert_eq!(table.table.sets(), 1 << 18);
        assert_eq!(
            table.line(4, false),
            table.line(0, false) + 1,
            "four sets a line"
        );
    }

    #[test]
    fn a_fifth_synonym_displaces_the_oldest_pointer() {
        let mut table = Invtbl::new(&MachineConfig::default());
        for set in 1..=4 {
            assert_eq!(table.insert(77, pointer(set)), None);
        }
        assert_eq!(table.insert(77, pointer(2)), None, "known already");
        assert_eq!(table.insert(77, pointer(5)), Some((77, pointer(1))));
        assert_eq!(table.take(77, false).len(), 4);
        assert!(!table.points(77, pointer(5)));
    }

    #[test]
    fn large_and_small_pointers_of_one_frame_are_told_apart_by_the_extra_bit() {
        let mut table = Invtbl::new(&MachineConfig::default());
        let large = Pointer {
            set: 9,
            large: true,
        };
        table.insert(0, pointer(9));
        table.insert(0, large);
        assert_eq!(table.take(0, true), vec![large]);
        assert!(table.points(0, pointer(9)));
    }
}
