// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Made schedules whose clocks are counted by hand, and what holds of any schedule.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// What happens to a vCPU of the one VM.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// It runs on a pCPU.
    Run(usize, u32),
    /// It is preempted there, and waits.
    Preempt(usize),
    Sleep(usize),
    /// It is woken onto a pCPU, by a sibling or by something else.
    Wake(usize, Option<usize>, u32),
    Move(usize, u32),
    /// It leaves its guest, from a pause loop or not.
    Exit(usize, bool),
}

use Step::{Exit, Move, Preempt, Run, Sleep, Wake};

const MS: u64 = 1_000_000;

/// The clocks after steps at these milliseconds, with a share of a pCPU beside strangers.
fn paced(steps: &[(u64, Step)], end_ms: u64, share: u64) -> Pace {
    let mut pace = Pace::default();
    for &(at_ms, step) in steps {
        let now_ns = at_ms * MS;
        match step {
            Run(id, cpu) => pace.runs(id, 0, cpu, now_ns),
            Preempt(id) => pace.stops(id, true, now_ns),
            Sleep(id) => pace.stops(id, false, now_ns),
            Wake(id, by, cpu) => pace.wakes(id, 0, by, cpu, now_ns),
            Move(id, cpu) => pace.moves(id, cpu, now_ns),
            Exit(id, is_pause) => pace.exits(id, is_pause, now_ns),
        }
        pace.shares(0, share);
    }
    pace.finish(end_ms * MS);
    pace
}

fn permilles(reach: Option<Reach>) -> [u64; 3] {
    let reach = reach.expect("a VM with a vCPU");
    [
        reach.low_permille,
        reach.likely_permille,
        reach.high_permille,
    ]
}

/// Steps from words: `50r1@0` is that vCPU 1 runs on pCPU 0 at 50 ms, `p` that it is preempted, `s`
/// that it sleeps, `x` that it leaves a pause loop, `m` that it moves, `w` that it is woken, and
/// `w1<0@2` that vCPU 0 wakes it.
fn steps(words: &str) -> Vec<(u64, Step)> {
    let step = |word: &str| {
        let letter = word.find(char::is_alphabetic).unwrap();
        let (at_ms, rest) = word.split_at(letter);
        let (who, cpu) = rest[1..].split_once('@').unwrap_or((&rest[1..], "0"));
        let (id, by) = who.split_once('<').unwrap_or((who, ""));
        let (id, by, cpu) = (id.parse().unwrap(), by.parse().ok(), cpu.parse().unwrap());
        let step = match &rest[..1] {
            "r" => Run(id, cpu),
            "p" => Preempt(id),
            "s" => Sleep(id),
            "x" => Exit(id, true),
            "m" => Move(id, cpu),
            _ => Wake(id, by, cpu),
        };
        (at_ms.parse().unwrap(), step)
    };
    words.split_whitespace().map(step).collect()
}

#[test]
fn the_clock_of_a_vm_is_the_one_that_a_hand_counts() {
    let turns = "0r0@0 0w1@0 50p0 50r1@0";
    // vCPU 0 waits for 2, and has run 50 ms when 1, asleep since the begin, is woken; 3 runs 100.
    let chain = "0r1@2 0s1 0r3@1 0r2@0 0w0@0 50p2 50r0@0 100w1<0@2 100r1@2 100s0 100s2 100s3";
    let irq = chain.replace("w1<0", "w1");
    // vCPU 0 spins from 20 to 100 ms, 1 and 2 take turns; or no two are on one pCPU.
    let spins = "0r0@1 0r2@0 0w1@0 20x0 50p2 50r1@0 100x0";
    let apart = "0r0@1 20x0 100x0 100s0";
    let half = ALL / 2;
    let cases: [(&str, u64, u64, [u64; 3]); 9] = [
        // 50 ms of each.
        (turns, 100, ALL, [2000; 3]),
        // A stranger on each: a lead lasts for 6 ms, and the other 44 take 88; or all take twice.
        (turns, 100, half, [1000, 1063, 2000]),
        // A wait for strangers stays, and so does the time in which all sleep.
        ("0r0@0 40p0 80r0@0", 100, half, [1000; 3]),
        ("0r0@0 30s0 90r0@0", 100, ALL, [1000; 3]),
        // A vCPU goes on with the sibling that woke it, or where the VM is.
        (chain, 200, ALL, [1333; 3]),
        (&irq, 200, ALL, [1000; 3]),
        // A pause loop stays, half of it, or none, while siblings are stacked; else all of it.
        (spins, 100, ALL, [1000, 1666, 2000]),
        (apart, 100, ALL, [1000; 3]),
        // One that moves to a pCPU of its own is not stacked from then on.
        ("0r0@0 0w1@0 50m1@1 50r1@1 100s0", 150, ALL, [1500; 3]),
    ];
    for (words, end_ms, share, expected) in cases {
        let pace = paced(&steps(words), end_ms, share);
        assert_eq!(permilles(pace.parted(0)), expected, "{words}");
    }
}

