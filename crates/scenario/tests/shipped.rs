// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scenarios that ship: each has the digest that is written down for it.
//!
//! Results carry the digest of their scenario, so a file that only looks different has to keep it,
//! and one that is changed on purpose shows so in `fixtures/digests`.

use std::path::{Path, PathBuf};

use steady_scenario::Scenario;

/// Lines of a digest and the path of its file below `scenarios/`, in the order of paths.
const DIGESTS: &str = include_str!("fixtures/digests");

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

/// The scenario files of one folder below `scenarios/`.
fn files(folder: &str) -> Vec<String> {
    let entries = scenarios().join(folder).read_dir().expect("it ships");
    let names = entries.map(|entry| entry.expect("the folder can be read").file_name());
    let names = names.map(|name| name.into_string().expect("names are UTF-8"));
    let files = names.filter(|name| name.ends_with(".toml"));
    files.map(|name| format!("{folder}{name}")).collect()
}

#[test]
fn every_shipped_scenario_has_its_digest() {
    let mut paths = [files(""), files("papers/"), files("suite/")].concat();
    paths.sort();
    let line = |path: &String| {
        let scenario = Scenario::load(scenarios().join(path));
        let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
        format!("{} {path}", scenario.digest())
    };
    let found: Vec<String> = paths.iter().map(line).collect();
    let known: Vec<&str> = DIGESTS.lines().collect();
    let new: Vec<&String> = found
        .iter()
        .filter(|line| !known.contains(&line.as_str()))
        .collect();
    assert!(
        found == known,
        "a scenario was added, changed or removed; if that is meant, write into \
         tests/fixtures/digests: {new:#?}"
    );
}
