// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does a claim whose runs are captured name what a capture gives, and of what is its record?

use std::collections::BTreeMap;
use std::fs;

use steady_evidence::{Captured, House, Keys, Record, Simulated};
use steady_measures::{Better, Metric, Unit};

use super::common::{CLAIMS_FILE, Project};
use super::found;

const CAPTURED: &str = "engine = \"bochs\"\ncaptured = { after_ticks = 1000, accesses = 20000000 }";
const ROW: &str = "workload = \"shootdown\"\nmeasure = \"shootdown.latency.p99\"";
const RATE: &str = "measure = \"captured.shootdowns\"";

/// A project whose claim is captured and names a rate.
fn captured() -> Project {
    let project = Project::bare();
    project.change(CLAIMS_FILE, "engine = \"bochs\"", CAPTURED);
    project.change(CLAIMS_FILE, ROW, RATE);
    let patches = project.root().join("lab/bochs-events");
    fs::create_dir_all(&patches).unwrap();
    fs::write(patches.join("0001.patch"), "--- b\n").unwrap();
    project
}

/// The same with a record of the rate.
fn recorded() -> Project {
    let project = captured();
    let house = project.house();
    let mut result = project.result(8);
    let runs = result.variants.iter_mut();
    for (at, run) in runs.flat_map(|one| &mut one.repetitions).enumerate() {
        let value = i64::try_from(1000 + at).unwrap();
        let rate = Metric::new("captured.shootdowns", Unit::Count, Better::Neutral, value);
        run.metrics.push(rate.in_vm("victim"));
    }
    result.seal();
    let race = house.races().remove(0);
    let record = Record::reduced(result, &race, &house.keys).unwrap();
    record.save(project.root()).unwrap();
    project
}

#[test]
fn a_row_that_a_capture_does_not_give_is_found() {
    for (row, said) in [
        (
            "measure = \"captured.hits\"",
            "has no measure `captured.hits`",
        ),
        ("measure = \"exits.total\"", "has no measure `exits.total`"),
        (
            "workload = \"shootdown\"\nmeasure = \"captured.shootdowns\"",
            "expected a row of a VM",
        ),
    ] {
        let project = captured();
        project.change(CLAIMS_FILE, RATE, row);
        found(&project, &["claim `tail`, row `p99`", said]);
    }
    let project = captured();
    project.change(CLAIMS_FILE, "vm = \"victim\"", "vm = \"missing\"");
    found(&project, &["the scenario has no VM `missing`"]);
    let project = captured();
    project.change(CLAIMS_FILE, "vm = \"victim\"\n", "");
    found(&project, &["a capture gives measures of VMs"]);
}

#[test]
fn a_measure_of_a_capture_is_found_where_nothing_is_captured() {
    let project = Project::bare();
    project.change(CLAIMS_FILE, ROW, RATE);
    found(&project, &["a VM has no measure `captured.shootdowns`"]);
}

#[test]
fn what_cannot_be_captured_is_found() {
    for (more, said) in [
        ("trace = true\n", "`captured` and `trace`"),
        ("brought = \"the suite\"\n", "the lab's kernel and programs"),
    ] {
        let project = captured();
        project.change(CLAIMS_FILE, "engine = ", &format!("{more}engine = "));
        found(&project, &["claim `tail`", said]);
    }
    let project = captured();
    project.change(CLAIMS_FILE, "\"bochs\"", "\"qemu\"");
    found(&project, &["the engine `qemu` cannot record"]);
    let project = captured();
    project.change(CLAIMS_FILE, "accesses = 20000000", "accesses = 0");
    found(&project, &["`captured.accesses` is 0"]);
}

#[test]
fn claims_of_one_race_that_record_other_parts_are_found() {
    let project = recorded();
    let claims = project.read(CLAIMS_FILE);
    let (_, claim) = claims.split_once("[[claim]]").unwrap();
    let other = claim
        .replace("id = \"tail\"", "id = \"other\"\nrace = \"tail\"")
        .replace("after_ticks = 1000", "after_ticks = 2000");
    project.write(CLAIMS_FILE, &format!("{claims}[[claim]]{other}"));
    found(&project, &["claim `other`", "the same scenario, programs"]);
}

#[test]
fn a_capture_is_of_kernel_simulator_and_both_emulators_patches() {
    let project = recorded();
    let old = |simulator: &str| {
        let simulated = Simulated {
            key: simulator.to_owned(),
            ..Simulated::default()
        };
        let known = BTreeMap::from([(Captured::SIMULATED.to_owned(), simulated)]);
        let keys = Keys::of_tree(project.root(), known).unwrap();
        let house = House::load(project.root(), keys).unwrap();
        house.old(house.claim("tail").unwrap())
    };
    assert_eq!(old(""), None);
    assert!(old("another").is_some_and(|key| key.starts_with("simulator")));
    for (file, kind) in [
        ("linux/new/shoot4u.c", "kernel"),
        ("lab/bochs/0001.patch", "emulator"),
        ("lab/bochs-events/0001.patch", "emulator"),
    ] {
        let path = project.root().join(file);
        let before = fs::read(&path).ok();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "another\n").unwrap();
        let said = old("");
        assert!(said.is_some_and(|key| key.starts_with(kind)), "{file}");
        match before {
            Some(bytes) => fs::write(&path, bytes).unwrap(),
            None => fs::remove_dir_all(path.parent().unwrap()).unwrap(),
        }
        assert_eq!(old(""), None, "{file} as it was");
    }
}

#[test]
fn conditions_say_what_was_recorded_and_simulated() {
    let project = recorded();
    let house = project.house();
    let line = steady_evidence::conditions_line(&house, house.claim("tail").unwrap());
    assert!(line.contains("20.0 M accesses recorded"), "{line}");
    assert!(line.contains("with DRAM alone"), "{line}");
}

#[test]
fn an_item_of_a_capture_that_differs_without_a_run_that_moves_it_is_found() {
    // The paper's rate falls, and the recorded one rises.
    let words = ["item `one`", "expected `moved_by`"];
    found(&recorded(), &words);
}
