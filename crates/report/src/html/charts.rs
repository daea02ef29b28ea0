// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The charts of the page: latencies, bars of the metrics that show most, exits and guest time
//! in parts.

use steady_measures::{Comparison, Distribution, Error, Row, RunResult, Unit, names};

use crate::svg::bars::{self, Bar};
use crate::svg::cdf::{self, Curve};
use crate::svg::intervals;
use crate::svg::stacked::{self, Stack};
use crate::{answer, humane, pick};

/// Width of a chart that stands beside others, and of any chart on a phone.
const NARROW: i64 = 3_400;
/// A latency chart on a phone, and where there is room.
const CDF_NARROW: (i64, i64) = (3_400, 2_600);
const CDF_WIDE: (i64, i64) = (7_200, 3_200);
/// Exit reasons named in a stack; the rest become one part.
const REASONS_NAMED: usize = 6;
/// The quantiles below a latency chart.
const QUANTILES: [(&str, u32); 4] = [
    ("p50", 500_000),
    ("p90", 900_000),
    ("p99", 990_000),
    ("p99.9", 999_000),
];

/// One chart with a heading.
pub(super) struct Chart {
    pub title: String,
    pub svg: String,
}

/// Charts of one kind.
pub(super) struct Section {
    pub title: String,
    pub lead: &'static str,
    pub charts: Vec<Chart>,
}

/// One distribution of one workload, in every variant.
pub(super) struct Latency {
    pub title: String,
    pub narrow: String,
    pub wide: String,
    pub columns: Vec<&'static str>,
    pub rows: Vec<Quantiles>,
}

/// One variant's row below a latency chart.
pub(super) struct Quantiles {
    pub variant: String,
    pub colour: String,
    pub values: Vec<String>,
}

/// The picture that carries the answer: the ratio of each variant, with its interval. One
/// for wide pages, one for phones; `None` where the runs allow no interval.
pub(super) fn answer(
    run: &str,
    result: &RunResult,
    comparison: &Comparison,
) -> Option<(String, String)> {
    let rows = answer::intervals(result, comparison);
    let base = &result.variants[comparison.baseline].name;
    let title = format!("Ratio to {base}");
    let wide = intervals::draw(&format!("{run}-aw"), &title, &rows, CDF_WIDE.0)?;
    let narrow = intervals::draw(&format!("{run}-an"), &title, &rows, NARROW)?;
    Some((wide, narrow))
}

/// One chart per distribution; those without a value in any variant are left out.
pub(super) fn latencies(run: &str, result: &RunResult) -> Result<Vec<Latency>, Error> {
    let mut pooled: Vec<Vec<Distribution>> = Vec::new();
    for variant in &result.variants {
        let found = variant.pooled_distributions();
        pooled.push(found.map_err(|invalid| Error::Invalid {
            origin: format!("{}, variant {}", result.scenario.name, variant.name),
            invalid,
        })?);
    }
    let mut keys: Vec<Key<'_>> = Vec::new();
    for distribution in pooled.iter().flatten() {
        if !keys.contains(&key(distribution)) {
            keys.push(key(distribution));
        }
    }
    let charts = keys.iter().enumerate().filter_map(|(at, wanted)| {
        let found: Vec<Option<&Distribution>> = pooled
            .iter()
            .map(|of_variant| of_variant.iter().find(|one| key(one) == *wanted))
            .collect();
        latency(&format!("{run}-l{at}"), wanted, result, &found)
    });
    Ok(charts.collect())
}

type Key<'a> = (Option<&'a str>, Option<&'a str>, &'a str, Unit);

fn key(one: &Distribution) -> Key<'_> {
    (one.vm(), one.workload(), one.name(), one.unit())
}

