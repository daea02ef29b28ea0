// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A set-associative table with true LRU replacement: the one structure behind every cache,
//! TLB, page-walk cache, ATLB and inverse table of the machine.

use crate::num::{ix, low64};

/// Recency order of up to sixteen ways, one nibble each; nibble 0 is the most recent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order(u64);

impl Order {
    /// Way 0 most recent, way 15 least.
    pub const INITIAL: Self = Self(0xFEDC_BA98_7654_3210);

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
        // The lowest zero nibble of the XOR is where `way` stands.
        let differs = self.0 ^ (way * ONES);
        let zero = differs.wrapping_sub(ONES) & !differs & (ONES << 3);
        let place = (zero.trailing_zeros() / 4) * 4;
        let below = (1_u64 << place) - 1;
        let moved = (below << 4) | 15;
        Self((self.0 & !moved) | ((self.0 & below) << 4) | way)
    }
}

/// As [`Order`], of up to 24 ways, five bits each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Wide(u128);

impl Wide {
    /// Bits of a place.
    const BITS: u32 = 5;
    /// One in every place, and in every place its number.
    const ONES: u128 = Self::places(1, 0);
    const INITIAL: Self = Self(Self::places(0, 1));

    const fn places(first: u128, step: u128) -> u128 {
        let (mut all, mut value, mut shift) = (0, first, 0);
        while shift < 24 * Self::BITS {
            all |= value << shift;
            value += step;
            shift += Self::BITS;
        }
        all
    }

    const fn way_at(self, place: usize) -> usize {
        ix(low64(self.0 >> (place * Self::BITS as usize)) & 31)
    }

    const fn touched(self, way: usize) -> Self {
        let differs = self.0 ^ (way as u128 * Self::ONES);
        let zero = differs.wrapping_sub(Self::ONES) & !differs & (Self::ONES << (Self::BITS - 1));
        let place = (zero.trailing_zeros() / Self::BITS) * Self::BITS;
        let below = (1_u128 << place) - 1;
        let moved = (below << Self::BITS) | 31;
        Self((self.0 & !moved) | ((self.0 & below) << Self::BITS) | way as u128)
    }
}

/// The most ways of a set whose order is quick to keep.
pub const MAX_WAYS: usize = 16;
/// The most ways a set may have: those of the L2 TLB of AMD's Zen 4.
pub const WIDEST: usize = 24;

/// A one in every byte.
const ONES: u64 = 0x0101_0101_0101_0101;
/// The top bit of every byte: set in the fingerprint of an occupied way.
const TOPS: u64 = 0x8080_8080_8080_8080;
/// Ways whose fingerprints fit a word.
const PER_WORD: usize = 8;

/// A byte that distinguishes most keys; its top bit says that the way is occupied.
#[inline]
const fn fingerprint(key: u64) -> u64 {
    (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 57) | 0x80
}

/// The top bits of the bytes of `word` that equal `print`; rarely of another occupied one too.
#[inline]
const fn matching(word: u64, print: u64) -> u64 {
    let differs = word ^ (print * ONES);
    differs.wrapping_sub(ONES) & !differs & TOPS
}

/// The way of the lowest top bit set in a word.
#[inline]
const fn lowest(tops: u64) -> usize {
    (tops.trailing_zeros() / 8) as usize
}

/// A table of `sets` x `ways` entries, each a non-zero key and a value. Key 0 means empty.
///
/// A look-up compares the fingerprints of all ways of a set at once, in one or two words that stand
/// beside the set's recency order, and reads a key only where they agree.
#[derive(Debug, Clone)]
pub struct Table<V> {
    /// For each set its order, then its fingerprints. The order is kept as its difference from
    /// [`Order::INITIAL`], so that a new table is all zero and costs memory only where it is used.
    heads: Vec<u64>,
    keys: Vec<u64>,
    values: Vec<V>,
    ways: usize,
    /// Words of a set in `heads`: 2, 3 for more than eight ways, 5 for more than sixteen.
    head: usize,
    /// Where a set's fingerprints begin there: behind one word of order, or two.
    prints: usize,
    sets: usize,
}

