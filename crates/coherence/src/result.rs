// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A comparison in the schema that every engine shares, so that the report can show it.

use steady_measures::{
    Better, Clock, EngineInfo, Metric, Repetition, RunResult, ScenarioInfo, Unit, VariantResult,
    Warning,
};

use crate::compare::{Comparison, Outcome};

/// The result of a comparison; `name` and `question` say what was compared. The first outcome is
/// the baseline.
#[must_use]
pub fn run_result(comparison: &Comparison, name: &str, question: &str) -> RunResult {
    let scenario = ScenarioInfo {
        name: name.to_owned(),
        title: format!("TLB coherence: {name}"),
        question: question.to_owned(),
        digest: comparison.config_digest.clone(),
    };
    let engine = EngineInfo {
        name: "coherence".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        clock: Clock::Simulated,
        description: "Trace-driven, cycle-level simulator of TLB coherence".to_owned(),
    };
    let mut result = RunResult::new(scenario, engine, comparison.options.seed);
    let config = [
        ("coherence.config_sha256", comparison.config_digest.clone()),
        (
            "coherence.warmup_accesses",
            comparison.options.warmup.to_string(),
        ),
        ("coherence.vms", comparison.options.vms.to_string()),
    ];
    result
        .config
        .extend(config.map(|(key, value)| (key.to_owned(), value)));
    result.variants = comparison.outcomes.iter().map(variant).collect();
    result.seal();
    debug_assert_eq!(
        result.validate(),
        Ok(()),
        "a comparison gives a sound result"
    );
    result
}

fn variant(outcome: &Outcome) -> VariantResult {
    let mut warnings = Vec::new();
    if !outcome.is_sound() {
        let broken = outcome.broken.clone();
        let first = outcome.first_violations.first().map(ToString::to_string);
        warnings.push(Warning {
            code: "incoherent".to_owned(),
            text: broken
                .or(first)
                .unwrap_or_else(|| "The oracle found violations.".to_owned()),
        });
    }
    VariantResult {
        name: outcome.label.clone(),
        title: outcome.label.clone(),
        remedies: vec![outcome.scheme.to_owned()],
        repetitions: vec![Repetition {
            metrics: metrics(outcome),
            warnings,
            ..Repetition::default()
        }],
    }
}

/// `part / whole` in millionths, halves up; 0 of nothing.
fn millionths(part: u64, whole: u64) -> u64 {
    let whole = u128::from(whole).max(1);
    let rounded = (u128::from(part) * 1_000_000 + whole / 2) / whole;
    u64::try_from(rounded).unwrap_or(u64::MAX)
}

fn metrics(outcome: &Outcome) -> Vec<Metric> {
    let c = &outcome.counts;
    let metric = |name: &str, unit, better, value: u64| {
        Metric::new(name, unit, better, i64::try_from(value).unwrap_or(i64::MAX))
    };
    let count = |name: &str, better, value| metric(name, Unit::Count, better, value);
    let coherence = c.initiator_cycles + c.victim_cycles;
    let mut all = vec![
        metric(
            "ipc",
            Unit::InstructionsPerMcycle,
            Better::Higher,
            millionths(c.instructions, c.core_cycles),
        ),
        metric("core_cycles", Unit::Cycles, Better::Lower, c.core_cycles),
        metric("coherence.cycles", Unit::Cycles, Better::Lower, coherence),
        metric(
            "coherence.share",
            Unit::Ppm,
            Better::Lower,
            millionths(coherence, c.core_cycles),
        ),
        count("shootdown.ipi", Better::Lower, c.ipi_shootdowns),
        count("shootdown.victims", Better::Lower, c.victims),
        count(
            "updates.guest_migrations",
            Better::Neutral,
            c.guest_migrations,
        ),
        count(
            "updates.host_migrations",
            Better::Neutral,
            c.host_migrations,
        ),
        count("updates.program", Better::Neutral, c.program_updates),
        count("tlb.l2_misses", Better::Lower, c.l2_tlb_misses),
        count("tlb.walks", Better::Lower, c.walks),
        metric(
            "tlb.miss_cycles",
            Unit::Cycles,
            Better::Lower,
            c.miss_cycles,
        ),
        count(
            "tlb.false_invalidations",
            Better::Lower,
            c.false_invalidations,
        ),
        metric(
            "instructions",
            Unit::Instructions,
            Better::Neutral,
            c.instructions,
        ),
        count("accesses", Better::Neutral, c.accesses),
    ];
    if c.atlb_lookups > 0 {
        all.push(metric(
            "atlb.hits",
            Unit::Ppm,
            Better::Higher,
            millionths(c.atlb_hits, c.atlb_lookups),
        ));
    }
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
