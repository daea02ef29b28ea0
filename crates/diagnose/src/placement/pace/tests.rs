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

#[test]
fn the_clock_of_a_vm_is_the_one_that_a_hand_counts() {
    type Case<'a> = (&'a str, &'a [(u64, Step)], u64, u64, [u64; 3]);
    let stacked = [
        (0, Run(0, 0)),
        (0, Wake(1, None, 0)),
        (50, Preempt(0)),
        (50, Run(1, 0)),
    ];
    let alone = [(0, Run(0, 0)), (40, Preempt(0)), (80, Run(0, 0))];
    let cases: [Case<'_>; 9] = [
        (
            "turns on one pCPU: 50 ms of each",
            &stacked,
            100,
            ALL,
            [2000; 3],
        ),
        // The lead lasts for 6 ms, and the other 44 take 88; or each takes twice as long.
        (
            "the same beside a stranger on each",
            &stacked,
            100,
            ALL / 2,
            [1000, 1063, 2000],
        ),
        (
            "a wait for strangers stays",
            &alone,
            100,
            ALL / 2,
            [1000; 3],
        ),
        (
            "so does the time in which all sleep",
            &[(0, Run(0, 0)), (30, Sleep(0)), (90, Run(0, 0))],
            100,
            ALL,
            [1000; 3],
        ),
        (
            // 0 waits for 2 and has run 50 ms when it wakes 1, which then runs 100; 3 runs 100.
            "a vCPU goes on with the sibling that woke it",
            &[
                (0, Run(1, 2)),
                (0, Sleep(1)),
                (0, Run(3, 1)),
                (0, Run(2, 0)),
                (0, Wake(0, None, 0)),
                (50, Preempt(2)),
                (50, Run(0, 0)),
                (100, Wake(1, Some(0), 2)),
                (100, Run(1, 2)),
                (100, Sleep(0)),
                (100, Sleep(2)),
                (100, Sleep(3)),
            ],
            200,
            ALL,
            [1333; 3],
        ),
        (
            "what an interrupt wakes goes on where the VM is",
            &[
                (0, Run(1, 2)),
                (0, Sleep(1)),
                (0, Run(3, 1)),
                (0, Run(2, 0)),
                (0, Wake(0, None, 0)),
                (50, Preempt(2)),
                (50, Run(0, 0)),
                (100, Wake(1, None, 2)),
                (100, Run(1, 2)),
                (100, Sleep(0)),
                (100, Sleep(2)),
                (100, Sleep(3)),
            ],
            200,
            ALL,
            [1000; 3],
        ),
        (
            // 0 spins for 80 of 100 ms, which stay, are 40, or are none; 1 and 2 take turns.
            "a pause loop beside stacked siblings may go",
            &[
                (0, Run(0, 1)),
                (0, Run(2, 0)),
                (0, Wake(1, None, 0)),
                (20, Exit(0, true)),
                (50, Preempt(2)),
                (50, Run(1, 0)),
                (100, Exit(0, true)),
            ],
            100,
            ALL,
            [1000, 1666, 2000],
        ),
        (
            "and one beside no stacked siblings stays",
            &[
                (0, Run(0, 1)),
                (20, Exit(0, true)),
                (100, Exit(0, true)),
                (100, Sleep(0)),
            ],
            100,
            ALL,
            [1000; 3],
        ),
        (
            "one that moves to a pCPU of its own is not stacked then",
            &[
                (0, Run(0, 0)),
                (0, Wake(1, None, 0)),
                (50, Move(1, 1)),
                (50, Run(1, 1)),
                (100, Sleep(0)),
            ],
            150,
            ALL,
            [1500; 3],
        ),
    ];
    for (what, steps, end_ms, share, expected) in cases {
        let pace = paced(steps, end_ms, share);
        assert_eq!(permilles(pace.parted(0)), expected, "{what}");
    }
}

#[test]
fn work_on_fewer_vcpus_takes_its_sum() {
    // 50 ms of each of two, and 100 ms of a third: 200 ms of work, none of it under 100.
    let steps = [
        (0, Run(0, 0)),
        (0, Wake(1, None, 0)),
        (0, Run(2, 1)),
        (50, Preempt(0)),
        (50, Run(1, 0)),
    ];
    let pace = paced(&steps, 100, ALL / 2);
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
        if !steps.is_empty() {
            let [low, likely, high] = permilles(paced(&steps, end_ms, share).parted(0));
            prop_assert!(low <= likely && likely <= high);
            prop_assert!(high >= 1000, "{}", high);
        }
    }
}
