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
use crate::reproduction::Reproduction;
use crate::runs::Settings;

/// Parts per million in a basis point, and in one.
const PPM_PER_BP: i64 = 100;
const ONE_PPM: i64 = 1_000_000;

/// What a row's number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// How much faster than the base.
    Gain,
    /// How many times the base.
    Times,
    /// A part of a whole.
    Share,
}

/// The measure of a row by its source and words; the words as far as they go.
const NAMES: [(&str, &str, &str, Kind); 23] = [
    (
        "Figure 1",
        "shootdown overhead, virtualized",
        "fig1-virtualized",
        Kind::Gain,
    ),
    (
        "Figure 1",
        "shootdown overhead, native",
        "fig1-native",
        Kind::Gain,
    ),
    (
        "Figure 8",
        "ATTC over kvmtlb",
        "fig8-over-kvmtlb",
        Kind::Gain,
    ),
    (
        "Section 1",
        "ATTC over kvmtlb",
        "sec1-over-kvmtlb",
        Kind::Gain,
    ),
    (
        "Figure 8",
        "POM-TLB over kvmtlb",
        "fig8-pom-tlb",
        Kind::Gain,
    ),
    (
        "Figure 8",
        "ATTC over HATRIC",
        "fig8-over-hatric",
        Kind::Gain,
    ),
    (
        "Section 1",
        "ATTC over HATRIC",
        "sec1-over-hatric",
        Kind::Gain,
    ),
    (
        "Figure 14",
        "ATTC over HATRIC, guest 0 %",
        "fig14-guest-0",
        Kind::Gain,
    ),
    (
        "Section 4",
        "ATTC below ideal (same ATLB)",
        "sec4-below-ideal-same-atlb",
        Kind::Gain,
    ),
    (
        "Section 4",
        "ATTC below ideal (no ATLB)",
        "sec4-below-ideal-no-atlb",
        Kind::Gain,
    ),
    (
        "Section 4",
        "coherence cycles removed",
        "sec4-cycles-removed",
        Kind::Share,
    ),
    (
        "Section 4",
        "freqmine, ATTC over kvmtlb",
        "sec4-freqmine",
        Kind::Gain,
    ),
    (
        "Section 4",
        "wordcount, ATTC over HATRIC",
        "sec4-wordcount",
        Kind::Gain,
    ),
    (
        "Figure 2",
        "dedup, time in guest shootdowns",
        "fig2-dedup",
        Kind::Share,
    ),
    (
        "Figure 11",
        "ATLB miss ratio, from empty",
        "fig11-misses-empty",
        Kind::Share,
    ),
    (
        "Figure 11",
        "ATLB miss ratio, steady",
        "fig11-misses-steady",
        Kind::Share,
    ),
    (
        "Figure 12",
        "ATTC over kvmtlb, DRAM only",
        "fig12-dram-only",
        Kind::Gain,
    ),
    (
        "Figure 13",
        "ATTC over IPIs, native",
        "fig13-over-ipis",
        Kind::Gain,
    ),
    (
        "Figure 13",
        "ATTC and HATRIC apart, native",
        "fig13-hatric-apart",
        Kind::Share,
    ),
    (
        "Section 4",
        "false invalidations per TLB slot",
        "sec4-false-invalidations",
        Kind::Share,
    ),
    (
        "Section 4",
        "wordcount, guest share",
        "sec4-wordcount-guest-share",
        Kind::Share,
    ),
    (
        "Section 2.5",
        "initiator cost, kvmtlb over ATTC",
        "sec25-cost",
        Kind::Times,
    ),
    (
        "Footnote 3",
        "inverse table of 32 MiB",
        "footnote3-storage",
        Kind::Share,
    ),
];

/// The reproduction as a result of the engine `coherence`, sealed.
///
/// # Panics
/// If a row has no measure: a row that is added needs one here.
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
    let kinds: Vec<(&str, Kind)> = found
        .rows
        .iter()
        .map(|row| named(row.source, &row.what))
        .collect();
    let repetitions = |base: bool| {
        (0..)
            .zip(&found.by_seed)
            .map(move |(index, numbers)| (index, numbers, base))
    };
    let variant = |name: &str, title: &str, base: bool| VariantResult {
        name: name.to_owned(),
        title: title.to_owned(),
        remedies: Vec::new(),
        repetitions: repetitions(base)
            .map(|(index, numbers, base)| Repetition {
                index,
                seed: Some(settings.seed.wrapping_add(index.into())),
                metrics: kinds
                    .iter()
                    .zip(numbers)
                    .filter_map(|(&(name, kind), &bp)| metric(name, kind, bp, base))
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

/// The names of all measures that [`result`] can have.
#[must_use]
pub fn measures() -> Vec<String> {
    let names = NAMES.iter().map(|(_, _, name, _)| (*name).to_owned());
    names.collect()
}

fn named(source: &str, what: &str) -> (&'static str, Kind) {
    let found = NAMES
        .iter()
        .find(|(of, words, _, _)| *of == source && what.starts_with(words));
    let (_, _, name, kind) = found.expect("each row has a measure");
    (name, *kind)
}

/// A row's number of one seed, of the base or as simulated.
fn metric(name: &str, kind: Kind, bp: i64, base: bool) -> Option<Metric> {
    let ppm = bp.saturating_mul(PPM_PER_BP);
    let (better, value) = match (kind, base) {
        (Kind::Share, true) => return None,
        (Kind::Share, false) => (Better::Neutral, ppm),
        (Kind::Gain | Kind::Times, true) => (Better::Higher, ONE_PPM),
        (Kind::Gain, false) => (Better::Higher, ONE_PPM + ppm),
        (Kind::Times, false) => (Better::Higher, ppm),
    };
    Some(Metric::new(name, Unit::Ppm, better, value))
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
        let at = found
            .rows
            .iter()
            .position(|row| row.what == "ATTC over kvmtlb");
        let bp = found.by_seed[1][at.expect("a row")];
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
