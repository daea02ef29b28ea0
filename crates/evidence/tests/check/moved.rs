// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is a simulated item that differs explained by a run that brings it nearer to the paper?

use std::collections::BTreeMap;

use steady_evidence::{House, Keys, Record, Simulated, moved};
use steady_measures::{Better, Metric, Repetition, RunResult, Unit, VariantResult};

use super::PAPER;
use super::common::{CLAIMS_FILE, Project};

const WORD: &str = "simulator";
/// A simulated claim of a gain, whose variants have one input changed.
const CLAIM: &str = r#"
[[claim]]
id = "gain"
subject = "Gain"
basis = "measured"
scenario = "simulator"
engine = "coherence"
base = "base"
variants = ["measured", "noisy"]
seeds = 8
conditions = {}
[[claim.row]]
id = "gain"
measure = "gain"
what = "gain"
[[claim]]
id = "inputs"
race = "gain"
subject = "Inputs"
basis = "measured"
scenario = "simulator"
engine = "coherence"
base = "measured"
variants = ["near", "far", "still", "noisy", "past", "little", "edge"]
seeds = 8
conditions = {}
[[claim.row]]
id = "gain"
measure = "gain"
what = "gain"
[[claim.row]]
id = "other"
measure = "other"
what = "something else"
[[claim]]
id = "stated"
race = "gain"
subject = "Stated"
basis = "measured"
scenario = "simulator"
engine = "coherence"
base = "as-is"
variants = ["still"]
seeds = 8
conditions = {}
[[claim.row]]
id = "gain"
measure = "gain"
what = "gain"
"#;
/// An item of which the paper has 1.2 times.
const ITEM: &str = r#"
[[item]]
id = "three"
place = "Figure 2"
kind = "figure"
what = "gain"
value = "1.2 times"
ratio = { of = "1.2", to = 1 }
here = { claim = "gain", row = "gain", variant = "measured" }
"#;

fn house(project: &Project) -> House {
    let simulated = Simulated {
        numbers: BTreeMap::from(["gain", "other"].map(|name| (name.to_owned(), BTreeMap::new()))),
        ..Simulated::default()
    };
    let known = BTreeMap::from([(WORD.to_owned(), simulated)]);
    let keys = Keys::of_tree(project.root(), known).unwrap();
    House::load(project.root(), keys).unwrap()
}

fn variant(name: &str, value: i64) -> VariantResult {
    spread(name, value, 100)
}

/// A variant whose runs are this far apart.
fn spread(name: &str, value: i64, step: i64) -> VariantResult {
    let run = |index: u32| Repetition {
        index,
        seed: Some(1 + u64::from(index)),
        metrics: ["gain", "other"]
            .map(|name| {
                let value = value + i64::from(index % 3) * step;
                Metric::new(name, Unit::Ppm, Better::Higher, value)
            })
            .to_vec(),
        ..Repetition::default()
    };
    VariantResult {
        name: name.to_owned(),
        title: name.to_owned(),
        remedies: Vec::new(),
        repetitions: (0..8).map(run).collect(),
    }
}

/// A project with an item that differs: the paper has 1.2 and we have 1.5. These lines are added to
/// the item.
fn explained(more: &str) -> Vec<String> {
    explained_of(CLAIM, ITEM, more)
}

/// The same of another claim and item.
fn explained_of(claim: &str, item: &str, more: &str) -> Vec<String> {
    let project = Project::new();
    let claims = project.read(CLAIMS_FILE);
    project.write(CLAIMS_FILE, &format!("{claims}{claim}"));
    let paper = project.read(PAPER);
    project.write(PAPER, &format!("{paper}{item}{more}"));
    let mut result: RunResult = project.result(8);
    result.variants = vec![
        variant("base", 1_000_000),
        variant("measured", 1_500_000),
        variant("as-is", 1_500_000),
        variant("near", 1_300_000),
        variant("far", 1_600_000),
        variant("still", 1_500_000),
        // Nearer, by a sixth of the way.
        variant("little", 1_450_000),
        // A quarter of the way to what is called the same, and less of that to 1.
        variant("edge", 1_380_000),
        // Nearer to 1.2, and on its other side.
        variant("past", 1_100_000),
        // Its median is nearer, and its runs lie on both sides.
        spread("noisy", 900_000, 500_000),
    ];
    result.engine.name = "coherence".to_owned();
    result.seal();
    let of = house(&project);
    let race = of
        .races()
        .into_iter()
        .find(|race| race.id == "gain")
        .unwrap();
    let record = Record::reduced(result, &race, &of.keys).unwrap();
    record.save(project.root()).unwrap();
    let found = steady_evidence::check(&house(&project)).into_iter();
    let found = found.map(|problem| problem.to_string());
    found.filter(|text| text.contains("item `three`")).collect()
}

