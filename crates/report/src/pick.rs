// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which measures are shown first, and what they are called.
//!
//! A result holds hundreds of metrics; a few show what happened. The table of a terminal has a
//! handful ([`few`]), the page has more of them ([`telling`]). Of each workload: its first
//! distribution, throughput and time. Of each VM: exits and their most frequent reasons, halts,
//! pause-loop exits, directed yields, hypercalls, CPU time and guest time by class. A metric that
//! is zero in every variant is not shown, nor one that is neither good nor bad.

use std::collections::BTreeSet;

use steady_measures::chance::Verdict;
use steady_measures::{Better, Cell, Comparison, Row, names};

/// How many exit reasons of a VM are shown.
const REASONS_SHOWN: usize = 5;
/// The parts of a distribution, in the order in which they are shown.
const PARTS: [&str; 5] = ["mean", "p50", "p90", "p99", "max"];

/// Rows of one workload, one VM, or the host.
pub(crate) struct Group<'a> {
    /// Such as `vm0 · latency`, `vm0`, `host`.
    pub title: String,
    pub vm: Option<&'a str>,
    pub workload: Option<&'a str>,
    pub rows: Vec<&'a Row>,
}

/// What a group is of.
type Scope<'a> = (Option<&'a str>, Option<&'a str>);

/// All rows, by what they are of: workloads first, then VMs, then the host, each kind in the order
/// in which it first appears.
pub(crate) fn all(comparison: &Comparison) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in &comparison.rows {
        let (vm, workload): Scope<'_> = (row.key.vm.as_deref(), row.key.workload.as_deref());
        let known = groups
            .iter()
            .position(|group| (group.vm, group.workload) == (vm, workload));
        let at = known.unwrap_or_else(|| {
            groups.push(Group {
                title: title(vm, workload),
                vm,
                workload,
                rows: Vec::new(),
            });
            groups.len() - 1
        });
        groups[at].rows.push(row);
    }
    groups.sort_by_key(|group| match (group.vm, group.workload) {
        (_, Some(_)) => 0,
        (Some(_), None) => 1,
        (None, None) => 2,
    });
    groups
}

/// The rows that show most, grouped and ordered.
pub(crate) fn telling(comparison: &Comparison) -> Vec<Group<'_>> {
    let mut groups = all(comparison);
    for group in &mut groups {
        let rows = std::mem::take(&mut group.rows);
        group.rows = match (group.vm, group.workload) {
            (Some(_), None) => of_vm(&rows),
            _ => of_workload(&rows),
        };
    }
    groups.retain(|group| !group.rows.is_empty());
    groups
}

/// What a screen has room for: of each workload the latency, throughput and time by which variants
/// are judged, or its own measures if it has none of these; then what it cost in exits, pause-loop
/// exits and CPU time.
pub(crate) fn few(comparison: &Comparison) -> Vec<Group<'_>> {
    let mut groups = telling(comparison);
    for group in &mut groups {
        if group.workload.is_some() {
            group.rows = headline(&group.rows);
        }
        let judged = group.rows.iter().any(|row| is_common(row));
        group
            .rows
            .retain(|row| is_cost(row) || is_common(row) || !(judged || is_of_host(row)));
    }
    groups.retain(|group| !group.rows.is_empty());
    groups
}

/// Whether a row is a measure that many programs have.
fn is_common(row: &Row) -> bool {
    let name = row.key.name.as_str();
    let part = name.rsplit_once('.').map(|(_, part)| part);
    part.is_some_and(|part| PARTS.contains(&part))
        || [names::THROUGHPUT, names::TIME].contains(&name)
}

/// Whether a row says what a workload cost the host, in one number.
fn is_cost(row: &Row) -> bool {
    let name = row.key.name.as_str();
    [names::EXITS_TOTAL, names::CPU_TIME].contains(&name) || names::PLE_EXITS.contains(&name)
}

/// Of a workload, the few rows by which variants are judged.
pub(crate) fn headline<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    let wanted = |row: &Row| {
        let name = row.key.name.as_str();
        let part = name.rsplit_once('.').map(|(_, part)| part);
        matches!(part, Some("mean" | "p99" | "max"))
            || [names::THROUGHPUT, names::TIME].contains(&name)
            || (row.better != Better::Neutral && !part.is_some_and(|part| PARTS.contains(&part)))
    };
    rows.iter().copied().filter(|row| wanted(row)).collect()
}

/// A workload's own rows, then what the host counted while it ran.
fn of_workload<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    let (host, own): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| is_of_host(row));
    let mut chosen = of_program(&own);
    chosen.extend(of_vm(&host));
    chosen
}

/// Whether a row counts what the host saw of a VM.
fn is_of_host(row: &Row) -> bool {
    let name = row.key.name.as_str();
    name.starts_with(names::EXITS_PREFIX)
        || name.starts_with(names::STAT_PREFIX)
        || name.starts_with(names::GUEST_TIME_PREFIX)
        || name == names::CPU_TIME
}

fn of_program<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    let first = rows
        .iter()
        .find_map(|row| row.key.name.strip_suffix(".mean"));
    let rank = |row: &Row| -> Option<usize> {
        let name = row.key.name.as_str();
        if let Some((stem, part)) = name.rsplit_once('.')
            && let Some(at) = PARTS.iter().position(|&known| known == part)
        {
            return (Some(stem) == first).then_some(at);
        }
        match name {
            names::THROUGHPUT => Some(PARTS.len()),
            names::TIME => Some(PARTS.len() + 1),
            _ if row.better == Better::Neutral => None,
            _ => Some(PARTS.len() + 2),
        }
    };
    ranked(rows, rank)
}

