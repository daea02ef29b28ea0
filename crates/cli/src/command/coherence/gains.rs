// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What schemes gain over the first: instructions per cycle, with the interval of
//! `steady_measures` over pairs of runs. It is judged alone, since it is the answer; the many
//! counters beside it only explain.

use steady_measures::RunResult;
use steady_measures::chance::{Judgement, Verdict, judge, uneven_updates};

/// The measure that answers.
const ANSWER: &str = "ipc";

/// What is said where runs do not differ, as where seeds change nothing: natively with DRAM alone a
/// trace leaves them nothing to draw.
const ALIKE: &str = "(every run alike: one run, no interval)";

/// Of each scheme but the first, its IPC over the first's. Where every seed gave both schemes the
/// same, no interval and no verdict is given, and no verdict where schemes met other updates.
pub fn gains(result: &RunResult) -> Vec<(&str, Option<Judgement>)> {
    gains_of(result, ANSWER)
}

/// The same of any measure.
pub fn gains_of<'a>(result: &'a RunResult, measure: &str) -> Vec<(&'a str, Option<Judgement>)> {
    let mut alone = result.clone();
    let repetitions = alone
        .variants
        .iter_mut()
        .flat_map(|one| &mut one.repetitions);
    repetitions.for_each(|one| one.metrics.retain(|metric| metric.name == measure));
    let judged = judge(&alone, 0).into_values().next().unwrap_or_default();
    // The measure stands alone now: what it is judged by is in the result.
    let uneven = uneven_updates(result).map(|_| Verdict::UnevenUpdates);
    let of = |at: usize| {
        let one = judged.get(&at)?;
        let verdict = uneven.unwrap_or(one.verdict);
        Some(Judgement { verdict, ..*one })
    };
    let variants = result.variants.iter().enumerate().skip(1);
    variants
        .map(|(at, one)| (one.name.as_str(), of(at)))
        .collect()
}

/// What is said where no translation was revoked while it was counted.
pub const WITHOUT_UPDATES: &str = "no update of translations was counted";

/// A line for each scheme but the first: `attc  ×2.028 (1.963 to 2.109), better`.
pub fn lines(result: &RunResult) -> Vec<String> {
    let several = result
        .variants
        .first()
        .is_some_and(|one| one.repetitions.len() > 1);
    let line = |(scheme, judgement): (&str, Option<Judgement>)| {
        let Some((one, ratio)) = judgement.and_then(|one| Some((one, one.ratio?))) else {
            return format!("  {scheme:12} no ratio");
        };
        let said = match (ratio.low_ppm, ratio.high_ppm) {
            (Some(low), Some(high)) => {
                let (low, high) = (factor(low), factor(high));
                format!("({low} to {high}), {}", one.verdict.as_str())
            }
            _ if one.pairs == 1 && several => ALIKE.to_owned(),
            _ => "(no interval: fewer than 5 runs)".to_owned(),
        };
        format!("  {scheme:12} ×{} {said}", factor(ratio.ratio_ppm))
    };
    gains(result).into_iter().map(line).collect()
}

/// Parts per million as a factor with three decimals.
fn factor(ppm: u64) -> String {
    let thousandths = (ppm + 500) / 1000;
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}

#[cfg(test)]
mod tests {
    #[test]
    fn factors_are_rounded_to_the_nearest_thousandth() {
        assert_eq!([1_234_499, 999_500].map(super::factor), ["1.234", "1.000"]);
    }
}
