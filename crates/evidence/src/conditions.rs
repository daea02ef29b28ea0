// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The conditions of a claim: stated in its file, compared with its scenario or with the machines
//! of the simulator, printed in its rows.

use std::collections::{BTreeMap, BTreeSet};

use steady_measures::{Clock, Unit};
use steady_report::humane;
use steady_scenario::{Conditions, Part, Scenario, Variant};

use crate::brought;
use crate::captured;
use crate::claim::{CONDITION_KEYS, Claim, Row};
use crate::error::Problem;
use crate::house::{House, Keys};
use crate::record::Record;
use crate::simulated::Words;

/// KVM's pause-loop window on Intel, in cycles (`arch/x86/kvm/x86.c`, Linux 6.12).
const WINDOW_CYCLES: u64 = 4096;

/// What a scenario's variant says for a key of [`CONDITION_KEYS`].
fn said(conditions: &Conditions, key: &str) -> Option<toml::Value> {
    let number = |value: u64| i64::try_from(value).ok().map(toml::Value::Integer);
    Some(match key {
        "ple" => if conditions.ple { "on" } else { "off" }.into(),
        "pv" => conditions.pv.as_str().into(),
        "placement" => conditions.placement.as_str().into(),
        "vms" => number(conditions.vms as u64)?,
        "vcpus" => number(conditions.vcpus.into())?,
        "pcpus" => number(conditions.pcpus.into())?,
        "apicv" => conditions.apicv.into(),
        "groups" => conditions.groups.into(),
        _ => return None,
    })
}

/// The conditions of each variant of a claim, the base first.
fn of_variants(claim: &Claim, scenario: &Scenario) -> Vec<Conditions> {
    let named = captured::recorded(claim).into_iter();
    named
        .filter_map(|name| scenario.variants.iter().find(|v| v.name == name))
        .map(|variant| Conditions::of(scenario, variant))
        .collect()
}

/// What is wrong with the conditions that a claim states; nothing where its scenario cannot be
/// read, which is another problem.
pub(crate) fn problems(place: &str, house: &House, claim: &Claim) -> Vec<Problem> {
    if claim.is_simulated() {
        return of_simulator(place, house, claim);
    }
    let Some(scenario) = house.scenario(claim) else {
        return Vec::new();
    };
    let all = of_variants(claim, scenario);
    let values = |key: &str| all.iter().map(|one| said(one, key)).collect();
    stated(place, claim, &CONDITION_KEYS, "the scenario", values)
}

/// A simulated claim states every condition that the simulator has of its rows and variants.
fn of_simulator(place: &str, house: &House, claim: &Claim) -> Vec<Problem> {
    let variants: Vec<&str> = claim.all_variants().collect();
    let cells = cells(house, claim, None, &variants);
    let each: Vec<&Words> = cells.into_iter().map(|(_, words)| words).collect();
    let each: Vec<_> = each.into_iter().filter(|words| !words.is_empty()).collect();
    let keys: BTreeSet<&str> = each
        .iter()
        .flat_map(|one| one.keys().map(String::as_str))
        .collect();
    let values = |key: &str| {
        let value = |text: &String| match text.parse() {
            Ok(number) => toml::Value::Integer(number),
            Err(_) => text.as_str().into(),
        };
        let all = each.iter().map(|one| one.get(key).map(value));
        all.collect::<Option<Vec<_>>>()
            .filter(|all| !all.is_empty())
    };
    let keys: Vec<&str> = keys.into_iter().collect();
    stated(place, claim, &keys, "the simulator", values)
}

/// The simulator's conditions of a claim's cells, by what they are of: rows of no workload have
/// their own, and those of a workload have the variants'.
fn cells<'a>(
    house: &'a House,
    claim: &'a Claim,
    row: Option<&str>,
    variants: &[&'a str],
) -> Vec<(&'a str, &'a Words)> {
    let Some(simulated) = house.keys.simulated.get(&claim.scenario) else {
        return Vec::new();
    };
    let rows = claim.rows.iter();
    let rows = rows.filter(|one| row.is_none_or(|id| one.id == id));
    let (of_workloads, numbers): (Vec<&Row>, Vec<&Row>) =
        rows.partition(|row| row.is_of_workload());
    let numbers = numbers.into_iter().filter_map(|row| {
        let words = simulated.numbers.get(&row.measure)?;
        Some((row.id.as_str(), words))
    });
    let known = |name: &&'a str| Some((*name, simulated.variants.get(*name)?));
    let variants = variants.iter().filter(|_| !of_workloads.is_empty());
    numbers.chain(variants.filter_map(known)).collect()
}