impl<V: Copy + Default> Table<V> {
    /// An empty table. `sets` must be a power of two and `ways` 1..=24 (configuration checks it).
    #[must_use]
    pub fn new(sets: usize, ways: usize) -> Self {
        assert!(
            sets.is_power_of_two(),
            "the number of sets is a power of two"
        );
        assert!((1..=WIDEST).contains(&ways), "1 to 24 ways");
        let prints = if ways > MAX_WAYS { 2 } else { 1 };
        let head = prints + ways.div_ceil(PER_WORD);
        Self {
            heads: vec![0; sets * head],
            keys: vec![0; sets * ways],
            values: vec![V::default(); sets * ways],
            ways,
            head,
            prints,
            sets,
        }
    }

    /// The number of sets.
    #[must_use]
    pub const fn sets(&self) -> usize {
        self.sets
    }

    /// The number of ways.
    #[must_use]
    pub const fn ways(&self) -> usize {
        self.ways
    }

    #[inline]
    fn way_of(&self, set: usize, key: u64) -> Option<usize> {
        let print = fingerprint(key);
        let at = set * self.head;
        let words = &self.heads[at + self.prints..at + self.head];
        let keys = &self.keys[set * self.ways..];
        // Spelled out for the one word that nearly every table has.
        let mut hits = matching(words[0], print);
        while hits != 0 {
            let way = lowest(hits);
            if keys[way] == key {
                return Some(way);
            }
            hits &= hits - 1;
        }
        for (nth, &word) in words.iter().enumerate().skip(1) {
            let mut hits = matching(word, print);
            while hits != 0 {
                let way = nth * PER_WORD + lowest(hits);
                if keys[way] == key {
                    return Some(way);
                }
                hits &= hits - 1;
            }
        }
        None
    }

    /// The order of a set of more than sixteen ways.
    #[cold]
    fn wide(&self, set: usize) -> Wide {
        let words = &self.heads[set * self.head..];
        Wide((u128::from(words[0]) | u128::from(words[1]) << 64) ^ Wide::INITIAL.0)
    }

    #[cold]
    fn touch_wide(&mut self, set: usize, way: usize) {
        let order = self.wide(set).touched(way).0 ^ Wide::INITIAL.0;
        let words = &mut self.heads[set * self.head..];
        (words[0], words[1]) = (low64(order), low64(order >> 64));
    }

    /// The way used last (place 0), or the one used before all others (place `ways - 1`).
    #[inline]
    fn way_at(&self, set: usize, place: usize) -> usize {
        if self.prints > 1 {
            return self.wide(set).way_at(place);
        }
        Order(self.heads[set * self.head] ^ Order::INITIAL.0).least_recent(place + 1)
    }

    #[inline]
    fn touch(&mut self, set: usize, way: usize) {
        if self.prints > 1 {
            return self.touch_wide(set, way);
        }
        let order = &mut self.heads[set * self.head];
        *order = Order(*order ^ Order::INITIAL.0).touched(way).0 ^ Order::INITIAL.0;
    }

    /// The slot of `key` in `set`, recency untouched.
    #[inline]
    #[must_use]
    pub fn peek(&self, set: usize, key: u64) -> Option<usize> {
        self.way_of(set, key).map(|way| set * self.ways + way)
    }

    /// The slot of `key` in `set`, made most recent.
    #[inline]
    pub fn find(&mut self, set: usize, key: u64) -> Option<usize> {
        let way = self.way_of(set, key)?;
        self.touch(set, way);
        Some(set * self.ways + way)
    }

