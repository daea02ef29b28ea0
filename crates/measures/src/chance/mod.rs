// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a race of several runs allows to say: better, worse, no difference shown, too few runs.
//!
//! Variants are paired by seed: the same index of repetition has the same seed in each. Of every
//! measure that both have, the ratio of the pairs gets a 95 % interval ([`interval`]), and the
//! probability that chance alone makes them differ as much ([`signs`]). A difference is shown where
//! that probability passes the rule for many measures ([`family`]) and the interval leaves out 1.
//! The measures that answer ([`Family::Answer`]) are few and judged among themselves, so that
//! the hundreds that explain do not bury them. They get 4 of the 5 % of error that a comparison
//! with one baseline may have; what explains gets the last one, and all 5 where an answer was shown
//! or no variant has a measure that answers (the fallback rule of Wiens 2003: error that was not
//! used is passed on, and no measures use none). So equal variants beside a baseline show nothing
//! in 95 of 100. Where variants of a race are compared with several, each comparison has its own
//! error.
//!
//! All of it is integer arithmetic with seeded draws: the same result gives the same verdicts.
//! Left out: differences between engines, which are never compared.

mod family;
mod interval;
mod log;
mod signs;
mod uneven;
mod unpaired;

pub use log::geometric_mean;

use std::collections::BTreeMap;

use steady_random::Stream;

use crate::comparison::Key;
use crate::metric::{Better, Unit};
use crate::names;
use crate::result::{RunResult, VariantResult};

pub use family::threshold_ppm;
pub use uneven::{Uneven, uneven_updates, without_updates};
pub use unpaired::{least_unpaired_ppm, unpaired_ppm};

/// Parts per million in one.
const MILLION: u64 = 1_000_000;
/// Error that a comparison with one baseline may have, in parts per million: the chance to show
/// anything where nothing is.
const LEVEL_PPM: u64 = 50_000;
/// The part of it that the answers get.
const ANSWER_PPM: u64 = 40_000;

/// With fewer runs than this no outcome can be distinguished from chance: all that agree have a
/// probability of two in 2^runs, and that is above 5 %.
pub const FEWEST_RUNS: usize = 6;

/// What may be said of one measure of one variant against the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Shown to be better.
    Better,
    /// Shown to be worse.
    Worse,
    /// Shown to differ; neither direction is better.
    Differs,
    /// The runs do not distinguish it from chance.
    NoDifferenceShown,
    /// No outcome of so few runs could have shown a difference here.
    TooFewRuns,
    /// The variants met other numbers of updates ([`uneven_updates`]).
    UnevenUpdates,
}

impl Verdict {
    /// As reports word it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Differs => "differs",
            Self::NoDifferenceShown => "no difference shown",
            Self::TooFewRuns => "too few runs",
            Self::UnevenUpdates => "no verdict, as updates differ",
        }
    }

    /// Whether a difference was shown: only then may it have a colour or an arrow.
    #[must_use]
    pub fn is_shown(self) -> bool {
        matches!(self, Self::Better | Self::Worse | Self::Differs)
    }
}

/// Which measures are judged together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Mean and 99th percentile of a workload's latency, its throughput, or else its time; where it
    /// is simulated, its instructions per cycle.
    Answer,
    /// Everything else: what explains the answer.
    Explanation,
}

/// A paired ratio with its 95 % interval, in parts per million of the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairedRatio {
    /// Geometric mean over the pairs.
    pub ratio_ppm: u64,
    /// Lower end; `None` with too few pairs for an interval.
    pub low_ppm: Option<u64>,
    /// Upper end.
    pub high_ppm: Option<u64>,
}

impl PairedRatio {
    /// Whether the interval holds 1, or there is none.
    #[must_use]
    pub fn holds_one(self) -> bool {
        match (self.low_ppm, self.high_ppm) {
            (Some(low), Some(high)) => low <= MILLION && MILLION <= high,
            _ => true,
        }
    }
}

/// One measure of one variant against the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// Seeds that both have.
    pub pairs: usize,
    /// Which measures it was judged among.
    pub family: Family,
    /// The ratio; `None` where a value is below 1, so that there is none.
    pub ratio: Option<PairedRatio>,
    /// Whether the variant has more of it, as far as the runs say.
    pub higher: bool,
    /// Probability that chance alone makes them differ as much, in parts per million.
    pub probability_ppm: u64,
    /// What may be said.
    pub verdict: Verdict,
}