/// What a record keeps of the simulator's conditions, in one line each: of rows of no workload by
/// their measures, and of variants that workloads have; nothing of what follows by arithmetic.
pub(crate) fn simulated_lines<'a>(keys: &'a Keys, claim: &'a Claim) -> BTreeMap<&'a str, String> {
    let Some(simulated) = keys.simulated.get(&claim.scenario) else {
        return BTreeMap::new();
    };
    let numbers = claim.rows.iter().filter(|row| !row.is_of_workload());
    let numbers = numbers.filter_map(|row| {
        let words = simulated.numbers.get(&row.measure)?;
        Some((row.measure.as_str(), words))
    });
    let variants = claim.all_variants();
    let variants = variants.filter_map(|name| Some((name, simulated.variants.get(name)?)));
    let line = |words: &Words| {
        let words = words.iter().map(|(key, value)| format!("{key}: {value}"));
        words.collect::<Vec<_>>().join("; ")
    };
    let all = numbers.chain(variants);
    all.map(|(name, words)| (name, line(words))).collect()
}

/// What of a simulated claim has a record of other conditions than the simulator has now.
pub(crate) fn changed(house: &House, claim: &Claim) -> Vec<Problem> {
    let Some(record) = house.record(claim).filter(|_| claim.is_simulated()) else {
        return Vec::new();
    };
    let lines = simulated_lines(&house.keys, claim).into_iter();
    let pairs = lines.filter_map(|(name, today)| {
        let found = record.key(&format!("{}{name}", Record::CONDITIONS));
        (found != today).then(|| {
            let text = format!(
                "its record is of \"{found}\", and the simulator has \"{today}\"; simulate it \
                 again: {}",
                claim.command()
            );
            let variant = claim.all_variants().any(|variant| variant == name);
            let kind = if variant { "variant" } else { "measure" };
            Problem::new(format!("claim `{}`, {kind} `{name}`", claim.id), text)
        })
    });
    pairs.collect()
}

/// What is wrong with the conditions that a claim states, beside those that `source` has: the value
/// of a key in each of its cases, `None` where it knows no such key.
fn stated(
    place: &str,
    claim: &Claim,
    required: &[&str],
    source: &str,
    values: impl Fn(&str) -> Option<Vec<toml::Value>>,
) -> Vec<Problem> {
    let missing = required
        .iter()
        .filter(|key| !claim.conditions.contains_key(**key));
    let missing = missing
        .map(|key| format!("the condition `{key}` is missing; expected each of {required:?}"));
    let wrong = claim.conditions.iter().filter_map(|(key, stated)| {
        let Some(values) = values(key) else {
            return Some(format!("unknown condition `{key}`"));
        };
        let first = values.first()?;
        let same = values.iter().all(|value| value == first);
        let differs = toml::Value::from("differs");
        (stated != if same { first } else { &differs }).then(|| {
            let found = match same {
                true => first.to_string(),
                false => "different ones (\"differs\")".to_owned(),
            };
            format!("the condition `{key}` is stated as {stated}, and {source} has {found}")
        })
    });
    let all = missing.chain(wrong);
    all.map(|text| Problem::new(place, text)).collect()
}

/// The conditions in one line of all that a claim races, and what must be said of the programs.
#[must_use]
pub fn line(house: &House, claim: &Claim) -> String {
    let variants: Vec<&str> = claim.all_variants().collect();
    let conditions = of(house, claim, None, &variants);
    let programs = house.programs(claim);
    let brought = brought::line(house, claim);
    let parts = [conditions.as_str()].into_iter().chain(brought.as_deref());
    let parts: Vec<&str> = parts.chain(programs).collect();
    parts.join("; ")
}