    /// As [`Table::find`], quickest for the key that is the most recent already.
    #[inline]
    pub fn find_again(&mut self, set: usize, key: u64) -> Option<usize> {
        let recent = set * self.ways + self.way_at(set, 0);
        if self.keys[recent] == key {
            return Some(recent);
        }
        self.find(set, key)
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

    /// The first empty way of a set.
    #[inline]
    fn empty_way(&self, set: usize) -> Option<usize> {
        let at = set * self.head;
        let words = &self.heads[at + self.prints..at + self.head];
        for (word, &prints) in words.iter().enumerate() {
            let empty = !prints & TOPS;
            if empty != 0 {
                let way = word * PER_WORD + lowest(empty);
                return (way < self.ways).then_some(way);
            }
        }
        None
    }

    /// Puts `key` in `set` as most recent, in an empty way or in place of the least recent.
    /// Returns what it displaced. The caller has made sure that an equal key it does not want
    /// twice is absent.
    #[inline]
    pub fn insert(&mut self, set: usize, key: u64, value: V) -> Option<(u64, V)> {
        debug_assert!(key != 0, "key 0 means empty");
        let way = self
            .empty_way(set)
            .unwrap_or_else(|| self.way_at(set, self.ways - 1));
        let slot = set * self.ways + way;
        let old = (self.keys[slot], self.values[slot]);
        self.keys[slot] = key;
        self.values[slot] = value;
        self.set_print(set, way, fingerprint(key));
        self.touch(set, way);
        (old.0 != 0).then_some(old)
    }

    #[inline]
    fn set_print(&mut self, set: usize, way: usize, print: u64) {
        let word = &mut self.heads[set * self.head + self.prints + way / PER_WORD];
        let shift = way % PER_WORD * 8;
        *word = (*word & !(0xFF << shift)) | (print << shift);
    }

    /// Empties a slot.
    #[inline]
    pub fn remove(&mut self, slot: usize) {
        self.keys[slot] = 0;
        self.set_print(slot / self.ways, slot % self.ways, 0);
    }

    /// Slots of one set.
    #[must_use]
    pub fn slots(&self, set: usize) -> std::ops::Range<usize> {
        set * self.ways..(set + 1) * self.ways
    }

    /// Empties every slot whose key and value satisfy `doomed`; returns how many.
    pub fn retain_not(&mut self, mut doomed: impl FnMut(u64, &V) -> bool) -> u64 {
        let mut gone = 0;
        for set in 0..self.sets {
            for word in 0..self.head - self.prints {
                let mut held = self.heads[set * self.head + self.prints + word] & TOPS;
                while held != 0 {
                    let way = word * PER_WORD + lowest(held);
                    held &= held - 1;
                    let slot = set * self.ways + way;
                    if doomed(self.keys[slot], &self.values[slot]) {
                        self.keys[slot] = 0;
                        self.set_print(set, way, 0);
                        gone += 1;
                    }
                }
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
        let mut draw = steady_random::Stream::new(3, 0);
        for _ in 0..5_000 {
            let way = draw.below(12) as usize;
            list.retain(|&held| held != way);
            list.insert(0, way);
            order = order.touched(way);
            assert_eq!(order.least_recent(1), list[0]);
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
    fn a_table_of_any_width_agrees_with_a_list_of_keys_by_recency() {
        for ways in 1..=24 {
            let mut table: Table<u64> = Table::new(4, ways);
            let mut list: Vec<u64> = Vec::new();
            let mut draw = steady_random::Stream::new(5, ways as u64);
            for step in 0..4_000_u64 {
                let key = u64::from(draw.below(36)) + 1;
                let held = list.iter().position(|&held| held == key);
                assert_eq!(table.peek(2, key).is_some(), held.is_some());
                if draw.below(8) == 0 {
                    if let (Some(slot), Some(at)) = (table.peek(2, key), held) {
                        table.remove(slot);
                        list.remove(at);
                    }
                } else if let Some(at) = held {
                    let slot = table.find(2, key).expect("the list has it");
                    assert_eq!(table.key(slot), key);
                    let key = list.remove(at);
                    list.insert(0, key);
                } else {
                    let full = list.len() == ways;
                    let lost = if full { list.pop() } else { None };
                    let displaced = table.insert(2, key, step).map(|(key, _)| key);
                    assert_eq!(displaced, lost, "{ways} ways");
                    list.insert(0, key);
                }
            }
            let mut kept: Vec<u64> = table.entries().map(|(key, _)| key).collect();
            kept.sort_unstable();
            list.sort_unstable();
            assert_eq!(kept, list);
            list.retain(|key| key % 2 == 0);
            assert_eq!(table.retain_not(|key, _| key % 2 == 0), list.len() as u64);
            assert!(table.entries().all(|(key, _)| key % 2 == 1));
        }
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
