// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does a check find whatever makes evidence and its pages disagree?

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod common;

use std::fs;

use steady_evidence::{House, Keys, todo};

use common::Project;

/// That the one problem of a project names this.
fn found(project: &Project, words: &[&str]) {
    let problems = project.problems();
    let all = problems.join("\n");
    assert!(
        !problems.is_empty(),
        "nothing was found; expected {words:?}"
    );
    for word in words {
        assert!(all.contains(word), "no {word:?} in:\n{all}");
    }
}

#[test]
fn what_was_rendered_holds() {
    assert_eq!(Project::new().problems(), Vec::<String>::new());
}

#[test]
fn a_digit_changed_in_a_page_is_found() {
    let project = Project::new();
    project.change("docs/validation/shoot4u.md", "×0.05", "×0.04");
    found(
        &project,
        &["docs/validation/shoot4u.md", "steady evidence render"],
    );
}

#[test]
fn a_digit_changed_in_a_plot_is_found() {
    let project = Project::new();
    project.change("docs/validation/shoot4u.svg", "×0.05", "×0.04");
    found(&project, &["docs/validation/shoot4u.svg"]);
}

#[test]
fn a_digit_changed_in_the_readme_s_scoreboard_is_found() {
    let project = Project::new();
    project.change("README.md", "×0.05", "×0.04");
    found(&project, &["README.md: it differs from its data"]);
}

#[test]
fn a_figure_typed_into_the_readme_is_found() {
    let project = Project::new();
    let text = project.read("README.md") + "\nIt is 74 times better.\n";
    project.write("README.md", &text);
    found(&project, &["README.md", "`74 times` is typed"]);
}

#[test]
fn a_figure_typed_into_a_claim_s_words_is_found() {
    let project = Project::new();
    project.change(
        "evidence/claims/shoot4u.toml",
        "It has the host",
        "It saves 40 % and has the host",
    );
    found(&project, &["`40 %` is a typed figure"]);
}

#[test]
fn a_claim_without_a_condition_is_found() {
    let project = Project::new();
    project.change("evidence/claims/shoot4u.toml", "ple = \"on\", ", "");
    found(
        &project,
        &["claim `tail`", "the condition `ple` is missing"],
    );
}

#[test]
fn a_claim_without_conditions_is_not_read() {
    let project = Project::new();
    let text = project.read("evidence/claims/shoot4u.toml");
    let without: Vec<&str> = text
        .lines()
        .filter(|l| !l.starts_with("conditions"))
        .collect();
    project.write("evidence/claims/shoot4u.toml", &without.join("\n"));
    let keys = Keys::of_tree(project.root(), String::new()).unwrap();
    let error = House::load(project.root(), keys).unwrap_err().to_string();
    assert!(
        error.contains("shoot4u.toml") && error.contains("conditions"),
        "{error}"
    );
}

#[test]
fn a_condition_that_the_scenario_does_not_have_is_found() {
    let project = Project::new();
    project.change(
        "evidence/claims/shoot4u.toml",
        "\"pinned\"",
        "\"scheduler\"",
    );
    found(
        &project,
        &[
            "the condition `placement` is stated as \"scheduler\"",
            "\"pinned\"",
        ],
    );
}

#[test]
fn a_workload_that_the_scenario_lacks_is_found() {
    let project = Project::new();
    project.change(
        "evidence/claims/shoot4u.toml",
        "workload = \"shootdown\"",
        "workload = \"dedup\"",
    );
    let keys = Keys::of_tree(project.root(), String::new()).unwrap();
    // The record has no such measure either, which is said first.
    let error = House::load(project.root(), keys).unwrap_err().to_string();
    assert!(error.contains("lacks the row `p99`"), "{error}");
    fs::remove_file(project.root().join("evidence/results/tail.json.zst")).unwrap();
    found(
        &project,
        &["claim `tail`, row `p99`", "no workload `dedup`"],
    );
}

#[test]
fn a_variant_that_the_scenario_lacks_is_found() {
    let project = Project::new();
    fs::remove_file(project.root().join("evidence/results/tail.json.zst")).unwrap();
    project.change(
        "evidence/claims/shoot4u.toml",
        "variants = [\"shoot4u\"]",
        "variants = [\"eager\"]",
    );
    found(&project, &["the scenario has no variant `eager`"]);
}