#[test]
fn a_wait_for_strangers_goes_in_part_while_siblings_are_stacked() {
    // vCPUs 1 and 2 take turns; 0 waits for a stranger from 20 to 80 ms, of 100.
    let words = "0r0@1 0r2@0 0w1@0 20p0 50p2 50r1@0 80r0@1";
    let reach = paced(&steps(words), 100, ALL).parted(0);
    assert_eq!(permilles(reach), [1000, 1428, 2000]);
}

#[test]
fn work_on_fewer_vcpus_takes_its_sum() {
    // 50 ms of each of two, and 100 ms of a third: 200 ms of work, none of it under 100.
    let pace = paced(&steps("0r0@0 0w1@0 0r2@1 50p0 50r1@0"), 100, ALL / 2);
    for (vcpus, expected) in [
        (1, [250, 500, 1000]),
        (2, [500, 1000, 1000]),
        (4, [1000, 1000, 1000]),
    ] {
        assert_eq!(permilles(pace.folded(0, vcpus)), expected, "{vcpus}");
    }
    assert_eq!(pace.folded(0, 0), None);
    assert_eq!((pace.parted(1), pace.folded(1, 2)), (None, None));
}

/// For how many milliseconds any vCPU ran.
fn ran_ms(steps: &[(u64, Step)], end_ms: u64) -> u64 {
    let mut runs_since = [None; 3];
    let mut ran_ms = 0;
    let ends = (0..3).map(|id| (end_ms, Sleep(id)));
    for (at_ms, step) in steps.iter().copied().chain(ends) {
        match step {
            Run(id, _) => runs_since[id] = Some(at_ms),
            Preempt(id) | Sleep(id) => {
                ran_ms += runs_since[id].take().map_or(0, |since_ms| at_ms - since_ms);
            }
            Wake(..) | Move(..) | Exit(..) => {}
        }
    }
    ran_ms
}

#[test]
fn a_vm_whose_vcpus_only_waited_for_each_other_has_no_time_to_compare() {
    let words = "0w0@0 0w1@0";
    assert_eq!(paced(&steps(words), 100, ALL).parted(0), None);
    // A millisecond of running is one.
    let ran = paced(&steps(&format!("{words} 99r0@0")), 100, ALL);
    assert_eq!(permilles(ran.parted(0)), [100_000; 3]);
}

/// A schedule of three vCPUs, from numbers: whatever a vCPU does next, it can.
fn schedule(numbers: &[(u64, usize, u32, bool)], own: bool) -> (Vec<(u64, Step)>, u64) {
    let (mut steps, mut at_ms) = (Vec::new(), 0);
    let (mut state, mut cpus) = ([State::Sleeps; 3], [0; 3]);
    for &(after_ms, id, cpu, choice) in numbers {
        at_ms += after_ms;
        let cpu = if own { u32::try_from(id).unwrap() } else { cpu };
        let free = (0..3).all(|other| state[other] != State::Runs || cpus[other] != cpus[id]);
        let by = (0..3).find(|&other| choice && other != id && state[other] == State::Runs);
        let step = match state[id] {
            State::Runs if choice => Preempt(id),
            State::Runs => Sleep(id),
            State::Waits if free => Run(id, cpus[id]),
            State::Waits if own => continue,
            State::Waits => Move(id, cpu),
            _ => Wake(id, by, cpu),
        };
        state[id] = match step {
            Preempt(_) | Move(..) | Wake(..) => State::Waits,
            Sleep(_) => State::Sleeps,
            _ => State::Runs,
        };
        if matches!(step, Wake(..) | Move(..)) {
            cpus[id] = cpu;
        }
        steps.push((at_ms, step));
        if choice && state[id] == State::Runs {
            steps.push((at_ms, Exit(id, after_ms % 2 == 0)));
        }
    }
    (steps, at_ms + 1)
}

proptest! {
    #[test]
    fn nothing_changes_without_siblings_on_one_pcpu_and_no_fastest_world_is_slower(
        numbers in vec((0_u64..20, 0_usize..3, 0_u32..3, any::<bool>()), 1..60),
        share in 1..=ALL,
    ) {
        let (steps, end_ms) = schedule(&numbers, true);
        let apart = paced(&steps, end_ms, share);
        if !steps.is_empty() {
            prop_assert_eq!(permilles(apart.parted(0)), [1000; 3]);
        }
        let (steps, end_ms) = schedule(&numbers, false);
        let reach = paced(&steps, end_ms, share).parted(0);
        prop_assert!(reach.is_some() || ran_ms(&steps, end_ms) == 0);
        if reach.is_some() {
            let [low, likely, high] = permilles(reach);
            prop_assert!(low <= likely && likely <= high);
            prop_assert!(high >= 1000, "{}", high);
        }
    }
}
