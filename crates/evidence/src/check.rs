// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether claims, papers, records and pages hold together. It boots nothing.

use std::collections::BTreeSet;
use std::fs;

use steady_scenario::{Kernel, Scenario, Variant};

use crate::also;
use crate::brought;
use crate::captured;
use crate::claim::{Claim, Row, System};
use crate::conditions;
use crate::error::Problem;
use crate::given;
use crate::house::House;
use crate::items;
use crate::page;
use crate::parts;
use crate::typed;

/// All records together have at most this many bytes.
const MOST_BYTES: u64 = 8 << 20;

/// Every problem; none where all holds.
#[must_use]
pub fn check(house: &House) -> Vec<Problem> {
    let mut problems = unique(house);
    for claim in house.claims() {
        problems.extend(of_claim(house, claim));
    }
    for system in &house.systems {
        problems.extend(of_answer(system));
        problems.extend(of_score(house, system));
    }
    for paper in &house.papers {
        problems.extend(items::check(house, paper));
    }
    problems.extend(of_records(house));
    problems.extend(of_pages(house));
    problems.extend(typed::problems(house));
    problems
}

fn place(claim: &Claim) -> String {
    format!("claim `{}`", claim.id)
}

fn unique(house: &House) -> Vec<Problem> {
    let (mut seen, mut problems) = (BTreeSet::new(), Vec::new());
    for claim in house.claims() {
        let first = house.claims().find(|other| other.race() == claim.race());
        if first.is_some_and(|first| !first.same_race(claim)) {
            problems.push(Problem::new(
                place(claim),
                "claims of one race need the same scenario, programs, engine, trace, capture and \
                 seeds",
            ));
        }
    }
    for claim in house.claims() {
        if !seen.insert(claim.id.clone()) {
            problems.push(Problem::new(place(claim), "there are two of that id"));
        }
    }
    for paper in &house.papers {
        let mut seen = BTreeSet::new();
        for item in &paper.items {
            if !seen.insert(&item.id) {
                let file = format!("evidence/papers/{}.toml", paper.paper);
                problems.push(Problem::new(file, format!("two items `{}`", item.id)));
            }
        }
    }
    problems
}

fn of_claim(house: &House, claim: &Claim) -> Vec<Problem> {
    let place = place(claim);
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for row in &claim.rows {
        if !seen.insert(&row.id) {
            problems.push(Problem::new(&place, format!("two rows `{}`", row.id)));
        }
    }
    for name in claim.show.iter().flatten() {
        if !claim.variants.contains(name) {
            let text = format!("`show` has `{name}`, which is not one of its `variants`");
            problems.push(Problem::new(&place, text));
        }
    }
    if let Some(version) = &claim.kernel
        && !house.keys.ports.contains_key(version)
    {
        let known: Vec<&str> = house.keys.ports.keys().map(String::as_str).collect();
        let text = format!(
            "kernel `{version}` is not in linux/ports; expected one of: {}",
            known.join(", ")
        );
        problems.push(Problem::new(&place, text));
    }
    problems.extend(captured::problem(&house.keys, claim).map(|text| Problem::new(&place, text)));
    problems.extend(of_measures(house, claim));
    problems.extend(conditions::problems(&place, house, claim));
    let Some(scenario) = house.scenario(claim) else {
        return problems;
    };
    problems.extend(of_kernels(claim, scenario).map(|text| Problem::new(&place, text)));
    let brought = brought::problem(claim, scenario);
    problems.extend(brought.map(|text| Problem::new(&place, text)));
    for name in captured::recorded(claim) {
        if !scenario.variants.iter().any(|variant| variant.name == name) {
            let text = format!("the scenario has no variant `{name}`");
            problems.push(Problem::new(&place, text));
        }
    }
    problems
}

/// The variant of a claim that names a kernel. A record is of one kernel, by whose key it is old.
fn of_kernels(claim: &Claim, scenario: &Scenario) -> Option<String> {
    let raced = |variant: &&Variant| claim.all_variants().any(|name| name == variant.name);
    let mut variants = scenario.variants.iter().filter(raced);
    let named = variants.find(|variant| matches!(variant.kernel, Kernel::Named(_)))?;
    let (name, kernel) = (&named.name, &named.kernel);
    Some(format!(
        "variant `{name}` names the kernel {kernel}; expected \"patched\" or \"stock\", with a \
         port as the claim's own `kernel`"
    ))
}

