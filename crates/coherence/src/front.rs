// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The front end of a core: a reorder buffer in which every instruction but loads and stores
//! retires on a fixed schedule (paper section 3.3).
//!
//! Time is counted in slots, `width` to a cycle. Instruction `i` dispatches one slot after `i - 1`,
//! and not before instruction `i - rob` has retired; it retires one slot after `i - 1`, and, when
//! it is a load, not before its data is there. Branch misses and instruction fetch are left out.
//!
//! Dispatch and retirement are kept as their distance from the index of the last access: an access
//! that makes nothing wait moves the index only, so that a caller may count such accesses by itself
//! up to [`Front::horizon`].

/// One core's front end.
#[derive(Debug, Clone)]
pub struct Front {
    shift: u32,
    rob: u64,
    index: u64,
    /// Slots by which the last dispatch, and the last retirement, is later than the index.
    lag: u64,
    late: u64,
    /// Slots of the index that a stall now does not find retired: see [`Front::hold`].
    held: u64,
    /// Loads and stores that another may have to wait for: their index and how many slots after it
    /// they retire. See [`Front::complete`] for which.
    ring: Box<[(u64, u64)]>,
    head: usize,
    tail: usize,
    /// First index that has to wait for the ring's oldest; `u64::MAX` when it is empty.
    waits_from: u64,
    /// How many slots after its index the last one in the ring, or once in it, retires.
    latest: u64,
}

impl Front {
    /// A front end at cycle 0. `width` is a power of two.
    #[must_use]
    pub fn new(width: u32, rob: u32) -> Self {
        let size = (rob as usize + 1).next_power_of_two();
        Self {
            shift: width.trailing_zeros(),
            rob: rob.into(),
            index: 0,
            lag: 0,
            late: 0,
            held: 0,
            ring: vec![(0, 0); size].into_boxed_slice(),
            head: 0,
            tail: 0,
            waits_from: u64::MAX,
            latest: 0,
        }
    }

    /// The cycle of the last dispatch.
    #[inline]
    #[must_use]
    pub const fn cycle(&self) -> u64 {
        (self.index + self.lag) >> self.shift
    }

    /// The index of the last instruction dispatched.
    #[inline]
    pub(crate) const fn index(&self) -> u64 {
        self.index
    }

    /// The first index that waits, or is dispatched at `cycle` or later. Before it, an access of at
    /// most [`Front::unseen`] cycles is dispatched and completed by its index alone, but for
    /// [`Front::complete_unseen`].
    #[inline]
    pub(crate) fn horizon(&self, cycle: u64) -> u64 {
        let slot = if cycle > u64::MAX >> self.shift {
            u64::MAX
        } else {
            cycle << self.shift
        };
        self.waits_from.min(slot.saturating_sub(self.lag))
    }

    /// Cycles of an access that never makes another wait: who comes a buffer later is dispatched
    /// later than it retires.
    #[inline]
    pub(crate) const fn unseen(&self) -> u64 {
        self.rob >> self.shift
    }

    /// Dispatches everything up to `index`, which ends with a load or store; returns its cycle.
    #[inline]
    pub(crate) fn dispatch_to(&mut self, index: u64) -> u64 {
        debug_assert!(index >= self.index, "dispatch is in order");
        self.index = index;
        if index >= self.waits_from {
            self.wait_for_room();
        }
        self.cycle()
    }

    /// Ends accesses dispatched since the last wait, the longest of which took these cycles; as a
    /// rule at most [`Front::unseen`].
    #[inline]
    pub(crate) fn complete_unseen(&mut self, cycles: u64) {
        self.late = self.late.max(self.lag + (cycles << self.shift));
    }

    /// Says how many instructions, dispatched last, a stall finds not retired: what stalls between
    /// the dispatch of an access and its end finds those before it.
    pub(crate) const fn hold(&mut self, instructions: u64) {
        self.held = instructions;
    }

    /// Dispatches `others` instructions and then a load or store; returns its cycle.
    #[inline]
    pub fn dispatch(&mut self, others: u32) -> u64 {
        self.dispatch_to(self.index + u64::from(others) + 1)
    }

    /// Moves the dispatch on until what it must wait for has left the buffer.
    fn wait_for_room(&mut self) {
        let mask = self.ring.len() - 1;
        while self.head != self.tail {
            let (index, late) = self.ring[self.head & mask];
            if index + self.rob > self.index {
                self.waits_from = index + self.rob;
                return;
            }
            // Its retirement, and a slot for each instruction between it and the one that it
            // blocks.
            self.lag = self.lag.max(late.saturating_sub(self.rob));
            self.head += 1;
        }
        self.waits_from = u64::MAX;
    }

