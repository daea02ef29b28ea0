// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two results set against each other, variant by variant.
//!
//! Each variant that both have becomes a result of its own with two columns, so that it is judged
//! as the variants of one race are: runs with the same seed are pairs, and without a common seed
//! no ratio is given. What else differs between the two is listed, since a ratio may come from it.
//! Times of two clocks are not compared: then there are no pairs at all.

use std::collections::{BTreeMap, BTreeSet};

use crate::result::{RunResult, VariantResult};

/// Keys of `config` that say how near a race came to what was asked of it, not what it measured.
const OF_A_RACE: &str = "until";
/// How keys of conditions begin; behind it is the variant's name.
const CONDITIONS: &str = "conditions.";

/// Two results beside each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Against {
    /// What differs beside the measures, a sentence each.
    pub differs: Vec<String>,
    /// For each variant of both a result with the first's runs as its baseline.
    pub pairs: Vec<RunResult>,
    /// Variants of one of the two alone.
    pub alone: Vec<String>,
}

impl Against {
    /// Sets `second` against `first`; the columns are called by these names.
    #[must_use]
    pub fn new(names: [&str; 2], first: &RunResult, second: &RunResult) -> Self {
        let both = [first, second];
        let same_clock = first.engine.clock == second.engine.clock;
        let find = |of: &RunResult, name: &str| {
            let mut variants = of.variants.iter();
            variants.find(|variant| variant.name == name).cloned()
        };
        let mut pairs = Vec::new();
        let mut alone = Vec::new();
        for variant in &first.variants {
            match find(second, &variant.name) {
                Some(other) if same_clock => {
                    pairs.push(pair(names, both, [variant.clone(), other]));
                }
                Some(_) => {}
                None => alone.push(format!("{} of {}", variant.name, names[0])),
            }
        }
        for variant in &second.variants {
            if find(first, &variant.name).is_none() {
                alone.push(format!("{} of {}", variant.name, names[1]));
            }
        }
        Self {
            differs: differs(names, both),
            pairs,
            alone,
        }
    }
}

/// A result whose two variants are the runs of one variant in both.
fn pair(names: [&str; 2], both: [&RunResult; 2], runs: [VariantResult; 2]) -> RunResult {
    let mut result = both[0].clone();
    result.scenario.name.clone_from(&runs[0].name);
    result.scenario.title.clone_from(&runs[0].title);
    result.scenario.question.clear();
    result.partial = None;
    result.config.retain(|key, _| !key.starts_with(CONDITIONS));
    let indices = indices(&runs);
    result.variants = runs
        .into_iter()
        .enumerate()
        .map(|(at, mut variant)| {
            for (run, index) in variant.repetitions.iter_mut().zip(&indices[at]) {
                run.index = *index;
                run.artifacts.clear();
            }
            variant.repetitions.sort_by_key(|run| run.index);
            variant.name = names[at].to_owned();
            variant
        })
        .collect();
    result.seal();
    result
}

/// The index of each run: the same for the same seed, and another for each where seeds are unknown.
fn indices(runs: &[VariantResult; 2]) -> [Vec<u32>; 2] {
    let seeds = |variant: &VariantResult| -> Option<Vec<u64>> {
        variant.repetitions.iter().map(|run| run.seed).collect()
    };
    if let (Some(first), Some(second)) = (seeds(&runs[0]), seeds(&runs[1])) {
        let all: BTreeSet<u64> = first.iter().chain(&second).copied().collect();
        let index: BTreeMap<u64, u32> = all.into_iter().zip(0..).collect();
        return [first, second].map(|seeds| seeds.iter().map(|seed| index[seed]).collect());
    }
    let [first, second] = [0, 1].map(|at| u32::try_from(runs[at].repetitions.len()).unwrap_or(0));
    [(0..first).collect(), (first..first + second).collect()]
}

/// A digest by its first letters, nothing in a word, anything else as it is.
fn short(value: &str) -> String {
    if value.is_empty() {
        return "absent".to_owned();
    }
    let is_digest = value.len() == 64 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
    value
        .chars()
        .take(if is_digest { 12 } else { usize::MAX })
        .collect()
}

