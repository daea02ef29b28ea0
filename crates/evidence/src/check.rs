// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether claims, papers, records and pages hold together. It boots nothing.

use std::collections::BTreeSet;
use std::fs;

use steady_scenario::Scenario;

use crate::claim::{Claim, Row};
use crate::conditions;
use crate::error::Problem;
use crate::house::House;
use crate::page;
use crate::paper::Item;
use crate::scenarios::Scenarios;
use crate::words;

/// All records together have at most this many bytes.
const MOST_BYTES: u64 = 8 << 20;

/// Every problem; none where all holds.
#[must_use]
pub fn check(house: &House) -> Vec<Problem> {
    let (scenarios, mut problems) = Scenarios::load(house);
    problems.extend(unique(house));
    for claim in house.claims() {
        problems.extend(of_claim(claim, scenarios.of(claim)));
    }
    for system in &house.systems {
        problems.extend(of_words(system));
        problems.extend(of_score(house, system));
    }
    for paper in &house.papers {
        for item in &paper.items {
            let place = format!("evidence/papers/{}.toml, item `{}`", paper.paper, item.id);
            problems.extend(of_item(house, item, &place));
        }
    }
    problems.extend(of_records(house, &scenarios));
    problems.extend(of_pages(house, &scenarios));
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
                "claims of one race need the same scenario, engine, trace, base and seeds",
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

fn of_claim(claim: &Claim, scenario: Option<&Scenario>) -> Vec<Problem> {
    let place = place(claim);
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for row in &claim.rows {
        if !seen.insert(&row.id) {
            problems.push(Problem::new(&place, format!("two rows `{}`", row.id)));
        }
    }
    if claim.conditions.is_empty() {
        problems.push(Problem::new(&place, "it states no conditions"));
    }
    let Some(scenario) = scenario else {
        return problems;
    };
    problems.extend(conditions::problems(&place, claim, scenario));
    for name in claim.all_variants() {
        if !scenario.variants.iter().any(|variant| variant.name == name) {
            let text = format!("the scenario has no variant `{name}`");
            problems.push(Problem::new(&place, text));
        }
    }
    for row in &claim.rows {
        problems.extend(of_row(row, scenario, &place));
    }
    problems
}

/// A row names a VM and a workload that the scenario has.
fn of_row(row: &Row, scenario: &Scenario, place: &str) -> Option<Problem> {
    let place = format!("{place}, row `{}`", row.id);
    let Some(name) = &row.vm else {
        return None;
    };
    let Some(vm) = scenario.vms.iter().find(|vm| &vm.name == name) else {
        return Some(Problem::new(
            place,
            format!("the scenario has no VM `{name}`"),
        ));
    };
    let workload = row.workload.as_ref()?;
    // A background program's measures are named after the workload that they are beside.
    let (program, beside) = workload
        .split_once('@')
        .map_or((workload.as_str(), None), |(own, beside)| {
            (own, Some(beside))
        });
    let runs = |vm: &steady_scenario::Vm, name: &str| {
        vm.workloads.iter().enumerate().any(|(at, workload)| {
            let before = vm.workloads[..at].iter();
            let same = before
                .filter(|w| w.program.name == workload.program.name)
                .count();
            let own = match same {
                0 => workload.program.name.to_owned(),
                more => format!("{}-{}", workload.program.name, more + 1),
            };
            own == name
        })
    };
    let found = runs(vm, program)
        && beside.is_none_or(|beside| scenario.vms.iter().any(|vm| runs(vm, beside)));
    (!found).then(|| {
        Problem::new(
            place,
            format!("the VM `{name}` has no workload `{workload}`"),
        )
    })
}

/// Words of a system have no typed figures.
fn of_words(system: &crate::claim::System) -> Vec<Problem> {
    let claims = system.claims.iter();
    let says = system.score.iter().map(|score| &score.says);
    let texts = std::iter::once(&system.what)
        .chain(says)
        .chain(&system.answer)
        .chain(&system.no_help)
        .chain(&system.limitations)
        .chain(claims.clone().map(|claim| &claim.subject))
        .chain(claims.flat_map(|claim| claim.rows.iter().map(|row| &row.what)));
    let file = format!("evidence/claims/{}.toml", system.system);
    texts
        .filter_map(|text| {
            let figure = words::typed_figure(text)?;
            let text = format!("`{figure}` is a typed figure in `{text}`; use a placeholder");
            Some(Problem::new(&file, text))
        })
        .chain(
            (system.answer.len() > 3)
                .then(|| Problem::new(&file, "the answer has more than three sentences")),
        )
        .collect()
}

fn of_score(house: &House, system: &crate::claim::System) -> Option<Problem> {
    let score = system.score.as_ref()?;
    let found = house.claim(&score.claim).ok().is_some_and(|claim| {
        claim.row(&score.row).is_some() && claim.variants.contains(&score.variant)
    });
    let place = format!("evidence/claims/{}.toml, score", system.system);
    (!found).then(|| Problem::new(place, "it names no cell of a claim"))
}

fn of_item(house: &House, item: &Item, place: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut wrong = |text: String| problems.push(Problem::new(place, text));
    if item.here.is_some() == item.not_here.is_some() {
        wrong("expected exactly one of `here` and `not_here`".to_owned());
    }
    if item.ratio.is_some() && item.expect.is_some() {
        wrong("expected at most one of `ratio` and `expect`".to_owned());
    }
    if item
        .ratio
        .as_ref()
        .is_some_and(|ratio| ratio.ppm().is_none())
    {
        wrong("the ratio is not one of two decimal numbers above 0".to_owned());
    }
    if let Some(here) = &item.here {
        match house.claim(&here.claim) {
            Err(error) => wrong(error.to_string()),
            Ok(claim) => {
                if claim.row(&here.row).is_none() {
                    wrong(format!("claim `{}` has no row `{}`", here.claim, here.row));
                }
                let named = [Some(&here.variant), here.base.as_ref()];
                for name in named.into_iter().flatten() {
                    if !claim.all_variants().any(|variant| variant == name) {
                        wrong(format!("claim `{}` has no variant `{name}`", here.claim));
                    }
                }
            }
        }
    }
    let verdict = |item: &Item| {
        let paper = house
            .papers
            .iter()
            .find(|p| p.items.iter().any(|i| std::ptr::eq(i, item)))?;
        let sets = crate::verdict::beside(house, paper);
        sets.into_iter()
            .find(|set| std::ptr::eq(set.item, item))
            .map(|set| set.verdict)
    };
    if item.because.is_none() && verdict(item) == Some(crate::verdict::Verdict::Differs) {
        problems.push(Problem::new(
            place,
            "it differs, and `because` does not say why",
        ));
    }
    problems
}

fn of_records(house: &House, scenarios: &Scenarios) -> Vec<Problem> {
    let folder = house.root.join("evidence/results");
    let mut problems = Vec::new();
    let mut bytes = 0;
    for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        bytes += entry.metadata().map_or(0, |data| data.len());
        let claimed = name
            .strip_suffix(".json.zst")
            .is_some_and(|id| house.claims().any(|claim| claim.race() == id));
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
        let digest = scenarios.of(claim).map(Scenario::digest);
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

/// Pages are what `render` writes, and no longer than they may be; documents have no typed figure.
fn of_pages(house: &House, scenarios: &Scenarios) -> Vec<Problem> {
    let read = |name: &str| fs::read_to_string(house.root.join(name)).ok();
    let files = match page::all(house, scenarios, &read) {
        Ok(files) => files,
        Err(problems) => return problems,
    };
    let mut problems = Vec::new();
    for (name, text) in &files {
        if read(name).as_ref() != Some(text) {
            let text = "it differs from its data; write it again: steady evidence render";
            problems.push(Problem::new(name, text));
        }
        if name.ends_with(".md") && text.lines().count() > page::MOST_LINES {
            let text = format!("it has more than {} lines", page::MOST_LINES);
            problems.push(Problem::new(name, text));
        }
    }
    for name in ["README.md", "docs/GUIDE.md", "docs/validation/README.md"] {
        let by_hand = read(name)
            .map(|text| page::by_hand(&text))
            .unwrap_or_default();
        for (at, line) in by_hand.lines().enumerate() {
            if let Some(figure) = words::typed_figure(line) {
                let text = format!(
                    "`{figure}` is typed (`{}`, line {} outside markers)",
                    line.trim(),
                    at + 1
                );
                problems.push(Problem::new(name, text));
            }
        }
    }
    problems
}
