// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When the siblings of a VM are parted, and when that is taken back: by what its vCPUs wait.
//!
//! The measure is the *wait share*: of the time in which the VM's vCPUs wanted a pCPU, the part in
//! which they did not have one. Parting is a trial. It stays only if the VM gets a tenth more of
//! what it wants; it is taken back at once where the share rises above what it was, and it ends
//! when the VM is calm. After a failure the next trial waits, twice as long each time.
//!
//! Left out: the VM's own progress, which its host cannot see. So what gains without waiting less
//! is not found; what waits more is given back, also if it gains.

use std::collections::VecDeque;

/// The bounds. Times are in nanoseconds, shares in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// A VM whose wait share is at least this is parted.
    pub act: u64,
    /// A trial stays if what the VM gets of what it wants becomes this, where it was 1000.
    pub keep: u64,
    /// A VM is calm while its share is at most this.
    pub calm: u64,
    /// How long it must have been calm before it is given back.
    pub hold_ns: u64,
    /// The wait after the first failure.
    pub backoff_ns: u64,
    /// The longest wait after a failure.
    pub backoff_max_ns: u64,
    /// A VM is not parted, or given back, where its pCPUs are idle for more than this: it waits
    /// though there is room, so that sets would keep it from what is free.
    pub idle: u64,
    /// The vCPUs of a VM that wants less than this of one pCPU are not looked at.
    pub wants: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            act: 200,
            keep: 1100,
            calm: 50,
            hold_ns: 10_000_000_000,
            backoff_ns: 10_000_000_000,
            backoff_max_ns: 600_000_000_000,
            idle: 100,
            wants: 500,
        }
    }
}

/// Intervals that a decision looks at.
const LOOK: usize = 4;

/// What the vCPUs of a VM did in one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interval {
    /// Its length.
    pub length_ns: u64,
    /// Time on pCPUs, of all vCPUs together.
    pub run_ns: u64,
    /// Time without one though wanted.
    pub wait_ns: u64,
    /// The part of the time in which the pCPUs that it may use were idle, in thousandths.
    pub idle: u64,
}

impl Interval {
    fn and(self, other: Self) -> Self {
        Self {
            length_ns: self.length_ns + other.length_ns,
            run_ns: self.run_ns + other.run_ns,
            wait_ns: self.wait_ns + other.wait_ns,
            idle: self.idle + other.idle,
        }
    }

    /// The wait share, in thousandths; 0 where nothing was wanted.
    #[must_use]
    pub fn share(self) -> u64 {
        let wanted_ns = self.run_ns + self.wait_ns;
        (self.wait_ns * 1000).checked_div(wanted_ns).unwrap_or(0)
    }

