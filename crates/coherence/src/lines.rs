// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lines of one cache: tags, states, recency and whatever else a set has side by side.
//!
//! The same replacement as [`crate::table`], in a form that suits the busiest structures of a
//! simulation: a set of eight lines is one 64-byte line of the host, so that eight cores' L1 caches
//! stay in the host's own caches, and a hit writes one word. Recency is the time of the last use.
//! That names the same victim as an order of all ways: a victim is sought only in a full set, and
//! each of its lines has been used since it came.

use wide::{CmpEq as _, i32x4};

use crate::num::{id32, ix, low32};
use crate::table::MAX_WAYS;

/// Lines have fewer bits: the layout ends below 4 TiB.
const LINE_BITS: u32 = 36;
/// The fewest sets: what is left of a line's number must fit a tag of 32 bits.
pub const MIN_SETS: usize = 16;
/// Tag of an empty way. No line has it: the layout's last lines are used by nothing.
const EMPTY: u32 = u32::MAX;
/// Tag of a way that the cache does not have.
const ABSENT: u32 = u32::MAX - 1;
/// Bits of a state.
const STATE_BITS: u32 = 2;
/// Where the clock of uses is wound back.
const LATEST: u32 = u32::MAX >> STATE_BITS;

#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct Set<const W: usize, V> {
    tags: [u32; W],
    /// Time of the last use, and the state in the low bits. Latest where there is no way.
    uses: [u32; W],
    values: [V; W],
}

impl<const W: usize, V: Copy + Default> Set<W, V> {
    fn new(ways: usize) -> Self {
        let (mut tags, mut uses) = ([ABSENT; W], [u32::MAX; W]);
        tags[..ways].fill(EMPTY);
        uses[..ways].fill(0);
        let values = [V::default(); W];
        Self { tags, uses, values }
    }

    /// The way with `tag`, which no other has.
    #[inline]
    fn way_of(&self, tag: u32) -> Option<usize> {
        // A bit for each way, without a branch: which way holds a line cannot be foretold.
        let mut found = 0;
        let wanted = i32x4::splat(tag.cast_signed());
        for (first, four) in self.tags.chunks_exact(4).enumerate() {
            let four = i32x4::new([four[0], four[1], four[2], four[3]].map(u32::cast_signed));
            found |= four.cmp_eq(wanted).move_mask() << (4 * first);
        }
        (found != 0).then(|| found.trailing_zeros() as usize % W)
    }

    /// The first empty way.
    #[inline]
    fn empty_way(&self) -> Option<usize> {
        self.tags.iter().position(|&tag| tag == EMPTY)
    }

    /// The way used least recently.
    #[inline]
    fn oldest(&self) -> usize {
        let mut oldest = 0;
        for way in 1..W {
            if self.uses[way] < self.uses[oldest] {
                oldest = way;
            }
        }
        oldest
    }

    /// Replaces times of use by ranks, so that the clock can start again.
    fn rewind(&mut self) {
        let before = self.uses;
        for way in 0..W {
            if self.tags[way] != ABSENT {
                let rank = before.iter().filter(|&&use_| use_ < before[way]).count();
                self.uses[way] = (id32(rank) << STATE_BITS) | state_of(before[way]).bits();
            }
        }
    }
}

/// The state of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State(u32);

impl State {
    /// Others may hold it.
    pub const SHARED: Self = Self(0);
    /// No other core holds it.
    pub const EXCLUSIVE: Self = Self(1);
    /// No other core holds it, and memory is behind.
    pub const MODIFIED: Self = Self(2);

    /// Two facts of a line, for a cache that keeps these instead.
    #[must_use]
    pub const fn of_flags(low: bool, high: bool) -> Self {
        Self(low as u32 | ((high as u32) << 1))
    }

    /// The facts.
    #[must_use]
    pub const fn flags(self) -> (bool, bool) {
        (self.0 & 1 != 0, self.0 & 2 != 0)
    }

    const fn bits(self) -> u32 {
        self.0
    }

    /// The state a write leaves where it needs no core's leave.
    const fn written(self) -> Self {
        if self.0 == 0 { self } else { Self::MODIFIED }
    }
}

#[inline]
const fn state_of(use_: u32) -> State {
    State(use_ & ((1 << STATE_BITS) - 1))
}

