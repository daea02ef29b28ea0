// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The stated numbers with one input changed at a time: an explanation of why a number differs from
//! the paper's names one of these runs, and this says what the change does to every other number.
//!
//! Runs are as long as those of the stated numbers, so that `as-is` has them again. `longer` alone
//! has other accesses in number, and `half-rate` other updates; the others run over the accesses of
//! `as-is`. Left out: whether the paper's machine or programs had such an input; numbers of
//! figures, orders and counts are in [`figures`].

pub(crate) mod figures;

use std::collections::BTreeMap;

use steady_coherence::Error;
use steady_coherence::compare::{Job, digest};
use steady_coherence::config::{MachineConfig, Mode};
use steady_measures::{Repetition, RunResult, VariantResult};

use crate::jobs;
use crate::measures::{self, Head};
use crate::number::Words;
use crate::numbers;
use crate::published::VICTIMA_WALK;
use crate::reproduction::Reproduction;
use crate::runs::{Settings, Stream, run_seeds, violations};

/// The word of the scenario.
pub(crate) const WORD: &str = "attc-inputs";

/// A changed input.
struct Input {
    /// The variant's name.
    name: &'static str,
    title: &'static str,
    machine: fn(&mut MachineConfig),
    settings: fn(&mut Settings),
}

/// What nothing is changed in, then each change.
const INPUTS: [Input; 5] = [
    Input {
        name: "as-is",
        title: "every input as stated",
        machine: |_| {},
        settings: |_| {},
    },
    Input {
        name: "frames",
        title: "neighbours of a guest have neighbouring frames",
        machine: |m| m.mmu.scattered_frames_percent = 0,
        settings: |_| {},
    },
    Input {
        name: "walks",
        title: "walks as long as Victima's authors publish",
        machine: |m| {
            let (virtualized, native) = VICTIMA_WALK;
            m.mmu.walk_cycles = match m.mode {
                Mode::Native => native,
                Mode::Virtualized => virtualized,
            };
        },
        settings: |_| {},
    },
    Input {
        name: "half-rate",
        title: "half as many updates",
        machine: |_| {},
        settings: |s| s.rate /= 2,
    },
    Input {
        name: "longer",
        title: "twice as many accesses, warm-up and counted",
        machine: |_| {},
        settings: |s| {
            s.accesses *= 2;
            s.warmup *= 2;
        },
    },
];

/// The jobs of every stated number on machines with the changed input: those as long as their
/// shootdowns ask for, and those of the base length.
fn changed(input: &Input) -> [Vec<Job>; 2] {
    let change = |mut job: Job| {
        (input.machine)(&mut job.machine);
        job
    };
    [jobs::main(), jobs::short()].map(|jobs| jobs.into_iter().map(change).collect())
}

fn run_one(
    input: &Input,
    settings: &Settings,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<Reproduction, Error> {
    let streams = |stated: &Settings, workload| {
        let [main, short] = changed(input);
        let stream = |mut settings: Settings, jobs| {
            (input.settings)(&mut settings);
            assert!(settings.warmup < settings.accesses, "something is counted");
            Stream {
                settings,
                workload,
                jobs,
            }
        };
        vec![
            stream(stated.of(&workload), main),
            stream(stated.clone(), short),
        ]
    };
    let results = run_seeds(settings, &streams, done)?;
    let mut settings = settings.clone();
    (input.settings)(&mut settings);
    Ok(Reproduction {
        numbers: numbers::numbers(&results, settings.warmup, |_| true),
        figures: Vec::new(),
        violations: violations(&results),
        results,
        settings,
    })
}

/// Every number with each input changed, sealed. `done` hears how many runs of how many have
/// finished.
///
/// # Errors
/// As the simulations.
pub(crate) fn run(
    settings: &Settings,
    (command, started): (&str, &str),
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<RunResult, Error> {
    let mut variants = Vec::new();
    for (at, input) in INPUTS.iter().enumerate() {
        let of_all = |part: usize, of: usize| done(at * of + part, INPUTS.len() * of);
        variants.push(variant(input, &run_one(input, settings, &of_all)?));
    }
    assert_eq!(variants.len(), INPUTS.len(), "each input is a variant");
    let head = Head {
        name: WORD,
        title: "The ATTC paper's numbers with one input changed",
        question: "Which input moves which number, and what does it do to all others?",
        length: None,
    };
    Ok(measures::sealed(
        head,
        settings,
        variants,
        (command, started),
    ))
}

fn variant(input: &Input, found: &Reproduction) -> VariantResult {
    let run = |index: u32| Repetition {
        index,
        seed: Some(found.settings.seed.wrapping_add(index.into())),
        metrics: measures::metrics(found, index as usize),
        ..Repetition::default()
    };
    VariantResult {
        name: input.name.to_owned(),
        title: input.title.to_owned(),
        remedies: Vec::new(),
        repetitions: (0..found.settings.seeds.max(1)).map(run).collect(),
    }
}

/// The numbers, each with the conditions that are the same in every variant.
pub(crate) fn given() -> BTreeMap<String, Words> {
    numbers::measures()
}

/// What the simulator does with each changed input, as a key.
pub(crate) fn fingerprint() -> Result<String, Error> {
    let mut all = Vec::new();
    for input in &INPUTS {
        let found = run_one(input, &measures::glance(), &|_, _| {})?;
        all.push(found.results);
    }
    Ok(digest(&all)[..16].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny() -> Settings {
        Settings {
            seeds: 2,
            ..measures::glance()
        }
    }

    #[test]
    fn every_input_changes_its_machine_or_its_settings_and_the_first_nothing() {
        let jobs = |input: &Input| changed(input).concat().into_iter().map(|job| job.machine);
        let settings = |input: &Input| {
            let mut settings = Settings::full();
            (input.settings)(&mut settings);
            settings
        };
        let [as_is, others @ ..] = &INPUTS;
        assert!(jobs(as_is).eq(jobs::stated().into_iter().map(|job| job.machine)));
        assert_eq!(settings(as_is), Settings::full());
        for input in others {
            let same = jobs(input).eq(jobs(as_is)) && settings(input) == settings(as_is);
            assert!(!same, "{}", input.name);
        }
    }

    #[test]
    fn each_variant_has_every_number_of_every_seed() {
        let result = run(&tiny(), ("x", ""), &|_, _| {}).expect("it runs");
        assert_eq!(result.validate().map_err(|error| error.to_string()), Ok(()));
        assert_eq!(result.variants.len(), INPUTS.len());
        let names = |variant: usize, run: usize| {
            let metrics = &result.variants[variant].repetitions[run].metrics;
            metrics
                .iter()
                .map(|one| one.name.clone())
                .collect::<Vec<_>>()
        };
        for at in 0..INPUTS.len() {
            assert_eq!(result.variants[at].repetitions.len(), 2);
            assert_eq!(names(at, 1), names(0, 0));
        }
        assert!(names(0, 0).contains(&"fig8-over-kvmtlb".to_owned()));
    }
}
