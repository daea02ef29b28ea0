// SPDX-License-Identifier: Apache-2.0 OR MIT
//! VM exits of one vCPU by reason: how many, and how long until the next entry.
//!
//! Timed as `perf kvm stat` does (`tools/perf/builtin-kvm.c`): once its thread enters a guest
//! again, and its time is that between the two. An exit that is followed by another without an
//! entry between has no time; perf forgets it, here it is counted apart.

use std::collections::BTreeMap;

use steady_events::ExitReason;
use steady_measures::Histogram;

/// Reasons of one vCPU that are told apart; the ISAs have fewer.
const MOST_REASONS: usize = 256;

/// Exits of one vCPU.
#[derive(Debug, Default)]
pub struct Exits {
    /// Times by reason, in the order in which they were seen.
    pub by_reason: Vec<(ExitReason, Histogram)>,
    open: Option<(ExitReason, u64)>,
    /// Exits without a time, by reason.
    pub untimed: BTreeMap<ExitReason, u64>,
    /// All exits without a time, those of reasons beyond the bound among them.
    pub uncounted: u64,
}

impl Exits {
    /// An exit.
    pub fn exit(&mut self, reason: ExitReason, time_ns: u64) {
        if let Some((before, _)) = self.open.replace((reason, time_ns)) {
            self.without_time(before);
        }
    }

    /// What the exit that is under way was for shows only now.
    pub fn told(&mut self, reason: ExitReason) {
        if let Some((open, _)) = &mut self.open {
            *open = reason;
        }
    }

    fn without_time(&mut self, reason: ExitReason) {
        self.uncounted += 1;
        if self.untimed.len() < MOST_REASONS || self.untimed.contains_key(&reason) {
            *self.untimed.entry(reason).or_default() += 1;
        }
        assert!(self.untimed.len() <= MOST_REASONS, "memory stays bounded");
    }

    /// An entry; gives the exit that it ends and how long it took.
    pub fn entry(&mut self, time_ns: u64) -> Option<(ExitReason, u64)> {
        let (reason, since_ns) = self.open.take()?;
        // A clock that went backwards gives no time.
        let Some(took_ns) = time_ns.checked_sub(since_ns) else {
            self.without_time(reason);
            return None;
        };
        let place = self
            .by_reason
            .iter()
            .position(|(known, _)| *known == reason);
        let at = match place {
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
        if let Some((reason, _)) = self.open.take() {
            self.without_time(reason);
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
        exits.exit(PAUSE, 100);
        assert_eq!(exits.entry(130), Some((PAUSE, 30)));
        assert_eq!(exits.entry(150), None);
    }

    #[test]
    fn an_exit_without_an_entry_is_counted_by_its_reason_and_has_no_time() {
        let mut exits = Exits::default();
        exits.exit(PAUSE, 100);
        exits.exit(HLT, 200);
        assert_eq!(exits.entry(205), Some((HLT, 5)));
        exits.exit(HLT, 300);
        exits.finish();
        assert_eq!((exits.uncounted, exits.by_reason.len()), (2, 1));
        assert_eq!(exits.untimed, [(HLT, 1), (PAUSE, 1)].into());
    }
}