/// Begins with a pair of lines, which the host fetches together.
#[derive(Debug, Clone, Copy)]
#[repr(align(128))]
struct Paired<S>(S);

/// Begins with a line of the host's caches.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
struct Aligned<S>(S);

/// Sets wide enough for the ways. Two sets of four share a line of the host.
#[derive(Debug, Clone)]
enum Sets<V> {
    Four(Vec<Set<4, V>>),
    Eight(Vec<Aligned<Set<8, V>>>),
    Sixteen(Vec<Paired<Set<16, V>>>),
}

/// Does the same to a set of whatever width.
macro_rules! with_set {
    ($lines:expr, $at:expr, |$set:ident| $do:expr) => {
        match $lines {
            Sets::Eight(sets) => {
                let $set = &mut sets[$at].0;
                $do
            }
            Sets::Four(sets) => {
                let $set = &mut sets[$at];
                $do
            }
            Sets::Sixteen(sets) => {
                let $set = &mut sets[$at].0;
                $do
            }
        }
    };
}

/// Lines of one cache with their states, and a value for each.
#[derive(Debug, Clone)]
pub struct Lines<V = ()> {
    sets: Sets<V>,
    mask: u64,
    bits: u32,
    /// Uses so far, since it was wound back.
    clock: u32,
}

