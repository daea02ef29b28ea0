// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The answer of a race in sentences: a line for each workload and variant, with how far the runs
//! allow it to be trusted.

use steady_measures::chance::{FEWEST_RUNS, Family, Judgement, PairedRatio, Verdict};
use steady_measures::{Better, Comparison, Row, RunResult, names};

use crate::svg::intervals::Interval;
use crate::{humane, pick};

/// Parts per million in one.
const MILLION: u64 = 1_000_000;
/// From this factor on a change is told as a multiple, below it in percent.
const TOLD_AS_MULTIPLE_PPM: u64 = 1_500_000;

/// One sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The words.
    pub text: String,
    /// Shown to be better (`true`) or worse (`false`); `None` where nothing is shown.
    pub shown: Option<bool>,
}

/// The sentences, workload by workload in the order of the result; none where each would say that
/// the runs are too few, which [`runs`] says once.
pub(crate) fn lines(result: &RunResult, comparison: &Comparison) -> Vec<Line> {
    let (mut lines, mut enough) = (Vec::new(), false);
    for row in answers(comparison) {
        let Some(base) = row.cells[comparison.baseline] else {
            continue;
        };
        let base_name = &result.variants[comparison.baseline].name;
        for (at, cell) in row.cells.iter().enumerate() {
            let Some((cell, judgement)) = cell.and_then(|cell| Some((cell, cell.judgement?)))
            else {
                continue;
            };
            let text = format!(
                "{}: {} {}, {base_name} {}: {}",
                subject(row),
                result.variants[at].name,
                humane::quantity(row.unit, cell.median),
                humane::quantity(row.unit, base.median),
                sentence(&judgement),
            );
            let shown = pick::judged(cell);
            lines.push(Line { text, shown });
            enough |= judgement.pairs >= FEWEST_RUNS;
        }
    }
    if enough { lines } else { Vec::new() }
}

/// The comparisons of the sentences that have an interval, for the picture.
pub(crate) fn intervals(result: &RunResult, comparison: &Comparison) -> Vec<Interval> {
    let mut found = Vec::new();
    for row in answers(comparison) {
        for (series, cell) in row.cells.iter().enumerate() {
            let Some((cell, judgement)) = cell.and_then(|cell| Some((cell, cell.judgement?)))
            else {
                continue;
            };
            let Some((ratio, low, high)) = judgement
                .ratio
                .and_then(|ratio| Some((ratio.ratio_ppm, ratio.low_ppm?, ratio.high_ppm?)))
            else {
                continue;
            };
            // More of what shall be low is so many times worse.
            let (times_ppm, ends_ppm) = match row.better {
                Better::Lower => (inverse(ratio), (inverse(high), inverse(low))),
                Better::Higher | Better::Neutral => (ratio, (low, high)),
            };
            found.push(Interval {
                label: format!("{}: {}", subject(row), result.variants[series].name),
                times_ppm,
                ends_ppm,
                text: sentence(&judgement),
                series,
                shown: pick::judged(cell).is_some(),
            });
        }
    }
    found
}

/// How many runs the values are of, and whether those tell anything.
pub(crate) fn runs(result: &RunResult) -> String {
    let most = result.variants.iter().map(|v| v.repetitions.len()).max();
    let runs = match most.unwrap_or(0) {
        1 => "One run".to_owned(),
        most => format!("Medians of {most} runs"),
    };
    if most.unwrap_or(0) >= FEWEST_RUNS || result.variants.len() < 2 {
        return format!("{runs}.");
    }
    format!("{runs}: too few to tell a difference from chance, {FEWEST_RUNS} may.")
}

/// Of each workload the row that answers: the tail of its latency, else its throughput, else its
/// time.
fn answers(comparison: &Comparison) -> Vec<&Row> {
    let rank = |row: &Row| match row.key.name.as_str() {
        name if name.ends_with(".latency.p99") => 0,
        names::THROUGHPUT => 1,
        names::TIME => 2,
        _ => 3,
    };
    let answering = |row: &&Row| {
        let of = |cell: &Option<steady_measures::Cell>| cell.and_then(|cell| cell.judgement);
        let mut found = row.cells.iter().filter_map(of);
        found.any(|judgement| judgement.family == Family::Answer)
    };
    let mut chosen: Vec<&Row> = Vec::new();
    for row in comparison.rows.iter().filter(answering) {
        let same =
            |other: &&Row| (&other.key.vm, &other.key.workload) == (&row.key.vm, &row.key.workload);
        match chosen.iter().position(same) {
            None => chosen.push(row),
            Some(at) if rank(row) < rank(chosen[at]) => chosen[at] = row,
            Some(_) => {}
        }
    }
    chosen
}

fn subject(row: &Row) -> String {
    let key = &row.key;
    let workload = key.workload.as_deref().unwrap_or("host");
    let what = match key.name.rsplit_once(".latency.") {
        Some((_, part)) => part.to_owned(),
        None => pick::label(&key.name),
    };
    match key.vm.as_deref() {
        Some(vm) => format!("{vm} {workload} {what}"),
        None => format!("{workload} {what}"),
    }
}