/// What differs beside the measures.
fn differs(names: [&str; 2], both: [&RunResult; 2]) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, of: [String; 2]| {
        if of[0] != of[1] {
            let [first, second] = of.map(|value| short(&value));
            found.push(format!(
                "{what}: {} {first}, {} {second}",
                names[0], names[1]
            ));
        }
    };
    compare("scenario", both.map(|one| one.scenario.name.clone()));
    compare(
        "what the scenario says",
        both.map(|one| one.scenario.digest.clone()),
    );
    compare(
        "engine",
        both.map(|one| format!("{} {}", one.engine.name, one.engine.version)),
    );
    compare("clock", both.map(|one| one.engine.clock.to_string()));
    compare(
        "runs that are missing",
        both.map(|one| one.partial.clone().unwrap_or_default()),
    );
    let keys: BTreeSet<&String> = both.iter().flat_map(|one| one.config.keys()).collect();
    for key in keys.into_iter().filter(|key| *key != OF_A_RACE) {
        compare(
            key,
            both.map(|one| one.config.get(key).cloned().unwrap_or_default()),
        );
    }
    compare("program", both.map(|one| one.run.tool.clone()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::comparison::Comparison;
    use crate::metric::{Better, Metric, Unit};
    use crate::result::{EngineInfo, Repetition, ScenarioInfo};

    /// A result of the variants `a` and `own` with runs of these seeds and times.
    fn result(own: &str, runs: &[(u64, i64)], clock: Clock) -> RunResult {
        let engine = EngineInfo {
            name: "mock".to_owned(),
            version: "1".to_owned(),
            clock,
            description: String::new(),
        };
        let mut result = RunResult::new(ScenarioInfo::default(), engine, 1);
        let repetitions: Vec<Repetition> = runs
            .iter()
            .zip(0..)
            .map(|(&(seed, time), index)| Repetition {
                index,
                seed: Some(seed),
                metrics: vec![Metric::new("time", Unit::Ns, Better::Lower, time)],
                ..Repetition::default()
            })
            .collect();
        result.variants = ["a", own]
            .map(|name| VariantResult {
                name: name.to_owned(),
                repetitions: repetitions.clone(),
                ..VariantResult::default()
            })
            .into();
        result.seal();
        result
    }

    #[test]
    fn runs_of_the_same_seed_are_pairs_wherever_they_stand() {
        let first = result("b", &[(1, 100), (2, 1000), (3, 50)], Clock::Simulated);
        let second = result("c", &[(2, 2000), (3, 100), (4, 7)], Clock::Simulated);
        let found = Against::new(["A", "B"], &first, &second);
        assert_eq!(found.alone, ["b of A", "c of B"]);
        let [pair] = &found.pairs[..] else {
            panic!("{found:?}")
        };
        assert_eq!(pair.validate(), Ok(()));
        let comparison = Comparison::new(pair, None).unwrap();
        let cell = comparison.rows[0].cells[1].unwrap();
        assert_eq!(
            cell.ratio.unwrap().ratio_ppm,
            2_000_000,
            "by the seeds 2 and 3 alone"
        );
    }

    #[test]
    fn results_without_a_common_seed_have_no_ratio() {
        let first = result("b", &[(1, 100)], Clock::Simulated);
        let second = result("b", &[(2, 200)], Clock::Simulated);
        let found = Against::new(["A", "B"], &first, &second);
        let comparison = Comparison::new(&found.pairs[0], None).unwrap();
        assert_eq!(comparison.rows[0].cells[1].unwrap().ratio, None);
    }

    #[test]
    fn times_of_two_clocks_are_not_compared_and_what_differs_is_said() {
        let first = result("b", &[(1, 100)], Clock::Simulated);
        let mut second = result("b", &[(1, 100)], Clock::Wall);
        second.config.insert("vmm".to_owned(), "qemu".to_owned());
        second.scenario.digest = "0123456789abcdef".repeat(4);
        let found = Against::new(["A", "B"], &first, &second);
        assert!(found.pairs.is_empty());
        assert_eq!(
            found.differs,
            [
                "what the scenario says: A absent, B 0123456789ab",
                "clock: A simulated, B wall",
                "vmm: A absent, B qemu"
            ]
        );
        assert!(Against::new(["A", "B"], &first, &first).differs.is_empty());
    }
}
