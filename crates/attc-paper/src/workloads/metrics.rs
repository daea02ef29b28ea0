// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The results as measures of workloads: a variant for each scheme on each machine.
//!
//! A workload's speed is its instructions per cycle, so that the house's ratio of two variants is
//! the gain of one over the other. Counts stand with the variants that they are of: shootdowns with
//! software's, hits with ATTC's.

use steady_coherence::counts::Counts;
use steady_measures::Unit::{Count, InstructionsPerMcycle, Ppm};
use steady_measures::{Better, Metric, Repetition, RunResult, VariantResult};

use crate::measures::{self, Head, PPM_PER_BP};
use crate::reproduction::Reproduction;
use crate::runs::WorkloadResults;
use crate::shares::{Shootdown, guest_share, guest_time, hit_ratio, rate, updates};

use super::numbers::victims;
use super::{WORD, all};

pub(crate) const SPEED: &str = "ipc";
const RATE: &str = "shootdown.rate";
const GUEST_SHARE: &str = "shootdown.guest_share";
const GUEST_TIME: &str = "shootdown.guest_time";
const VICTIMS: &str = "shootdown.victims";
const ONE_PAGE: &str = "shootdown.one_page";
const HITS: &str = "atlb.hits";

/// Every measure of workloads.
pub(super) const NAMES: [&str; 7] = [
    SPEED,
    RATE,
    GUEST_SHARE,
    GUEST_TIME,
    VICTIMS,
    ONE_PAGE,
    HITS,
];

/// The results as a result of the engine `coherence`, sealed.
pub(crate) fn result(found: &Reproduction, command: &str, started: &str) -> RunResult {
    let head = Head {
        name: WORD,
        title: "The ATTC paper's figures by workload",
        question: "How far do schemes and machines of the paper come with each of its programs?",
        length: None,
    };
    let mut variants = measures::numbers(found);
    let labels = all().into_iter().map(|job| job.label);
    variants.extend(labels.map(|label| variant(found, &label)));
    measures::sealed(head, &found.settings, variants, (command, started))
}

fn variant(found: &Reproduction, label: &str) -> VariantResult {
    let (scheme, machine) = label.split_once('@').unwrap_or((label, "the paper's"));
    let runs = found.results.iter().zip(0_u32..);
    VariantResult {
        name: label.to_owned(),
        title: format!("{scheme}, machine: {machine}"),
        remedies: Vec::new(),
        repetitions: runs
            .map(|(all, index)| Repetition {
                index,
                seed: Some(found.settings.seed.wrapping_add(index.into())),
                metrics: all.iter().flat_map(|w| metrics(w, label)).collect(),
                ..Repetition::default()
            })
            .collect(),
    }
}

/// Instructions per cycle, so that the ratio of two is the gain of one over the other.
pub(crate) fn speed(counts: &Counts) -> Metric {
    let millions = u128::from(counts.instructions) * 1_000_000;
    let cycles = u128::from(counts.core_cycles.max(1));
    let speed = i64::try_from((millions + cycles / 2) / cycles).unwrap_or(i64::MAX);
    assert!(speed > 0, "a run takes time and does something");
    Metric::new(SPEED, InstructionsPerMcycle, Better::Higher, speed)
}

/// The measures of one workload's run.
fn metrics(w: &WorkloadResults, label: &str) -> Vec<Metric> {
    let counts = &w.get(label).counts;
    let mut found = vec![speed(counts)];
    let neutral = |name, unit, value| Metric::new(name, unit, Better::Neutral, value);
    let share = |name, bp: i64| neutral(name, Ppm, bp * PPM_PER_BP);
    if ["kvmtlb", "kvmtlb@dram"].contains(&label) {
        found.push(neutral(RATE, Count, rate(w, label)));
        found.push(share(GUEST_TIME, guest_time(w, label)));
        // None of none is not a share.
        if updates(w, label) > 0 {
            found.push(share(GUEST_SHARE, guest_share(w, label)));
        }
    }
    if label == "kvmtlb" && counts.ipi_shootdowns > 0 {
        found.push(share(VICTIMS, victims(w, label)));
        found.push(share(ONE_PAGE, Shootdown::of(w, label).one_page));
    }
    if ["attc", "attc@cold"].contains(&label) {
        let hits = share(HITS, hit_ratio(w, label));
        found.push(Metric {
            better: Better::Higher,
            ..hits
        });
    }
    found
        .into_iter()
        .map(|metric| metric.of_workload(w.workload))
        .collect()
}

#[cfg(test)]
mod tests {
    use steady_coherence::workload::CALIBRATED_RATE;

    use crate::measures::glance;
    use crate::runs::{Settings, mean};
    use crate::{headline, workloads};