/// The conditions in one line of these variants of a claim, and of a row where one is named. One in
/// which they differ stands with the variants or rows that have it.
pub(crate) fn of(house: &House, claim: &Claim, row: Option<&str>, variants: &[&str]) -> String {
    if claim.is_simulated() {
        return simulated(house, claim, row, variants);
    }
    let result = house.record(claim).map(|record| &record.result);
    let mut parts: Vec<String> = Vec::new();
    if let Some(scenario) = house.scenario(claim) {
        let clock = result.map(|result| result.engine.clock);
        let raced = scenario.variants.iter();
        let recorded = captured::recorded(claim);
        let of_one = claim.captured.as_ref().is_some_and(|of| of.of.is_some());
        let names = if of_one { &recorded } else { variants };
        let named = raced.filter(|variant| names.contains(&variant.name.as_str()));
        let each: Vec<(&str, Vec<Part>)> = named
            .map(|variant| (variant.name.as_str(), parts_of(scenario, variant, clock)))
            .collect();
        let count = each.first().map_or(0, |(_, parts)| parts.len());
        parts.extend((0..count).filter_map(|at| by_variant(&each, at)));
    }
    let config = |key: &str| result.and_then(|result| result.config.get(key));
    parts.extend(config("kernel.release").map(|release| format!("Linux {release}")));
    parts.extend(config("kernel.hz").map(|hz| format!("{hz} Hz")));
    if let Some(of) = &claim.captured {
        let accesses = i64::try_from(of.accesses).unwrap_or(i64::MAX);
        let accesses = humane::quantity(Unit::Count, accesses);
        let recorded = of.of.as_ref();
        let of_one = recorded.map_or_else(String::new, |of| format!(" of `{of}`"));
        parts.push(format!(
            "{accesses} accesses{of_one} recorded, simulated with DRAM alone, on the ATTC paper's \
             machine if no other is named"
        ));
        if recorded.is_some() {
            parts.extend(captured::changes(&house.keys, variants));
        }
    }
    parts.join("; ")
}

/// The simulator's conditions of one row; of all rows, what most have without names, and what
/// others have with theirs. Rows of workloads have those of these variants.
fn simulated(house: &House, claim: &Claim, row: Option<&str>, variants: &[&str]) -> String {
    let mut by_key: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for (name, words) in cells(house, claim, row, variants) {
        for (key, value) in words {
            let of = by_key.entry(key).or_default().entry(value).or_default();
            of.push(name);
        }
    }
    if by_key.is_empty() {
        return "by arithmetic".to_owned();
    }
    let words = by_key.into_iter().map(|(key, values)| {
        let mut values: Vec<(&str, Vec<&str>)> = values.into_iter().collect();
        values.sort_by_key(|(_, names)| std::cmp::Reverse(names.len()));
        let named = |(at, (value, names)): (usize, (&str, Vec<&str>))| match at {
            0 => value.to_owned(),
            _ => format!("{value} (`{}`)", names.join("`, `")),
        };
        let values: Vec<String> = values.into_iter().enumerate().map(named).collect();
        format!("{key}: {}", values.join(" or "))
    });
    words.collect::<Vec<_>>().join("; ")
}

/// One condition of several variants: itself where all have the same, and nothing where it goes
/// without saying in all.
fn by_variant(each: &[(&str, Vec<Part>)], at: usize) -> Option<String> {
    if each.iter().all(|(_, parts)| parts[at].implied) {
        return None;
    }
    let mut values: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, parts) in each {
        let part = parts[at].text.as_str();
        match values.iter_mut().find(|(value, _)| *value == part) {
            Some((_, names)) => names.push(name),
            None => values.push((part, vec![name])),
        }
    }
    if let [(value, _)] = values.as_slice() {
        return Some((*value).to_owned());
    }
    let words = values
        .iter()
        .map(|(value, names)| format!("{value} (`{}`)", names.join("`, `")));
    Some(words.collect::<Vec<_>>().join(" or "))
}

/// The conditions of one variant, each in words; the window of pause-loop exiting in the time of
/// the engine's clock, where that is not the wall's.
fn parts_of(scenario: &Scenario, variant: &Variant, clock: Option<Clock>) -> Vec<Part> {
    let mut parts = Conditions::of(scenario, variant).parts().to_vec();
    let window = clock.and_then(|clock| window_ns(variant, clock));
    let ple = parts.iter_mut().find(|part| part.text == "PLE on");
    if let (Some(part), Some(ns)) = (ple, window) {
        part.text = format!("PLE on, window {}", humane::positive(Unit::Ns, ns));
    }
    parts
}

/// A variant's pause-loop window: set in time, in cycles on the host's command line, or KVM's own.
fn window_ns(variant: &Variant, clock: Clock) -> Option<u64> {
    let Clock::Instructions { per_second } = clock else {
        return None;
    };
    let cycles = |cycles: u64| cycles.saturating_mul(1_000_000_000).checked_div(per_second);
    let mut words = variant.host_cmdline.split_whitespace();
    let of_cmdline = words.find_map(|word| word.strip_prefix("kvm_intel.ple_window="));
    match (variant.switches.ple_window_ns, of_cmdline) {
        (Some(ns), _) => Some(u64::from(ns)),
        (None, Some(text)) => text.parse().ok().and_then(cycles),
        (None, None) => cycles(WINDOW_CYCLES),
    }
}
