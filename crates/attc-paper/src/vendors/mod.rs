// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What ATTC adds to what vendors ship, on a machine of today: AMD's INVLPGB and Intel's RAR, from
//! 8 to 192 cores, with messages that cost.
//!
//! The machine is the preset `zen5`. With more cores each brings 4 MiB of one L3, which no part
//! has. Every thread has the same number of accesses, whatever the number of cores, so that what a
//! machine warms up is the same part of its run. Left out: what the vendors publish, which is a
//! check of its own (`published`).

mod published;

use std::collections::{BTreeMap, BTreeSet};

use steady_coherence::compare::{Job, Outcome, digest};
use steady_coherence::scheme::{ATTC, IDEAL, INVLPGB, IPI, KVMTLB, RAR};
use steady_coherence::workload::{CALIBRATED_RATE, Workload, find};
use steady_coherence::{Error, MachineConfig, Registry, Spec};
use steady_measures::{Repetition, RunResult, VariantResult};

use crate::measures::{self, Head};
use crate::number::{Words, conditions};
use crate::runs::{Settings, in_parallel, job, run_jobs};
use crate::workloads::speed;

/// The word of the scenario.
pub(crate) const WORD: &str = "attc-vendors";
/// Accesses of each thread; the first quarter warms up.
const PER_THREAD: u64 = 640_000;
/// Those of [`fingerprint`], where pages move this many times more often.
const GLANCE: u64 = 400;
const OFTEN: u32 = 20_000;
/// The programs that change their own tables, and the one that all machines run.
const BOTH: &[&str] = &["dedup", "wordcount"];
const ONE: &[&str] = &["dedup"];

/// A machine, what runs on it, and under which schemes.
struct Place {
    /// The part of a label behind `@`.
    name: &'static str,
    keys: &'static [(&'static str, &'static str)],
    vms: u16,
    workloads: &'static [&'static str],
    schemes: &'static [&'static Spec],
}

const PLACES: [Place; 7] = [
    Place {
        name: "8",
        keys: &[],
        vms: 1,
        workloads: BOTH,
        schemes: &[&KVMTLB, &INVLPGB, &RAR, &ATTC, &IDEAL],
    },
    // A host that broadcasts for guests that cannot. KVM does neither: it is `kvmtlb`.
    Place {
        name: "8-ipis",
        keys: &[("rivals.invlpgb_in_guests", "false")],
        vms: 1,
        workloads: BOTH,
        schemes: &[&INVLPGB],
    },
    // A guess at a flush that is alone; the default is an upper bound.
    Place {
        name: "8-quick",
        keys: &[("rivals.invlpgb_sync_cycles", "900")],
        vms: 1,
        workloads: BOTH,
        schemes: &[&INVLPGB],
    },
    Place {
        name: "native",
        keys: &[("mode", "native")],
        vms: 1,
        workloads: BOTH,
        schemes: &[&IPI, &INVLPGB, &RAR, &ATTC, &IDEAL],
    },
    Place {
        name: "64",
        keys: &[
            ("core.count", "64"),
            ("l3.kib", "262144"),
            ("dram.channels", MANY),
        ],
        vms: 4,
        workloads: ONE,
        schemes: LARGE,
    },
    Place {
        name: "128",
        keys: &[
            ("core.count", "128"),
            ("l3.kib", "524288"),
            ("dram.channels", MANY),
        ],
        vms: 8,
        workloads: ONE,
        schemes: LARGE,
    },
    Place {
        name: "192",
        // Sets are a power of two: 12 ways instead of 16.
        keys: &[
            ("core.count", "192"),
            ("l3.kib", "786432"),
            ("l3.ways", "12"),
            ("dram.channels", MANY),
        ],
        vms: 12,
        workloads: ONE,
        schemes: LARGE,
    },
];

/// Channels to memory of machines of many cores. AMD's have 12; the model takes powers of two.
const MANY: &str = "16";
/// What machines of many cores compare: simulations there are long.
const LARGE: &[&Spec] = &[&KVMTLB, &INVLPGB, &ATTC];

impl Place {
    fn machine(&self) -> MachineConfig {
        machine(self.keys)
    }

    fn jobs(&self) -> Vec<Job> {
        let machine = self.machine();
        let jobs = self.schemes.iter();
        jobs.map(|scheme| job(scheme, self.name, &machine))
            .collect()
    }

    /// One workload under one seed.
    fn run(
        &self,
        workload: Workload,
        (seed, rate): (u64, u32),
        per_thread: u64,
    ) -> Result<Vec<Outcome>, Error> {
        let accesses = per_thread * u64::from(workload.threads) * u64::from(self.vms);
        let settings = Settings {
            seed,
            rate,
            accesses,
            warmup: accesses / 4,
            ..Settings::full()
        };
        run_jobs(&settings, workload, self.vms, &self.jobs())
    }
}

/// The preset with these keys.
fn machine(keys: &[(&str, &str)]) -> MachineConfig {
    let keys: Vec<_> = keys
        .iter()
        .map(|&(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let found = Registry::shipped().load_with("preset = \"zen5\"", WORD, &keys);
    found.expect("a shipped preset with keys that it has")
}

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
    let items: Vec<_> = PLACES
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
    let jobs = PLACES.iter().flat_map(Place::jobs).chain(published::jobs());
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
    let seen = PLACES.iter().filter(|place| place.vms == 1);
    for place in seen {
        for name in place.workloads {
            all.push(place.run(find(name)?, (1, CALIBRATED_RATE * OFTEN), GLANCE)?);
        }
    }
    Ok(digest(&(machines(), PER_THREAD, all))[..16].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runs_of_the_key_have_updates_under_every_scheme() {
        for place in PLACES.iter().filter(|place| place.vms == 1) {
            let found = place.run(
                find("dedup").expect("a workload"),
                (1, CALIBRATED_RATE * OFTEN),
                GLANCE,
            );
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
    fn places_differ_in_what_their_names_say_and_in_nothing_else() {
        let found = machines();
        let cores = |label: &str| found[label].core.count;
        assert_eq!(
            ["attc@8", "attc@64", "attc@128", "attc@192", "attc@native"].map(cores),
            [8, 64, 128, 192, 8]
        );
        for machine in found.values() {
            assert_eq!(machine.network.hop_cycles, 3, "messages cost");
        }
        let words = given();
        assert_eq!(words["attc@native"]["mode"], "native");
        assert_eq!(words["invlpgb@8-ipis"], words["attc@8"]);
    }
}