impl<V: Copy + Default> Lines<V> {
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
                5..=8 => Sets::Eight(vec![Aligned(Set::new(ways)); sets]),
                _ => Sets::Sixteen(vec![Paired(Set::new(ways)); sets]),
            },
            mask: sets as u64 - 1,
            bits: sets.trailing_zeros(),
            clock: 0,
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

    /// The time of a use, in place above a state. The caller has wound the clock back if it had to.
    #[inline]
    fn tick(&mut self) -> u32 {
        self.clock += 1;
        self.clock << STATE_BITS
    }

    #[cold]
    #[inline(never)]
    fn rewind(&mut self) {
        match &mut self.sets {
            Sets::Four(sets) => sets.iter_mut().for_each(Set::rewind),
            Sets::Eight(sets) => sets.iter_mut().for_each(|set| set.0.rewind()),
            Sets::Sixteen(sets) => sets.iter_mut().for_each(|set| set.0.rewind()),
        }
        self.clock = id32(MAX_WAYS);
    }

    /// Reads a line, or writes it where it is not shared: the line is the most recent of its set
    /// then, and a written one is modified. Returns the state it had.
    #[inline]
    pub fn find(&mut self, line: u64, write: bool) -> Option<State> {
        if self.clock == LATEST {
            // A call in the last place, so that the usual way need not save any register for it.
            return self.rewind_and_find(line, write);
        }
        let (at, tag) = self.place(line);
        let now = self.tick();
        with_set!(&mut self.sets, at, |set| {
            let way = set.way_of(tag)?;
            let state = state_of(set.uses[way]);
            let after = if write { state.written() } else { state };
            set.uses[way] = now | after.bits();
            Some(state)
        })
    }

    /// Gives a line another state, recency untouched; returns the state it had.
    pub fn change(&mut self, line: u64, state: State) -> Option<State> {
        let (at, tag) = self.place(line);
        with_set!(&mut self.sets, at, |set| {
            let way = set.way_of(tag)?;
            let before = state_of(set.uses[way]);
            set.uses[way] ^= before.bits() ^ state.bits();
            Some(before)
        })
    }

    #[cold]
    #[inline(never)]
    fn rewind_and_find(&mut self, line: u64, write: bool) -> Option<State> {
        self.rewind();
        self.find(line, write)
    }

    /// The state and the value of a line, which is the most recent of its set then.
    #[inline]
    pub fn touch(&mut self, line: u64) -> Option<(State, V)> {
        if self.clock == LATEST {
            self.rewind();
        }
        let (at, tag) = self.place(line);
        let now = self.tick();
        with_set!(&mut self.sets, at, |set| {
            let way = set.way_of(tag)?;
            let state = state_of(set.uses[way]);
            set.uses[way] = now | state.bits();
            Some((state, set.values[way]))
        })
    }

    /// Whether the line is held.
    #[must_use]
    pub fn holds(&self, line: u64) -> bool {
        let (at, tag) = self.place(line);
        let way = match &self.sets {
            Sets::Four(sets) => sets[at].way_of(tag),
            Sets::Eight(sets) => sets[at].0.way_of(tag),
            Sets::Sixteen(sets) => sets[at].0.way_of(tag),
        };
        way.is_some()
    }

    /// Gives a line the state and the value that `edit` makes of its own, recency untouched; false
    /// when it is not held.
    #[inline]
    pub fn edit(&mut self, line: u64, edit: impl FnOnce(State, V) -> (State, V)) -> bool {
        let (at, tag) = self.place(line);
        with_set!(&mut self.sets, at, |set| {
            let Some(way) = set.way_of(tag) else {
                return false;
            };
            let before = state_of(set.uses[way]);
            let (state, value) = edit(before, set.values[way]);
            set.uses[way] ^= before.bits() ^ state.bits();
            set.values[way] = value;
            true
        })
    }

    /// Takes in a line that is absent, as most recent; returns the line displaced, its state and
    /// its value.
    #[inline]
    pub fn insert(&mut self, line: u64, state: State, value: V) -> Option<(u64, State, V)> {
        if self.clock == LATEST {
            self.rewind();
        }
        let (at, tag) = self.place(line);
        let now = self.tick();
        let (old, use_, before) = with_set!(&mut self.sets, at, |set| {
            let way = set.empty_way().unwrap_or_else(|| set.oldest());
            let old = (set.tags[way], set.uses[way], set.values[way]);
            (set.tags[way], set.uses[way]) = (tag, now | state.bits());
            set.values[way] = value;
            old
        });
        let line = (u64::from(old) << self.bits) | at as u64;
        (old != EMPTY).then(|| (line, state_of(use_), before))
    }

    /// Drops a line; returns the state it had.
    pub fn remove(&mut self, line: u64) -> Option<State> {
        let (at, tag) = self.place(line);
        with_set!(&mut self.sets, at, |set| {
            let way = set.way_of(tag)?;
            set.tags[way] = EMPTY;
            Some(state_of(set.uses[way]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{LATEST, Lines, MIN_SETS, State};
    use crate::table::Table;
    use steady_random::Stream;

    #[test]
    fn a_write_modifies_a_line_that_nobody_shares_and_leaves_a_shared_one() {
        let mut lines = Lines::new(MIN_SETS, 8);
        lines.insert(1, State::EXCLUSIVE, ());
        lines.insert(2, State::SHARED, ());
        assert_eq!(lines.find(1, true), Some(State::EXCLUSIVE));
        assert_eq!(lines.find(2, true), Some(State::SHARED));
        assert_eq!(lines.remove(1), Some(State::MODIFIED));
        assert_eq!(lines.change(2, State::MODIFIED), Some(State::SHARED));
        assert_eq!(lines.remove(2), Some(State::MODIFIED));
    }

    #[test]
    fn lines_are_held_and_displaced_as_in_a_table_of_any_width() {
        for ways in 1..=16 {
            let mut lines: Lines<u8> = Lines::new(MIN_SETS, ways);
            let mut table: Table<u8> = Table::new(MIN_SETS, ways);
            let states = [State::SHARED, State::EXCLUSIVE, State::MODIFIED];
            // The clock is wound back on the way.
            lines.clock = LATEST - 3_000;
            let mut draw = Stream::new(9, ways as u64);
            for step in 0..6_000_u32 {
                let line = (u64::from(draw.below(3)) << 33) | u64::from(draw.below(400));
                let set = usize::try_from(line % MIN_SETS as u64).expect("a small number");
                let state = u8::try_from(step % 3).expect("a small number");
                let named = |state: u8| states[usize::from(state)];
                match draw.below(4) {
                    0 => {
                        let held = table.peek(set, line + 1).map(|slot| {
                            let state = *table.value(slot);
                            table.remove(slot);
                            state
                        });
                        assert_eq!(lines.remove(line), held.map(named));
                    }
                    _ => {
                        let held = table.find(set, line + 1).map(|slot| *table.value(slot));
                        assert_eq!(lines.find(line, false), held.map(named));
                        if held.is_none() {
                            let lost = table.insert(set, line + 1, state);
                            let lost = lost.map(|(key, state)| (key - 1, named(state), state));
                            let own = lines.insert(line, named(state), state);
                            assert_eq!(own, lost, "{ways} ways");
                        }
                    }
                }
            }
        }
    }
}
