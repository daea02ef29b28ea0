// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time that only goes on: a clock that was set back while it was recorded is put straight.
//!
//! Where the records of one pCPU go back by more than records of several pCPUs may be apart, the
//! clock was set back. What follows is counted from the last record before; how long the step took
//! is not known, so that what goes on across it is not known either.

use steady_events::{Event, Gap};

use crate::analysis::NO_CPU;

/// Records go back by less where pCPUs' clocks differ or their records are merged, in nanoseconds.
pub const STEP_NS: u64 = 1_000_000;
/// pCPUs whose clocks are followed.
const MOST_PCPUS: usize = 8192;

/// The clocks of all pCPUs.
#[derive(Debug, Default)]
pub struct Clock {
    by_cpu: Vec<One>,
    /// Events that name no pCPU, and of more pCPUs than are followed.
    beyond: One,
    /// How often a clock was set back: the most of any pCPU.
    pub set_back: u64,
    /// When it was first set back, by the clock before, and by how much.
    pub first: Option<(u64, u64)>,
}

#[derive(Debug, Default, Clone, Copy)]
struct One {
    last_ns: u64,
    offset_ns: u64,
    steps: u64,
}

impl Clock {
    /// Puts an event's time straight.
    #[inline]
    pub fn straighten(&mut self, event: &mut Event<'_>) {
        let at = usize::try_from(event.cpu).unwrap_or(usize::MAX);
        let one = if event.cpu == NO_CPU || at >= MOST_PCPUS {
            &mut self.beyond
        } else {
            if self.by_cpu.len() <= at {
                self.by_cpu.resize(at + 1, One::default());
            }
            &mut self.by_cpu[at]
        };
        let time_ns = event.time_ns.saturating_add(one.offset_ns);
        if time_ns.saturating_add(STEP_NS) < one.last_ns {
            let back_ns = one.last_ns - time_ns;
            assert!(back_ns > STEP_NS, "less is not a step");
            one.offset_ns = one.offset_ns.saturating_add(back_ns);
            one.steps += 1;
            self.set_back = self.set_back.max(one.steps);
            self.first.get_or_insert((one.last_ns, back_ns));
            event.time_ns = one.last_ns;
            event.gap = Gap::Any;
            return;
        }
        event.time_ns = time_ns;
        one.last_ns = one.last_ns.max(time_ns);
    }
}

/// Of fewer events no order shows; a power of two.
const FEWEST: u64 = 16;

/// Whether events come in the order of time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Order {
    first_ns: Option<u64>,
    before_ns: u64,
    latest_ns: u64,
    /// The latest time as it is read.
    furthest_ns: u64,
    events: u64,
    /// Earlier than the event before, as they are read.
    backs: u64,
    /// The latest time when the number of events last doubled, how often it did, and how often the
    /// latest time had grown by half or more since.
    then_ns: u64,
    doubled: u64,
    grown: u64,
    /// Earlier than any event before by more than clocks of pCPUs differ.
    late: u64,
}

impl Order {
    /// An event's time as it is read, and put straight.
    #[inline]
    pub fn event(&mut self, read_ns: u64, time_ns: u64) {
        self.first_ns.get_or_insert(read_ns);
        self.events += 1;
        self.backs += u64::from(read_ns < self.before_ns);
        self.before_ns = read_ns;
        self.late += u64::from(time_ns.saturating_add(STEP_NS) < self.latest_ns);
        self.latest_ns = self.latest_ns.max(time_ns);
        self.furthest_ns = self.furthest_ns.max(read_ns);
        if self.events >= FEWEST && self.events.is_power_of_two() {
            self.doubled += 1;
            self.grown += u64::from(self.furthest_ns / 3 * 2 >= self.then_ns);
            self.then_ns = self.furthest_ns;
        }
    }

    /// Of all events, thousandths that came late.
    #[must_use]
    pub fn late_permille(&self) -> u64 {
        crate::build::permille(self.late, self.events)
    }

    /// Whether times are those since the event before: they begin at 0, go back again and again,
    /// and with twice as many events they are not longer.
    #[must_use]
    pub fn are_differences(&self) -> bool {
        let goes_on = self.grown * 2 > self.doubled;
        self.first_ns == Some(0) && self.doubled > 2 && !goes_on && self.backs >= self.events / 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steady_events::Kind;

    fn event(time_ns: u64, cpu: u32) -> Event<'static> {
        Event {
            time_ns,
            cpu,
            tid: 1,
            comm: b"x",
            process: 0,
            gap: Gap::None,
            kind: Kind::Other,
        }
    }

    #[test]
    fn a_step_back_is_taken_out_and_what_follows_keeps_its_distances() {
        let mut clock = Clock::default();
        let times = [10_000_000_000, 11_000_000_000, 6_000_000_000, 6_500_000_000];
        let straight = times.map(|time_ns| {
            let mut event = event(time_ns, 0);
            clock.straighten(&mut event);
            (event.time_ns, event.gap)
        });
        let expected = [
            (10_000_000_000, Gap::None),
            (11_000_000_000, Gap::None),
            (11_000_000_000, Gap::Any),
            (11_500_000_000, Gap::None),
        ];
        assert_eq!(straight, expected);
        assert_eq!(clock.set_back, 1);
        assert_eq!(clock.first, Some((11_000_000_000, 5_000_000_000)));
    }

    #[test]
    fn another_pcpus_clock_may_be_behind() {
        let mut clock = Clock::default();
        clock.straighten(&mut event(9_000_000, 0));
        let mut other = event(1_000, 1);
        clock.straighten(&mut other);
        assert_eq!((other.time_ns, clock.set_back), (1_000, 0));
    }
}
