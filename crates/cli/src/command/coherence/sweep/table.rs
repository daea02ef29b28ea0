// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a sweep found: JSON with every counter of every scheme and intervals, and a table of what
//! each scheme gains. Intervals are those of `steady_measures`, by pairs of seeds.

use serde_json::{Map, Value, json};
use steady_measures::chance::{Judgement, Verdict, uneven_updates, without_updates};
use steady_measures::{Repetition, RunResult};

use super::pieces::Piece;
use crate::arguments::coherence::Sweep;
use crate::command::coherence::gains::{WITHOUT_UPDATES, gains, lines};

/// Version of sweep.json: raised when a key goes or changes its meaning.
const VERSION: u32 = 1;

/// A combination of values with the results of all its seeds.
pub struct Point<'a> {
    pub keys: &'a [(String, String)],
    /// A repetition for each seed.
    pub result: RunResult,
}

/// The results of the pieces, `found`, by combination.
pub fn points(all: &[Piece], found: Vec<RunResult>) -> Vec<Point<'_>> {
    let mut points: Vec<Point<'_>> = Vec::new();
    let mut last = None;
    for (piece, one) in all.iter().zip(found) {
        match points.last_mut().filter(|_| last == Some(piece.point)) {
            Some(point) => {
                for (variant, more) in point.result.variants.iter_mut().zip(one.variants) {
                    for mut repetition in more.repetitions {
                        repetition.index =
                            u32::try_from(variant.repetitions.len()).unwrap_or(u32::MAX);
                        variant.repetitions.push(repetition);
                    }
                }
            }
            None => points.push(Point {
                keys: &piece.keys,
                result: one,
            }),
        }
        last = Some(piece.point);
    }
    points
}

impl Point<'_> {
    /// Scheme and repetition, by seed.
    pub fn rows(&self) -> impl Iterator<Item = (&str, &Repetition)> {
        let seeds = self
            .result
            .variants
            .first()
            .map_or(0, |one| one.repetitions.len());
        (0..seeds).flat_map(|at| {
            let variants = self.result.variants.iter();
            variants.map(move |one| (one.name.as_str(), &one.repetitions[at]))
        })
    }

    /// The first scheme.
    pub fn baseline(&self) -> &str {
        self.result.variants.first().map_or("", |one| &one.name)
    }
}

/// The seed of a piece.
pub fn seed(one: &Repetition) -> u64 {
    one.seed.expect("a piece has a seed")
}

/// Every measure, and of each combination what the schemes gain over the first.
pub fn json(arguments: &Sweep, points: &[Point<'_>]) -> anyhow::Result<String> {
    let gain = |one: Option<Judgement>| {
        let ratio = one.and_then(|one| one.ratio);
        let verdict = one.map(|one| one.verdict);
        let verdict = verdict.filter(|one| *one != Verdict::UnevenUpdates);
        json!({
            "ratio_ppm": ratio.map(|ratio| ratio.ratio_ppm),
            "low_ppm": ratio.and_then(|ratio| ratio.low_ppm),
            "high_ppm": ratio.and_then(|ratio| ratio.high_ppm),
            "verdict": verdict.map(Verdict::as_str),
        })
    };
    let row = |(scheme, one): (&str, &Repetition)| {
        let measures = one
            .metrics
            .iter()
            .map(|metric| (metric.name.clone(), metric.value.into()));
        let measures: Map<String, Value> = measures.collect();
        json!({ "seed": seed(one), "scheme": scheme, "measures": measures })
    };
    let point = |point: &Point<'_>| {
        let keys = point
            .keys
            .iter()
            .map(|(key, value)| (key.clone(), value.clone().into()));
        let uneven = uneven_updates(&point.result).map(|one| one.to_string());
        let gains = gains(&point.result)
            .into_iter()
            .map(|(name, one)| (name.to_owned(), gain(one)));
        json!({
            "keys": keys.collect::<Map<String, Value>>(),
            "baseline": point.baseline(),
            "uneven_updates": uneven,
            "ipc_over_baseline": gains.collect::<Map<String, Value>>(),
            "rows": point.rows().map(row).collect::<Vec<_>>(),
        })
    };
    let document = json!({
        "schema": "steady.sweep",
        "version": VERSION,
        "tool": concat!("steady ", env!("CARGO_PKG_VERSION")),
        "source": arguments.input.source.to_string_lossy(),
        "points": points.iter().map(point).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// A line for each scheme of each combination.
pub fn shown(points: &[Point<'_>]) -> String {
    let mut text = String::new();
    for point in points {
        let pairs = point
            .keys
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let pairs = pairs.collect::<Vec<_>>().join(" ");
        let seeds = match point.result.variants[0].repetitions.as_slice() {
            [one] => format!("seed {}", seed(one)),
            more => format!("{} seeds", more.len()),
        };
        let base = point.baseline();
        let mut head = format!("{pairs} · {seeds} · instructions per cycle over {base}");
        if without_updates(&point.result) {
            head += &format!(" · {WITHOUT_UPDATES}");
        }
        if let Some(uneven) = uneven_updates(&point.result) {
            head += &format!(" · {uneven}");
        }
        for row in std::iter::once(head).chain(lines(&point.result)) {
            text += &row;
            text.push('\n');
        }
    }
    text
}
