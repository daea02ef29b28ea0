// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction as a result, so that its numbers are judged and recorded as those of races are.
//!
//! A gain of 35 % is a ratio of 1.35: the variant `measured` has 1,350,000 ppm where `base` has
//! 1,000,000, and each seed is a repetition. A share of a whole, such as a miss ratio, has no base.

use steady_coherence::Error;
use steady_coherence::compare::digest;
use steady_coherence::config::MachineConfig;
use steady_measures::{
    Better, Clock, EngineInfo, Metric, Repetition, RunResult, ScenarioInfo, Unit, VariantResult,
};

use crate::headline::headline;
use crate::number::{Kind, Number};
use crate::reproduction::Reproduction;
use crate::runs::Settings;

/// Parts per million in a basis point, and in one.
pub(crate) const PPM_PER_BP: i64 = 100;
const ONE_PPM: i64 = 1_000_000;

/// What a result says of itself.
pub(crate) struct Head {
    /// The word of its scenario.
    pub name: &'static str,
    /// What it is of.
    pub title: &'static str,
    /// What it asks.
    pub question: &'static str,
    /// How long its runs are, in words of its own; absent: as the settings have it.
    pub length: Option<[(&'static str, u64); 2]>,
}

/// The reproduction as a result of the engine `coherence`, sealed.
#[must_use]
pub fn result(found: &Reproduction, command: &str, started: &str) -> RunResult {
    let head = Head {
        name: "attc",
        title: "The ATTC paper's numbers on its machine",
        question: "What does hardware TLB coherence gain over software and over its rivals?",
        length: None,
    };
    sealed(head, &found.settings, numbers(found), (command, started))
}

/// Variants as a result of the engine `coherence`, sealed; of a command and when it started.
pub(crate) fn sealed(
    head: Head,
    settings: &Settings,
    variants: Vec<VariantResult>,
    (command, started): (&str, &str),
) -> RunResult {
    let scenario = ScenarioInfo {
        name: head.name.to_owned(),
        title: head.title.to_owned(),
        question: head.question.to_owned(),
        digest: digest(&(settings, MachineConfig::default())),
    };
    let engine = EngineInfo {
        name: "coherence".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clock: Clock::Simulated,
        description: "Trace-driven simulation of TLBs, page walks and coherence".to_owned(),
    };
    let mut result = RunResult::new(scenario, engine, settings.seed);
    let of_settings = [
        ("accesses", settings.accesses),
        ("shootdowns", settings.shootdowns.into()),
    ];
    let length = head.length.unwrap_or(of_settings);
    result.config = length
        .map(|(key, value)| (key.to_owned(), value.to_string()))
        .into();
    result.variants = variants;
    result.run.command = command.to_owned();
    result.run.started = started.to_owned();
    result.run.tool = format!("steady {}", env!("CARGO_PKG_VERSION"));
    result.seal();
    result
}

/// The numbers as two variants: what each is compared with, and what was simulated.
pub(crate) fn numbers(found: &Reproduction) -> Vec<VariantResult> {
    let settings = &found.settings;
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
    vec![
        variant("base", "What each number is compared with", true),
        variant("measured", "The simulated number", false),
    ]
}

/// The simulated numbers of one seed.
pub(crate) fn metrics(found: &Reproduction, seed: usize) -> Vec<Metric> {
    let numbers = found.numbers.iter();
    numbers
        .filter_map(|number| metric(number, seed, false))
        .collect()
}

/// A number of one seed, of the base or as simulated.
fn metric(number: &Number, seed: usize, base: bool) -> Option<Metric> {
    let found = number.by_seed[seed];
    let ppm = found.saturating_mul(PPM_PER_BP);
    let (better, unit, value) = match (number.kind, base) {
        (Kind::Share | Kind::Count, true) => return None,
        (Kind::Share, false) => (Better::Neutral, Unit::Ppm, ppm),
        (Kind::Count, false) => (Better::Neutral, Unit::Count, found),
        (Kind::Order, true) => (Better::Neutral, Unit::Ppm, ONE_PPM / 2),
        (Kind::Order, false) => (Better::Neutral, Unit::Ppm, ppm),
        (Kind::Gain | Kind::Times, true) => (Better::Higher, Unit::Ppm, ONE_PPM),
        (Kind::Gain, false) => (Better::Higher, Unit::Ppm, ONE_PPM + ppm),
        (Kind::Times, false) => (Better::Higher, Unit::Ppm, ppm),
    };
    Some(Metric::new(number.measure, unit, better, value))
}

/// A run of all workloads so short that a command can make it.
pub(crate) fn glance() -> Settings {
    Settings {
        accesses: 6_000,
        warmup: 1_000,
        shootdowns: 0,
        seeds: 1,
        ..Settings::full()
    }
}

/// What the simulator does, as a key: the digest of a short run of the headline's schemes on every
/// workload. It changes with behaviour and not with words.
pub(crate) fn fingerprint() -> Result<String, Error> {
    let found = headline(&glance(), &|_, _| {})?;
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
