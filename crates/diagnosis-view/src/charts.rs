// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The charts of a diagnosis: of each VM those that its tables allow, and which of them shows a
//! finding.

use steady_diagnose::{Count, FindingId, Spread, VmTable};
use steady_measures::{Bucket, Distribution, Ratio, Unit};
use steady_report::humane;
use steady_report::svg::bars::{self, Bar};
use steady_report::svg::cdf::{self, Curve};
use steady_report::svg::stacked::{self, Stack};

use crate::terminal::{percent, time};

/// Width of a chart, and height of a curve, in tenths of a pixel.
const WIDTH: i64 = 3_400;
const CURVE: (i64, i64) = (3_400, 2_600);
/// Exit reasons named in a chart; the rest become one part.
const REASONS_NAMED: usize = 6;
/// Lengths of runs that are counted apart: from, to, name.
const RUNS: [(u64, u64, &str); 4] = [
    (1, 1, "1 exit"),
    (2, 9, "2 to 9"),
    (10, 99, "10 to 99"),
    (100, u64::MAX, "100 and more"),
];

const BY_REASON: &str = "Exits by reason";
const BY_CAUSE: &str = "Pause-loop exits by cause";
const BY_RUN: &str = "Exits by length of their run at one place";
const BY_OUTCOME: &str = "What became of the boosts";
const TO_ENTRY: &str = "From an IPI to its receiver's entry, by where it was";
const READY: &str = "Times ready but not running";

/// The title of the chart that shows a finding, if one does.
pub fn title_of(id: FindingId) -> Option<&'static str> {
    match id {
        FindingId::Steal | FindingId::PreemptedUnmarked => Some(READY),
        FindingId::SlowExits | FindingId::TimerExits | FindingId::ExitUnknown => Some(BY_REASON),
        FindingId::PauseContinuous => Some(BY_RUN),
        FindingId::PauseIpiWait
        | FindingId::PauseSpinlock
        | FindingId::PauseOtherLock
        | FindingId::PauseTimedDelay
        | FindingId::PauseUserSpin
        | FindingId::PauseUnknown => Some(BY_CAUSE),
        FindingId::BoostSchedulerMismatch
        | FindingId::BoostOverboost
        | FindingId::BoostLostOpportunity => Some(BY_OUTCOME),
        FindingId::IpiDescheduled => Some(TO_ENTRY),
        _ => None,
    }
}

/// The charts of a VM with their titles; their elements' ids begin with `id`.
pub fn charts(id: &str, vm: &VmTable) -> Vec<(&'static str, String)> {
    let mut charts = vec![(BY_REASON, reasons(id, vm))];
    if let Some(pauses) = &vm.pauses {
        let rows = pauses
            .by_cause
            .iter()
            .map(|row| (row.cause.words().to_owned(), row.exits, row.permille));
        charts.push((BY_CAUSE, shares(&format!("{id}-causes"), BY_CAUSE, rows)));
        let runs = RUNS.map(|(from, to, name)| {
            let fits = |bucket: &&[u64; 3]| (from..=to).contains(&bucket[0]);
            let exits = pauses.runs.buckets.iter().filter(fits);
            // A bucket of several lengths counts with its middle; those below 64 are exact.
            let exits = exits.map(|&[low, high, runs]| low.midpoint(high).saturating_mul(runs));
            (name.to_owned(), exits.fold(0, u64::saturating_add))
        });
        let all: u64 = runs.iter().map(|(_, exits)| exits).sum();
        let share = |exits: u64| Ratio::of(exits, all)?.permille()?.try_into().ok();
        let rows = runs
            .into_iter()
            .map(|(name, exits)| (name, exits, share(exits).unwrap_or(0)));
        charts.push((
            BY_RUN,
            shares(&format!("{id}-runs"), "Exits by length of run", rows),
        ));
    }
    if let Some(boosts) = &vm.boosts {
        let rows = boosts.outcomes.iter().map(named);
        charts.push((
            BY_OUTCOME,
            shares(&format!("{id}-boosts"), "Boosts by outcome", rows),
        ));
    }
    if let Some(calls) = &vm.calls {
        let rows: Vec<(&str, &Spread)> = calls
            .by_receiver
            .iter()
            .map(|row| (row.receiver.as_str(), &row.delay_ns))
            .collect();
        if let Some(svg) = curve(&format!("{id}-calls"), "IPI to entry", &rows) {
            charts.push((TO_ENTRY, svg));
        }
    }
    if let Some(table) = &vm.preemption {
        let woken = table
            .wakeup_ns
            .iter()
            .map(|spread| ("after wake-up", spread));
        let rows: Vec<(&str, &Spread)> = [("descheduled", &table.descheduled_ns)]
            .into_iter()
            .chain(woken)
            .collect();
        if let Some(svg) = curve(&format!("{id}-steal"), "Ready but not running", &rows) {
            charts.push((READY, svg));
        }
    }
    charts
}

