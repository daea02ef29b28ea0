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
            let windows = windows_ns(claim, scenario, house);
            if part == "PLE on" && !windows.is_empty() {
                let unit = steady_measures::Unit::Ns;
                let each = windows.iter().map(|&ns| humane::positive(unit, ns));
                let words: Vec<String> = each.collect();
                let word = if words.len() > 1 { "windows" } else { "window" };
                parts.push(format!("PLE on, {word} {}", words.join(" and ")));
            } else {
                parts.push(part.to_owned());
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

/// The pause-loop windows of a claim's variants in time of the engine's clock, each once, in the
/// order of the variants; none where the clock is the wall's.
fn windows_ns(claim: &Claim, scenario: &Scenario, house: &House) -> Vec<u64> {
    let clock = house.record(claim).map(|record| record.result.engine.clock);
    let Some(Clock::Instructions { per_second }) = clock else {
        return Vec::new();
    };
    let mut windows: Vec<u64> = Vec::new();
    let named = claim.all_variants();
    for variant in named.filter_map(|name| scenario.variants.iter().find(|v| v.name == name)) {
        let cycles = |cycles: u64| cycles.saturating_mul(1_000_000_000).checked_div(per_second);
        // A window in cycles may also stand on the host's command line.
        let mut words = variant.host_cmdline.split_whitespace();
        let of_cmdline = words.find_map(|word| word.strip_prefix("kvm_intel.ple_window="));
        let window = match (variant.switches.ple_window_ns, of_cmdline) {
            (Some(ns), _) => Some(u64::from(ns)),
            (None, Some(text)) => text.parse().ok().and_then(cycles),
            (None, None) => cycles(WINDOW_CYCLES),
        };
        if let Some(ns) = window.filter(|ns| !windows.contains(ns)) {
            windows.push(ns);
        }
    }
    windows
}
