// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pause-loop exits of one vCPU: where its guest spun, and how often it went on spinning there.
//!
//! A **run** is a series of exits of one vCPU that all are pause-loop exits at the same guest RIP,
//! with no other exit between: the continuous exits of the PLE study's Figure 11. A run of one is
//! an exit that was enough.

use std::collections::HashMap;

use steady_measures::Histogram;

use crate::spread::add;

/// Places of one vCPU that are counted each.
pub const MOST_PLACES: usize = 4096;

/// One place of the guest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    /// Exits there.
    pub exits: u64,
    /// Time in the guest that ended in such an exit, in nanoseconds: the spinning itself.
    pub spun_ns: u64,
    /// Time from these exits to the next entry, in nanoseconds.
    pub outside_ns: u64,
    /// Exits while an IPI of this vCPU's, of a vector that is waited for, was not yet taken.
    pub ipi_pending: u64,
    /// Runs of two and more.
    pub runs: u64,
    /// Exits in these runs.
    pub in_runs: u64,
    /// Exits of the longest run.
    pub longest: u64,
    /// When it began and how long it went on, in nanoseconds.
    pub longest_when: (u64, u64),
}

/// A run of exits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Where.
    pub rip: u64,
    /// When it began.
    pub begin_ns: u64,
    /// When its last exit was.
    pub end_ns: u64,
    /// Its exits.
    pub exits: u64,
}

/// Pause-loop exits of one vCPU.
#[derive(Debug, Default)]
pub struct Pauses {
    /// By guest RIP.
    pub places: HashMap<u64, Place>,
    /// Lengths of all runs, those of one exit among them.
    pub lengths: Histogram,
    /// The longest run.
    pub longest: Option<Run>,
    /// Exits at places beyond the bound.
    pub elsewhere: u64,
    /// The window that KVM set last, in cycles.
    pub window: Option<u64>,
    run: Option<Run>,
    entered_ns: Option<u64>,
}

impl Pauses {
    /// The vCPU enters its guest; `ended` is how long the exit before took, if it was one of ours.
    pub fn entry(&mut self, time_ns: u64, ended: Option<(u64, u64)>) {
        self.entered_ns = Some(time_ns);
        if let Some((rip, took_ns)) = ended
            && let Some(place) = self.places.get_mut(&rip)
        {
            add(&mut place.outside_ns, took_ns);
        }
    }

    /// An exit for another reason.
    pub fn other_exit(&mut self) {
        self.entered_ns = None;
        self.end_run();
    }

    /// A pause-loop exit.
    pub fn exit(&mut self, rip: u64, time_ns: u64, ipi_pending: bool) {
        let spun_ns = self
            .entered_ns
            .take()
            .map_or(0, |since_ns| time_ns.saturating_sub(since_ns));
        if self.places.len() >= MOST_PLACES && !self.places.contains_key(&rip) {
            self.elsewhere += 1;
            return self.end_run();
        }
        let place = self.places.entry(rip).or_default();
        place.exits += 1;
        add(&mut place.spun_ns, spun_ns);
        place.ipi_pending += u64::from(ipi_pending);
        match &mut self.run {
            Some(run) if run.rip == rip => {
                run.exits += 1;
                run.end_ns = time_ns;
            }
            _ => {
                self.end_run();
                self.run = Some(Run {
                    rip,
                    begin_ns: time_ns,
                    end_ns: time_ns,
                    exits: 1,
                });
            }
        }
    }

    /// The trace is over.
    pub fn finish(&mut self) {
        self.end_run();
    }

    fn end_run(&mut self) {
        let Some(run) = self.run.take() else { return };
        self.lengths.record(run.exits);
        if let Some(place) = self.places.get_mut(&run.rip) {
            if run.exits > place.longest {
                place.longest = run.exits;
                place.longest_when = (run.begin_ns, run.end_ns.saturating_sub(run.begin_ns));
            }
            if run.exits > 1 {
                place.runs += 1;
                place.in_runs += run.exits;
            }
        }
        if self.longest.is_none_or(|longest| run.exits > longest.exits) {
            self.longest = Some(run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exits_at_one_place_make_a_run_until_another_place_or_reason() {
        let mut pauses = Pauses::default();
        for time_ns in [10, 20, 30] {
            pauses.exit(0xaa, time_ns, false);
        }
        pauses.exit(0xbb, 40, false);
        pauses.other_exit();
        pauses.exit(0xbb, 60, false);
        pauses.finish();
        let lengths: Vec<(u64, u64)> = [(1, 2), (3, 1)].into();
        let spread = crate::Spread::from(&pauses.lengths);
        let found: Vec<(u64, u64)> = spread.buckets.iter().map(|b| (b[0], b[2])).collect();
        assert_eq!(found, lengths);
        let longest = pauses.longest.unwrap();
        assert_eq!(
            (longest.rip, longest.begin_ns, longest.end_ns),
            (0xaa, 10, 30)
        );
        assert_eq!(pauses.places[&0xaa].in_runs, 3);
        assert_eq!(pauses.places[&0xbb].in_runs, 0);
    }

    #[test]
    fn spinning_is_the_time_in_the_guest_before_the_exit() {
        let mut pauses = Pauses::default();
        pauses.entry(100, None);
        pauses.exit(0xaa, 107, false);
        pauses.entry(120, Some((0xaa, 13)));
        pauses.other_exit();
        let place = pauses.places[&0xaa];
        assert_eq!((place.spun_ns, place.outside_ns), (7, 13));
    }
}