fn of_vm<'a>(rows: &[&'a Row]) -> Vec<&'a Row> {
    let mut reasons: Vec<&Row> = rows.iter().copied().filter(|row| is_reason(row)).collect();
    // Stable, so that equal reasons keep the order of the result.
    reasons.sort_by_key(|row| std::cmp::Reverse(largest(row)));
    let frequent: BTreeSet<&str> = reasons
        .iter()
        .take(REASONS_SHOWN)
        .map(|row| row.key.name.as_str())
        .collect();
    let place_of = |row: &Row| {
        reasons
            .iter()
            .position(|reason| reason.key.name == row.key.name)
    };
    let rank = |row: &Row| -> Option<usize> {
        let name = row.key.name.as_str();
        let after_reasons = 1 + reasons.len();
        match name {
            names::EXITS_TOTAL => Some(0),
            _ if frequent.contains(name) || names::PLE_EXITS.contains(&name) => {
                place_of(row).map(|place| 1 + place)
            }
            names::HALTS => Some(after_reasons),
            names::DIRECTED_YIELDS_ATTEMPTED => Some(after_reasons + 1),
            names::DIRECTED_YIELDS_SUCCESSFUL => Some(after_reasons + 2),
            names::HYPERCALLS => Some(after_reasons + 3),
            names::CPU_TIME => Some(after_reasons + 4),
            _ => class_place(name).map(|place| after_reasons + 5 + place),
        }
    };
    ranked(rows, rank)
}

fn ranked<'a>(rows: &[&'a Row], rank: impl Fn(&Row) -> Option<usize>) -> Vec<&'a Row> {
    let mut chosen: Vec<(usize, &Row)> = rows
        .iter()
        .filter(|row| largest(row) != 0)
        .filter_map(|&row| rank(row).map(|rank| (rank, row)))
        .collect();
    chosen.sort_by_key(|&(rank, _)| rank);
    chosen.into_iter().map(|(_, row)| row).collect()
}

/// Whether a row counts exits for one reason.
pub(crate) fn is_reason(row: &Row) -> bool {
    row.key.name.starts_with(names::EXITS_PREFIX) && row.key.name != names::EXITS_TOTAL
}

/// The place of a class of guest time among its kind; `None` for other rows.
pub(crate) fn class_place(name: &str) -> Option<usize> {
    let class = name.strip_prefix(names::GUEST_TIME_PREFIX)?;
    let known = names::GUEST_TIME_CLASSES;
    let place = known.iter().position(|&known| known == class);
    Some(place.unwrap_or(known.len()))
}

/// The greatest magnitude over the variants; 0 if the row is zero everywhere.
pub(crate) fn largest(row: &Row) -> u64 {
    let medians = row
        .cells
        .iter()
        .flatten()
        .map(|cell| cell.median.unsigned_abs());
    medians.max().unwrap_or(0)
}

/// Whether a cell is shown to be better (`true`) or worse (`false`) than the baseline; `None` where
/// the runs do not distinguish it from chance.
pub(crate) fn judged(cell: Cell) -> Option<bool> {
    match cell.judgement?.verdict {
        Verdict::Better => Some(true),
        Verdict::Worse => Some(false),
        Verdict::Differs
        | Verdict::NoDifferenceShown
        | Verdict::TooFewRuns
        | Verdict::UnevenUpdates => None,
    }
}

fn title(vm: Option<&str>, workload: Option<&str>) -> String {
    match (vm, workload) {
        (Some(vm), Some(workload)) => format!("{vm} · {workload}"),
        (Some(one), None) | (None, Some(one)) => one.to_owned(),
        (None, None) => "host".to_owned(),
    }
}

/// Which way is better, as a sign; empty where neither is.
pub(crate) fn arrow(better: Better) -> &'static str {
    match better {
        Better::Higher => "↑",
        Better::Lower => "↓",
        Better::Neutral => "",
    }
}

/// A metric's name in words.
pub(crate) fn label(name: &str) -> String {
    match name {
        names::EXITS_TOTAL => "VM exits".to_owned(),
        names::HALTS => "halts".to_owned(),
        names::HYPERCALLS => "hypercalls".to_owned(),
        names::DIRECTED_YIELDS_ATTEMPTED => "directed yields tried".to_owned(),
        names::DIRECTED_YIELDS_SUCCESSFUL => "directed yields accepted".to_owned(),
        names::CPU_TIME => "CPU time on the host".to_owned(),
        _ => {
            if let Some(reason) = name.strip_prefix(names::EXITS_PREFIX) {
                return format!("exits: {reason}");
            }
            if let Some(class) = name.strip_prefix(names::GUEST_TIME_PREFIX) {
                return format!("guest time: {}", class_label(class));
            }
            match name.strip_prefix(names::STAT_PREFIX) {
                Some(stat) => format!("KVM {}", stat.replace('_', " ")),
                None => name.replace(['.', '_'], " "),
            }
        }
    }
}

/// A class of guest time in words.
pub(crate) fn class_label(class: &str) -> String {
    match class {
        "other" => "other kernel".to_owned(),
        _ => class.replace('_', " "),
    }
}
