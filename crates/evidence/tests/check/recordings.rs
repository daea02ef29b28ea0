// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Are the variants of a claim on one recording inputs or schemes of the simulation, and does what
//! an input does count as an explanation?

use std::collections::BTreeMap;
use std::fs;

use steady_evidence::{Captured, House, Keys, Record, Simulated};
use steady_measures::{Better, Metric, Unit};

use super::PAPER;
use super::common::{CLAIMS_FILE, Project};

const ROW: &str = "workload = \"shootdown\"\nmeasure = \"shootdown.latency.p99\"";
const RATE: &str = "measure = \"captured.shootdowns\"";
/// A paper's rate, which the recorded one is not.
const ITEM: &str = r#"
[[item]]
id = "three"
place = "Figure 7"
kind = "figure"
what = "shootdowns"
value = "100"
number = 100
here = { claim = "tail", row = "p99", variant = "as-is" }
because = "Unexplained."
"#;

/// What is simulated: an input that can be changed, and two schemes.
fn simulated() -> BTreeMap<String, Simulated> {
    let words = BTreeMap::from([("changed".to_owned(), "farther memory".to_owned())]);
    let of_captures = Simulated {
        measures: ["attc", "ideal"]
            .map(|name| format!("{}.{name}", Captured::SPEED))
            .into(),
        ..Simulated::default()
    };
    let of_changed = Simulated {
        variants: [
            ("as-is".to_owned(), BTreeMap::new()),
            ("far".to_owned(), words),
        ]
        .into(),
        ..Simulated::default()
    };
    BTreeMap::from([
        (Captured::SIMULATED.to_owned(), of_captures),
        (Captured::CHANGED.to_owned(), of_changed),
    ])
}

fn house(project: &Project) -> House {
    let keys = Keys::of_tree(project.root(), simulated()).unwrap();
    House::load(project.root(), keys).unwrap()
}

/// A project whose claim has these variants on one recording, the base first.
fn recorded_once([base, other]: [&str; 2], row: &str) -> Project {
    let project = Project::bare();
    let captured = "engine = \"bochs\"\n\
                    captured = { after_ticks = 1, accesses = 9000000, of = \"stock\" }";
    project.change(CLAIMS_FILE, "engine = \"bochs\"", captured);
    project.change(
        CLAIMS_FILE,
        "base = \"stock\"",
        &format!("base = \"{base}\""),
    );
    let variants = format!("variants = [\"{other}\"]");
    project.change(CLAIMS_FILE, "variants = [\"shoot4u\"]", &variants);
    project.change(CLAIMS_FILE, ROW, row);
    let patches = project.root().join("lab/bochs-events");
    fs::create_dir_all(&patches).unwrap();
    fs::write(patches.join("0001.patch"), "--- b\n").unwrap();
    project
}

/// What is wrong with a place.
fn problems(project: &Project, place: &str) -> Vec<String> {
    let found = steady_evidence::check(&house(project));
    let found = found.iter().map(ToString::to_string);
    found.filter(|text| text.starts_with(place)).collect()
}

#[test]
fn inputs_and_schemes_of_the_simulation_hold_on_one_recording() {
    let inputs = recorded_once(["as-is", "far"], RATE);
    assert_eq!(problems(&inputs, "claim `tail`"), Vec::<String>::new());
    let schemes = recorded_once(["attc", "ideal"], "measure = \"captured.speed\"");
    assert_eq!(problems(&schemes, "claim `tail`"), Vec::<String>::new());
}

#[test]
fn a_variant_or_a_measure_that_one_recording_does_not_give_is_found() {
    for (variants, row, said) in [
        (["as-is", "shoot4u"], RATE, "variants are as-is, shoot4u"),
        (["as-is", "attc"], RATE, "variants are as-is, attc"),
        (["attc", "ideal"], RATE, "it has captured.speed alone"),
        (
            ["as-is", "far"],
            "measure = \"captured.speed\"",
            "has no measure `captured.speed`",
        ),
    ] {
        let found = problems(&recorded_once(variants, row), "claim `tail`");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(said), "no {said:?} in {found:?}");
    }
    let project = recorded_once(["as-is", "far"], RATE);
    project.change(CLAIMS_FILE, "of = \"stock\"", "of = \"none\"");
    let found = problems(&project, "claim `tail`").join("\n");
    assert!(
        found.contains("the scenario has no variant `none`"),
        "{found}"
    );
}

#[test]
fn conditions_are_those_of_the_recorded_variant_and_say_what_is_changed() {
    let house = house(&recorded_once(["as-is", "far"], RATE));
    let line = steady_evidence::conditions_line(&house, house.claim("tail").unwrap());
    for words in [
        "1 VM of 2 vCPUs",
        "9.00 M accesses of `stock` recorded",
        "farther memory (`far`)",
    ] {
        assert!(line.contains(words), "no {words:?} in {line}");
    }
}

#[test]
fn a_run_on_a_recording_explains_an_item_that_names_none() {
    let project = recorded_once(["as-is", "far"], RATE);
    let paper = project.read(PAPER).replace(
        "variant = \"shoot4u\" }",
        "variant = \"far\" }\nbecause = \"Unexplained.\"",
    );
    project.write(PAPER, &format!("{paper}{ITEM}"));
    let record = |far: i64| {
        let mut result = project.result(8);
        result.variants.truncate(2);
        for (variant, (name, value)) in result
            .variants
            .iter_mut()
            .zip([("as-is", 1_000), ("far", far)])
        {
            name.clone_into(&mut variant.name);
            for run in &mut variant.repetitions {
                let value = value + i64::from(run.index % 3);
                let rate = Metric::new("captured.shootdowns", Unit::Count, Better::Neutral, value);
                run.metrics = vec![rate.in_vm("victim")];
            }
        }
        result.seal();
        let house = house(&project);
        let race = house.races().remove(0);
        let record = Record::reduced(result, &race, &house.keys).unwrap();
        record.save(project.root()).unwrap();
        problems(&project, &format!("{PAPER}, item `three`"))
    };
    assert_eq!(record(1_000), Vec::<String>::new());
    let found = record(500);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("`far` of `tail`"), "{found:?}");
}