    /// How much of one pCPU was wanted, in thousandths.
    #[must_use]
    pub fn wanted(self) -> u64 {
        ((self.run_ns + self.wait_ns) * 1000)
            .checked_div(self.length_ns)
            .unwrap_or(0)
    }
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Leave,
    /// Part its siblings, as a trial. The share of before.
    Part(u64),
    /// It waits less: the trial stays. The shares of before and since.
    Keep(u64, u64),
    /// It does not wait less, or waits more again: give back. The shares of before and since.
    Withdraw(u64, u64),
    /// It has been calm: give back.
    GiveBack,
    /// Its pCPUs are idle for that part of the time, in thousandths: give back.
    Room(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    /// With the share of before.
    Trial {
        before: u64,
    },
    /// The same.
    Parted {
        before: u64,
    },
}

/// Judges one VM.
#[derive(Debug)]
pub struct Judge {
    bounds: Bounds,
    state: State,
    seen: VecDeque<Interval>,
    /// The first interval of a state has waits that began before it.
    skip: bool,
    calm_ns: u64,
    failures: u32,
    not_before_ns: u64,
}

impl Judge {
    /// A VM that is as the scheduler has it.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            state: State::Free,
            seen: VecDeque::new(),
            skip: false,
            calm_ns: 0,
            failures: 0,
            not_before_ns: 0,
        }
    }

    /// Whether its siblings are parted.
    #[must_use]
    pub fn is_parted(&self) -> bool {
        self.state != State::Free
    }

    /// Whether it is on trial.
    #[must_use]
    pub fn is_on_trial(&self) -> bool {
        matches!(self.state, State::Trial { .. })
    }

    /// Whether the next interval may change something: it waits, or is on trial.
    #[must_use]
    pub fn is_at_work(&self, interval: Interval) -> bool {
        let waits = match self.state {
            State::Free => interval.share() >= self.bounds.act / 2,
            State::Trial { .. } => return true,
            // It may have to be given back, and soon.
            State::Parted { before } => interval.share() > before,
        };
        waits && interval.wanted() >= self.bounds.wants
    }

    /// Takes one interval and judges. `may_try` is asked before a trial: whether no other VM is on
    /// trial, and this one can be parted.
    pub fn judge(
        &mut self,
        now_ns: u64,
        interval: Interval,
        may_try: impl FnOnce() -> bool,
    ) -> Verdict {
        if self.skip {
            self.skip = false;
            return Verdict::Leave;
        }
        self.seen.push_back(interval);
        if self.seen.len() > LOOK {
            self.seen.pop_front();
        }
        let all = self
            .seen
            .iter()
            .fold(Interval::default(), |sum, &one| sum.and(one));
        let (share, full) = (all.share(), self.seen.len() == LOOK);
        let busy = all.wanted() >= self.bounds.wants;
        let idle = all.idle / self.seen.len() as u64;
        let room = idle > self.bounds.idle;
        if room && full && share > self.bounds.calm && self.is_parted() {
            self.fail(now_ns, 0, 0);
            return Verdict::Room(idle);
        }
        match self.state {
            State::Free => {
                let tries = full
                    && busy
                    && !room
                    && share >= self.bounds.act
                    && now_ns >= self.not_before_ns;
                if !(tries && may_try()) {
                    return Verdict::Leave;
                }
                self.enter(State::Trial { before: share });
                Verdict::Part(share)
            }
            State::Trial { before } => self.on_trial(now_ns, before, share, full.then_some(busy)),
            State::Parted { before } => self.parted(now_ns, before, all, interval),
        }
    }

    /// `busy`: whether the VM still wants pCPUs, once enough was seen. One that does not shows
    /// nothing, and must not keep others from a trial.
    fn on_trial(&mut self, now_ns: u64, before: u64, share: u64, busy: Option<bool>) -> Verdict {
        if share > before {
            return self.fail(now_ns, before, share);
        }
        let Some(busy) = busy else {
            return Verdict::Leave;
        };
        let gets = |waits: u64| 1000u64.saturating_sub(waits);
        if !busy || gets(share) * 1000 < gets(before) * self.bounds.keep {
            return self.fail(now_ns, before, share);
        }
        self.failures = 0;
        self.enter(State::Parted { before });
        self.skip = false;
        Verdict::Keep(before, share)
    }

    fn parted(&mut self, now_ns: u64, before: u64, all: Interval, last: Interval) -> Verdict {
        let calm = last.share() <= self.bounds.calm || last.wanted() < self.bounds.wants;
        self.calm_ns = if calm {
            self.calm_ns + last.length_ns
        } else {
            0
        };
        if self.calm_ns >= self.bounds.hold_ns {
            self.release();
            return Verdict::GiveBack;
        }
        let worse = self.seen.len() == LOOK && all.wanted() >= self.bounds.wants;
        if worse && all.share() > before {
            return self.fail(now_ns, before, all.share());
        }
        Verdict::Leave
    }

    /// Lets a VM go of which one vCPU at most is busy; it may be tried again at once.
    pub fn release(&mut self) {
        self.enter(State::Free);
    }

    /// Ends a trial that is not made, or cannot go on; the next one waits as after a failure.
    pub fn decline(&mut self, now_ns: u64) {
        self.fail(now_ns, 0, 0);
    }

    fn fail(&mut self, now_ns: u64, before: u64, share: u64) -> Verdict {
        let doubled = self.bounds.backoff_ns << self.failures.min(20);
        self.not_before_ns = now_ns + doubled.min(self.bounds.backoff_max_ns);
        self.failures += 1;
        self.enter(State::Free);
        Verdict::Withdraw(before, share)
    }

    fn enter(&mut self, state: State) {
        assert_ne!(self.state, state, "a state is entered from another");
        self.state = state;
        self.seen.clear();
        self.calm_ns = 0;
        self.skip = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A VM of which two vCPUs want a pCPU, and wait for it the given share of the time.
    struct Made {
        judge: Judge,
        now_ns: u64,
    }

    impl Made {
        fn new() -> Self {
            let judge = Judge::new(Bounds::default());
            Self { judge, now_ns: 0 }
        }

        fn see(&mut self, share: u64) -> Verdict {
            self.now_ns += 100 * MS;
            let wait_ns = 200 * MS * share / 1000;
            let interval = Interval {
                length_ns: 100 * MS,
                run_ns: 200 * MS - wait_ns,
                wait_ns,
                idle: 0,
            };
            self.judge.judge(self.now_ns, interval, || true)
        }

        /// Sees a share again and again until it acts.
        fn until(&mut self, share: u64, most: usize) -> (usize, Verdict) {
            let seen = (1..=most).map(|n| (n, self.see(share)));
            let mut acts = seen.filter(|(_, verdict)| *verdict != Verdict::Leave);
            acts.next().unwrap_or((most, Verdict::Leave))
        }
    }

    #[test]
    fn a_vm_that_waits_less_once_parted_stays_parted_until_it_is_calm() {
        let mut vm = Made::new();
        assert_eq!(vm.until(600, 10), (4, Verdict::Part(600)));
        assert_eq!(vm.until(300, 10), (5, Verdict::Keep(600, 300)));
        assert_eq!(vm.until(500, 1000), (1000, Verdict::Leave));
        assert_eq!(vm.until(0, 1000), (100, Verdict::GiveBack));
        assert!(!vm.judge.is_parted());
    }

    #[test]
    fn a_vm_that_waits_no_less_is_given_back_and_left_alone_twice_as_long_each_time() {
        let mut vm = Made::new();
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let (waited, verdict) = vm.until(400, 10_000);
            assert_eq!(verdict, Verdict::Part(400));
            pauses.push(waited / 100);
            assert_eq!(vm.until(400, 10), (5, Verdict::Withdraw(400, 400)));
        }
        assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn a_vm_that_waits_longer_is_given_back_after_one_whole_interval() {
        let mut vm = Made::new();
        vm.until(250, 10);
        assert_eq!(vm.until(300, 10), (2, Verdict::Withdraw(250, 300)));
    }

    #[test]
    fn a_vm_that_wants_nothing_any_more_does_not_stay_on_trial() {
        let mut vm = Made::new();
        vm.until(400, 10);
        let still = Interval {
            length_ns: 100 * MS,
            ..Interval::default()
        };
        let seen = (0..10).map(|_| vm.judge.judge(0, still, || true));
        let acts: Vec<Verdict> = seen.filter(|act| *act != Verdict::Leave).collect();
        assert_eq!(acts, [Verdict::Withdraw(400, 0)]);
    }

    #[test]
    fn it_is_read_often_while_something_may_change_and_where_parting_may_do_harm() {
        let waits = |share: u64| Interval {
            length_ns: 100 * MS,
            run_ns: 200 * MS - share * MS / 5,
            wait_ns: share * MS / 5,
            idle: 0,
        };
        let mut vm = Made::new();
        let work = |vm: &Made| [90, 300, 500].map(|share| vm.judge.is_at_work(waits(share)));
        assert_eq!(work(&vm), [false, true, true]);
        vm.until(400, 10);
        assert_eq!(work(&vm), [true, true, true]);
        vm.until(100, 10);
        assert_eq!(work(&vm), [false, false, true]);
    }

    #[test]
    fn a_vm_that_waits_more_later_than_before_it_was_parted_is_given_back() {
        let mut vm = Made::new();
        vm.until(400, 10);
        vm.until(100, 10);
        vm.until(390, 50);
        assert!(vm.judge.is_parted());
        let (_, verdict) = vm.until(500, 10);
        assert!(
            matches!(verdict, Verdict::Withdraw(400, more) if more > 400),
            "{verdict:?}"
        );
    }

    #[test]
    fn a_vm_with_idle_pcpus_is_not_parted_and_one_that_gets_them_is_given_back() {
        let idle = |idle: u64| Interval {
            length_ns: 100 * MS,
            run_ns: 100 * MS,
            wait_ns: 100 * MS,
            idle,
        };
        let mut judge = Judge::new(Bounds::default());
        let free = (1..100).map(|at| judge.judge(at * 100 * MS, idle(110), || true));
        assert!(free.into_iter().all(|verdict| verdict == Verdict::Leave));
        let mut vm = Made::new();
        vm.until(400, 10);
        vm.until(100, 10);
        let with_room = (0..10).map(|_| vm.judge.judge(0, idle(400), || true));
        let acts: Vec<Verdict> = with_room.filter(|act| *act != Verdict::Leave).collect();
        assert!(
            matches!(acts[..], [Verdict::Room(idle)] if idle > 100),
            "{acts:?}"
        );
        assert!(!vm.judge.is_parted());
    }

    #[test]
    fn little_waiting_and_little_wanting_change_nothing() {
        let mut vm = Made::new();
        assert_eq!(vm.until(199, 500), (500, Verdict::Leave));
        let mut idle = Judge::new(Bounds::default());
        let interval = Interval {
            length_ns: 100 * MS,
            run_ns: 10 * MS,
            wait_ns: 30 * MS,
            idle: 0,
        };
        for at in 1..100 {
            assert_eq!(idle.judge(at * 100 * MS, interval, || true), Verdict::Leave);
        }
    }
}
