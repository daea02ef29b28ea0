// SPDX-License-Identifier: Apache-2.0 OR MIT
//! On how many CPUs a guest should run: as many as it is given time for.
//!
//! In the manner of Linux's steal governor, by our reading of its public documentation: fewer CPUs
//! where much is stolen, more where little is. Two things differ. The number comes from the part
//! that is stolen, so that a large guest needs no longer than a small one. And the whole is a
//! trial: where the stolen part does not fall, others take what this guest leaves, and it runs on
//! all CPUs again.
//!
//! Left out: which CPUs (`groups` chooses), and how far a program scales.

use std::collections::VecDeque;

use super::share::Did;

/// The bounds. Shares are in thousandths, times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// A guest that has more than this stolen folds.
    pub act: u64,
    /// One that is folded and has more than this stolen runs on fewer CPUs still.
    pub much: u64,
    /// One that has at most this stolen may run on more.
    pub little: u64,
    /// A fold stays if the stolen part is at most this part of what it was.
    pub keep: u64,
    /// A guest that wants less than this of one CPU is not judged.
    pub wants: u64,
    /// CPUs that are used to more than this are wanted more of.
    pub full: u64,
    /// The wait after the first failure.
    pub backoff_ns: u64,
    /// The longest.
    pub backoff_max_ns: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            act: 150,
            much: 100,
            little: 50,
            keep: 700,
            wants: 500,
            full: 800,
            backoff_ns: 10_000_000_000,
            backoff_max_ns: 600_000_000_000,
        }
    }
}

/// Intervals that a decision looks at.
const LOOK: usize = 4;
/// Intervals of a trial: other guests need as long to see that they should fold.
const TRIAL: u32 = 12;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Leave,
    /// Run on that number of CPUs; what was stolen.
    Run(u32, u64),
    /// The fold helps: what was stolen before, and since.
    Keep(u64, u64),
    /// It does not, so run on all CPUs; the same.
    Unfold(u64, u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    /// What was stolen before, and intervals since.
    Trial(u64, u32),
    Folded(u64),
}

/// Judges a guest.
#[derive(Debug)]
pub struct Judge {
    bounds: Bounds,
    /// All CPUs, and those that it runs on.
    all: u32,
    now: u32,
    /// The fewest of a trial: until others fold too, more is stolen than will be.
    least: u32,
    state: State,
    seen: VecDeque<(u64, Did)>,
    failures: u32,
    not_before_ns: u64,
    /// The number that came of more CPUs, and when there may be more again.
    grown: Option<u32>,
    regrets: u32,
    more_from_ns: u64,
}

/// The wait before more CPUs are tried again, after the first time that they were too many.
const REGRET_NS: u64 = 4_000_000_000;

impl Judge {
    /// A guest of `all` CPUs, which runs on all of them.
    #[must_use]
    pub fn new(bounds: Bounds, all: u32) -> Self {
        Self {
            bounds,
            all,
            now: all,
            least: 1,
            state: State::Free,
            seen: VecDeque::new(),
            failures: 0,
            not_before_ns: 0,
            grown: None,
            regrets: 0,
            more_from_ns: 0,
        }
    }

    /// CPUs that it should run on.
    #[must_use]
    pub fn cpus(&self) -> u32 {
        self.now
    }

