// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The conditions of a claim: stated in its file, compared with its scenario, printed in its rows.

use steady_measures::{Clock, Unit};
use steady_report::humane;
use steady_scenario::{Conditions, Scenario, Variant};

use crate::claim::{CONDITION_KEYS, Claim};
use crate::error::Problem;
use crate::house::House;

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
    let named = claim.all_variants();
    named
        .filter_map(|name| scenario.variants.iter().find(|v| v.name == name))
        .map(|variant| Conditions::of(scenario, variant))
        .collect()
}

/// What is wrong with the conditions that a claim states.
pub(crate) fn problems(place: &str, claim: &Claim, scenario: &Scenario) -> Vec<Problem> {
    let mut found = Vec::new();
    for key in CONDITION_KEYS {
        if !claim.conditions.contains_key(key) {
            found.push(Problem::new(
                place,
                format!("the condition `{key}` is missing; expected each of {CONDITION_KEYS:?}"),
            ));
        }
    }
    let all = of_variants(claim, scenario);
    for (key, stated) in &claim.conditions {
        let values: Option<Vec<toml::Value>> = all.iter().map(|one| said(one, key)).collect();
        let Some(values) = values else {
            found.push(Problem::new(place, format!("unknown condition `{key}`")));
            continue;
        };
        let same = values.iter().all(|value| value == &values[0]);
        let expected = match same {
            true => values.first().cloned(),
            false => Some("differs".into()),
        };
        if expected.is_some_and(|expected| expected != *stated) {
            found.push(Problem::new(
                place,
                format!(
                    "the condition `{key}` is stated as {stated}, and the scenario has {}",
                    match same {
                        true => values[0].to_string(),
                        false => "different ones (\"differs\")".to_owned(),
                    }
                ),
            ));
        }
    }
    found
}

/// The conditions in one line of all that a claim races.
#[must_use]
pub fn line(house: &House, claim: &Claim) -> String {
    of(house, claim, &claim.all_variants().collect::<Vec<_>>())
}

/// The conditions in one line of these variants of a claim. One in which they differ stands with
/// the variants that have it.
pub(crate) fn of(house: &House, claim: &Claim, variants: &[&str]) -> String {
    let result = house.record(claim).map(|record| &record.result);
    let mut parts: Vec<String> = Vec::new();
    if let Some(scenario) = house.scenario(claim) {
        let clock = result.map(|result| result.engine.clock);
        let raced = scenario.variants.iter();
        let named = raced.filter(|variant| variants.contains(&variant.name.as_str()));
        let each: Vec<(&str, Vec<String>)> = named
            .map(|variant| (variant.name.as_str(), parts_of(scenario, variant, clock)))
            .collect();
        let most = each.iter().map(|(_, parts)| parts.len()).max();
        parts.extend((0..most.unwrap_or(0)).map(|at| by_variant(&each, at)));
    } else {
        for (key, value) in &claim.conditions {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            parts.push(format!("{key}: {value}"));
        }
    }
    let config = |key: &str| result.and_then(|result| result.config.get(key));
    parts.extend(config("kernel.release").map(|release| format!("Linux {release}")));
    parts.extend(config("kernel.hz").map(|hz| format!("{hz} Hz")));
    parts.join("; ")
}

/// One condition of several variants: itself where all have the same.
fn by_variant(each: &[(&str, Vec<String>)], at: usize) -> String {
    let mut values: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, parts) in each {
        let part = parts.get(at).map_or("patched kernel", String::as_str);
        match values.iter_mut().find(|(value, _)| *value == part) {
            Some((_, names)) => names.push(name),
            None => values.push((part, vec![name])),
        }
    }
    if let [(value, _)] = values.as_slice() {
        return (*value).to_owned();
    }
    let words = values
        .iter()
        .map(|(value, names)| format!("{value} (`{}`)", names.join("`, `")));
    words.collect::<Vec<_>>().join(" or ")
}

/// The conditions of one variant, each in words; the window of pause-loop exiting in the time of
/// the engine's clock, where that is not the wall's.
fn parts_of(scenario: &Scenario, variant: &Variant, clock: Option<Clock>) -> Vec<String> {
    let all = Conditions::of(scenario, variant).to_string();
    let window = clock.and_then(|clock| window_ns(variant, clock));
    let words = all.split("; ").map(|part| match window {
        Some(ns) if part == "PLE on" => {
            format!("PLE on, window {}", humane::positive(Unit::Ns, ns))
        }
        _ => part.to_owned(),
    });
    words.collect()
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