    use super::*;

    /// Short runs with some shootdowns.
    fn settings() -> Settings {
        Settings {
            rate: CALIBRATED_RATE * 50,
            seeds: 2,
            ..glance()
        }
    }

    fn value(result: &RunResult, label: &str, seed: usize, of: (&str, Option<&str>)) -> i64 {
        let variant = result.variants.iter().find(|one| one.name == label);
        let metrics = &variant.expect("a variant").repetitions[seed].metrics;
        let metric = metrics
            .iter()
            .find(|metric| (metric.name.as_str(), metric.workload.as_deref()) == of);
        metric.unwrap_or_else(|| panic!("{label} {of:?}")).value
    }

    /// Numbers of the headline, and the variants that their gains are of.
    const STATED: [(&str, &str, &str); 3] = [
        ("fig1-virtualized", "ideal", "kvmtlb"),
        ("fig8-over-kvmtlb", "attc", "kvmtlb"),
        ("fig8-over-hatric", "attc", "hatric"),
    ];

    /// How far the means of gains by the measures are from stated numbers of the same seeds, at
    /// most; basis points.
    fn gap(found: &Reproduction, stated: &Reproduction) -> u64 {
        let result = result(found, "x", "");
        let mut gaps = Vec::new();
        for (name, label, base) in STATED {
            let number = stated.numbers.iter().find(|one| one.measure == name);
            let by_seed = &number.expect("a headline number").by_seed;
            for (seed, &expected) in by_seed.iter().enumerate() {
                let gain = |w: &WorkloadResults| {
                    let speed = |of| value(&result, of, seed, (SPEED, Some(w.workload)));
                    let (one, other) = (speed(label), speed(base));
                    (one * 10_000 + other / 2) / other - 10_000
                };
                assert_ne!(expected, 0, "{name}: the runs show something");
                gaps.push(mean(&found.results[seed], gain).abs_diff(expected));
            }
        }
        gaps.into_iter().max().expect("there are numbers")
    }

    #[test]
    fn the_mean_of_the_workloads_gains_is_the_stated_number_of_the_same_seed() {
        let mut found = workloads::run(&settings(), &|_, _| {}).expect("it runs");
        let stated = headline(&settings(), &|_, _| {}).expect("it runs");
        // Speeds are rounded to a millionth, gains to a basis point.
        assert!(gap(&found, &stated) <= 1);
        assert_eq!(
            result(&found, "x", "")
                .validate()
                .map_err(|error| error.to_string()),
            Ok(())
        );
        // A planted error of one workload in one seed shows.
        let outcomes = &mut found.results[1][5].outcomes;
        let kvmtlb = outcomes.iter_mut().find(|one| one.label == "kvmtlb");
        let counts = &mut kvmtlb.expect("it ran").counts;
        counts.core_cycles += counts.core_cycles / 50;
        assert!(gap(&found, &stated) > 1);
    }

    #[test]
    fn an_order_has_the_half_that_chance_gives_as_its_base_and_a_count_has_no_base() {
        let found = workloads::run(&settings(), &|_, _| {}).expect("it runs");
        let result = result(&found, "x", "");
        let number = |name: &str| {
            let mut all = found.numbers.iter();
            all.find(|one| one.measure == name)
                .expect("a number")
                .by_seed[0]
        };
        assert_eq!(value(&result, "base", 0, ("fig9-attc", None)), 500_000);
        let order = value(&result, "measured", 0, ("fig9-attc", None));
        assert_eq!(order, number("fig9-attc") * 100);
        let over = value(&result, "measured", 0, ("fig11-over-99-steady", None));
        assert_eq!(over, number("fig11-over-99-steady"));
        assert!((0..=11).contains(&over), "{over}");
        let base = &result.variants[0].repetitions[0].metrics;
        assert!(!base.iter().any(|metric| metric.name.starts_with("fig11")));
    }

    #[test]
    fn every_measure_is_of_each_workload_and_has_a_name_that_is_given() {
        let found = workloads::run(&settings(), &|_, _| {}).expect("it runs");
        let result = result(&found, "x", "");
        let labels = &result.variants[2..];
        let mut seen: Vec<&str> = Vec::new();
        for metric in labels.iter().flat_map(|v| &v.repetitions[0].metrics) {
            assert!(NAMES.contains(&metric.name.as_str()), "{}", metric.name);
            seen.push(&metric.name);
            let workload = metric.workload.clone().expect("a workload");
            assert!(workloads::workloads().contains(&workload), "{workload}");
        }
        for name in NAMES {
            assert!(seen.contains(&name), "no variant has {name}");
        }
    }
}