    /// Takes one interval and judges.
    pub fn judge(&mut self, now_ns: u64, length_ns: u64, did: Did) -> Verdict {
        self.seen.push_back((length_ns, did));
        if self.seen.len() > LOOK {
            self.seen.pop_front();
        }
        let (length_ns, did) = self
            .seen
            .iter()
            .fold((0, Did::default()), |(length, sum), (more, did)| {
                (length + more, sum.and(did))
            });
        if self.seen.len() < LOOK {
            return Verdict::Leave;
        }
        let (stolen, ran) = (did.stolen(), did.ran(length_ns));
        if ran + did.steal_ns * 1000 / length_ns.max(1) < self.bounds.wants {
            return Verdict::Leave;
        }
        match self.state {
            State::Free => self.free(now_ns, stolen),
            State::Trial(before, since) if since < TRIAL => {
                self.state = State::Trial(before, since + 1);
                self.fewer(now_ns, stolen).unwrap_or(Verdict::Leave)
            }
            State::Trial(before, _) if stolen * 1000 > before * self.bounds.keep => {
                self.fail(now_ns, before, stolen)
            }
            State::Trial(before, _) => {
                self.failures = 0;
                self.state = State::Folded(before);
                Verdict::Keep(before, stolen)
            }
            State::Folded(before)
                if stolen * 1000 > before * self.bounds.keep && stolen > self.bounds.much =>
            {
                self.fail(now_ns, before, stolen)
            }
            State::Folded(_) => {
                let fewer = self.fewer(now_ns, stolen);
                let verdict = fewer.unwrap_or_else(|| self.more(now_ns, stolen, ran));
                if self.now == self.all {
                    self.state = State::Free;
                }
                verdict
            }
        }
    }

    fn free(&mut self, now_ns: u64, stolen: u64) -> Verdict {
        let fewer = left(self.all, stolen);
        if stolen <= self.bounds.act || fewer >= self.all || now_ns < self.not_before_ns {
            return Verdict::Leave;
        }
        self.state = State::Trial(stolen, 0);
        self.least = fewer;
        self.run_on(fewer, stolen)
    }

    /// Fewer CPUs while much is stolen.
    fn fewer(&mut self, now_ns: u64, stolen: u64) -> Option<Verdict> {
        let fewer = left(self.now, stolen).max(self.least);
        if stolen <= self.bounds.much || fewer >= self.now {
            return None;
        }
        if self.grown.take() == Some(self.now) {
            // What was added was too much, and would be again soon.
            self.more_from_ns = now_ns + (REGRET_NS << self.regrets.min(6));
            self.regrets += 1;
        }
        Some(self.run_on(fewer, stolen))
    }

    /// More CPUs while little is stolen and those that it has are used.
    fn more(&mut self, now_ns: u64, stolen: u64, ran: u64) -> Verdict {
        let used = ran / u64::from(self.now);
        let wants = stolen <= self.bounds.little && used >= self.bounds.full;
        if !wants || self.now >= self.all || now_ns < self.more_from_ns {
            return Verdict::Leave;
        }
        let more = (self.now + (self.now / 4).max(1)).min(self.all);
        if self.grown.is_some() {
            self.regrets = 0;
        }
        self.grown = Some(more);
        self.run_on(more, stolen)
    }

    fn run_on(&mut self, cpus: u32, stolen: u64) -> Verdict {
        assert!(
            (1..=self.all).contains(&cpus),
            "{cpus} of {} CPUs",
            self.all
        );
        self.now = cpus;
        self.seen.clear();
        Verdict::Run(cpus, stolen)
    }

    /// Ends a fold that is not made; the next one waits as after a failure.
    pub fn decline(&mut self, now_ns: u64) {
        self.fail(now_ns, 0, 0);
    }

    fn fail(&mut self, now_ns: u64, before: u64, since: u64) -> Verdict {
        let doubled = self.bounds.backoff_ns << self.failures.min(20);
        self.not_before_ns = now_ns + doubled.min(self.bounds.backoff_max_ns);
        self.failures += 1;
        self.state = State::Free;
        self.now = self.all;
        self.seen.clear();
        Verdict::Unfold(before, since)
    }
}