/// The rows of a claim whose measure its race cannot give.
pub(crate) fn of_measures(house: &House, claim: &Claim) -> Vec<Problem> {
    let scenario = house.scenario(claim);
    let lacking = |row: &Row| match scenario {
        Some(scenario) if claim.captured.is_some() => {
            captured::lacking(&house.keys, claim, row, scenario)
        }
        Some(scenario) => given::lacking(claim, row, scenario),
        None if !claim.is_simulated() => None,
        None => match house.keys.simulated.get(&claim.scenario) {
            Some(simulated) => simulated.lacking(claim, row),
            None => Some(format!("nothing is simulated for `{}`", claim.scenario)),
        },
    };
    let rows = claim.rows.iter();
    rows.filter_map(|row| {
        let place = format!("{}, row `{}`", place(claim), row.id);
        Some(Problem::new(place, lacking(row)?))
    })
    .collect()
}

/// The answer of a system is short.
fn of_answer(system: &System) -> Option<Problem> {
    let file = format!("evidence/claims/{}.toml", system.system);
    let text = "the answer has more than three sentences";
    (system.answer.len() > 3).then(|| Problem::new(file, text))
}

fn of_score(house: &House, system: &System) -> Vec<Problem> {
    let Some(score) = &system.score else {
        return Vec::new();
    };
    let found = house.claim(&score.claim).ok().is_some_and(|claim| {
        claim.row(&score.row).is_some() && claim.variants.contains(&score.variant)
    });
    let place = format!("evidence/claims/{}.toml, score", system.system);
    let lost = (!found).then(|| "it names no cell of a claim".to_owned());
    let unsaid = |_: &String| system.counted_line(house).is_none();
    let wanted = score.counted.as_ref().map(|counted| &counted.id);
    let counted = wanted
        .filter(|id| unsaid(id))
        .map(|id| format!("nothing counted that is right or not is called `{id}`"));
    let all = lost
        .into_iter()
        .chain(counted)
        .chain(also::problems(house, score));
    all.map(|text| Problem::new(&place, text)).collect()
}

fn of_records(house: &House) -> Vec<Problem> {
    let folder = house.root.join("evidence/results");
    let mut problems = Vec::new();
    problems.extend(parts::check(&house.kernels, &house.keys));
    let mut bytes = 0;
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        bytes += entry.metadata().map_or(0, |data| data.len());
        let claimed = name
            .strip_suffix(".json.zst")
            .is_some_and(|id| house.claims().any(|claim| claim.race() == id));
        let mut counted = house.systems.iter().flat_map(|system| &system.counted);
        let claimed = claimed || counted.any(|counted| counted.file() == name);
        if !claimed {
            let text = "it belongs to no claim; remove it";
            problems.push(Problem::new(format!("evidence/results/{name}"), text));
        }
    }
    if bytes > MOST_BYTES {
        let text = format!("{bytes} bytes in all, more than {MOST_BYTES}");
        problems.push(Problem::new("evidence/results", text));
    }
    for claim in house.claims() {
        let Some(record) = house.record(claim) else {
            continue;
        };
        problems.extend(conditions::changed(house, claim));
        let digest = house.scenario(claim).map(Scenario::digest);
        if digest.is_some_and(|digest| digest != record.result.scenario.digest) {
            problems.push(Problem::new(
                place(claim),
                format!(
                    "its record is of another scenario than {} is now; race it again: {}",
                    claim.scenario,
                    claim.command()
                ),
            ));
        }
    }
    problems
}

/// Pages are what `render` writes, and no longer than they may be.
fn of_pages(house: &House) -> Vec<Problem> {
    let read = |name: &str| fs::read_to_string(house.root.join(name)).ok();
    let files = match page::all(house, &read) {
        Ok(files) => files,
        Err(problems) => return problems,
    };
    let mut problems = Vec::new();
    for (name, parts) in page::MARKED {
        let text = read(name).unwrap_or_default();
        for part in parts {
            if !text.contains(&format!("{}{part}", page::BEGIN)) {
                let text = format!(
                    "it has no part `{}{part}…`, which must be there",
                    page::BEGIN
                );
                problems.push(Problem::new(name, text));
            }
        }
    }
    for (name, text) in &files {
        if read(name).as_ref() != Some(text) {
            let text = "it differs from its data; write it again: steady evidence render";
            problems.push(Problem::new(name, text));
        }
        // The guide is a text with tables in it, and no page.
        let is_page = name.ends_with(".md") && name != page::GUIDE;
        if is_page && text.lines().count() > page::MOST_LINES {
            let text = format!("it has more than {} lines", page::MOST_LINES);
            problems.push(Problem::new(name, text));
        }
    }
    problems
}