fn latency(
    id: &str,
    &(vm, workload, name, unit): &Key<'_>,
    result: &RunResult,
    found: &[Option<&Distribution>],
) -> Option<Latency> {
    let variants = result.variants.iter().zip(found).enumerate();
    let curves: Vec<Curve<'_>> = variants
        .filter_map(|(series, (variant, values))| {
            values.map(|values| Curve {
                label: &variant.name,
                values,
                series,
            })
        })
        .collect();
    let scope: Vec<&str> = [vm, workload].into_iter().flatten().collect();
    let title = format!("{}: {}", scope.join(" · "), pick::label(name));
    let rows = curves.iter().filter(|curve| curve.values.count() > 0);
    Some(Latency {
        narrow: cdf::draw(&format!("{id}n"), &title, &curves, CDF_NARROW)?,
        wide: cdf::draw(&format!("{id}w"), &title, &curves, CDF_WIDE)?,
        columns: ["values", "mean"]
            .into_iter()
            .chain(QUANTILES.map(|(name, _)| name))
            .chain(["max"])
            .collect(),
        rows: rows.map(|curve| quantiles(curve, unit)).collect(),
        title,
    })
}

fn quantiles(curve: &Curve<'_>, unit: Unit) -> Quantiles {
    let values = curve.values;
    let shown = |value: Option<u64>| humane::positive(unit, value.unwrap_or(0));
    let mut cells = vec![humane::grouped(values.count()), shown(values.mean())];
    cells.extend(QUANTILES.map(|(_, ppm)| shown(values.quantile(ppm))));
    cells.push(shown(values.max()));
    Quantiles {
        variant: curve.label.to_owned(),
        colour: crate::svg::colour('s', curve.series),
        values: cells,
    }
}

/// Bars of each workload, exits and guest time in parts, then bars of each VM.
pub(super) fn sections(run: &str, result: &RunResult, comparison: &Comparison) -> Vec<Section> {
    let mut sections = vec![
        stacks(
            &format!("{run}-x"),
            "VM exits by reason",
            "How often each VM left guest mode, and why.",
            (result, comparison),
            reasons,
        ),
        stacks(
            &format!("{run}-g"),
            "Guest time by class",
            "What the vCPUs of each VM did while they were in the guest.",
            (result, comparison),
            classes,
        ),
    ];
    for (at, group) in pick::telling(comparison).into_iter().enumerate() {
        let id = format!("{run}-b{at}");
        let of_workload = group.workload.is_some();
        let rows = if of_workload {
            pick::headline(&group.rows)
        } else {
            let mut rows = group.rows;
            rows.retain(|row| !in_parts(row));
            rows
        };
        let charts = rows.into_iter().enumerate().map(|(place, row)| {
            bar_chart(&format!("{id}-{place}"), row, result, comparison.baseline)
        });
        let section = Section {
            title: if of_workload {
                group.title
            } else {
                format!("Counters of {}", group.title)
            },
            lead: "",
            charts: charts.collect(),
        };
        // The workloads stand first, as they are listed first.
        let place = if of_workload { at } else { sections.len() };
        sections.insert(place, section);
    }
    sections.retain(|section| !section.charts.is_empty());
    sections
}

/// Whether a row is shown as part of a whole, or is such a whole.
fn in_parts(row: &Row) -> bool {
    pick::is_reason(row)
        || row.key.name == names::EXITS_TOTAL
        || pick::class_place(&row.key.name).is_some()
}

/// One chart per VM that has such parts.
fn stacks(
    id: &str,
    title: &str,
    lead: &'static str,
    (result, comparison): (&RunResult, &Comparison),
    parts_of: PartsOf,
) -> Section {
    let groups = pick::all(comparison).into_iter().enumerate();
    let charts = groups.filter_map(|(at, group)| {
        let parts = parts_of(&group.rows);
        (!parts.is_empty()).then(|| stack_chart(&format!("{id}{at}"), &group, parts, result))
    });
    Section {
        title: title.to_owned(),
        lead,
        charts: charts.collect(),
    }
}

