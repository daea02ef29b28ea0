// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What does it take to add an engine? One folder, here with one file, and one entry in the list.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "an-engine/nothing.rs"]
mod nothing;

use std::path::{Path, PathBuf};

use steady_race::{Engines, Entry, Options, Silent, race};
use steady_scenario::Scenario;

/// As `steady` has its own.
const ENGINES: Engines = Engines(&[Entry {
    name: "nothing",
    help: "does nothing",
    make: nothing::engine,
}]);

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn options(out: &Path) -> Options {
    Options {
        out: out.to_owned(),
        ..Options::default()
    }
}

#[test]
fn an_engine_of_one_file_and_one_entry_races_a_shipped_scenario() {
    let scenario = Scenario::load(tree().join("scenarios/two-vms.toml")).unwrap();
    let out = tempfile::tempdir().unwrap();
    let engine = (ENGINES.find("nothing").unwrap().make)().unwrap();
    let raced = race(&*engine, &scenario, &options(out.path()), &Silent).unwrap();
    assert_eq!(raced.result.variants.len(), scenario.variants.len());
    assert!(out.path().join("two-vms/nothing/result.json").is_file());
}

#[test]
fn an_engine_refuses_what_it_cannot_honour() {
    let scenario = Scenario::load(tree().join("scenarios/two-vms.toml")).unwrap();
    let out = tempfile::tempdir().unwrap();
    let engine = (ENGINES.find("nothing").unwrap().make)().unwrap();
    let mut options = options(out.path());
    options.trace = true;
    let error = race(&*engine, &scenario, &options, &Silent).expect_err("no trace");
    assert!(error.to_string().contains("leave out --trace"), "{error}");
}

#[test]
fn it_took_one_file_and_one_entry() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/an-engine");
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), 1);
    assert_eq!(ENGINES.0.len(), 1);
}

#[test]
fn no_crate_but_the_list_and_its_own_rooms_names_an_engine_of_the_lab() {
    // Names in quotes, as code matches them; help texts and tests may speak of them. The exits
    // that a claim may name are those of the engine's processor.
    let allowed = [
        "evidence/src/given.rs",
        "cli/src/engines.rs",
        "lab/src/",
        "lab-artifacts/src/",
        "selftest/src/report/tests.rs",
    ];
    let mut naming = Vec::new();
    for room in std::fs::read_dir(tree().join("crates")).unwrap() {
        let room = room.unwrap().path();
        sources(&room.join("src"), &mut |path, text| {
            let relative = path.strip_prefix(tree().join("crates")).unwrap();
            let relative = relative.to_string_lossy().into_owned();
            let names = text.contains("\"bochs\"") || text.contains("Bochs =>");
            if names && !allowed.iter().any(|place| relative.starts_with(place)) {
                naming.push(relative);
            }
        });
    }
    assert_eq!(naming, [""; 0]);
}

fn sources(folder: &Path, found: &mut dyn FnMut(&Path, &str)) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}