    /// Ends the instruction just dispatched `cycles` after its dispatch.
    #[inline]
    pub fn complete(&mut self, cycles: u64) {
        self.complete_unseen(cycles);
        // One that has retired when the one a buffer later is dispatched, at least `rob` slots
        // after it, makes nothing wait. Nor does one that retires just in turn after one that is in
        // the ring: whoever waits for that one is late enough for this one, and stays so.
        if self.late > self.lag + self.rob && self.late > self.latest {
            self.remember();
        }
    }

    fn remember(&mut self) {
        let mask = self.ring.len() - 1;
        self.latest = self.late;
        if self.head == self.tail {
            self.waits_from = self.index + self.rob;
        }
        self.ring[self.tail & mask] = (self.index, self.latest);
        self.tail += 1;
        debug_assert!(
            self.tail - self.head <= self.ring.len(),
            "more in flight than the buffer"
        );
    }

    /// Waits until the buffer is empty; returns the cycle.
    pub fn drain(&mut self) -> u64 {
        self.lag = self.lag.max(self.late.saturating_sub(self.held));
        self.head = self.tail;
        self.waits_from = u64::MAX;
        self.cycle()
    }

    /// Drains and then does nothing for `cycles`.
    pub fn stall(&mut self, cycles: u64) {
        self.drain();
        self.lag += cycles << self.shift;
        self.late = self.lag + self.held;
    }

    /// Sleeps until `cycle`, if that is later.
    pub fn sleep_until(&mut self, cycle: u64) {
        let now = self.drain();
        self.stall(cycle.saturating_sub(now));
    }
}

#[cfg(test)]
mod tests {
    use super::Front;
    use std::collections::VecDeque;
    use steady_random::Stream;

    /// The rules of the module's head with nothing left out: each access is remembered, and one
    /// whose buffer is full waits for every one that has left it.
    #[derive(Default)]
    struct Plain {
        dispatched: u64,
        retired: u64,
        index: u64,
        flight: VecDeque<(u64, u64)>,
    }

    impl Plain {
        fn access(&mut self, rob: u64, others: u32, cycles: u64) -> u64 {
            let step = u64::from(others) + 1;
            self.index += step;
            self.dispatched += step;
            while let Some(&(index, retired)) = self.flight.front() {
                if index + rob > self.index {
                    break;
                }
                self.dispatched = self.dispatched.max(retired + self.index - rob - index);
                self.flight.pop_front();
            }
            let cycle = self.dispatched >> 2;
            self.retired = (self.retired + step).max(self.dispatched + (cycles << 2));
            self.flight.push_back((self.index, self.retired));
            cycle
        }

        fn stall(&mut self, cycles: u64) {
            self.dispatched = self.dispatched.max(self.retired) + (cycles << 2);
            self.retired = self.dispatched;
            self.flight.clear();
        }
    }

    #[test]
    fn what_is_not_remembered_would_have_made_nothing_wait() {
        for rob in [1, 8, 224] {
            let mut draw = Stream::new(3, rob);
            let mut front = Front::new(4, u32::try_from(rob).expect("a small number"));
            let mut plain = Plain::default();
            for step in 0..30_000 {
                let others = draw.below(9) / 2;
                let cycles = match draw.below(30) {
                    0 => u64::from(draw.below(600)),
                    1..4 => 42,
                    _ => 4,
                };
                let cycle = plain.access(rob, others, cycles);
                assert_eq!(
                    front.dispatch(others),
                    cycle,
                    "access {step}, buffer of {rob}"
                );
                front.complete(cycles);
                if draw.below(2_000) == 0 {
                    front.stall(cycles);
                    plain.stall(cycles);
                }
            }
        }
    }

    #[test]
    fn four_instructions_a_cycle_without_long_loads() {
        let mut front = Front::new(4, 224);
        for _ in 0..100 {
            front.dispatch(3);
            front.complete(1);
        }
        assert_eq!(front.cycle(), 100);
    }

    #[test]
    fn a_long_load_stops_dispatch_a_buffer_later_and_not_before() {
        let mut front = Front::new(4, 8);
        assert_eq!(front.dispatch(0), 0);
        front.complete(100);
        // Indices 2 to 8 fit beside the load; 9 waits for it.
        for _ in 0..7 {
            assert!(front.dispatch(0) <= 2);
            front.complete(1);
        }
        assert_eq!(front.dispatch(0), 100);
    }

    #[test]
    fn two_long_loads_in_one_window_overlap() {
        let mut front = Front::new(4, 224);
        for _ in 0..2 {
            front.dispatch(0);
            front.complete(300);
        }
        assert_eq!(front.drain(), 300);
    }
}
