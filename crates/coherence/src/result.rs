// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Comparisons in the schema that every engine shares, so that the report can show them.

use steady_measures::{
    Better, Clock, EngineInfo, Metric, Repetition, RunResult, ScenarioInfo, Unit, VariantResult,
    Warning,
};

use crate::compare::{Comparison, Outcome};
use crate::counts::Counts;

/// The code of the warning that a scheme was not coherent.
pub const INCOHERENT: &str = "incoherent";

/// The result of comparisons of the same schemes, one for each seed; `name` and `question` say what
/// was compared. The first outcome is the baseline. Repetitions of one seed are pairs, so that the
/// report's intervals and verdicts are those of `steady_measures`.
///
/// # Panics
/// If nothing was compared.
#[must_use]
pub fn run_result(comparisons: &[Comparison], name: &str, question: &str) -> RunResult {
    let first = comparisons.first().expect("there is a seed");
    let scenario = ScenarioInfo {
        name: name.to_owned(),
        title: format!("TLB coherence: {name}"),
        question: question.to_owned(),
        digest: first.config_digest.clone(),
    };
    let engine = EngineInfo {
        name: "coherence".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clock: Clock::Simulated,
        description: "Trace-driven, cycle-level simulator of TLB coherence".to_owned(),
    };
    let mut result = RunResult::new(scenario, engine, first.options.seed);
    let config = [
        ("coherence.config_sha256", first.config_digest.clone()),
        (
            "coherence.warmup_accesses",
            first.options.warmup.to_string(),
        ),
        ("coherence.vms", first.options.vms.to_string()),
    ];
    result
        .config
        .extend(config.map(|(key, value)| (key.to_owned(), value)));
    result.variants = (0..first.outcomes.len())
        .map(|at| variant(comparisons, at))
        .collect();
    result.seal();
    debug_assert_eq!(
        result.validate(),
        Ok(()),
        "a comparison gives a sound result"
    );
    result
}

/// The scheme of one place in every comparison.
fn variant(comparisons: &[Comparison], at: usize) -> VariantResult {
    let outcome = &comparisons[0].outcomes[at];
    VariantResult {
        name: outcome.label.clone(),
        title: outcome.label.clone(),
        remedies: vec![outcome.scheme.to_owned()],
        repetitions: (0..)
            .zip(comparisons)
            .map(|(index, one)| Repetition {
                index,
                seed: Some(one.options.seed),
                metrics: metrics(&one.outcomes[at]),
                warnings: warnings(&one.outcomes[at]),
                ..Repetition::default()
            })
            .collect(),
    }
}

fn warnings(outcome: &Outcome) -> Vec<Warning> {
    if outcome.is_sound() {
        return Vec::new();
    }
    let first = outcome.first_violations.first().map(ToString::to_string);
    let text = outcome.broken.clone().or(first);
    vec![Warning {
        code: INCOHERENT.to_owned(),
        text: text.unwrap_or_else(|| "The oracle found violations.".to_owned()),
    }]
}

/// Every counter of an outcome by its name: the machine's as `Counts` has them, then `own.` (the
/// scheme's), `cache.`, `dram.` and `nvm.` (warm-up included) and `violations` where the oracle was
/// on.
fn counters(outcome: &Outcome) -> Vec<(String, u64)> {
    let mut all = fields("", &outcome.counts);
    all.extend(fields("own.", &outcome.own));
    all.extend(fields("cache.", &outcome.caches));
    for (tier, counts) in ["dram.", "nvm."].into_iter().zip(&outcome.memory) {
        all.extend(fields(tier, counts));
    }
    all.extend(
        outcome
            .violations
            .map(|found| ("violations".to_owned(), found)),
    );
    all
}

fn fields(prefix: &str, counters: &impl serde::Serialize) -> Vec<(String, u64)> {
    let value = serde_json::to_value(counters).expect("counters have a JSON form");
    let object = value.as_object().expect("counters have names");
    let named = object
        .iter()
        .filter_map(|(name, value)| Some((name, value.as_u64()?)));
    named
        .map(|(name, value)| (format!("{prefix}{name}"), value))
        .collect()
}