fn sentence(judgement: &Judgement) -> String {
    let runs = match judgement.pairs {
        1 => "1 run".to_owned(),
        pairs => format!("{pairs} runs"),
    };
    let change = |ratio: PairedRatio| {
        let word = judgement.verdict.as_str();
        // Told as a factor above 1: of more by the ratio, of less by its inverse.
        let (at, low, high) = if !judgement.higher {
            (
                inverse(ratio.ratio_ppm),
                ratio.high_ppm.map(inverse),
                ratio.low_ppm.map(inverse),
            )
        } else {
            (ratio.ratio_ppm, ratio.low_ppm, ratio.high_ppm)
        };
        let ends = low.zip(high);
        if at >= TOLD_AS_MULTIPLE_PPM {
            let range = ends.map(|(low, high)| format!(" ({} to {})", times(low), times(high)));
            format!(
                "{} times {word}{}, {runs}",
                times(at),
                range.unwrap_or_default()
            )
        } else {
            let range =
                ends.map(|(low, high)| format!(" ({} to {} %)", percent(low), percent(high)));
            format!(
                "{} % {word}{}, {runs}",
                percent(at),
                range.unwrap_or_default()
            )
        }
    };
    match (judgement.verdict, judgement.ratio) {
        (Verdict::Better | Verdict::Worse, Some(ratio)) => change(ratio),
        _ => format!("{}, {runs}", verdict(judgement)),
    }
}

/// What may be said, with the interval of the ratio where there is one.
pub(crate) fn verdict(judgement: &Judgement) -> String {
    let ends = judgement
        .ratio
        .and_then(|ratio| Some((ratio.low_ppm?, ratio.high_ppm?)));
    let word = judgement.verdict.as_str();
    match ends {
        Some((low, high)) => format!("{word} (ratio {} to {})", times(low), times(high)),
        None => word.to_owned(),
    }
}

/// 1 over a ratio, both in parts per million.
fn inverse(ppm: u64) -> u64 {
    (MILLION * MILLION).checked_div(ppm).unwrap_or(u64::MAX)
}

/// A factor with three digits.
pub(crate) fn times(ppm: u64) -> String {
    match ppm {
        0..100_000 => format!("0.{:04}", rounded(ppm, 100)),
        100_000..10_000_000 => hundredths(rounded(ppm, 10_000)),
        10_000_000..100_000_000 => {
            let tenths = rounded(ppm, 100_000);
            format!("{}.{}", tenths / 10, tenths % 10)
        }
        _ => humane::grouped(rounded(ppm, MILLION)),
    }
}

fn hundredths(count: u64) -> String {
    format!("{}.{:02}", count / 100, count % 100)
}

/// How many of `unit` there are, halves up.
fn rounded(ppm: u64, unit: u64) -> u64 {
    ppm.saturating_add(unit / 2) / unit
}

/// What a factor adds, in percent with one digit behind the point.
fn percent(ppm: u64) -> String {
    let (sign, beyond) = if ppm < MILLION {
        ("-", MILLION - ppm)
    } else {
        ("", ppm - MILLION)
    };
    let tenths = rounded(beyond, 1_000);
    format!("{sign}{}.{}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judgement(ratio: (u64, u64, u64), verdict: Verdict) -> Judgement {
        Judgement {
            pairs: 8,
            family: Family::Answer,
            ratio: Some(PairedRatio {
                ratio_ppm: ratio.0,
                low_ppm: Some(ratio.1),
                high_ppm: Some(ratio.2),
            }),
            higher: ratio.0 > MILLION,
            probability_ppm: 7_813,
            verdict,
        }
    }

    #[test]
    fn a_factor_is_rounded_and_not_cut() {
        for (ppm, said) in [
            (585_900, "0.59"),
            (12_345, "0.0123"),
            (9_996_000, "10.00"),
            (12_360_000, "12.4"),
            (180_500_000, "181"),
        ] {
            assert_eq!(times(ppm), said);
        }
        assert_eq!(percent(1_045_670), "4.6");
    }

    #[test]
    fn a_latency_that_fell_is_told_as_so_many_times_better() {
        let said = sentence(&judgement((5_000, 4_000, 6_250), Verdict::Better));
        assert_eq!(said, "200 times better (160 to 250), 8 runs");
    }

    #[test]
    fn small_changes_are_told_in_percent() {
        let worse = judgement((1_100_000, 1_050_000, 1_150_000), Verdict::Worse);
        assert_eq!(sentence(&worse), "10.0 % worse (5.0 to 15.0 %), 8 runs");
        let better = judgement((1_250_000, 1_200_000, 1_300_000), Verdict::Better);
        assert_eq!(sentence(&better), "25.0 % better (20.0 to 30.0 %), 8 runs");
    }

    #[test]
    fn a_throughput_that_fell_to_half_is_two_times_worse() {
        let worse = judgement((500_000, 400_000, 625_000), Verdict::Worse);
        assert_eq!(sentence(&worse), "2.00 times worse (1.60 to 2.50), 8 runs");
    }

    #[test]
    fn what_is_not_shown_is_told_with_its_interval() {
        let said = sentence(&judgement(
            (980_000, 900_000, 1_070_000),
            Verdict::NoDifferenceShown,
        ));
        assert_eq!(said, "no difference shown (ratio 0.90 to 1.07), 8 runs");
    }
}
