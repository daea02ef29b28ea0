// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of a sweep: one measure over the values of the first key that has several, as a ratio
//! to the first scheme. Each combination of the other keys has a chart of its own.

use std::collections::BTreeSet;

use steady_coherence::Error;
use steady_measures::Better;
use steady_measures::chance::{Judgement, uneven_updates};
use steady_report::html::swept::{self, Panel, Sweep as Words};
use steady_report::humane;
use steady_report::svg::swept::{Dot, Line};

use super::table::Point;
use crate::arguments::coherence::Sweep;
use crate::command::coherence::gains::gains_of;

/// The page.
///
/// # Errors
/// [`Error::Config`] where no scheme has the measure, with those that there are.
pub fn page(arguments: &Sweep, points: &[Point<'_>]) -> Result<String, Error> {
    let measure = arguments.plot.as_str();
    let better = better(points, measure)?;
    let across = across(points);
    let mut values: Vec<String> = Vec::new();
    let mut rests: Vec<Vec<&(String, String)>> = Vec::new();
    for point in points {
        let value = &point.keys[across].1;
        if !values.contains(value) {
            values.push(value.clone());
        }
        let rest = rest(point, across);
        if !rests.contains(&rest) {
            rests.push(rest);
        }
    }
    let panel = |wanted: &Vec<&(String, String)>| {
        let of = |point: &&Point<'_>| rest(point, across) == *wanted;
        let row: Vec<&Point<'_>> = points.iter().filter(of).collect();
        Panel {
            rest: words(wanted),
            lines: lines(&row, measure),
            notes: row.iter().filter_map(|point| note(point, across)).collect(),
        }
    };
    let source = arguments.input.source.to_string_lossy();
    Ok(swept::page(&Words {
        source: &source,
        measure,
        better,
        baseline: points[0].baseline(),
        seeds: points[0].result.variants[0].repetitions.len(),
        key: &points[0].keys[across].0,
        panels: rests.iter().map(panel).collect(),
        values,
    }))
}

/// The first key with more than one value, or the first.
fn across(points: &[Point<'_>]) -> usize {
    let differs = |at: &usize| {
        let value = |point: &Point<'_>| point.keys[*at].1.clone();
        points.iter().any(|point| value(point) != value(&points[0]))
    };
    (0..points[0].keys.len()).find(differs).unwrap_or(0)
}

fn rest<'a>(point: &'a Point<'_>, across: usize) -> Vec<&'a (String, String)> {
    let others = point.keys.iter().enumerate();
    others
        .filter(|(at, _)| *at != across)
        .map(|(_, pair)| pair)
        .collect()
}

fn words(pairs: &[&(String, String)]) -> String {
    let pairs = pairs.iter().map(|(key, value)| format!("{key}={value}"));
    pairs.collect::<Vec<_>>().join(" · ")
}

/// A line for each scheme but the first, over the points, which are one to a value.
fn lines(points: &[&Point<'_>], measure: &str) -> Vec<Line> {
    let found: Vec<_> = points
        .iter()
        .map(|point| gains_of(&point.result, measure))
        .collect();
    let schemes = found.first().map_or(&[][..], Vec::as_slice);
    let line = |at: usize| Line {
        label: schemes[at].0.to_owned(),
        series: at + 1,
        dots: found
            .iter()
            .map(|gains| gains[at].1.and_then(dot))
            .collect(),
    };
    (0..schemes.len()).map(line).collect()
}

/// Why a point's ratios have no verdict, if updates differ there.
fn note(point: &Point<'_>, across: usize) -> Option<String> {
    let uneven = uneven_updates(&point.result)?;
    let at = words(&[&point.keys[across]]);
    Some(format!("{at}: {uneven}; no ratio has a verdict."))
}

fn dot(one: Judgement) -> Option<Dot> {
    let ratio = one.ratio?;
    Some(Dot {
        ratio_ppm: ratio.ratio_ppm,
        ends_ppm: ratio.low_ppm.zip(ratio.high_ppm),
        text: humane::ratio(ratio),
    })
}

/// Which way a measure is better, in words.
fn better(points: &[Point<'_>], measure: &str) -> Result<&'static str, Error> {
    let schemes = points.iter().flat_map(|point| &point.result.variants);
    let all = schemes
        .flat_map(|one| &one.repetitions)
        .flat_map(|one| &one.metrics);
    let mut names = BTreeSet::new();
    for metric in all {
        if metric.name == measure {
            return Ok(match metric.better {
                Better::Higher => "higher is better",
                Better::Lower => "lower is better",
                Better::Neutral => "",
            });
        }
        names.insert(metric.name.as_str());
    }
    let names: Vec<&str> = names.into_iter().collect();
    Err(Error::Config(format!(
        "--plot {measure}: no scheme has that measure; there are: {}",
        names.join(", ")
    )))
}
