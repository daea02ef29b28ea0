// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is a wrong call refused in one line, before anything is fetched or built?

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::path::Path;
use std::process::Command;

/// Exit code and words of a call in the project's folder.
fn call(words: &[&str]) -> (i32, String) {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let out = Command::new(env!("CARGO_BIN_EXE_steady-first-race"))
        .args(words)
        .current_dir(project.ancestors().nth(2).unwrap())
        .output()
        .unwrap();
    assert!(out.stdout.is_empty(), "{out:?}");
    (
        out.status.code().unwrap(),
        String::from_utf8(out.stderr).unwrap(),
    )
}

#[test]
fn a_call_without_variants_names_what_it_takes() {
    let (code, said) = call(&["scenarios/two-vms.toml", "debian-12", "out"]);
    assert_eq!(code, 2);
    assert_eq!(
        said,
        "usage: steady-first-race SCENARIO KERNEL OUT VARIANT...\n"
    );
}

#[test]
fn a_variant_that_the_scenario_lacks_is_named_and_nothing_is_written() {
    let out = std::env::temp_dir().join("steady-first-race-writes-nothing");
    let out = out.to_str().unwrap();
    let (code, said) = call(&["scenarios/two-vms.toml", "debian-12", out, "kvm-pw"]);
    assert_eq!(code, 1);
    assert!(said.contains("kvm-pw") && said.contains("kvm-pv"), "{said}");
    assert!(!Path::new(out).exists());
}

#[test]
fn make_evaluate_races_variants_that_its_scenario_has() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap();
    let script = std::fs::read_to_string(project.join("setup/evaluate")).unwrap();
    let line = script
        .lines()
        .find_map(|line| line.strip_prefix("target/release/steady-first-race "))
        .expect("the script calls it");
    let words: Vec<&str> = line.split(' ').collect();
    let [scenario, _, _, variants @ ..] = &words[..] else {
        panic!("{line}");
    };
    let scenario = steady_scenario::Scenario::load(project.join(scenario)).unwrap();
    let variants: Vec<String> = variants.iter().map(|&name| name.to_owned()).collect();
    assert!(!variants.is_empty());
    scenario.select(&variants).unwrap();
}
