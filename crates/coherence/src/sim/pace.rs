// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A core's front end during a loop of hits: what changes with every access, out of its memory.
//!
//! Nearly every access moves the index and nothing else. The front end itself is shown where an
//! access waits or may make others wait, and at the end.

use crate::front::Front;

/// The front end's state in a loop.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    index: u64,
    /// From this index on the front end has to look.
    horizon: u64,
    /// The loop ends at this cycle, which the caller and `due` give.
    stop: u64,
    due: u64,
    /// Cycles of the longest access that the front end need not see, since it was shown one.
    longest: u64,
    /// Longer ones it must see.
    unseen: u64,
}

impl Pace {
    /// A loop that stops after cycle `limit`, and before an access at cycle `due` or later.
    #[inline]
    pub fn new(front: &Front, limit: u64, due: u64) -> Self {
        let stop = due.min(limit.saturating_add(1));
        Self {
            index: front.index(),
            horizon: front.horizon(stop),
            stop,
            due,
            longest: 0,
            unseen: front.unseen(),
        }
    }

    /// Dispatches `others` instructions and then an access; false when that is due elsewhere.
    #[inline]
    pub fn dispatch(&mut self, front: &mut Front, others: u32) -> bool {
        self.index += u64::from(others) + 1;
        if self.index < self.horizon {
            return true;
        }
        let now;
        (now, self.horizon) = wait(front, self.index, self.longest, self.stop);
        self.longest = 0;
        now < self.due
    }

    /// The cycle of the last dispatch.
    #[inline]
    pub fn cycle(self, front: &mut Front) -> u64 {
        front.dispatch_to(self.index)
    }

    /// Ends the access just dispatched; false when the loop must stop.
    #[inline]
    pub fn complete(&mut self, front: &mut Front, cycles: u64) -> bool {
        if cycles <= self.unseen {
            self.longest = self.longest.max(cycles);
        } else {
            self.horizon = tell(front, self.index, (self.longest, cycles), self.stop);
            self.longest = 0;
        }
        self.index < self.horizon
    }

    /// Gives the state back; returns the cycle of the last dispatch.
    #[inline]
    pub fn end(self, front: &mut Front) -> u64 {
        front.complete_unseen(self.longest);
        front.dispatch_to(self.index)
    }
}

// Apart and by value: a loop that lent its `Pace` would keep it in memory, at 25 instructions an
// access.

/// Dispatches up to `index`, after accesses of at most `longest` cycles; returns the cycle and the
/// next horizon.
#[cold]
#[inline(never)]
fn wait(front: &mut Front, index: u64, longest: u64, stop: u64) -> (u64, u64) {
    front.complete_unseen(longest);
    let now = front.dispatch_to(index);
    (now, front.horizon(stop))
}

/// Ends the access at `index`, which took as many cycles as the second of the pair, after others of
/// at most the first; returns the next horizon.
#[cold]
#[inline(never)]
fn tell(front: &mut Front, index: u64, (longest, cycles): (u64, u64), stop: u64) -> u64 {
    front.complete_unseen(longest);
    front.dispatch_to(index);
    front.complete(cycles);
    front.horizon(stop)
}
