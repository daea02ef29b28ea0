// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lines of one private cache: tags, states and recency of a set side by side.
//!
//! The same replacement as [`crate::table`], in a form that suits the busiest structures of a
//! simulation: a set of eight lines is one 64-byte line of the host, so that eight cores' L1 caches
//! stay in the host's own caches.

use crate::num::{ix, low32};
use crate::table::{MAX_WAYS, Order};

/// Lines have at most this many bits: 4 TiB of physical memory, which the layout stays below.
const LINE_BITS: u32 = 36;
/// The fewest sets: what is left of a line's number must fit a tag of 32 bits.
pub const MIN_SETS: usize = 16;
/// Tag of an empty way. No line has it: tags of real lines are below the layout's end.
const EMPTY: u32 = u32::MAX;
/// Tag of a way that the cache does not have.
const ABSENT: u32 = u32::MAX - 1;

#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Set<const W: usize> {
    tags: [u32; W],
    order: Order,
    states: [u8; W],
}

impl<const W: usize> Set<W> {
    fn new(ways: usize) -> Self {
        let mut tags = [ABSENT; W];
        tags[..ways].fill(EMPTY);
        Self {
            tags,
            order: Order::INITIAL,
            states: [0; W],
        }
    }

    /// The first way with `tag`.
    #[inline]
    fn way_of(&self, tag: u32) -> Option<usize> {
        let mut equal = 0_u32;
        for (way, &held) in self.tags.iter().enumerate() {
            equal |= u32::from(held == tag) << way;
        }
        (equal != 0).then(|| equal.trailing_zeros() as usize)
    }

    #[inline]
    fn insert(&mut self, tag: u32, state: u8, ways: usize) -> Option<(u32, u8)> {
        let way = self
            .way_of(EMPTY)
            .unwrap_or_else(|| self.order.least_recent(ways));
        let old = (self.tags[way], self.states[way]);
        (self.tags[way], self.states[way]) = (tag, state);
        self.order = self.order.touched(way);
        (old.0 != EMPTY).then_some(old)
    }
}

/// Sets wide enough for the ways.
#[derive(Debug, Clone)]
enum Sets {
    Four(Vec<Set<4>>),
    Eight(Vec<Set<8>>),
    Sixteen(Vec<Set<16>>),
}

/// Does the same to a set of whatever width.
macro_rules! with_set {
    ($lines:expr, $at:expr, |$set:ident| $do:expr) => {
        match $lines {
            Sets::Four(sets) => {
                let $set = &mut sets[$at];
                $do
            }
            Sets::Eight(sets) => {
                let $set = &mut sets[$at];
                $do
            }
            Sets::Sixteen(sets) => {
                let $set = &mut sets[$at];
                $do
            }
        }
    };
}

/// Lines of one cache, each with a state that is not 0.
#[derive(Debug, Clone)]
pub struct Lines {
    sets: Sets,
    mask: u64,
    bits: u32,
    ways: usize,
}

impl Lines {
    /// An empty cache. `sets` must be a power of two from [`MIN_SETS`] and `ways` 1..=16
    /// (configuration checks it).
    #[must_use]
    pub fn new(sets: usize, ways: usize) -> Self {
        assert!(
            sets.is_power_of_two() && sets >= MIN_SETS,
            "the number of sets is a power of two and not too small"
        );
        assert!((1..=MAX_WAYS).contains(&ways), "1 to 16 ways");
        Self {
            sets: match ways {
                1..=4 => Sets::Four(vec![Set::new(ways); sets]),
                5..=8 => Sets::Eight(vec![Set::new(ways); sets]),
                _ => Sets::Sixteen(vec![Set::new(ways); sets]),
            },
            mask: sets as u64 - 1,
            bits: sets.trailing_zeros(),
            ways,
        }
    }

    #[inline]
    fn place(&self, line: u64) -> (usize, u32) {
        debug_assert!(
            line < (1 << LINE_BITS) - (1 << 20),
            "lines are below the layout's end"
        );
        (ix(line & self.mask), low32(line >> self.bits))
    }

    /// The state of a line, to change, once it is the most recent of its set.
    #[inline]
    pub fn find(&mut self, line: u64) -> Option<&mut u8> {
        let (at, tag) = self.place(line);
        with_set!(&mut self.sets, at, |set| {
            let way = set.way_of(tag)?;
            set.order = set.order.touched(way);
            Some(&mut set.states[way])
        })
    }

    /// The state of a line, to change, recency untouched.
    #[inline]
    pub fn peek(&mut self, line: u64) -> Option<&mut u8> {
        let (at, tag) = self.place(line);
        with_set!(&mut self.sets, at, |set| {
            let way = set.way_of(tag)?;
            Some(&mut set.states[way])
        })
    }

    /// Takes in a line that is absent, as most recent; returns the line displaced and its state.
    #[inline]
    pub fn insert(&mut self, line: u64, state: u8) -> Option<(u64, u8)> {
        let (at, tag) = self.place(line);
        let ways = self.ways;
        let old = with_set!(&mut self.sets, at, |set| set.insert(tag, state, ways));
        old.map(|(tag, state)| ((u64::from(tag) << self.bits) | at as u64, state))
    }

    /// Drops a line; returns the state it had.
    pub fn remove(&mut self, line: u64) -> Option<u8> {
        let (at, tag) = self.place(line);
        with_set!(&mut self.sets, at, |set| {
            let way = set.way_of(tag)?;
            set.tags[way] = EMPTY;
            Some(set.states[way])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Lines, MIN_SETS};
    use crate::rng::Stream;
    use crate::table::Table;

    #[test]
    fn lines_are_held_and_displaced_as_in_a_table_of_any_width() {
        for ways in 1..=16 {
            let mut lines = Lines::new(MIN_SETS, ways);
            let mut table: Table<u8> = Table::new(MIN_SETS, ways);
            let mut draw = Stream::new(9, ways as u64);
            for step in 0..6_000_u32 {
                let line = (u64::from(draw.below(3)) << 33) | u64::from(draw.below(400));
                let set = usize::try_from(line % MIN_SETS as u64).expect("a small number");
                let state = u8::try_from(step % 3 + 1).expect("a small number");
                match draw.below(4) {
                    0 => {
                        let held = table.peek(set, line + 1).map(|slot| {
                            let state = *table.value(slot);
                            table.remove(slot);
                            state
                        });
                        assert_eq!(lines.remove(line), held);
                    }
                    _ => {
                        let held = table.find(set, line + 1).map(|slot| *table.value(slot));
                        assert_eq!(lines.find(line).map(|state| *state), held);
                        if held.is_none() {
                            let lost = table.insert(set, line + 1, state);
                            let lost = lost.map(|(key, state)| (key - 1, state));
                            assert_eq!(lines.insert(line, state), lost, "{ways} ways");
                        }
                    }
                }
            }
        }
    }
}
