// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A set-associative table with true LRU replacement: the one structure behind every cache,
//! TLB, page-walk cache, ATLB and inverse table of the machine.

use crate::num::ix;

/// Recency order of up to sixteen ways, one nibble each; nibble 0 is the most recent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order(u64);

impl Order {
    /// Way 0 most recent, way 15 least.
    pub const INITIAL: Self = Self(0xFEDC_BA98_7654_3210);

    /// The most recently used way.
    #[inline]
    #[must_use]
    pub const fn most_recent(self) -> usize {
        ix(self.0 & 15)
    }

    /// The least recently used of the first `ways` ways.
    #[inline]
    #[must_use]
    pub const fn least_recent(self, ways: usize) -> usize {
        ix((self.0 >> (4 * (ways - 1))) & 15)
    }

    /// The order after a use of `way`: the ways before it move one place back.
    #[inline]
    #[must_use]
    pub const fn touched(self, way: usize) -> Self {
        const ONES: u64 = 0x1111_1111_1111_1111;
        let way = way as u64;
        if self.0 & 15 == way {
            return self;
        }
        // The lowest zero nibble of the XOR is where `way` stands.
        let differs = self.0 ^ (way * ONES);
        let zero = differs.wrapping_sub(ONES) & !differs & (ONES << 3);
        let place = (zero.trailing_zeros() / 4) * 4;
        let below = (1_u64 << place) - 1;
        let moved = (below << 4) | 15;
        Self((self.0 & !moved) | ((self.0 & below) << 4) | way)
    }
}

/// The most ways a set may have.
pub const MAX_WAYS: usize = 16;

/// A table of `sets` x `ways` entries, each a non-zero key and a value. Key 0 means empty.
#[derive(Debug, Clone)]
pub struct Table<V> {
    keys: Vec<u64>,
    values: Vec<V>,
    order: Vec<Order>,
    ways: usize,
}

impl<V: Copy + Default> Table<V> {
    /// An empty table. `sets` must be a power of two and `ways` 1..=16 (configuration checks it).
    #[must_use]
    pub fn new(sets: usize, ways: usize) -> Self {
        assert!(
            sets.is_power_of_two(),
            "the number of sets is a power of two"
        );
        assert!((1..=MAX_WAYS).contains(&ways), "1 to 16 ways");
        Self {
            keys: vec![0; sets * ways],
            values: vec![V::default(); sets * ways],
            order: vec![Order::INITIAL; sets],
            ways,
        }
    }

    /// The number of sets.
    #[must_use]
    pub fn sets(&self) -> usize {
        self.order.len()
    }

    /// The number of ways.
    #[must_use]
    pub const fn ways(&self) -> usize {
        self.ways
    }

    /// The slot of `key` in `set`, recency untouched.
    #[inline]
    #[must_use]
    pub fn peek(&self, set: usize, key: u64) -> Option<usize> {
        let base = set * self.ways;
        let row = &self.keys[base..base + self.ways];
        row.iter()
            .position(|&held| held == key)
            .map(|way| base + way)
    }

    /// The slot of `key` in `set`, made most recent.
    #[inline]
    pub fn find(&mut self, set: usize, key: u64) -> Option<usize> {
        let base = set * self.ways;
        let recent = base + self.order[set].most_recent();
        if self.keys[recent] == key {
            return Some(recent);
        }
        let slot = self.peek(set, key)?;
        self.order[set] = self.order[set].touched(slot - base);
        Some(slot)
    }

    /// The key in a slot; 0 when it is empty.
    #[inline]
    #[must_use]
    pub fn key(&self, slot: usize) -> u64 {
        self.keys[slot]
    }

    /// The value in a slot.
    #[inline]
    #[must_use]
    pub fn value(&self, slot: usize) -> &V {
        &self.values[slot]
    }

    /// The value in a slot, to change.
    #[inline]
    pub fn value_mut(&mut self, slot: usize) -> &mut V {
        &mut self.values[slot]
    }

    /// Puts `key` in `set` as most recent, in an empty way or in place of the least recent.
    /// Returns what it displaced. The caller has made sure that an equal key it does not want
    /// twice is absent.
    pub fn insert(&mut self, set: usize, key: u64, value: V) -> Option<(u64, V)> {
        debug_assert!(key != 0, "key 0 means empty");
        let base = set * self.ways;
        let way = match self.peek(set, 0) {
            Some(slot) => slot - base,
            None => self.order[set].least_recent(self.ways),
        };
        let slot = base + way;
        let old = (self.keys[slot], self.values[slot]);
        self.keys[slot] = key;
        self.values[slot] = value;
        self.order[set] = self.order[set].touched(way);
        (old.0 != 0).then_some(old)
    }

    /// Empties a slot.
    #[inline]
    pub fn remove(&mut self, slot: usize) {
        self.keys[slot] = 0;
    }

    /// Slots of one set.
    #[must_use]
    pub fn slots(&self, set: usize) -> core::ops::Range<usize> {
        set * self.ways..(set + 1) * self.ways
    }

    /// Empties every slot whose key and value satisfy `doomed`; returns how many.
    pub fn retain_not(&mut self, mut doomed: impl FnMut(u64, &V) -> bool) -> u64 {
        let mut gone = 0;
        for (key, value) in self.keys.iter_mut().zip(&self.values) {
            if *key != 0 && doomed(*key, value) {
                *key = 0;
                gone += 1;
            }
        }
        gone
    }

    /// Every occupied slot's key and value, in slot order.
    pub fn entries(&self) -> impl Iterator<Item = (u64, &V)> {
        self.keys
            .iter()
            .copied()
            .zip(&self.values)
            .filter(|(key, _)| *key != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Order, Table};

    #[test]
    fn order_agrees_with_a_list_moved_to_front() {
        let mut list: Vec<usize> = (0..12).collect();
        let mut order = Order::INITIAL;
        let mut draw = crate::rng::Stream::new(3, 0);
        for _ in 0..5_000 {
            let way = draw.below(12) as usize;
            list.retain(|&held| held != way);
            list.insert(0, way);
            order = order.touched(way);
            assert_eq!(order.most_recent(), list[0]);
            assert_eq!(order.least_recent(12), list[11]);
        }
    }

    #[test]
    fn the_least_recent_way_is_the_one_displaced() {
        let mut table: Table<u8> = Table::new(2, 2);
        assert_eq!(table.insert(1, 10, 0), None);
        assert_eq!(table.insert(1, 11, 0), None);
        assert!(table.find(1, 10).is_some());
        assert_eq!(table.insert(1, 12, 0).map(|(key, _)| key), Some(11));
        assert!(table.peek(0, 10).is_none(), "sets are apart");
    }

    #[test]
    fn an_emptied_way_is_used_before_a_live_one_is_displaced() {
        let mut table: Table<u8> = Table::new(1, 4);
        for key in 1..=4 {
            table.insert(0, key, 0);
        }
        let slot = table.peek(0, 4).unwrap();
        table.remove(slot);
        assert_eq!(table.insert(0, 5, 0), None);
    }
}