/// Every judgement of one result, by measure and by the variant's index.
pub type Judgements = BTreeMap<(Key, Unit), BTreeMap<usize, Judgement>>;

/// A measure's values by index of repetition, and which way is better.
type Values = BTreeMap<(Key, Unit), (Better, BTreeMap<u32, i64>)>;

/// Judges every measure of every variant against that of the variant `baseline`. Where neither's
/// seeds made any measure differ, they are one run. Where variants met other numbers of updates,
/// no measure has a verdict.
///
/// # Panics
/// If there is no variant of that index.
#[must_use]
pub fn judge(result: &RunResult, baseline: usize) -> Judgements {
    let mut values: Vec<Values> = result.variants.iter().map(values_of).collect();
    assert!(baseline < values.len(), "the baseline is a variant");
    let alike: Vec<bool> = values.iter().map(repeats).collect();
    let mut judged = Judgements::new();
    for at in 0..values.len() {
        if at == baseline {
            continue;
        }
        if alike[at] && alike[baseline] {
            values[at].values_mut().for_each(keep_one);
        }
        let variant = &values[at];
        for (id, (_, found)) in variant {
            let Some((_, base)) = values[baseline].get(id) else {
                continue;
            };
            let family = family_of(id, variant);
            let name = &result.variants[at].name;
            let stream = Stream::new(result.seed, stream_of(id, name));
            let judgement = weigh(base, found, family, stream);
            judged.entry(id.clone()).or_default().insert(at, judgement);
        }
    }
    let answers = |of: &Values| of.keys().any(|id| family_of(id, of) == Family::Answer);
    settle(&mut judged, &values, values.iter().any(answers));
    if uneven_updates(result).is_some() {
        let all = judged.values_mut().flat_map(BTreeMap::values_mut);
        all.for_each(|one| one.verdict = Verdict::UnevenUpdates);
    }
    judged
}

/// Whether the repetitions are one run: their seeds drew nothing, so that no measure differs.
fn repeats(values: &Values) -> bool {
    let constant = |found: &BTreeMap<u32, i64>| {
        let mut all = found.values();
        let first = all.next();
        found.len() > 1 && all.all(|value| Some(value) == first)
    };
    !values.is_empty() && values.values().all(|(_, found)| constant(found))
}

/// Leaves the first repetition, so that pairs are one.
fn keep_one((_, found): &mut (Better, BTreeMap<u32, i64>)) {
    if let Some((&first, &value)) = found.first_key_value() {
        debug_assert!(found.values().all(|&other| other == value), "equal runs");
        found.retain(|&index, _| index == first);
    }
}

fn values_of(variant: &VariantResult) -> Values {
    let mut values = Values::new();
    for repetition in &variant.repetitions {
        for metric in &repetition.metrics {
            let key = Key {
                vm: metric.vm.clone(),
                workload: metric.workload.clone(),
                name: metric.name.clone(),
            };
            let entry = values.entry((key, metric.unit));
            let (_, found) = entry.or_insert((metric.better, BTreeMap::new()));
            found.insert(repetition.index, metric.value);
        }
    }
    values
}

/// A workload beside a measured one (`spin@hackbench`) answers nothing, and `time` answers only
/// where the program says nothing better of itself.
fn family_of((key, _): &(Key, Unit), values: &Values) -> Family {
    let Some(workload) = key.workload.as_deref() else {
        return Family::Explanation;
    };
    let own = |name: &str| {
        let same = |(other, _): &&(Key, Unit)| {
            other.vm == key.vm && other.workload == key.workload && other.name == name
        };
        values.keys().any(|id| same(&id))
    };
    let latency = key.name.ends_with(".latency.mean") || key.name.ends_with(".latency.p99");
    let answers = !workload.contains('@')
        && (latency
            || [names::THROUGHPUT, names::IPC].contains(&key.name.as_str())
            || key.name == names::TIME && !own(names::THROUGHPUT));
    if answers {
        Family::Answer
    } else {
        Family::Explanation
    }
}

