// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is a row the share of its measure in a sum of measures, in each run?

use steady_evidence::{Record, entry, verdict};
use steady_measures::{Metric, RunResult, Unit};

use super::common::{CLAIMS_FILE, Project, add_guest_time};
use super::{PAPER, found};

const CLASSES: [&str; 2] = ["guest_time.shootdown", "guest_time.user"];

/// Shootdowns take three parts of four without the remedy, and one of four with it.
fn result(project: &Project) -> RunResult {
    let mut result = project.result(8);
    add_guest_time(&mut result, CLASSES, 1);
    result
}

/// A project with a row that is the share of shootdowns in `of`.
fn project(of: &str) -> Project {
    let project = Project::bare();
    let collects = "[measure]\ncollect = [\"guest-time\"]\n[[vm]]";
    project.change("scenarios/pair.toml", "[[vm]]", collects);
    let text = project.read(CLAIMS_FILE);
    let row = format!(
        "{text}[[claim.row]]\nid = \"share\"\nvm = \"victim\"\nworkload = \"shootdown\"\n\
         measure = \"guest_time.shootdown\"\nshare_of = [{of}]\nwhat = \"share of shootdowns\"\n"
    );
    project.write(CLAIMS_FILE, &row);
    project
}

const BOTH: &str = "\"guest_time.shootdown\", \"guest_time.user\"";

fn recorded(project: &Project, result: RunResult) {
    let house = project.house();
    let race = house.races().remove(0);
    let record = Record::reduced(result, &race, &house.keys).unwrap();
    record.save(project.root()).unwrap();
}

#[test]
fn a_share_of_three_quarters_that_becomes_one_quarter_is_a_third_of_it() {
    let project = project(BOTH);
    recorded(&project, result(&project));
    project.render();
    assert_eq!(project.problems(), Vec::<String>::new());
    let house = project.house();
    let claim = house.claim("tail").unwrap();
    let row = claim.row("share").unwrap();
    let entry = entry(&house, claim, row, "shoot4u", None).unwrap();
    assert_eq!(
        (entry.base_value(), entry.value()),
        ("75.0 %".into(), "25.0 %".into())
    );
    assert!(entry.ratio().starts_with("×0.33"), "{}", entry.ratio());
    assert_eq!(entry.runs(), 8);
}

/// Other rows are a share of this measure, and of another measure.
#[test]
fn a_count_of_programs_is_of_rows_of_one_measure_alone() {
    let project = project(BOTH);
    let text = project.read(CLAIMS_FILE);
    let row = "[[claim.row]]\nid = \"spent\"\nvm = \"victim\"\nworkload = \"shootdown\"\n\
               measure = \"guest_time.shootdown\"\nwhat = \"time in shootdowns\"\n";
    project.write(CLAIMS_FILE, &format!("{text}{row}"));
    let count = "number = 1\nhere = { beyond = \"0.9\", ";
    project.change(PAPER, "expect = \"lower\"\nhere = { ", count);
    project.change(PAPER, "row = \"p99\"", "row = \"spent\"");
    recorded(&project, result(&project));
    let house = project.house();
    let sets = verdict::beside(&house, &house.papers[0]);
    assert_eq!(sets[0].tally.unwrap().to_string(), "1 of 1 rows");
    assert_eq!(sets[0].verdict, verdict::Verdict::Agrees);
}

/// Both claims are of one race: a row of the measure alone keeps no other part of the sum.
#[test]
fn a_share_beside_another_claim_s_row_of_its_measure_has_its_parts() {
    let project = project(BOTH);
    let claims = project.read(CLAIMS_FILE);
    let (head, claim) = claims.split_once("[[claim]]").unwrap();
    let shares = "share_of = [\"guest_time.shootdown\", \"guest_time.user\"]\n";
    let plain = claim.replace(shares, "");
    let other = claim.replace("id = \"tail\"", "id = \"other\"\nrace = \"tail\"");
    project.write(
        CLAIMS_FILE,
        &format!("{head}[[claim]]{plain}[[claim]]{other}"),
    );
    recorded(&project, result(&project));
    let house = project.house();
    let claim = house.claim("other").unwrap();
    let row = claim.row("share").unwrap();
    assert!(entry(&house, claim, row, "shoot4u", None).is_some());
}

/// A part of another unit is not a part of the sum.
#[test]
fn a_run_that_lacks_a_part_or_has_it_in_another_unit_has_no_share() {
    let project = project(BOTH);
    let mut result = result(&project);
    for variant in &mut result.variants {
        let user = |metric: &Metric| metric.name == "guest_time.user";
        variant.repetitions[3].metrics.retain(|one| !user(one));
        let mut of_fifth = variant.repetitions[5].metrics.iter_mut();
        of_fifth.find(|one| user(one)).unwrap().unit = Unit::Count;
    }
    result.seal();
    recorded(&project, result);
    let house = project.house();
    let claim = house.claim("tail").unwrap();
    let row = claim.row("share").unwrap();
    let entry = entry(&house, claim, row, "shoot4u", None).unwrap();
    assert_eq!(entry.runs(), 6);
}

#[test]
fn a_share_of_what_the_race_does_not_give_is_found() {
    found(
        &project("\"guest_time.shootdown\", \"guest_time.sleep\""),
        &["row `share`", "`guest_time.sleep`"],
    );
}

#[test]
fn a_share_of_a_sum_without_its_measure_is_found() {
    found(
        &project("\"guest_time.lock\", \"guest_time.user\""),
        &["row `share`", "expected it among them"],
    );
}

#[test]
fn a_share_of_its_measure_alone_or_of_one_twice_is_found() {
    for of in [
        "\"guest_time.shootdown\"",
        "\"guest_time.shootdown\", \"guest_time.shootdown\"",
    ] {
        found(&project(of), &["row `share`", "each once"]);
    }
}

#[test]
fn a_row_that_is_a_share_and_a_mean_is_found() {
    let project = project(BOTH);
    let both = "mean_over = [\"shootdown\"]\nshare_of";
    project.change(CLAIMS_FILE, "share_of", both);
    found(&project, &["row `share`", "a share or a mean"]);
}
