// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the jobs of a race beside each other, and brings them back in their order.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use steady_scenario::{Scenario, Variant};

use crate::attempt::Common;
use crate::engine::{Outcome, Trouble};
use crate::error::Reason;
use crate::seed::seed_of;

/// One job: which variant, by its place, and which repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Task {
    pub variant: usize,
    pub repetition: u32,
}

/// What all jobs of a race brought.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Those that were whole, in the order of the jobs.
    pub whole: Vec<(Task, Outcome)>,
    /// How many jobs there were.
    pub tasks: usize,
    /// Why the others are not there: the first reason in the order of the jobs.
    pub reason: Option<Reason>,
}

impl Ran {
    /// Adds what further repetitions brought.
    pub fn extend(&mut self, further: Self) {
        assert!(self.reason.is_none(), "a race that failed does not go on");
        self.whole.extend(further.whole);
        self.tasks += further.tasks;
        self.reason = further.reason;
    }
}

/// All variants of the first repetition, then all of the second, and so on: a slow drift of the
/// machine meets each variant alike.
fn tasks(variants: usize, repetitions: Range<u32>) -> Vec<Task> {
    repetitions
        .flat_map(|repetition| {
            (0..variants).map(move |variant| Task {
                variant,
                repetition,
            })
        })
        .collect()
}

/// Runs these repetitions of every variant. After a failure, or once the user has asked to stop, no
/// further job begins; those under way come to their end.
pub(crate) fn run_all(
    common: Common<'_>,
    scenario: &Scenario,
    variants: &[&Variant],
    repetitions: Range<u32>,
) -> Ran {
    let tasks = tasks(variants.len(), repetitions.clone());
    let (next, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let slots: Vec<Mutex<Option<Result<Outcome, Reason>>>> =
        tasks.iter().map(|_| Mutex::new(None)).collect();
    let what = format!("{} on {}", scenario.name, common.info.name);
    let begun = Instant::now();
    let left: Vec<AtomicU32> = variants
        .iter()
        .map(|_| AtomicU32::new(repetitions.len().try_into().unwrap_or(u32::MAX)))
        .collect();
    common.watcher.progress(&what, 0, tasks.len() as u64);
    let beside = common.engine.beside();
    assert!(beside > 0, "an engine runs at least one job at a time");
    std::thread::scope(|scope| {
        for _ in 0..beside.min(tasks.len()) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&task) = tasks.get(at) else { return };
                    if common.machine.interrupted() {
                        return;
                    }
                    let seed = seed_of(scenario.seed, task.repetition);
                    let variant = variants[task.variant];
                    let run = common.attempt(variant, task.repetition, seed);
                    if run.is_err() {
                        // The race is lost; let no further run begin.
                        next.store(tasks.len(), Ordering::Relaxed);
                    } else if left[task.variant].fetch_sub(1, Ordering::Relaxed) == 1 {
                        let name = &variant.name;
                        common
                            .watcher
                            .say(&ended_words(name, &repetitions, begun.elapsed()));
                    }
                    *slots[at].lock().expect("no thread panics with a slot") = Some(run);
                    let done = ended.fetch_add(1, Ordering::Relaxed) + 1;
                    let watcher = common.watcher;
                    watcher.progress(&what, done as u64, tasks.len() as u64);
                }
            });
        }
    });
    common.watcher.done(&what);
    let ended = slots
        .into_iter()
        .map(|slot| slot.into_inner().expect("no thread panics with a slot"));
    sort(tasks.iter().copied().zip(ended))
}

/// That the last run of a variant has ended, of those that were begun together.
fn ended_words(variant: &str, repetitions: &Range<u32>, spent: Duration) -> String {
    let seconds = spent.as_secs();
    match repetitions.len() {
        1 => format!(
            "{variant}: run {} ended, {seconds} s",
            repetitions.start + 1
        ),
        runs => format!("{variant}: {runs} runs ended, {seconds} s"),
    }
}

/// Parts what was whole from the first reason why something was not.
fn sort(jobs: impl Iterator<Item = (Task, Option<Result<Outcome, Reason>>)>) -> Ran {
    let mut ran = Ran {
        whole: Vec::new(),
        tasks: 0,
        reason: None,
    };
    for (task, ended) in jobs {
        ran.tasks += 1;
        match ended {
            Some(Ok(outcome)) => ran.whole.push((task, outcome)),
            Some(Err(reason)) => ran.reason = ran.reason.or(Some(reason)),
            None => {}
        }
    }
    if ran.reason.is_none() && ran.whole.len() < ran.tasks {
        ran.reason = Some(Trouble::interrupted().into());
    }
    assert!(ran.whole.len() <= ran.tasks, "each job ends at most once");
    ran
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_repetition_meets_every_variant_before_the_next() {
        let order: Vec<(usize, u32)> = tasks(2, 0..2)
            .into_iter()
            .map(|task| (task.variant, task.repetition))
            .collect();
        assert_eq!(order, [(0, 0), (1, 0), (0, 1), (1, 1)]);
    }

    #[test]
    fn of_several_reasons_the_first_in_the_order_of_the_jobs_is_told() {
        let unsound = |text: &str| Some(Err(Reason::Unsound(text.to_owned())));
        let ends = vec![
            Some(Ok(Outcome::default())),
            unsound("a"),
            None,
            unsound("b"),
        ];
        let ran = sort(tasks(4, 0..1).into_iter().zip(ends));
        assert_eq!((ran.whole.len(), ran.tasks), (1, 4));
        assert!(matches!(ran.reason, Some(Reason::Unsound(text)) if text == "a"));
    }
}
