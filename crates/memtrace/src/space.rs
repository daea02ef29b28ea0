// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An address space as a trace's records describe it: disjoint ranges with their rights. Used to
//! check accesses and to split an `mremap` into what it undoes and what it makes. Holds ranges,
//! not pages: neighbours with the same rights are not merged.

use std::collections::BTreeMap;

use crate::record::{MapKind, Prot};

/// Mapped ranges of one process.
#[derive(Debug, Default, Clone)]
pub struct AddressSpace {
    /// Start to end (exclusive) and rights.
    ranges: BTreeMap<u64, (u64, Prot)>,
    /// The range of the last hit: accesses come in clusters.
    last: (u64, u64),
}

impl AddressSpace {
    /// Applies a record's change. The range must not wrap, which readers and writers ensure.
    pub fn apply(&mut self, start: u64, len: u64, prot: Prot, kind: MapKind) {
        let end = start.saturating_add(len);
        match kind {
            MapKind::Mmap => self.replace(start, end, Some(prot)),
            MapKind::Brk if prot != Prot::default() => self.replace(start, end, Some(prot)),
            MapKind::Munmap | MapKind::Brk => self.replace(start, end, None),
            MapKind::Mprotect => self.protect(start, end, prot),
            MapKind::Madvise => {}
        }
    }

    /// True when every byte from `start` to `end` (exclusive) is mapped.
    pub fn covers(&mut self, start: u64, end: u64) -> bool {
        if self.last.0 <= start && end <= self.last.1 {
            return true;
        }
        let mut at = start;
        while at < end {
            match self.find(at) {
                Some((from, to, _)) => {
                    self.last = (from, to);
                    at = to;
                }
                None => return false,
            }
        }
        true
    }

    /// The range that holds `at`: its start, its end (exclusive) and its rights.
    #[must_use]
    pub fn find(&self, at: u64) -> Option<(u64, u64, Prot)> {
        let (start, (end, prot)) = self.ranges.range(..=at).next_back()?;
        (at < *end).then_some((*start, *end, *prot))
    }

    /// The first range with a byte in `start..end`, whole.
    pub(crate) fn first_in(&self, start: u64, end: u64) -> Option<(u64, u64, Prot)> {
        self.find(start).filter(|_| start < end).or_else(|| {
            let (from, (to, prot)) = self.ranges.range(start..end.max(start)).next()?;
            Some((*from, *to, *prot))
        })
    }

    /// The ranges in ascending order: start, end (exclusive), rights.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64, Prot)> + '_ {
        self.ranges
            .iter()
            .map(|(start, (end, prot))| (*start, *end, *prot))
    }

    /// Gives `start..end` new rights, or unmaps it.
    fn replace(&mut self, start: u64, end: u64, prot: Option<Prot>) {
        self.last = (0, 0);
        self.split(start);
        self.split(end);
        while let Some((&inside, _)) = self.ranges.range(start..end).next() {
            self.ranges.remove(&inside);
        }
        if let Some(prot) = prot {
            self.ranges.insert(start, (end, prot));
        }
    }

    /// Gives what is mapped of `start..end` new rights.
    fn protect(&mut self, start: u64, end: u64, prot: Prot) {
        self.split(start);
        self.split(end);
        for (_, range) in self.ranges.range_mut(start..end) {
            range.1 = prot;
        }
    }

    /// Makes `at` a border if it lies inside a range.
    fn split(&mut self, at: u64) {
        let Some((start, end, prot)) = self.find(at) else {
            return;
        };
        if start < at {
            self.ranges.insert(start, (at, prot));
            self.ranges.insert(at, (end, prot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RW: Prot = Prot {
        read: true,
        write: true,
        exec: false,
    };

    proptest! {
        /// The oracle keeps rights page by page.
        #[test]
        #[expect(clippy::cast_possible_truncation, reason = "page numbers under 64")]
        fn ranges_agree_with_a_table_of_pages(
            changes in prop::collection::vec((0u64..40, 1u64..12, 0u64..8, 0u8..5), 1..60)
        ) {
            let mut space = AddressSpace::default();
            let mut pages = [None; 64];
            for (start, len, bits, code) in changes {
                let kind = MapKind::from_code(code).expect("a known code");
                let prot = Prot::from_bits(bits);
                space.apply(start, len, prot, kind);
                for page in &mut pages[start as usize..(start + len) as usize] {
                    *page = match (kind, *page) {
                        (MapKind::Mmap, _) => Some(prot),
                        (MapKind::Munmap, _) => None,
                        (MapKind::Brk, _) => (bits != 0).then_some(prot),
                        (MapKind::Mprotect, Some(_)) => Some(prot),
                        (_, page) => page,
                    };
                }
                for (at, page) in (0u64..).zip(pages) {
                    prop_assert_eq!(space.find(at).map(|range| range.2), page);
                    let whole = pages[at as usize..(at as usize + 3).min(64)]
                        .iter()
                        .all(Option::is_some);
                    if at < 61 {
                        prop_assert_eq!(space.covers(at, at + 3), whole);
                    }
                }
            }
        }
    }

    #[test]
    fn an_access_across_two_neighbours_is_covered() {
        let mut space = AddressSpace::default();
        space.apply(0x1000, 0x1000, RW, MapKind::Mmap);
        space.apply(0x2000, 0x1000, RW, MapKind::Brk);
        assert!(space.covers(0x1ffc, 0x2004));
        assert!(!space.covers(0x2ffc, 0x3004));
    }
}