/// A stream of its own for each measure of each variant, by their names alone: the same comparison
/// has the same digits whatever stands beside it.
fn stream_of((key, unit): &(Key, Unit), variant: &str) -> u64 {
    let parts = [
        key.vm.as_deref().unwrap_or_default(),
        key.workload.as_deref().unwrap_or_default(),
        &key.name,
        unit.as_str(),
    ];
    let text = parts.join("\u{0}");
    steady_random::mix(steady_random::named(&text), steady_random::named(variant))
}

/// Everything of a judgement but its verdict, which depends on the whole family.
fn weigh(
    base: &BTreeMap<u32, i64>,
    found: &BTreeMap<u32, i64>,
    family: Family,
    mut stream: Stream,
) -> Judgement {
    let pairs: Vec<(i64, i64)> = found
        .iter()
        .filter_map(|(index, &value)| Some((value, *base.get(index)?)))
        .collect();
    let logs: Option<Vec<i64>> = pairs.iter().map(log_ratio).collect();
    // Where there is no ratio, the differences themselves are weighed.
    let differences = logs.clone().unwrap_or_else(|| {
        let minus = |&(value, base): &(i64, i64)| value.saturating_sub(base);
        pairs.iter().map(minus).collect()
    });
    let sum: i128 = differences.iter().copied().map(i128::from).sum();
    let ratio = logs.filter(|logs| !logs.is_empty()).map(|logs| {
        let ends = interval::interval(&logs, &mut stream);
        let middle = interval::mean(sum, logs.len());
        // Draws of very unequal pairs can all lie on one side of their own mean.
        PairedRatio {
            ratio_ppm: log::exp2_ppm(middle),
            low_ppm: ends.map(|(low, _)| log::exp2_ppm(low.min(middle))),
            high_ppm: ends.map(|(_, high)| log::exp2_ppm(high.max(middle))),
        }
    });
    Judgement {
        pairs: pairs.len(),
        family,
        ratio,
        higher: sum > 0,
        probability_ppm: signs::probability_ppm(&differences, &mut stream),
        verdict: Verdict::NoDifferenceShown,
    }
}

/// The logarithm of value over base; `None` where one is below 1.
fn log_ratio(&(value, base): &(i64, i64)) -> Option<i64> {
    let log = |value: i64| u64::try_from(value).ok().and_then(log::log2);
    Some(log(value)? - log(base)?)
}

/// The verdicts, family by family; whether any variant has a measure that answers.
fn settle(judged: &mut Judgements, values: &[Values], answers: bool) {
    let mut level_ppm = ANSWER_PPM;
    for family in [Family::Answer, Family::Explanation] {
        let mut all: Vec<(&(Key, Unit), usize, &mut Judgement)> = judged
            .iter_mut()
            .flat_map(|(id, of)| of.iter_mut().map(move |(&at, one)| (id, at, one)))
            .filter(|(_, _, one)| one.family == family)
            .collect();
        let probabilities: Vec<u64> = all.iter().map(|(_, _, one)| one.probability_ppm).collect();
        let threshold = family::threshold_ppm(&probabilities, level_ppm);
        for (id, at, one) in &mut all {
            let (better, found) = &values[*at][*id];
            debug_assert!(found.len() >= one.pairs, "pairs are of values");
            one.verdict = verdict(one, threshold, *better);
        }
        let any = all.iter().any(|(_, _, one)| one.verdict.is_shown());
        level_ppm = if any || !answers {
            LEVEL_PPM
        } else {
            LEVEL_PPM - ANSWER_PPM
        };
    }
}

fn verdict(one: &Judgement, threshold: Option<u64>, better: Better) -> Verdict {
    let least_ppm = signs::least_ppm(one.pairs);
    if least_ppm > LEVEL_PPM {
        return Verdict::TooFewRuns;
    }
    if threshold.is_none_or(|threshold| one.probability_ppm > threshold) {
        // All runs agree, and the family asks for more than so few can show.
        let agree = one.probability_ppm <= least_ppm;
        return if agree {
            Verdict::TooFewRuns
        } else {
            Verdict::NoDifferenceShown
        };
    }
    if one.ratio.is_some_and(PairedRatio::holds_one) {
        return Verdict::NoDifferenceShown;
    }
    match (better, one.higher) {
        (Better::Neutral, _) => Verdict::Differs,
        (Better::Higher, true) | (Better::Lower, false) => Verdict::Better,
        (Better::Higher, false) | (Better::Lower, true) => Verdict::Worse,
    }
}
