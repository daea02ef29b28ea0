// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The conditions of a claim: stated in its file, compared with its scenario, printed in its rows.

use steady_measures::Clock;
use steady_report::humane;
use steady_scenario::{Conditions, Scenario};

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

/// The conditions in one line for a claim's rows: what all its variants share.
#[must_use]
pub fn line(house: &House, claim: &Claim, scenario: Option<&Scenario>) -> String {
    let record = house.record(claim);
    let mut parts: Vec<String> = Vec::new();
    if let Some(scenario) = scenario {
        let all: Vec<String> = of_variants(claim, scenario)
            .iter()
            .map(ToString::to_string)
            .collect();
        let first = all.first().map(String::as_str).unwrap_or_default();
        let shared = |part: &&str| all.iter().all(|one| one.split("; ").any(|p| p == *part));
        for part in first.split("; ").filter(shared) {
            match (part, window_ns(claim, scenario, house)) {
                ("PLE on", Some(ns)) => {
                    let window = humane::positive(steady_measures::Unit::Ns, ns);
                    parts.push(format!("PLE on, window {window}"));
                }
                _ => parts.push(part.to_owned()),
            }
        }
    } else {
        for (key, value) in &claim.conditions {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            parts.push(format!("{key}: {value}"));
        }
    }
    let config = |key: &str| record.and_then(|record| record.result.config.get(key));
    if let Some(release) = config("kernel.release") {
        parts.push(format!("Linux {release}"));
    }
    if !claim.is_simulated() {
        parts.push("250 Hz".to_owned());
    }
    parts.join("; ")
}

/// The pause-loop window in time of the engine's clock; `None` where variants differ in it or the
/// clock is the wall's.
fn window_ns(claim: &Claim, scenario: &Scenario, house: &House) -> Option<u64> {
    let record = house.record(claim)?;
    let Clock::Instructions { per_second } = record.result.engine.clock else {
        return None;
    };
    let named = claim.all_variants();
    let mut windows = named
        .filter_map(|name| scenario.variants.iter().find(|v| v.name == name))
        .map(|variant| {
            let set = variant.switches.ple_window_ns.map(u64::from);
            set.or_else(|| (WINDOW_CYCLES * 1_000_000_000).checked_div(per_second))
        });
    let first = windows.next()??;
    windows.all(|window| window == Some(first)).then_some(first)
}