#[test]
fn an_item_that_names_no_cell_is_found() {
    let project = Project::new();
    project.change(
        "evidence/papers/shoot4u.toml",
        "row = \"p99\"",
        "row = \"p999\"",
    );
    found(&project, &["item `one`", "claim `tail` has no row `p999`"]);
}

#[test]
fn an_item_that_is_neither_here_nor_said_to_be_absent_is_found() {
    let project = Project::new();
    project.change(
        "evidence/papers/shoot4u.toml",
        "not_here = \"A",
        "because = \"A",
    );
    found(
        &project,
        &["item `two`", "exactly one of `here` and `not_here`"],
    );
}

#[test]
fn an_item_that_differs_needs_a_reason() {
    let project = Project::new();
    project.change(
        "evidence/papers/shoot4u.toml",
        "expect = \"lower\"",
        "expect = \"higher\"",
    );
    project.render();
    found(&project, &["item `one`", "`because` does not say why"]);
}

#[test]
fn a_page_of_more_than_120_lines_is_found() {
    let project = Project::new();
    let many: Vec<String> = (0..120).map(|at| format!("\"Limit {at}.\"")).collect();
    let line = format!("limitations = [{}]\n[score]", many.join(", "));
    project.change("evidence/claims/shoot4u.toml", "[score]", &line);
    project.render();
    found(
        &project,
        &["docs/validation/shoot4u.md: it has more than 120 lines"],
    );
}

#[test]
fn a_record_changed_by_hand_is_refused() {
    let project = Project::new();
    let path = project.root().join("evidence/results/tail.json.zst");
    let text = zstd::decode_all(fs::read(&path).unwrap().as_slice()).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("\"value\": 50000"), "{text}");
    let changed = text.replacen("\"value\": 50000", "\"value\": 40000", 1);
    fs::write(&path, zstd::encode_all(changed.as_bytes(), 3).unwrap()).unwrap();
    let keys = Keys::of_tree(project.root(), String::new()).unwrap();
    let error = House::load(project.root(), keys).unwrap_err().to_string();
    assert!(
        error.contains("tail.json.zst") && error.contains("digest"),
        "{error}"
    );
}

#[test]
fn a_record_of_another_scenario_is_found() {
    let project = Project::new();
    project.change("scenarios/pair.toml", "memory_mib = 96", "memory_mib = 97");
    found(
        &project,
        &[
            "its record is of another scenario",
            "steady evidence run tail",
        ],
    );
}

#[test]
fn a_record_that_belongs_to_no_claim_is_found() {
    let project = Project::new();
    project.write("evidence/results/other.json.zst", "");
    found(
        &project,
        &["evidence/results/other.json.zst: it belongs to no claim"],
    );
}

#[test]
fn a_figure_of_a_kernel_before_is_printed_as_old_with_its_key() {
    let project = Project::new();
    project.write("linux/new/shoot4u.c", "int y;\n");
    found(&project, &["docs/validation/shoot4u.md: it differs"]);
    project.render();
    assert!(project.problems().is_empty());
    let page = project.read("docs/validation/shoot4u.md");
    assert!(page.contains("**old: kernel "), "{page}");
    assert!(project.read("README.md").contains("**old: kernel "));
    let house = project.house();
    let races = house.races();
    let races: Vec<&steady_evidence::Claim> = races.iter().collect();
    assert_eq!(todo(&house, &races, false).len(), 8);
}

#[test]
fn a_change_of_the_kernel_s_documents_makes_nothing_old() {
    let project = Project::new();
    let folder = project.root().join("linux/new/Documentation");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("x.rst"), "text").unwrap();
    assert!(project.problems().is_empty());
}

#[test]
fn only_seeds_that_are_missing_are_raced() {
    let project = Project::bare();
    project.save_record(5);
    let house = project.house();
    let races = house.races();
    let races: Vec<&steady_evidence::Claim> = races.iter().collect();
    let seeds: Vec<u64> = todo(&house, &races, false).iter().map(|p| p.seed).collect();
    assert_eq!(seeds, [6, 7, 8]);
}

#[test]
fn a_record_keeps_the_measures_that_the_claim_names_and_no_others() {
    let project = Project::new();
    let house = project.house();
    let runs = house.records[0]
        .result
        .variants
        .iter()
        .flat_map(|v| &v.repetitions);
    let mut names = runs
        .flat_map(|run| &run.metrics)
        .map(|metric| metric.name.as_str());
    assert!(names.all(|name| name == "shootdown.latency.p99"));
}
