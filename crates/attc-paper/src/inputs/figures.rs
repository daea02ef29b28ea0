// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The numbers of figures, orders and counts with those inputs changed that explanations name.
//!
//! All runs have the base length, so that the rarest shootdowns do not make them long: `as-is` is
//! not what the pages of these numbers have. Compared are runs of one length with each other. Left
//! out: the stated numbers, which are the other table's, and recorded guests.

use std::collections::BTreeMap;

use steady_coherence::Error;
use steady_coherence::compare::digest;
use steady_coherence::workload::Workload;
use steady_measures::RunResult;

use crate::measures::{self, Head};
use crate::number::{self, Kind, Of, Table, Words};
use crate::reproduction::Reproduction;
use crate::runs::{Settings, Stream, run_seeds, violations};
use crate::shares::{guest_share, guest_time, hit_ratio, named};
use crate::workloads;

use super::{INPUTS, Input, variant};

/// The word of the scenario.
pub(crate) const WORD: &str = "attc-inputs-figures";
/// What nothing is changed in, then the inputs that explanations name.
const NAMED: [&str; 3] = ["as-is", "frames", "longer"];

/// Items that are figures by workload, under their own names: each of the workload that stands
/// there.
const BY_WORKLOAD: &Table = &[
    ("fig1-workloads", Of::One("dedup", "ideal", "kvmtlb")),
    (
        "fig1-workloads-native",
        Of::One("dedup", "ideal@native", "ipi@native"),
    ),
    (
        "fig2-wordcount",
        Of::Other(
            Kind::Share,
            "kvmtlb",
            |all, label| guest_time(named(all, "wordcount"), label),
            None,
        ),
    ),
    ("fig8-workloads", Of::One("dedup", "attc", "kvmtlb")),
    (
        "fig9-types",
        Of::Other(
            Kind::Share,
            "kvmtlb",
            |all, label| guest_share(named(all, "dedup"), label),
            None,
        ),
    ),
    (
        "fig11-blackscholes",
        Of::Other(
            Kind::Share,
            "attc",
            |all, label| hit_ratio(named(all, "blackscholes"), label),
            None,
        ),
    ),
    (
        "fig11-blackscholes-empty",
        Of::Other(
            Kind::Share,
            "attc@cold",
            |all, label| hit_ratio(named(all, "blackscholes"), label),
            None,
        ),
    ),
    (
        "fig11-workloads",
        Of::Other(
            Kind::Share,
            "attc",
            |all, label| hit_ratio(named(all, "dedup"), label),
            None,
        ),
    ),
    (
        "fig12-workloads",
        Of::One("dedup", "attc@dram", "kvmtlb@dram"),
    ),
    (
        "fig13-workloads",
        Of::One("dedup", "attc@native", "ipi@native"),
    ),
    (
        "fig14-workloads",
        Of::One("dedup", "attc@guest-50", "hatric@guest-50"),
    ),
];

/// The inputs of these runs.
fn named_inputs() -> impl Iterator<Item = &'static Input> {
    INPUTS.iter().filter(|input| NAMED.contains(&input.name))
}

/// A workload on all machines with the changed input, of the base length.
fn stream(input: &Input, settings: &Settings, workload: Workload) -> Stream {
    let mut settings = settings.clone();
    (input.settings)(&mut settings);
    assert!(settings.warmup < settings.accesses, "something is counted");
    let mut jobs = workloads::all();
    for job in &mut jobs {
        (input.machine)(&mut job.machine);
    }
    Stream {
        settings,
        workload,
        jobs,
    }
}

fn run_one(
    input: &Input,
    settings: &Settings,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<Reproduction, Error> {
    let streams = |settings: &Settings, workload| vec![stream(input, settings, workload)];
    let results = run_seeds(settings, &streams, done)?;
    let mut numbers = number::of_table(workloads::NUMBERS, &results, None);
    numbers.extend(number::of_table(BY_WORKLOAD, &results, None));
    Ok(Reproduction {
        numbers,
        figures: Vec::new(),
        violations: violations(&results),
        results,
        settings: settings.clone(),
    })
}

/// Every such number with each input changed, sealed. `done` hears how many runs of how many have
/// finished.
///
/// # Errors
/// As the simulations.
pub(crate) fn run(
    settings: &Settings,
    says: (&str, &str),
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<RunResult, Error> {
    let settings = &Settings {
        shootdowns: 0,
        ..settings.clone()
    };
    let mut variants = Vec::new();
    for (at, input) in named_inputs().enumerate() {
        let of_all = |part: usize, of: usize| done(at * of + part, NAMED.len() * of);
        variants.push(variant(input, &run_one(input, settings, &of_all)?));
    }
    assert_eq!(variants.len(), NAMED.len(), "each input is a variant");
    let head = Head {
        name: WORD,
        title: "Figures, orders and counts of the ATTC paper with one input changed",
        question: "What do the inputs that explanations name do to the numbers of figures?",
        length: None,
    };
    Ok(measures::sealed(head, settings, variants, says))
}

/// The numbers, each with the conditions that are the same in every variant.
pub(crate) fn given() -> BTreeMap<String, Words> {
    let jobs = workloads::all();
    let mut all = number::measures(workloads::NUMBERS, &jobs);
    all.extend(number::measures(BY_WORKLOAD, &jobs));
    all
}

/// What the simulator does with each changed input, as a key: the digest of short runs in which
/// pages move often.
pub(crate) fn fingerprint() -> Result<String, Error> {
    let mut all = Vec::new();
    for input in named_inputs() {
        all.push(workloads::glance(&|settings, workload| {
            vec![stream(input, settings, workload)]
        })?);
    }
    Ok(digest(&all)[..16].to_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::numbers;

    use super::*;

    #[test]
    fn each_variant_has_every_number_that_the_stated_table_lacks() {
        let settings = Settings {
            seeds: 2,
            ..measures::glance()
        };
        let result = run(&settings, ("x", ""), &|_, _| {}).expect("it runs");
        assert_eq!(result.validate().map_err(|error| error.to_string()), Ok(()));
        let wanted: BTreeSet<String> = given().into_keys().collect();
        for variant in &result.variants {
            assert_eq!(variant.repetitions.len(), 2);
            for repetition in &variant.repetitions {
                let names = repetition.metrics.iter().map(|one| one.name.clone());
                assert_eq!(names.collect::<BTreeSet<_>>(), wanted, "{}", variant.name);
            }
        }
        let stated = numbers::measures();
        assert!(wanted.iter().all(|name| !stated.contains_key(name)));
    }
}