/// Counters that have a measure of another name.
const MEASURED: [&str; 13] = [
    "core_cycles",
    "ipi_shootdowns",
    "victims",
    "guest_migrations",
    "host_migrations",
    "program_updates",
    "l2_tlb_misses",
    "walks",
    "miss_cycles",
    "false_invalidations",
    "instructions",
    "accesses",
    "checked",
];

/// `part / whole` in millionths, halves up; 0 of nothing.
fn millionths(part: u64, whole: u64) -> u64 {
    let whole = u128::from(whole).max(1);
    let rounded = (u128::from(part) * 1_000_000 + whole / 2) / whole;
    u64::try_from(rounded).unwrap_or(u64::MAX)
}

/// A measure of its own: name, unit, which way is better, and how it follows from the counters.
type Measure = (&'static str, Unit, Better, fn(&Counts) -> u64);

const fn coherence_cycles(counts: &Counts) -> u64 {
    counts.initiator_cycles + counts.victim_cycles
}

#[rustfmt::skip]
const MEASURES: [Measure; 15] = {
    use Better::{Higher, Lower, Neutral};
    use Unit::{Count, Cycles, Instructions, InstructionsPerMcycle, Ppm};
    [
        ("ipc", InstructionsPerMcycle, Higher, |c| millionths(c.instructions, c.core_cycles)),
        ("core_cycles", Cycles, Lower, |c| c.core_cycles),
        ("coherence.cycles", Cycles, Lower, coherence_cycles),
        ("coherence.share", Ppm, Lower, |c| millionths(coherence_cycles(c), c.core_cycles)),
        ("shootdown.ipi", Count, Lower, |c| c.ipi_shootdowns),
        ("shootdown.victims", Count, Lower, |c| c.victims),
        ("updates.guest_migrations", Count, Neutral, |c| c.guest_migrations),
        ("updates.host_migrations", Count, Neutral, |c| c.host_migrations),
        ("updates.program", Count, Neutral, |c| c.program_updates),
        ("tlb.l2_misses", Count, Lower, |c| c.l2_tlb_misses),
        ("tlb.walks", Count, Lower, |c| c.walks),
        ("tlb.miss_cycles", Cycles, Lower, |c| c.miss_cycles),
        ("tlb.false_invalidations", Count, Lower, |c| c.false_invalidations),
        ("instructions", Instructions, Neutral, |c| c.instructions),
        ("accesses", Count, Neutral, |c| c.accesses),
    ]
};

fn metrics(outcome: &Outcome) -> Vec<Metric> {
    let c = &outcome.counts;
    let metric = |name: &str, unit, better, value: u64| {
        Metric::new(name, unit, better, i64::try_from(value).unwrap_or(i64::MAX))
    };
    let measures = MEASURES.iter();
    let mut all: Vec<Metric> = measures
        .map(|&(name, unit, better, of)| metric(name, unit, better, of(c)))
        .collect();
    if c.atlb_lookups > 0 {
        let hits = millionths(c.atlb_hits, c.atlb_lookups);
        all.push(metric("atlb.hits", Unit::Ppm, Better::Higher, hits));
    }
    let others = counters(outcome).into_iter();
    all.extend(
        others
            .filter(|(name, _)| !MEASURED.contains(&name.as_str()))
            .map(|(name, value)| {
                let unit = if name.ends_with("_cycles") {
                    Unit::Cycles
                } else {
                    Unit::Count
                };
                metric(&format!("counter.{name}"), unit, Better::Neutral, value)
            }),
    );
    all
}

#[cfg(test)]
mod tests {
    use super::millionths;

    #[test]
    fn small_shares_keep_their_digits() {
        assert_eq!(millionths(28, 835_000), 34);
        assert_eq!(millionths(3, 2), 1_500_000);
        assert_eq!(millionths(0, 0), 0);
        assert_eq!(millionths(u64::MAX, u64::MAX), 1_000_000);
    }
}
