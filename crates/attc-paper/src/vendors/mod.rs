// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What ATTC adds to what vendors ship, on a machine of today: AMD's INVLPGB and Intel's RAR, from
//! 8 to 192 cores, with messages that cost.
//!
//! In two lengths. Short runs are of all machines: every thread has the same number of accesses,
//! whatever the number of cores, so that what a machine warms up is the same part of its run. Warm
//! ones have 8 cores alone, and count once the working set has been through the caches. ATTC's
//! table begins with the program's pages in it; of each length some runs begin without.
//!
//! Left out: the machines (`places`), and what the vendors publish, which is a check of its own
//! (`published`).

mod places;
mod published;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use steady_coherence::compare::{Outcome, digest};
use steady_coherence::workload::{CALIBRATED_RATE, find};
use steady_coherence::{Error, MachineConfig};
use steady_measures::{Repetition, RunResult, VariantResult};

use crate::measures::{self, Head};
use crate::number::{Words, conditions};
use crate::runs::{Settings, in_parallel};
use crate::workloads::speed;

use places::{Length, Place};

/// Short runs: caches are cold for longer than their warm-up.
const SHORT: Length = Length {
    accesses: 640_000,
    warmup: 160_000,
};
/// Runs that count with warm caches.
const WARM: Length = Length {
    accesses: 25_600_000,
    warmup: 20_480_000,
};
/// All forms.
pub(crate) static FORMS: [Form; 4] = [
    Form {
        word: "attc-vendors",
        title: "ATTC beside what vendors ship",
        question: "What does ATTC add to INVLPGB and RAR, from 8 to 192 cores?",
        length: SHORT,
        places: places::all,
        flushes: true,
    },
    Form {
        word: "attc-vendors-warm",
        title: "ATTC beside what vendors ship, with warm caches",
        question: "What does ATTC add to INVLPGB and RAR where caches are warm?",
        length: WARM,
        places: places::warm,
        flushes: false,
    },
    Form {
        word: "attc-vendors-empty",
        title: "ATTC beside INVLPGB, with nothing in its table",
        question: "What does ATTC add to INVLPGB where its table begins empty?",
        length: SHORT,
        places: places::empty,
        flushes: false,
    },
    Form {
        word: "attc-vendors-warm-empty",
        title: "ATTC beside INVLPGB, with warm caches and nothing in its table at the beginning",
        question: "What does ATTC add to INVLPGB where its table begins empty and caches are warm?",
        length: WARM,
        places: places::warm_empty,
        flushes: false,
    },
];
/// Accesses of each thread in the runs of a key, where pages move this many times more often.
const GLANCE: Length = Length {
    accesses: 400,
    warmup: 100,
};
const OFTEN: u32 = 20_000;

/// What is simulated under one word.
pub(crate) struct Form {
    /// The word of the scenario.
    pub word: &'static str,
    title: &'static str,
    question: &'static str,
    length: Length,
    places: fn() -> Vec<Place>,
    /// Whether the loop of flushes is a part of it.
    flushes: bool,
}

/// What one seed of a workload gave at one place.
struct Ran {
    seed: u64,
    workload: &'static str,
    outcomes: Vec<Outcome>,
}

impl Form {
    /// Runs everything, and seals it. `done` hears how many runs of how many have finished.
    ///
    /// # Errors
    /// As the simulations.
    pub fn run(
        &self,
        settings: &Settings,
        says: (&str, &str),
        done: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<RunResult, Error> {
        // The longest first, so that no core waits for it at the end.
        let seeds = u64::from(settings.seeds.max(1));
        let places = (self.places)();
        let items: Vec<_> = places
            .iter()
            .rev()
            .flat_map(|place| place.workloads.iter().map(move |name| (place, *name)))
            .flat_map(|(place, name)| (0..seeds).map(move |at| (place, name, settings.seed + at)))
            .collect();
        let one = |(place, workload, seed): (&Place, &'static str, u64)| {
            let outcomes = place.run(find(workload)?, (seed, CALIBRATED_RATE), self.length)?;
            Ok(Ran {
                seed,
                workload,
                outcomes,
            })
        };
        let all = in_parallel(settings.threads, &items, &one, done);
        let mut all = all.into_iter().collect::<Result<Vec<Ran>, Error>>()?;
        for seed in (0..seeds).map(|at| settings.seed + at) {
            if self.flushes {
                all.push(Ran {
                    seed,
                    workload: published::WORKLOAD,
                    outcomes: published::run(seed, published::LOOPS)?,
                });
            }
        }
        let head = Head {
            name: self.word,
            title: self.title,
            question: self.question,
            length: Some([
                ("accesses_of_each_thread", self.length.accesses),
                ("warmup_of_each_thread", self.length.warmup),
            ]),
        };
        let variants = self.variants(settings, &all);
        Ok(measures::sealed(head, settings, variants, says))
    }

    /// A variant for each label, with the speed of every workload that it ran.
    fn variants(&self, settings: &Settings, all: &[Ran]) -> Vec<VariantResult> {
        let of = |label: &str, seed: u64| {
            let ran = all.iter().filter(|ran| ran.seed == seed);
            ran.flat_map(|ran| {
                let outcomes = ran.outcomes.iter().filter(|one| one.label == label);
                outcomes.map(|one| speed(&one.counts).of_workload(ran.workload))
            })
            .collect()
        };
        let variant = |(label, machine): (String, MachineConfig)| VariantResult {
            title: format!("{label}, {} cores", machine.core.count),
            remedies: Vec::new(),
            repetitions: (0..settings.seeds.max(1))
                .map(|index| {
                    let seed = settings.seed + u64::from(index);
                    Repetition {
                        index,
                        seed: Some(seed),
                        metrics: of(&label, seed),
                        ..Repetition::default()
                    }
                })
                .collect(),
            name: label,
        };
        self.machines().into_iter().map(variant).collect()
    }

    /// The machine of each label.
    fn machines(&self) -> BTreeMap<String, MachineConfig> {
        let jobs = (self.places)().into_iter().flat_map(|place| place.jobs());
        let flushes = self.flushes.then(published::jobs).unwrap_or_default();
        let jobs = jobs.chain(flushes);
        jobs.map(|job| (job.label, job.machine)).collect()
    }

    /// The variants that workloads are measured in, each with the conditions of its machine.
    pub fn given(&self) -> BTreeMap<String, Words> {
        let all = self.machines().into_iter();
        all.map(|(label, machine)| (label, conditions(&machine)))
            .collect()
    }

    /// The workloads: those of Table 3, and the loop of flushes.
    pub fn workloads(&self) -> BTreeSet<String> {
        let places = (self.places)();
        let names = places.iter().flat_map(|place| place.workloads);
        let names = names.chain(self.flushes.then_some(&published::WORKLOAD));
        names.map(|name| (*name).to_owned()).collect()
    }

    /// What the simulator does with all of this, as a key: the machines, and short runs on those of
    /// few cores in which pages move often.
    pub fn fingerprint(&self) -> Result<String, Error> {
        let mut all = Vec::new();
        if self.flushes {
            all.push(published::run(1, published::GLANCE)?);
        }
        for place in (self.places)().iter().filter(|place| place.vms == 1) {
            for name in place.workloads {
                all.push(place.run(find(name)?, (1, CALIBRATED_RATE * OFTEN), GLANCE)?);
            }
        }
        Ok(digest(&(self.machines(), self.length.accesses, all))[..16].to_owned())
    }
}
