// SPDX-License-Identifier: Apache-2.0 OR MIT
//! VM exits of one vCPU by reason: how many, and how long until the next entry.
//!
//! Timed as `perf kvm stat` does (`tools/perf/builtin-kvm.c`): once its thread enters a guest
//! again, and its time is that between the two. An exit that is followed by another without an
//! entry between has no time; perf forgets it, here it is counted apart.

use std::collections::BTreeMap;

use steady_events::ExitReason;
use steady_measures::Histogram;

/// Reasons of one vCPU that are counted each; the ISAs have fewer.
const MOST_REASONS: usize = 256;

/// Where exits without a time came from, or what memory they were for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Why they were.
    pub reason: ExitReason,
    /// A page of the guest's memory, or an instruction.
    pub at: u64,
    /// Whether it is memory.
    pub is_memory: bool,
    /// How many were seen there; at least, as those before it was known to be one are not counted.
    pub exits: u64,
    /// By how many it leads over all others: what most have had is never overtaken (Boyer and
    /// Moore's vote).
    votes: u64,
}

impl Place {
    /// Of an exit, with the page of memory that it was for, or 0.
    pub fn of(reason: ExitReason, address: u64, rip: u64) -> Self {
        let is_memory = address != 0;
        Self {
            reason,
            at: if is_memory { address & !0xfff } else { rip },
            is_memory,
            exits: 1,
            votes: 1,
        }
    }

    /// Another exit without a time.
    fn vote(&mut self, other: &Self) {
        let same = (self.reason, self.at) == (other.reason, other.at);
        match (same, self.votes) {
            (true, _) => (self.exits, self.votes) = (self.exits + 1, self.votes + 1),
            (false, 0) => *self = *other,
            (false, _) => self.votes -= 1,
        }
    }
}

/// The exit that goes on.
#[derive(Debug)]
struct Open {
    place: Place,
    since_ns: u64,
}

/// Exits of one vCPU.
#[derive(Debug, Default)]
pub struct Exits {
    /// Times by reason, in the order in which they were seen.
    pub by_reason: Vec<(ExitReason, Histogram)>,
    open: Option<Open>,
    /// Of exits without a time, the place that most of them may have had.
    pub place: Option<Place>,
    /// Exits without a time, by reason.
    pub untimed: BTreeMap<ExitReason, u64>,
    /// All exits without a time, those of reasons beyond the bound among them.
    pub uncounted: u64,
}

impl Exits {
    /// An exit.
    pub fn exit(&mut self, place: Place, since_ns: u64) {
        if let Some(before) = self.open.replace(Open { place, since_ns }) {
            self.without_time(&before.place);
        }
    }

    /// What the exit that is under way was for shows only now.
    pub fn told(&mut self, reason: ExitReason) {
        if let Some(open) = &mut self.open {
            open.place.reason = reason;
        }
    }

    fn without_time(&mut self, place: &Place) {
        self.uncounted += 1;
        match &mut self.place {
            Some(most) => most.vote(place),
            None => self.place = Some(*place),
        }
        let reason = place.reason;
        if self.untimed.len() < MOST_REASONS || self.untimed.contains_key(&reason) {
            *self.untimed.entry(reason).or_default() += 1;
        }
        assert!(self.untimed.len() <= MOST_REASONS, "memory stays bounded");
    }

    /// An entry; gives the exit that it ends and how long it took.
    pub fn entry(&mut self, time_ns: u64) -> Option<(ExitReason, u64)> {
        let Open { place, since_ns } = self.open.take()?;
        let reason = place.reason;
        // A clock that went backwards gives no time.
        let Some(took_ns) = time_ns.checked_sub(since_ns) else {
            self.without_time(&place);
            return None;
        };
        let known = self
            .by_reason
            .iter()
            .position(|(known, _)| *known == reason);
        let at = match known {
            Some(at) => at,
            None if self.by_reason.len() < MOST_REASONS => {
                self.by_reason.push((reason, Histogram::new()));
                self.by_reason.len() - 1
            }
            None => {
                self.uncounted += 1;
                return None;
            }
        };
        self.by_reason[at].1.record(took_ns);
        Some((reason, took_ns))
    }

    /// Events were lost: when the exit that goes on ended is not known.
    pub fn lost(&mut self) {
        self.finish();
    }

    /// The trace is over.
    pub fn finish(&mut self) {
        if let Some(open) = self.open.take() {
            self.without_time(&open.place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steady_events::Isa;

    const PAUSE: ExitReason = ExitReason {
        isa: Isa::Vmx,
        code: 40,
    };
    const HLT: ExitReason = ExitReason {
        isa: Isa::Vmx,
        code: 12,
    };

    #[test]
    fn an_exit_takes_from_itself_to_the_next_entry() {
        let mut exits = Exits::default();
        exits.exit(Place::of(PAUSE, 0, 0), 100);
        assert_eq!(exits.entry(130), Some((PAUSE, 30)));
        assert_eq!(exits.entry(150), None);
    }

    #[test]
    fn an_exit_without_an_entry_is_counted_by_its_reason_and_has_no_time() {
        let mut exits = Exits::default();
        exits.exit(Place::of(PAUSE, 0, 0), 100);
        exits.exit(Place::of(HLT, 0, 0), 200);
        assert_eq!(exits.entry(205), Some((HLT, 5)));
        exits.exit(Place::of(HLT, 0, 0), 300);
        exits.finish();
        assert_eq!((exits.uncounted, exits.by_reason.len()), (2, 1));
        assert_eq!(exits.untimed, [(HLT, 1), (PAUSE, 1)].into());
    }

    #[test]
    fn the_place_of_most_exits_without_a_time_is_found_among_others() {
        let mut exits = Exits::default();
        for at in 0..1_000 {
            let rip = if at % 5 < 2 { at } else { 0x1000 };
            exits.exit(Place::of(PAUSE, 0, rip), at);
        }
        let place = exits.place.expect("there is one");
        assert_eq!((place.at, place.is_memory), (0x1000, false));
        assert!((300..=600).contains(&place.exits), "{place:?}");
        assert!(Place::of(HLT, 0x1729_a123, 7).is_memory);
    }
}
