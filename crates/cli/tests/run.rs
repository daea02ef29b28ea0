// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady run --check`: what it says of a scenario of each schema. No engine is started.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn old() -> PathBuf {
    crates().join("scenario/tests/fixtures/schema-1/shoot4u-faults.toml")
}

fn check(words: &[&str], scenario: &Path) -> Output {
    let mut command = Command::cargo_bin("steady").unwrap();
    let output = command
        .args(["run", "--check"])
        .args(words)
        .arg(scenario)
        .output();
    output.unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn an_old_schema_is_read_with_a_note_on_standard_error() {
    let output = check(&[], &old());
    let said = said(&output);
    assert!(said.contains("note: schema 1 is read on"), "{said}");
    assert!(said.contains(": ok, 11 variants"), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn an_old_scenario_is_printed_as_one_that_needs_no_note_and_has_its_digest() {
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("shoot4u-faults.toml");
    let printed = check(&["--print"], &old());
    std::fs::write(&new, &printed.stdout).unwrap();
    let again = check(&["--print"], &new);
    assert_eq!(again.stdout, printed.stdout);
    let (said, before) = (said(&again), said(&printed));
    assert!(!said.contains("note"), "{said}");
    let digest = |said: &str| said.trim_end().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(digest(&said), digest(&before));
}

#[test]
fn the_scenario_that_ships_is_what_the_old_one_is_printed_as() {
    let shipped = crates().join("../scenarios/shoot4u-faults.toml");
    let output = check(&["--print"], &shipped);
    assert!(!said(&output).contains("note"));
    assert_eq!(output.stdout, check(&["--print"], &old()).stdout);
}

#[test]
fn printing_needs_checking() {
    let mut command = Command::cargo_bin("steady").unwrap();
    let output = command
        .args(["run", "--print"])
        .arg(old())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_race_in_pieces_begins_with_the_seed_that_is_asked_for() {
    let shipped = crates().join("../scenarios/staleness-8vcpu.toml");
    let lines = |words: &[&str]| -> Vec<String> {
        let printed = check(&[&["--print"], words].concat(), &shipped).stdout;
        let text = String::from_utf8(printed).unwrap();
        text.lines().map(str::to_owned).collect()
    };
    let (whole, piece) = (lines(&[]), lines(&["--seed", "18446744073709551615"]));
    let changed = |(old, new): (&String, &String)| (old != new).then(|| new.clone());
    let changed: Vec<String> = whole.iter().zip(&piece).filter_map(changed).collect();
    assert_eq!(changed, ["seed = 18446744073709551615"]);
    assert_eq!(whole.len(), piece.len());
}