/// What is left of CPUs without the part that is stolen, rounded.
fn left(cpus: u32, stolen: u64) -> u32 {
    let left = (u64::from(cpus) * (1000 - stolen.min(1000)) + 500) / 1000;
    u32::try_from(left).unwrap_or(cpus).clamp(1, cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A guest of eight CPUs that would use all it has, of which part is stolen.
    struct Made {
        judge: Judge,
        now_ns: u64,
    }

    impl Made {
        fn new() -> Self {
            let judge = Judge::new(Bounds::default(), 8);
            Self { judge, now_ns: 0 }
        }

        fn see(&mut self, stolen: impl Fn(u32) -> u64) -> Verdict {
            self.now_ns += 100 * MS;
            let wanted_ns = u64::from(self.judge.cpus()) * 100 * MS;
            let steal_ns = wanted_ns * stolen(self.judge.cpus()) / 1000;
            let run_ns = wanted_ns - steal_ns;
            self.judge
                .judge(self.now_ns, 100 * MS, Did { run_ns, steal_ns })
        }

        fn acts(&mut self, seconds: u64, stolen: impl Fn(u32) -> u64 + Copy) -> Vec<Verdict> {
            let seen = (0..seconds * 10).map(|_| self.see(stolen));
            seen.filter(|verdict| *verdict != Verdict::Leave).collect()
        }
    }

    #[test]
    fn a_guest_with_half_of_the_host_runs_on_half_of_its_cpus_within_two_seconds() {
        let mut guest = Made::new();
        let share = |cpus: u32| u64::from(cpus.saturating_sub(4)) * 1000 / u64::from(cpus);
        assert_eq!(
            guest.acts(2, share),
            [Verdict::Run(4, 500), Verdict::Keep(500, 0)]
        );
    }

    #[test]
    fn one_cpu_more_is_tried_ever_more_rarely_where_it_was_too_much() {
        let mut guest = Made::new();
        let share = |cpus: u32| u64::from(cpus.saturating_sub(4)) * 1000 / u64::from(cpus);
        guest.acts(2, share);
        let changes = guest.acts(120, share).len();
        assert!(changes <= 14, "{changes} changes in two minutes");
        assert_eq!(guest.judge.cpus(), 4);
    }

    #[test]
    fn a_large_guest_takes_no_longer_than_a_small_one() {
        let mut judge = Judge::new(Bounds::default(), 64);
        let did = Did {
            run_ns: 800 * MS,
            steal_ns: 5600 * MS,
        };
        let verdicts = (1..=4).map(|at| judge.judge(at * 100 * MS, 100 * MS, did));
        assert_eq!(verdicts.last(), Some(Verdict::Run(8, 875)));
    }

    #[test]
    fn a_guest_that_folds_alone_runs_on_all_again_and_waits_twice_as_long_each_time() {
        let mut guest = Made::new();
        let mut pauses = Vec::new();
        for _ in 0..4 {
            let mut waited = 0;
            while guest.see(|_| 500) == Verdict::Leave {
                waited += 1;
            }
            pauses.push(waited / 100);
            let acts = guest.acts(3, |_| 500);
            let unfolds = |verdict: &&Verdict| matches!(verdict, Verdict::Unfold(500, 500));
            assert!(acts.iter().any(|verdict| unfolds(&verdict)), "{acts:?}");
            assert_eq!(guest.judge.cpus(), 8);
        }
        assert_eq!(pauses, [0, 0, 1, 3]);
    }

    #[test]
    fn cpus_come_back_as_steal_falls_and_they_are_used() {
        let mut guest = Made::new();
        let share = |cpus: u32| u64::from(cpus.saturating_sub(4)) * 1000 / u64::from(cpus);
        guest.acts(2, share);
        assert_eq!(guest.judge.cpus(), 4);
        let acts = guest.acts(3, |_| 0);
        let counts: Vec<u32> = acts
            .iter()
            .filter_map(|act| match act {
                Verdict::Run(cpus, _) => Some(*cpus),
                _ => None,
            })
            .collect();
        assert_eq!(counts, [5, 6, 7, 8]);
    }

    #[test]
    fn little_steal_changes_nothing() {
        assert!(Made::new().acts(60, |_| 150).is_empty());
    }
}
