// SPDX-License-Identifier: Apache-2.0 OR MIT
//! vCPUs under a limit of CPU time, each behind neighbours that use its pCPU: the trace shows the
//! neighbours alone. The kernel refills the quota on a grid; the vCPU is switched in where a
//! neighbour's slice ends.

use steady_diagnose::{CauseId, Confidence, Finding, FindingId};

use super::{BY_INTERRUPT, IDLE, Lines, comm, notes, the};

/// A thread, its state, and the thread that follows it.
type Switch<'a> = ((&'a str, i32), char, (&'a str, i32));

/// When a vCPU runs, in microseconds: from and up to.
type Runs = Vec<(u64, u64)>;

/// Numbers that follow from a seed (Knuth's MMIX).
struct Draws(u64);

impl Draws {
    fn below(&mut self, most: u64) -> u64 {
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// A limit as a host enforces it.
#[derive(Debug, Clone, Copy)]
struct Limit {
    quota_us: u64,
    period_us: u64,
    /// A throttle comes at a tick of this length, and what was used beyond the quota is taken back;
    /// 0 throttles at once.
    tick_us: u64,
    /// After a refill the neighbour's slice lasts for up to this long.
    slice_us: u64,
    /// For how long the vCPU and the neighbour run in turn until the quota is used, if they do.
    turn_us: Option<(u64, u64)>,
}

impl Limit {
    fn runs(self, draws: &mut Draws, periods: usize) -> Runs {
        let (mut runs, mut debt_us) = (Runs::new(), 0);
        for refill_us in (1_000_000..)
            .step_by(usize::try_from(self.period_us).unwrap())
            .take(periods)
        {
            let next_us = refill_us + self.period_us;
            if debt_us >= self.quota_us {
                debt_us -= self.quota_us;
                continue;
            }
            let mut left_us = self.quota_us - debt_us;
            debt_us = 0;
            let mut at_us = refill_us + 5 + draws.below(self.slice_us);
            let (turn_us, other_us) = self.turn_us.unwrap_or((u64::MAX, 0));
            while left_us > 0 && at_us + 200 < next_us {
                let turn_us = turn_us.min(left_us);
                let mut end_us = at_us + turn_us;
                if turn_us == left_us && self.tick_us > 0 {
                    end_us = (end_us / self.tick_us + 1) * self.tick_us;
                }
                end_us = end_us.min(next_us - 200);
                debt_us = (end_us - at_us).saturating_sub(left_us);
                left_us = left_us.saturating_sub(end_us - at_us);
                runs.push((at_us, end_us));
                at_us = end_us + other_us;
            }
        }
        runs
    }
}

/// What uses the pCPU while the vCPU may not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Neighbours {
    /// One that never sleeps.
    One,
    /// Two that sleep in turn.
    Sleepers,
    /// One that never sleeps, and one that runs for a moment each millisecond.
    Noisy,
    /// One that sleeps now and then, which leaves the pCPU idle.
    Idles,
}

impl Neighbours {
    const ALL: [Self; 4] = [Self::One, Self::Sleepers, Self::Noisy, Self::Idles];

    /// The threads that run in turn, for how many microseconds, and in which state each leaves.
    fn turns(self) -> [((&'static str, i32), u64, char); 2] {
        match self {
            Self::One => [(("db", 700), u64::MAX, 'R'), (("db", 700), 0, 'R')],
            Self::Sleepers => [(("db", 700), 700, 'S'), (("log", 710), 500, 'S')],
            Self::Noisy => [(("db", 700), 1_000, 'R'), (("ksoftirqd/0", 15), 30, 'S')],
            Self::Idles => [(("db", 700), 4_000, 'S'), (IDLE, 1_500, 'R')],
        }
    }
}

/// The trace of vCPUs that run so, each on its own pCPU.
fn lines(vcpus: &[Runs], neighbours: Neighbours) -> Lines {
    let mut all: Vec<(u64, i32, Option<Switch<'_>>)> = Vec::new();
    let names: Vec<String> = (0..8).map(comm).collect();
    for (vcpu, runs) in (0..).zip(vcpus) {
        let name = names[usize::try_from(vcpu).unwrap()].as_str();
        let me = (name, 1001 + vcpu);
        let on = |(comm, tid): (&'static str, i32)| match tid {
            0 => (comm, 0),
            _ => (comm, tid + vcpu),
        };
        for (at, &(begin_us, end_us)) in runs.iter().enumerate() {
            all.push((begin_us, vcpu, None));
            let mut us = end_us;
            let mut before = (me, 'R');
            let next_us = runs.get(at + 1).map_or(end_us, |next| next.0);
            for (who, runs_us, state) in neighbours.turns().into_iter().cycle() {
                if us >= next_us {
                    break;
                }
                all.push((us, vcpu, Some((before.0, before.1, on(who)))));
                us = us.saturating_add(runs_us);
                before = (on(who), state);
            }
            // One that would have gone on did not sleep just then.
            if us > next_us && neighbours == Neighbours::Idles {
                before.1 = 'R';
            }
            // The refill is seen when the one that runs for a moment sleeps.
            let [hog, moment] = neighbours.turns().map(|turn| on(turn.0));
            let last_us = all.last().map_or(next_us, |last| last.0);
            if neighbours == Neighbours::Noisy && before.0 == hog && last_us + 20 < next_us {
                all.push((next_us - 20, vcpu, Some((hog, 'R', moment))));
                before = (moment, 'S');
            }
            if next_us > end_us {
                all.push((next_us, vcpu, Some((before.0, before.1, me))));
            }
        }
    }
    all.sort_by_key(|each| each.0);
    let mut lines = Lines::default();
    for (us, vcpu, switch) in all {
        let cpu = vcpu.cast_unsigned();
        match switch {
            None => lines.enter(us, vcpu, cpu),
            Some((from, state, to)) => {
                if from.1 == 1001 + vcpu {
                    lines.exit(us, vcpu, cpu, BY_INTERRUPT);
                }
                lines.switch(us, cpu, from, state, to);
            }
        }
    }
    lines
}

#[test]
fn no_neighbour_is_surely_the_cause_where_a_limit_would_look_the_same() {
    const QUOTAS: [(u64, u64); 8] = [
        (50_000, 100_000),
        (20_000, 100_000),
        (80_000, 100_000),
        (25_000, 50_000),
        (16_000, 20_000),
        (5_000, 10_000),
        (2_500, 5_000),
        (60_000, 750_000),
    ];
    let mut wrong = Vec::new();
    let mut hold = |limit: Limit, vcpus: u64, periods: usize| {
        let mut draws = Draws(limit.quota_us + limit.tick_us + limit.slice_us + vcpus);
        let all: Vec<Runs> = (0..vcpus)
            .map(|_| limit.runs(&mut draws, periods))
            .collect();
        for neighbours in Neighbours::ALL {
            let found = lines(&all, neighbours).diagnosis(None).findings;
            let sure = |of: &&Finding| of.confidence == Confidence::High;
            let accused: Vec<_> = found.iter().filter(sure).map(|of| of.cause).collect();
            if !accused.is_empty() || found.is_empty() {
                wrong.push((limit, vcpus, periods, neighbours, accused));
            }
        }
    };
    for (quota_us, period_us) in QUOTAS {
        for (tick_us, slice_us) in [(0, 3_000), (4_000, 3_000)] {
            for turn_us in [None, Some((3_000, 500))] {
                // Else the neighbour leaves them less than their quota.
                let (own_us, other_us) = turn_us.unwrap_or((1, 0));
                if quota_us * (own_us + other_us) * 5 > period_us * own_us * 4 {
                    continue;
                }
                let limit = Limit {
                    quota_us,
                    period_us,
                    tick_us,
                    slice_us,
                    turn_us,
                };
                for (vcpus, periods) in [(1, 30), (2, 20), (1, 3)] {
                    hold(limit, vcpus, periods);
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong: {:#?}",
        wrong.len(),
        &wrong[..4.min(wrong.len())]
    );
}

#[test]
fn who_ran_in_waits_in_which_the_pcpu_was_idle_too_is_not_what_they_were_for() {
    let limit = Limit {
        quota_us: 50_000,
        period_us: 100_000,
        tick_us: 4_000,
        slice_us: 3_000,
        turn_us: None,
    };
    let runs = limit.runs(&mut Draws(1), 30);
    for (noted, sure) in [
        (None, Confidence::Medium),
        (Some("50000 100000"), Confidence::High),
    ] {
        let noted = noted.and_then(|limit| notes(&[], Some(limit)));
        let diagnosis = lines(std::slice::from_ref(&runs), Neighbours::Idles).diagnosis(noted);
        let steal = the(&diagnosis, FindingId::Steal);
        // The neighbour ran for 8 of each 11 parts of the waits.
        assert_eq!((steal.cause, steal.confidence), (CauseId::CpuMax, sure));
        assert_eq!(steal.culprits[0].name.as_deref(), Some("db"));
    }
}

#[test]
fn turns_are_surely_the_neighbours_where_the_notes_exclude_a_limit() {
    // Slices of the scheduler: one for the vCPU, and some for others.
    for (slice_us, others) in [(4_000, 2..9), (3_000, 4..9), (10_000, 1..4)] {
        let max = Some("max 100000");
        for (limit, of_second, sure) in [
            (max, max, Confidence::High),
            (Some("90000 100000"), max, Confidence::Medium),
            (None, None, Confidence::Medium),
            (max, None, Confidence::Medium),
        ] {
            let mut noted = notes(&[], limit).unwrap();
            let mut second = noted.vms[0].vcpus[0].clone();
            (second.number, second.tid) = (1, 1002);
            second.cpu_max = of_second.map(str::to_owned);
            noted.vms[0].vcpus.push(second);
            let (mut draws, mut at_us) = (Draws(slice_us), 1_000_000);
            let each = (0..120).map(|_| {
                let begin_us = at_us;
                let waits = others.start + draws.below(others.end - others.start);
                at_us += slice_us * (1 + waits) + draws.below(50);
                (begin_us, begin_us + slice_us)
            });
            let runs: Runs = each.collect();
            let diagnosis = lines(&[runs], Neighbours::One).diagnosis(Some(noted));
            let steal = the(&diagnosis, FindingId::Steal);
            let found = (steal.cause, steal.confidence);
            assert_eq!(found, (CauseId::HostTask, sure), "{slice_us} {limit:?}");
        }
    }
}
