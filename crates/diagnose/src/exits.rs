// SPDX-License-Identifier: Apache-2.0 OR MIT
//! VM exits of one vCPU by reason: how many, and how long until the next entry.
//!
//! Counted as `perf kvm stat` does (`tools/perf/builtin-kvm.c`): an exit counts once its thread
//! enters a guest again, and its time is that between the two. An exit that is followed by another
//! without an entry between is replaced by it.

use steady_events::ExitReason;
use steady_measures::Histogram;

/// Reasons of one vCPU that are told apart; the ISAs have fewer.
const MOST_REASONS: usize = 256;

/// Exits of one vCPU.
#[derive(Debug, Default)]
pub struct Exits {
    /// By reason, in the order in which they were seen.
    pub by_reason: Vec<(ExitReason, Histogram)>,
    open: Option<(ExitReason, u64)>,
    /// Exits that no entry followed, and those of reasons beyond the bound.
    pub uncounted: u64,
}

impl Exits {
    /// An exit.
    pub fn exit(&mut self, reason: ExitReason, time_ns: u64) {
        if self.open.replace((reason, time_ns)).is_some() {
            self.uncounted += 1;
        }
    }

    /// An entry; gives the exit that it ends and how long it took.
    pub fn entry(&mut self, time_ns: u64) -> Option<(ExitReason, u64)> {
        let (reason, since_ns) = self.open.take()?;
        // A clock that went backwards gives no time.
        let Some(took_ns) = time_ns.checked_sub(since_ns) else {
            self.uncounted += 1;
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

    /// The trace is over.
    pub fn finish(&mut self) {
        if self.open.take().is_some() {
            self.uncounted += 1;
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
    fn an_exit_without_an_entry_counts_nowhere_but_as_uncounted() {
        let mut exits = Exits::default();
        exits.exit(PAUSE, 100);
        exits.exit(HLT, 200);
        assert_eq!(exits.entry(205), Some((HLT, 5)));
        exits.exit(HLT, 300);
        exits.finish();
        assert_eq!((exits.uncounted, exits.by_reason.len()), (2, 1));
    }
}