fn bar_chart(id: &str, row: &Row, result: &RunResult, baseline: usize) -> Chart {
    let cells = row.cells.iter().zip(&result.variants).enumerate();
    let bars: Vec<Bar> = cells
        .filter_map(|(series, (cell, variant))| {
            let cell = (*cell)?;
            let note = match cell.ratio {
                Some(ratio) if series != baseline => humane::ratio(ratio),
                _ => String::new(),
            };
            let size = |value: i64| u64::try_from(value).unwrap_or(0);
            Some(Bar {
                label: variant.name.clone(),
                value: size(cell.median),
                range: (cell.min != cell.max).then(|| (size(cell.min), size(cell.max))),
                text: humane::quantity(row.unit, cell.median),
                note,
                series,
            })
        })
        .collect();
    let title = super::words(row);
    Chart {
        svg: bars::draw(id, &title, &bars, NARROW),
        title,
    }
}

/// A part's name, and the rows that are added up for it.
type Part<'a> = (String, Vec<&'a Row>);
type PartsOf = for<'a> fn(&[&'a Row]) -> Vec<Part<'a>>;

/// The most frequent exit reasons, each a part, and all others as one.
fn reasons<'a>(rows: &[&'a Row]) -> Vec<Part<'a>> {
    let mut found: Vec<&Row> = rows
        .iter()
        .copied()
        .filter(|row| pick::is_reason(row) && pick::largest(row) > 0)
        .collect();
    found.sort_by_key(|row| std::cmp::Reverse(pick::largest(row)));
    // One more would take no more room than the word for the rest.
    let rest = if found.len() > REASONS_NAMED + 1 {
        found.split_off(REASONS_NAMED)
    } else {
        Vec::new()
    };
    let name = |row: &Row| {
        row.key
            .name
            .trim_start_matches(names::EXITS_PREFIX)
            .to_owned()
    };
    let mut parts: Vec<Part<'_>> = found.iter().map(|row| (name(row), vec![*row])).collect();
    if !rest.is_empty() {
        parts.push((format!("{} others", rest.len()), rest));
    }
    parts
}

fn classes<'a>(rows: &[&'a Row]) -> Vec<Part<'a>> {
    let mut found: Vec<(usize, Part<'_>)> = rows
        .iter()
        .filter(|row| pick::largest(row) > 0)
        .filter_map(|&row| {
            let place = pick::class_place(&row.key.name)?;
            let class = row.key.name.trim_start_matches(names::GUEST_TIME_PREFIX);
            Some((place, (pick::class_label(class), vec![row])))
        })
        .collect();
    found.sort_by_key(|&(place, _)| place);
    found.into_iter().map(|(_, part)| part).collect()
}

fn stack_chart(
    id: &str,
    group: &pick::Group<'_>,
    parts: Vec<Part<'_>>,
    result: &RunResult,
) -> Chart {
    let unit = parts[0].1[0].unit;
    // The median of the totals, where there is one, is not quite the sum of the medians.
    let total = group
        .rows
        .iter()
        .find(|row| row.key.name == names::EXITS_TOTAL && pick::is_reason(parts[0].1[0]));
    let stacks: Vec<Stack> = result
        .variants
        .iter()
        .enumerate()
        .map(|(at, variant)| {
            let size = |rows: &Vec<&Row>| -> u64 {
                let medians = rows.iter().filter_map(|row| row.cells[at]);
                let sizes = medians.map(|cell| u64::try_from(cell.median).unwrap_or(0));
                sizes.fold(0, u64::saturating_add)
            };
            let sized: Vec<(u64, String)> = parts
                .iter()
                .map(|(_, rows)| (size(rows), humane::positive(unit, size(rows))))
                .collect();
            let sum = sized
                .iter()
                .map(|&(size, _)| size)
                .fold(0, u64::saturating_add);
            let whole = total.and_then(|row| row.cells[at]).map(|cell| cell.median);
            Stack {
                label: variant.name.clone(),
                text: whole.map_or_else(
                    || humane::positive(unit, sum),
                    |whole| humane::quantity(unit, whole),
                ),
                parts: sized,
            }
        })
        .collect();
    let names: Vec<String> = parts.into_iter().map(|(name, _)| name).collect();
    Chart {
        svg: stacked::draw(id, &group.title, &names, &stacks, NARROW),
        title: group.title.clone(),
    }
}