fn moved_by(variant: &str) -> String {
    format!(
        "because = \"Frames.\"\nmoved_by = {{ claim = \"inputs\", row = \"gain\", variant = \
         \"{variant}\" }}\n"
    )
}

#[test]
fn a_simulated_item_that_differs_without_a_run_is_found() {
    let found = explained("because = \"Frames are scattered.\"\n");
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("expected `moved_by`"), "{found:?}");
    let because = format!("because = \"{}\"\n", moved::UNEXPLAINED);
    assert_eq!(explained(&because), Vec::<String>::new());
}

#[test]
fn an_item_that_is_said_to_be_unexplained_and_is_not_is_found() {
    let other = ITEM.replace("\"three\"", "\"four\"");
    let because = format!("because = \"{}\"\n{other}", moved::UNEXPLAINED);
    let found = explained(&format!("{because}{}", moved_by("near")));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("`near` of `inputs`"), "{found:?}");
}

#[test]
fn a_run_that_moves_it_away_past_the_paper_or_not_at_all_is_found() {
    assert_eq!(explained(&moved_by("near")), Vec::<String>::new());
    for name in ["far", "still", "noisy", "past", "little"] {
        let found = explained(&moved_by(name)).join("\n");
        assert!(
            found.contains("does not bring it a quarter"),
            "{name}: {found}"
        );
    }
}

#[test]
fn a_run_that_is_not_there_is_found() {
    for (more, said) in [
        (moved_by("base"), "claim `inputs` has no variant `base`"),
        (
            moved_by("near").replace("row = \"gain\"", "row = \"loss\""),
            "claim `inputs` has no row `loss`",
        ),
        (moved_by("near").replace("\"inputs\"", "\"none\""), "`none`"),
        (
            moved_by("near").replace("row = \"gain\"", "row = \"other\""),
            "the row `other` is of another measure",
        ),
    ] {
        let found = explained(&more).join("\n");
        assert!(found.contains(said), "no {said:?} in {found}");
    }
}

#[test]
fn an_input_that_differs_is_explained_by_a_run_as_others_are_or_said_to_be_unexplained() {
    let input = CLAIM.replacen("what = ", "basis = \"input\"\nwhat = ", 1);
    let found = explained_of(&input, ITEM, "because = \"An input.\"\n");
    assert_eq!(found.len(), 1, "{found:?}");
    let because = format!("because = \"{} An input.\"\n", moved::UNEXPLAINED);
    assert_eq!(explained_of(&input, ITEM, &because), Vec::<String>::new());
}

#[test]
fn the_way_to_what_is_the_same_ends_where_a_verdict_calls_it_so() {
    let same = ITEM
        .replace("1.2 times", "similar")
        .replace("ratio = { of = \"1.2\", to = 1 }", "expect = \"same\"");
    let of = |variant| explained_of(CLAIM, &same, &moved_by(variant));
    assert_eq!(of("edge"), Vec::<String>::new());
    let found = of("little").join("\n");
    assert!(found.contains("does not bring it a quarter"), "{found}");
}

#[test]
fn an_open_item_whose_number_the_paper_excludes_needs_a_run() {
    // Its runs lie on both sides of the paper's limits, and their mean between these.
    let at_most = |limit: &str| {
        let item = ITEM.replace("1.2", limit);
        let item = item.replace("variant = \"measured\"", "variant = \"noisy\"");
        format!("{item}bound = \"at-most\"\n")
    };
    let because = "because = \"Frames are scattered.\"\n";
    let found = explained_of(CLAIM, &at_most("1.2"), because);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("expected `moved_by`"), "{found:?}");
    assert_eq!(
        explained_of(CLAIM, &at_most("1.4"), because),
        Vec::<String>::new()
    );
}

/// What is said of the item where it says that it is unexplained, with one text of the claims
/// replaced.
fn unexplained_with(from: &str, to: &str) -> String {
    let because = format!("because = \"{}\"\n", moved::UNEXPLAINED);
    let found = explained_of(&CLAIM.replace(from, to), ITEM, &because);
    assert_eq!(found.len(), 1, "{found:?}");
    found.concat()
}

#[test]
fn an_item_that_no_run_was_looked_at_for_is_not_unexplained() {
    let said = unexplained_with("base = \"as-is\"", "base = \"base\"");
    assert!(said.contains("no claim with the base"), "{said}");
}

#[test]
fn a_run_beside_every_input_as_stated_is_looked_at_though_no_item_names_it() {
    let said = unexplained_with("base = \"measured\"", "base = \"as-is\"");
    assert!(said.contains("`near` of `inputs`"), "{said}");
}
