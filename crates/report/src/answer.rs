// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The answer of a race in sentences: a line for each workload and variant, with how far the runs
//! allow it to be trusted.
//!
//! A sentence has the numbers of the tables and no others: medians as values, and the one ratio
//! with its interval, written by the same functions.

use steady_measures::chance::{self, FEWEST_RUNS, Family, Judgement};
use steady_measures::{Cell, Comparison, Row, RunResult, names};

use crate::svg::intervals::Interval;
use crate::{humane, pick};

/// One sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    /// The words.
    pub text: String,
    /// Shown to be better (`true`) or worse (`false`); `None` where nothing is shown.
    pub shown: Option<bool>,
}

/// The sentences, workload by workload in the order of the result. Where no variant has enough runs
/// for a claim, one line says so in their place.
pub(crate) fn lines(result: &RunResult, comparison: &Comparison) -> Vec<Line> {
    let mut lines = Vec::new();
    if result.variants.len() > 1 && most_runs(result) < FEWEST_RUNS {
        let text = match most_runs(result) {
            1 => "One run: no claim.".to_owned(),
            runs => format!("{runs} runs: no claim; a claim takes {FEWEST_RUNS} or more."),
        };
        return vec![Line { text, shown: None }];
    }
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
                sentence(cell, &judgement),
            );
            let shown = pick::judged(cell);
            lines.push(Line { text, shown });
        }
    }
    lines
}

/// The conditions that all variants have in common, in one line, and what a variant has of its own;
/// nothing in results of programs that did not record them.
pub(crate) fn conditions(result: &RunResult) -> Vec<String> {
    let of = |name: &str| result.config.get(&format!("conditions.{name}"));
    let all: Option<Vec<(&str, Vec<&str>)>> = result
        .variants
        .iter()
        .map(|v| Some((v.name.as_str(), of(&v.name)?.split("; ").collect())))
        .collect();
    let Some(all) = all.filter(|all| !all.is_empty()) else {
        return Vec::new();
    };
    let everywhere = |part: &&str| all.iter().all(|(_, parts)| parts.contains(part));
    let common: Vec<&str> = all[0].1.iter().copied().filter(everywhere).collect();
    let mut lines = vec![format!("Conditions: {}.", common.join("; "))];
    for (name, parts) in &all {
        let own: Vec<&str> = parts
            .iter()
            .copied()
            .filter(|p| !common.contains(p))
            .collect();
        if !own.is_empty() {
            lines.push(format!("{name}: {}.", own.join("; ")));
        }
    }
    lines
}

/// Why no difference has a verdict, whatever the runs show; `None` where that is not so.
pub(crate) fn no_verdict(result: &RunResult) -> Option<String> {
    let uneven = chance::uneven_updates(result)?;
    Some(format!(
        "{uneven}, so what differs is not the cost of coherence alone: no ratio has a verdict"
    ))
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
            found.push(Interval {
                label: format!(
                    "{} {}: {}",
                    subject(row),
                    pick::arrow(row.better),
                    result.variants[series].name
                ),
                ratio_ppm: ratio,
                ends_ppm: (low, high),
                text: sentence(cell, &judgement),
                series,
                shown: pick::judged(cell).is_some(),
            });
        }
    }
    found
}

/// How many runs the values are of.
pub(crate) fn runs(result: &RunResult) -> String {
    match most_runs(result) {
        1 => "One run.".to_owned(),
        most => format!("Medians of {most} runs."),
    }
}

fn most_runs(result: &RunResult) -> usize {
    let runs = result.variants.iter().map(|v| v.repetitions.len());
    runs.max().unwrap_or(0)
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

/// The ratio, what may be said of it, and of how many pairs of runs.
fn sentence(cell: Cell, judgement: &Judgement) -> String {
    let runs = match judgement.pairs {
        1 => "1 run".to_owned(),
        pairs => format!("{pairs} runs"),
    };
    let ratio = cell
        .ratio
        .map_or(String::new(), |ratio| humane::ratio(ratio) + ", ");
    if judgement.pairs == 1 {
        return ratio + &runs;
    }
    format!("{ratio}{}, {runs}", judgement.verdict.as_str())
}

#[cfg(test)]
mod tests {
    use steady_measures::chance::{PairedRatio, Verdict};

    use super::*;

    fn judged(ratio: (u64, u64, u64), verdict: Verdict) -> (Cell, Judgement) {
        let ratio = PairedRatio {
            ratio_ppm: ratio.0,
            low_ppm: Some(ratio.1),
            high_ppm: Some(ratio.2),
        };
        let judgement = Judgement {
            pairs: 8,
            family: Family::Answer,
            ratio: Some(ratio),
            higher: ratio.ratio_ppm > 1_000_000,
            probability_ppm: 7_813,
            verdict,
        };
        let cell = Cell {
            median: 117_000,
            min: 58_000,
            max: 6_400_000,
            repetitions: 8,
            ratio: Some(ratio),
            judgement: Some(judgement),
        };
        (cell, judgement)
    }

    #[test]
    fn a_shown_difference_has_ratio_interval_verdict_and_runs() {
        let (cell, judgement) = judged((5_000, 4_000, 6_250), Verdict::Better);
        let said = sentence(cell, &judgement);
        assert_eq!(said, "×0.0050 [0.0040 to 0.0063], better, 8 runs");
    }

    #[test]
    fn what_is_not_shown_has_its_interval_too() {
        let not_shown = Verdict::NoDifferenceShown;
        let (cell, judgement) = judged((980_000, 900_000, 1_070_000), not_shown);
        let said = sentence(cell, &judgement);
        assert_eq!(said, "×0.98 [0.90 to 1.07], no difference shown, 8 runs");
    }
}
