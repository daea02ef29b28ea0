// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What ATTC adds to what vendors ship, on a machine of today: AMD's INVLPGB and Intel's RAR, from
//! 8 to 192 cores, with messages that cost.
//!
//! Every thread has the same number of accesses, whatever the number of cores, so that what a
//! machine warms up is the same part of its run. Left out: the machines (`places`), and what the
//! vendors publish, which is a check of its own (`published`).

mod places;
mod published;

use std::collections::{BTreeMap, BTreeSet};

use steady_coherence::compare::{Outcome, digest};
use steady_coherence::workload::{CALIBRATED_RATE, find};
use steady_coherence::{Error, MachineConfig};
use steady_measures::{Repetition, RunResult, VariantResult};

use crate::measures::{self, Head};
use crate::number::{Words, conditions};
use crate::runs::{Settings, in_parallel};
use crate::workloads::speed;

use places::{BOTH, Place, places};

/// The word of the scenario.
pub(crate) const WORD: &str = "attc-vendors";
/// Accesses of each thread; the first quarter warms up.
const PER_THREAD: u64 = 640_000;
/// Those of [`fingerprint`], where pages move this many times more often.
const GLANCE: u64 = 400;
const OFTEN: u32 = 20_000;

/// What one seed of a workload gave at one place.
struct Ran {
    seed: u64,
    workload: &'static str,
    outcomes: Vec<Outcome>,
}

/// Runs everything, and seals it. `done` hears how many runs of how many have finished.
///
/// # Errors
/// As the simulations.
pub(crate) fn run(
    settings: &Settings,
    says: (&str, &str),
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<RunResult, Error> {
    // The longest first, so that no core waits for it at the end.
    let seeds = u64::from(settings.seeds.max(1));
    let places = places();
    let items: Vec<_> = places
        .iter()
        .rev()
        .flat_map(|place| place.workloads.iter().map(move |name| (place, *name)))
        .flat_map(|(place, name)| (0..seeds).map(move |at| (place, name, settings.seed + at)))
        .collect();
    let one = |(place, workload, seed): (&Place, &'static str, u64)| {
        let outcomes = place.run(find(workload)?, (seed, CALIBRATED_RATE), PER_THREAD)?;
        Ok(Ran {
            seed,
            workload,
            outcomes,
        })
    };
    let all = in_parallel(settings.threads, &items, &one, done);
    let mut all = all.into_iter().collect::<Result<Vec<Ran>, Error>>()?;
    for seed in (0..seeds).map(|at| settings.seed + at) {
        all.push(Ran {
            seed,
            workload: published::WORKLOAD,
            outcomes: published::run(seed, published::LOOPS)?,
        });
    }
    let head = Head {
        name: WORD,
        title: "ATTC beside what vendors ship",
        question: "What does ATTC add to INVLPGB and RAR, from 8 to 192 cores?",
    };
    Ok(measures::sealed(
        head,
        settings,
        variants(settings, &all),
        says,
    ))
}

/// A variant for each label, with the speed of every workload that it ran.
fn variants(settings: &Settings, all: &[Ran]) -> Vec<VariantResult> {
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
    machines().into_iter().map(variant).collect()
}

/// The machine of each label.
fn machines() -> BTreeMap<String, MachineConfig> {
    let jobs = places().into_iter().flat_map(|place| place.jobs());
    let jobs = jobs.chain(published::jobs());
    jobs.map(|job| (job.label, job.machine)).collect()
}

/// The variants that workloads are measured in, each with the conditions of its machine.
pub(crate) fn given() -> BTreeMap<String, Words> {
    let all = machines().into_iter();
    all.map(|(label, machine)| (label, conditions(&machine)))
        .collect()
}

/// The workloads: those of Table 3, and the loop of flushes.
pub(crate) fn workloads() -> BTreeSet<String> {
    let names = BOTH.iter().chain([&published::WORKLOAD]);
    names.map(|name| (*name).to_owned()).collect()
}

/// What the simulator does with all of this, as a key: the machines, and short runs on those of
/// few cores in which pages move often.
pub(crate) fn fingerprint() -> Result<String, Error> {
    let mut all = vec![published::run(1, published::GLANCE)?];
    for place in places().iter().filter(|place| place.vms == 1) {
        for name in place.workloads {
            all.push(place.run(find(name)?, (1, CALIBRATED_RATE * OFTEN), GLANCE)?);
        }
    }
    Ok(digest(&(machines(), PER_THREAD, all))[..16].to_owned())
}

#[cfg(test)]
mod tests {
    use steady_coherence::workload::Workload;

    use super::*;

    fn dedup() -> Workload {
        find("dedup").expect("it is in Table 3")
    }

    #[test]
    fn the_runs_of_the_key_have_updates_under_every_scheme() {
        for place in places().iter().filter(|place| place.vms == 1) {
            let found = place.run(dedup(), (1, CALIBRATED_RATE * OFTEN), GLANCE);
            for outcome in found.expect("it runs") {
                let counts = outcome.counts;
                let updates = counts.program_updates + counts.guest_migrations;
                assert!(updates > 0, "{}", outcome.label);
            }
        }
        let key = fingerprint().expect("it runs");
        assert_eq!(fingerprint().expect("it runs"), key);
    }

    #[test]
    fn the_keys_of_rivals_reach_them() {
        let update = |name: &str| {
            let places = places();
            let place = places.iter().find(|place| place.name == name);
            let rate = (1, CALIBRATED_RATE * OFTEN);
            let found = place.expect("a place").run(dedup(), rate, GLANCE);
            let all = found.expect("it runs");
            let own = all.iter().find(|one| one.scheme == "invlpgb");
            let counts = own.expect("a job").counts;
            (counts.ipi_shootdowns, counts.initiator_cycles)
        };
        let ((none, usual), (ipis, _), (quick_none, quick)) =
            (update("8"), update("8-ipis"), update("8-quick"));
        assert_eq!((none, quick_none), (0, 0), "nothing is interrupted");
        assert!(ipis > 0, "guests send IPIs");
        assert!(quick < usual, "the wait is shorter");
    }
}
