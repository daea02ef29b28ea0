// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The paper's figures by workload, and its sensitivity figures, over all seeds.
//!
//! Schemes and machines that are compared run over one stream. Those of Figures 8, 10 and 14 have
//! the length of the stated numbers, so that each workload has its shootdowns in all seeds
//! together; those of one memory, native and from empty have the base length, as the stated
//! numbers do. Left out: what the paper has, which is in `evidence/papers/attc.toml`.

mod metrics;
mod numbers;
mod order;

use std::collections::{BTreeMap, BTreeSet};

use steady_coherence::Error;
use steady_coherence::compare::{Job, digest};
use steady_coherence::workload::{CALIBRATED_RATE, TABLE_3, Workload};

use crate::number::{self, Words, conditions};
use crate::reproduction::Reproduction;
use crate::runs::{Settings, Stream, Streams, WorkloadResults, enough, run_seeds, violations};
use crate::{jobs, measures};

pub(crate) use metrics::{SPEED, result, speed};
pub(crate) use numbers::NUMBERS;

/// The word of the scenario.
pub(crate) const WORD: &str = "attc-workloads";
/// Swept pages in the short runs of [`glance`], in times of the calibrated rate: some pages
/// move even there.
const OFTEN: u32 = 20_000;
/// The workloads of those runs: one with migrations alone, and both with updates by the program.
const SEEN: [&str; 3] = ["dedup", "freqmine", "wordcount"];

/// Simulations of the length that gives each workload its shootdowns.
fn long() -> Vec<Job> {
    [
        jobs::figure_8(),
        jobs::latencies(),
        jobs::guest("guest-0", 0),
        jobs::guest("guest-50", 50),
        jobs::large_invtbl(),
    ]
    .concat()
}

/// Simulations of the base length.
fn short() -> Vec<Job> {
    let mut all = jobs::short();
    all.retain(|job| !job.label.ends_with("@guest-0"));
    all.extend(jobs::unitd());
    all
}

/// All of them.
pub(crate) fn all() -> Vec<Job> {
    [long(), short()].concat()
}

fn streams(settings: &Settings, workload: Workload) -> Vec<Stream> {
    let stream = |settings, jobs| Stream {
        settings,
        workload,
        jobs,
    };
    vec![
        stream(settings.of(&workload), long()),
        stream(settings.clone(), short()),
    ]
}

/// Runs every workload under every seed. `done` hears how many runs of how many have finished.
///
/// # Errors
/// As the simulations.
pub(crate) fn run(
    settings: &Settings,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<Reproduction, Error> {
    let results = run_seeds(settings, &streams, done)?;
    enough(settings, &results, "kvmtlb")?;
    Ok(Reproduction {
        settings: settings.clone(),
        numbers: number::of_table(NUMBERS, &results, None),
        figures: Vec::new(),
        violations: violations(&results),
        results,
    })
}

/// The numbers that no workload alone has, each with its conditions.
pub(crate) fn given() -> BTreeMap<String, Words> {
    number::measures(NUMBERS, &all())
}

/// The variants that workloads are measured in, each with the conditions of its machine.
pub(crate) fn variants() -> BTreeMap<String, Words> {
    let jobs = all().into_iter();
    jobs.map(|job| (job.label, conditions(&job.machine)))
        .collect()
}

/// The measures of workloads.
pub(crate) fn measured() -> BTreeSet<String> {
    metrics::NAMES.map(str::to_owned).into()
}

/// The workloads of Table 3.
pub(crate) fn workloads() -> BTreeSet<String> {
    TABLE_3.map(|workload| workload.name.to_owned()).into()
}

/// What the simulator does with all of these machines and schemes, as a key.
pub(crate) fn fingerprint() -> Result<String, Error> {
    Ok(digest(&glance(&streams)?)[..16].to_owned())
}

/// Short runs of some workloads, in which pages move far more often than in the measured ones.
pub(crate) fn glance(streams: Streams<'_>) -> Result<Vec<Vec<WorkloadResults>>, Error> {
    let settings = Settings {
        rate: CALIBRATED_RATE * OFTEN,
        ..measures::glance()
    };
    let of_seen = |settings: &Settings, workload: Workload| {
        let seen = SEEN.contains(&workload.name);
        if seen {
            streams(settings, workload)
        } else {
            Vec::new()
        }
    };
    run_seeds(&settings, &of_seen, &|_, _| {})
}

#[cfg(test)]
mod tests {
    use steady_coherence::config::Mode;
    use steady_coherence::workload::find;

    use crate::closed::by_agent;
    use crate::runs::run_jobs;

    use super::*;

    #[test]
    fn the_short_runs_of_the_key_have_updates_by_both_and_walks_of_all_machines() {
        let settings = Settings {
            rate: CALIBRATED_RATE * OFTEN,
            ..measures::glance()
        };
        let outcomes: Vec<_> = SEEN
            .iter()
            .map(|name| find(name).expect("it is in Table 3"))
            .flat_map(|workload| streams(&settings, workload))
            .flat_map(|stream| {
                let found = run_jobs(&stream.settings, stream.workload, 1, &stream.jobs);
                found.expect("it runs")
            })
            .collect();
        for job in all() {
            let of = outcomes.iter().filter(|one| one.label == job.label);
            let (mut guest, mut host, mut walks) = (0, 0, 0);
            for one in of {
                let (by_guest, by_host) = by_agent(&one.counts);
                (guest, host) = (guest + by_guest, host + by_host);
                walks += one.counts.walks;
            }
            let by_host = job.machine.hybrid.enabled && job.machine.mode == Mode::Virtualized;
            assert!(guest + host > 0 && (host > 0) == by_host, "{}", job.label);
            assert!(walks > 0, "{}", job.label);
        }
    }

    #[test]
    fn each_label_stands_once_and_its_conditions_are_those_of_its_machine() {
        let found = variants();
        assert_eq!(found.len(), all().len(), "labels are unique");
        let value = |label: &str, key: &str| found[label][key].as_str();
        assert_eq!(value("attc@guest-50", "migrations"), "50 % by the guest");
        assert_eq!(value("hatric@guest-0", "migrations"), "0 % by the guest");
        assert_eq!(value("kvmtlb@dram", "memory"), "DRAM");
        assert_eq!(value("unitd@native", "mode"), "native");
        assert_eq!(value("attc@cold", "mode"), "virtualized");
        let numbers = given();
        assert_eq!(
            numbers["sec7-over-native"]["mode"],
            "virtualized beside native"
        );
        assert_eq!(
            numbers["fig14-50-over-25"]["migrations"],
            "50 % by the guest beside 25 % by the guest"
        );
        assert_eq!(numbers["fig10-5000"]["migrations"], "25 % by the guest");
    }
}
