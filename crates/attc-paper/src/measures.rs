// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction as a result, so that its numbers are judged and recorded as those of races are.
//!
//! A gain of 35 % is a ratio of 1.35: the variant `measured` has 1,350,000 ppm where `base` has
//! 1,000,000, and each seed is a repetition. A share of a whole, such as a miss ratio, has no base.

use std::collections::BTreeMap;

use steady_coherence::Error;
use steady_coherence::compare::digest;
use steady_coherence::config::MachineConfig;
use steady_measures::{
    Better, Clock, EngineInfo, Metric, Repetition, RunResult, ScenarioInfo, Unit, VariantResult,
};

use crate::headline::headline;
use crate::numbers::{Kind, Number};
use crate::reproduction::Reproduction;
use crate::runs::Settings;

/// Parts per million in a basis point, and in one.
const PPM_PER_BP: i64 = 100;
const ONE_PPM: i64 = 1_000_000;

/// The reproduction as a result of the engine `coherence`, sealed.
#[must_use]
pub fn result(found: &Reproduction, command: &str, started: &str) -> RunResult {
    let settings = &found.settings;
    let scenario = ScenarioInfo {
        name: "attc".to_owned(),
        title: "The ATTC paper's numbers on its machine".to_owned(),
        question: "What does hardware TLB coherence gain over software and over its rivals?"
            .to_owned(),
        digest: digest(&(settings, MachineConfig::default())),
    };
    let engine = EngineInfo {
        name: "coherence".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clock: Clock::Simulated,
        description: "Trace-driven simulation of TLBs, page walks and coherence".to_owned(),
    };
    let mut result = RunResult::new(scenario, engine, settings.seed);
    result.config = BTreeMap::from([
        ("accesses".to_owned(), settings.accesses.to_string()),
        ("shootdowns".to_owned(), settings.shootdowns.to_string()),
    ]);
    let variant = |name: &str, title: &str, base: bool| VariantResult {
        name: name.to_owned(),
        title: title.to_owned(),
        remedies: Vec::new(),
        repetitions: (0..settings.seeds.max(1))
            .map(|index| Repetition {
                index,
                seed: Some(settings.seed.wrapping_add(index.into())),
                metrics: found
                    .numbers
                    .iter()
                    .filter_map(|number| metric(number, index as usize, base))
                    .collect(),
                ..Repetition::default()
            })
            .collect(),
    };
    result.variants = vec![
        variant("base", "What each number is compared with", true),
        variant("measured", "The simulated number", false),
    ];
    result.run.command = command.to_owned();
    result.run.started = started.to_owned();
    result.run.tool = format!("steady {}", env!("CARGO_PKG_VERSION"));
    result.seal();
    result
}

/// A number of one seed, of the base or as simulated.
fn metric(number: &Number, seed: usize, base: bool) -> Option<Metric> {
    let ppm = number.by_seed[seed].saturating_mul(PPM_PER_BP);
    let (better, value) = match (number.kind, base) {
        (Kind::Share, true) => return None,
        (Kind::Share, false) => (Better::Neutral, ppm),
        (Kind::Gain | Kind::Times, true) => (Better::Higher, ONE_PPM),
        (Kind::Gain, false) => (Better::Higher, ONE_PPM + ppm),
        (Kind::Times, false) => (Better::Higher, ppm),
    };
    Some(Metric::new(number.measure, Unit::Ppm, better, value))
}

/// What the simulator does, as a key: the digest of a short run of the headline's schemes on every
/// workload. It changes with behaviour and not with words.
///
/// # Errors
/// As the simulations.
pub fn fingerprint() -> Result<String, Error> {
    let settings = Settings {
        accesses: 6_000,
        warmup: 1_000,
        shootdowns: 0,
        seeds: 1,
        ..Settings::full()
    };
    let found = headline(&settings, &|_, _| {})?;
    Ok(digest(&found.results)[..16].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_a_ratio_and_each_seed_a_repetition() {
        let settings = Settings {
            accesses: 5_000,
            warmup: 1_000,
            shootdowns: 0,
            seeds: 2,
            ..Settings::full()
        };
        let found = headline(&settings, &|_, _| {}).expect("it runs");
        let result = result(&found, "x", "");
        let value = |variant: usize, seed: usize, name: &str| {
            let metrics = &result.variants[variant].repetitions[seed].metrics;
            metrics.iter().find(|m| m.name == name).map(|m| m.value)
        };
        let number = &found.numbers[1];
        assert_eq!(number.measure, "fig8-over-kvmtlb");
        let bp = number.by_seed[1];
        assert_eq!(value(0, 1, "fig8-over-kvmtlb"), Some(1_000_000));
        assert_eq!(value(1, 1, "fig8-over-kvmtlb"), Some(1_000_000 + 100 * bp));
        assert_eq!(value(0, 0, "sec4-cycles-removed"), None);
        assert_eq!(result.validate().map_err(|error| error.to_string()), Ok(()));
    }

    #[test]
    fn the_fingerprint_repeats() {
        assert_eq!(
            fingerprint().expect("it runs"),
            fingerprint().expect("it runs")
        );
    }
}
