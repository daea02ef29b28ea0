// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is an order of two rows decided by the pairs of runs that both have?

use steady_evidence::Record;
use steady_evidence::verdict::{self, Verdict};

use super::common::{CLAIMS_FILE, Project, add_guest_time};
use super::{PAPER, found};

const HERE: &str = "here = { claim = \"tail\", row = \"p99\", variant = \"shoot4u\" }";

/// Shootdowns take three parts of four without the remedy, and one of four with it: they fall to
/// a third, and user time rises to three times.
pub fn project(here: &str) -> Project {
    let project = Project::bare();
    let collects = "[measure]\ncollect = [\"guest-time\"]\n[[vm]]";
    project.change("scenarios/pair.toml", "[[vm]]", collects);
    let mut text = project.read(CLAIMS_FILE);
    for class in ["shootdown", "user"] {
        text.push_str(&format!(
            "[[claim.row]]\nid = \"{class}\"\nvm = \"victim\"\nworkload = \"shootdown\"\n\
             measure = \"guest_time.{class}\"\nwhat = \"time\"\n"
        ));
    }
    let other = text[text.find("[[claim]]").unwrap()..].replace("id = \"tail\"", "id = \"apart\"");
    project.write(CLAIMS_FILE, &(text + &other));
    project.change(PAPER, HERE, here);
    let house = project.house();
    for race in house.races() {
        let mut result = project.result(8);
        let kinds = ["guest_time.shootdown", "guest_time.user"];
        add_guest_time(&mut result, kinds, 10_000);
        let record = Record::reduced(result, &race, &house.keys).unwrap();
        record.save(project.root()).unwrap();
    }
    project.render();
    project
}

pub fn here(claim: &str, row: &str, variant: &str, than: &str) -> String {
    format!(
        "here = {{ claim = \"{claim}\", row = \"{row}\", variant = \"{variant}\", \
         than = {{ {than} }} }}"
    )
}

/// Verdict and ratio, to a thousandth, of the one item that has an order.
fn of(project: &Project) -> (Verdict, u64) {
    assert_eq!(project.problems(), Vec::<String>::new());
    let house = project.house();
    let set = &verdict::beside(&house, &house.papers[0])[0];
    (set.verdict, (set.order.unwrap().ratio_ppm + 500) / 1_000)
}

#[test]
fn what_falls_to_a_third_is_lower_than_what_rises_to_three_times() {
    let gains = here("tail", "shootdown", "shoot4u", "row = \"user\"");
    assert_eq!(of(&project(&gains)), (Verdict::Agrees, 111));
    let turned = here("tail", "user", "shoot4u", "row = \"shootdown\"");
    let turned = turned + "\nbecause = \"w\"";
    assert_eq!(of(&project(&turned)), (Verdict::Differs, 9_000));
}

#[test]
fn a_cell_of_its_own_base_is_compared_by_its_value() {
    let values = here("tail", "user", "stock", "row = \"shootdown\"");
    assert_eq!(of(&project(&values)), (Verdict::Agrees, 333));
}

#[test]
fn an_order_of_two_races_is_of_the_ends_of_their_intervals() {
    let than = "claim = \"apart\", row = \"user\"";
    let races = here("tail", "shootdown", "shoot4u", than);
    assert_eq!(of(&project(&races)), (Verdict::Agrees, 111));
}

#[test]
fn a_variant_and_base_of_the_other_cell_are_its_own() {
    let than = "row = \"shootdown\", variant = \"stock\", base = \"shoot4u\"";
    let turned = here("tail", "shootdown", "shoot4u", than);
    assert_eq!(of(&project(&turned)), (Verdict::Agrees, 111));
}

#[test]
fn an_order_that_cannot_be_is_found() {
    for (text, said) in [
        (
            here("tail", "shootdown", "shoot4u", "row = \"x\""),
            "claim `tail` has no row `x`",
        ),
        (
            here(
                "tail",
                "shootdown",
                "shoot4u",
                "claim = \"x\", row = \"user\"",
            ),
            "no claim `x`",
        ),
        (
            here("tail", "user", "shoot4u", "row = \"user\", variant = \"x\""),
            "claim `tail` has no variant `x`",
        ),
        (
            here(
                "tail",
                "user",
                "shoot4u",
                "row = \"user\", variant = \"stock\"",
            ),
            "compares a value with a ratio",
        ),
        (
            here("tail", "user", "stock", "claim = \"apart\", row = \"user\""),
            "compares values of two races",
        ),
    ] {
        found(&project(&text), &[said]);
    }
}

#[test]
fn two_rows_that_are_not_ordered_are_beside_each_other() {
    let project = project(&here("tail", "user", "stock", "row = \"shootdown\""));
    project.change(PAPER, "expect = \"lower\"\n", "");
    project.render();
    assert_eq!(of(&project), (Verdict::Beside, 333));
}

#[test]
fn an_order_with_a_number_is_found() {
    let project = project(&here("tail", "user", "stock", "row = \"shootdown\""));
    project.change(PAPER, "expect = \"lower\"\n", "number = 1\n");
    found(
        &project,
        &["`than` is of an order; expected neither `number`"],
    );
}