fn named(row: &Count) -> (String, u64, u64) {
    (row.name.replace('-', " "), row.count, row.permille)
}

fn shares(id: &str, title: &str, rows: impl Iterator<Item = (String, u64, u64)>) -> String {
    let bars: Vec<Bar> = rows
        .map(|(label, value, permille)| Bar {
            label,
            value,
            range: None,
            text: humane::grouped(value),
            note: percent(permille),
            series: 1,
        })
        .collect();
    bars::draw(id, title, &bars, WIDTH)
}

/// Counts and times of exits, both as parts of their whole.
fn reasons(id: &str, vm: &VmTable) -> String {
    let mut names: Vec<String> = vm
        .exits
        .iter()
        .take(REASONS_NAMED)
        .map(|row| row.name.clone())
        .collect();
    names.push("others".to_owned());
    let stack = |label: &str, share: fn(&steady_diagnose::ExitRow) -> u64, text: String| {
        let mut parts: Vec<(u64, String)> = vm
            .exits
            .iter()
            .take(REASONS_NAMED)
            .map(|row| (share(row), percent(share(row))))
            .collect();
        let rest = vm.exits.iter().skip(REASONS_NAMED).map(share).sum();
        parts.push((rest, percent(rest)));
        Stack {
            label: label.to_owned(),
            text,
            parts,
        }
    };
    let count: u64 = vm.exits.iter().map(|row| row.count).sum();
    let total: u64 = vm.exits.iter().map(|row| row.time_ns.total).sum();
    let stacks = [
        stack("count", |row| row.count_permille, humane::grouped(count)),
        stack(
            "time until the next entry",
            |row| row.time_permille,
            time(total),
        ),
    ];
    stacked::draw(
        &format!("{id}-reasons"),
        "Exits by reason",
        &names,
        &stacks,
        WIDTH,
    )
}

/// Curves of spreads that have values; none if none has.
pub fn curve(id: &str, title: &str, rows: &[(&str, &Spread)]) -> Option<String> {
    let values: Vec<(&str, Distribution)> = rows
        .iter()
        .filter(|(_, spread)| spread.count > 0)
        .filter_map(|(label, spread)| Some((*label, distribution(spread)?)))
        .collect();
    let curves: Vec<Curve<'_>> = values
        .iter()
        .enumerate()
        .map(|(series, (label, values))| Curve {
            label,
            values,
            series,
        })
        .collect();
    cdf::draw(id, title, &curves, CURVE)
}

fn distribution(spread: &Spread) -> Option<Distribution> {
    let buckets = spread
        .buckets
        .iter()
        .map(|&[low, high, count]| Bucket(low, high, count));
    let made = Distribution::new(
        "time",
        Unit::Ns,
        spread.count,
        spread.total,
        spread.min,
        spread.max,
        buckets.collect(),
    );
    made.ok()
}
