// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does a claim say whose programs a user brings to its race, and its page which ones those were?

use steady_evidence::{Record, conditions_line};

use super::common::{CLAIMS_FILE, Project};
use super::found;

const DIGEST: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A project whose scenario wants the user's program in place of one of the lab's.
fn wanting() -> Project {
    let project = Project::bare();
    let scenario = "scenarios/pair.toml";
    project.change(
        scenario,
        r#"program = "shootdown""#,
        r#"program = "./bin/shootdown""#,
    );
    project
}

/// The same with a claim that says whose it is, and a record with the digest of it and of its
/// input.
fn recorded() -> Project {
    let project = wanting();
    let brought = "engine = \"bochs\"\nbrought = \"the suite\"";
    project.change(CLAIMS_FILE, "engine = \"bochs\"", brought);
    let house = project.house();
    let mut result = project.result(8);
    for file in ["shootdown", "input"] {
        let key = format!("program.shootdown/{file}");
        result.config.insert(key, DIGEST.to_owned());
    }
    result.seal();
    let race = house.races().remove(0);
    let record = Record::reduced(result, &race, &house.keys).unwrap();
    record.save(project.root()).unwrap();
    project.render();
    project
}

#[test]
fn a_claim_that_does_not_say_whose_programs_it_wants_is_found() {
    let words = ["claim `tail`", "`shootdown`", "expected `brought`"];
    found(&wanting(), &words);
}

#[test]
fn a_claim_that_says_so_of_none_is_found() {
    let project = Project::new();
    let brought = "engine = \"bochs\"\nbrought = \"the suite\"";
    project.change(CLAIMS_FILE, "engine = \"bochs\"", brought);
    found(&project, &["`brought`, and the scenario wants no user's"]);
}

#[test]
fn page_and_conditions_have_the_digest_of_each_program_and_the_command_its_folder() {
    let project = recorded();
    assert_eq!(project.problems(), Vec::<String>::new());
    let house = project.house();
    let claim = house.claim("tail").unwrap();
    let said = "the suite (shootdown 01234567)";
    let line = conditions_line(&house, claim);
    assert!(line.ends_with(said), "{line}");
    let page = project
        .read("docs/validation/shoot4u.md")
        .replace('\n', " ");
    let listed = format!("Programs that the user brings: {said}; in: tail.");
    assert!(page.contains(&listed), "{page}");
    let command = "steady evidence run tail --programs FOLDER";
    assert!(page.contains(command), "{page}");
}

#[test]
fn claims_of_one_race_that_differ_in_programs_are_found() {
    let project = recorded();
    let claims = project.read(CLAIMS_FILE);
    let (_, claim) = claims.split_once("[[claim]]").unwrap();
    let other = claim
        .replace("id = \"tail\"", "id = \"other\"\nrace = \"tail\"")
        .replace("the suite", "another suite");
    project.write(CLAIMS_FILE, &format!("{claims}[[claim]]{other}"));
    found(&project, &["claim `other`", "the same scenario, programs"]);
}

/// Runs of two builds of a program are not runs of one thing.
#[test]
fn a_run_of_another_program_is_not_added() {
    let project = recorded();
    let house = project.house();
    let race = house.races().remove(0);
    let mut other = project.result(8);
    let digest = DIGEST.replace('0', "f");
    let key = "program.shootdown/shootdown".to_owned();
    other.config.insert(key, digest);
    other.seal();
    let other = Record::reduced(other, &race, &house.keys).unwrap();
    let record = house.record(&race).unwrap().clone();
    let (_, why) = record.joined(other).unwrap();
    assert!(why.is_some_and(|why| why.contains("program.shootdown/")));
}
