// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Are simulated claims of what the simulator gives, under the conditions that it has?

use std::collections::BTreeMap;

use steady_evidence::{House, Keys, Record, Simulated, Words, conditions_line};

use crate::common::{CLAIMS_FILE, Project};

/// The conditions that the made-up claim states of its race.
const STATED: &str = "ple = \"on\", pv = \"all\", placement = \"pinned\", vms = 1, vcpus = 2, \
                      pcpus = 2";
const SCENARIO: &str = "scenarios/pair.toml";
const OF_WORKLOAD: &str = "vm = \"victim\"\nworkload = \"shootdown\"\n";

fn words(mode: &str) -> Words {
    let conditions = [("cores", "8"), ("mode", mode)];
    conditions
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
}

fn keys(simulated: Simulated) -> Keys {
    Keys {
        simulated: [(SCENARIO.to_owned(), simulated)].into(),
        ..Keys::default()
    }
}

fn named<const N: usize>(of: [(&str, &str); N]) -> BTreeMap<String, Words> {
    of.map(|(name, mode)| (name.to_owned(), words(mode))).into()
}

/// A simulator with these numbers of no workload.
fn of_numbers<const N: usize>(numbers: [(&str, &str); N]) -> Keys {
    keys(Simulated {
        key: "today".to_owned(),
        numbers: named(numbers),
        ..Simulated::default()
    })
}

/// A simulator that measures a workload in these variants.
fn of_workloads(variants: [(&str, &str); 2]) -> Keys {
    keys(Simulated {
        key: "today".to_owned(),
        numbers: named([("mean", "native")]),
        measures: ["shootdown.latency.p99".to_owned()].into(),
        workloads: ["shootdown".to_owned()].into(),
        variants: named(variants),
    })
}

const VARIANTS: [(&str, &str); 2] = [("stock", "native"), ("shoot4u", "virtualized")];

/// A project whose claim is simulated.
fn project(stated: &str) -> Project {
    let project = Project::bare();
    project.change(CLAIMS_FILE, "\"bochs\"", "\"coherence\"");
    project.change(CLAIMS_FILE, STATED, stated);
    project
}

fn problems(project: &Project, keys: &Keys) -> String {
    let house = House::load(project.root(), keys.clone()).unwrap();
    let problems = steady_evidence::check(&house);
    let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
    all.join("\n")
}

fn line(project: &Project, keys: &Keys) -> String {
    let house = House::load(project.root(), keys.clone()).unwrap();
    conditions_line(&house, house.claims().next().unwrap())
}

#[test]
fn a_simulated_claim_states_the_conditions_that_the_simulator_has() {
    let keys = of_numbers([("first", "native"), ("second", "virtualized")]);
    for (stated, said) in [
        ("cores = 8, mode = \"differs\"", ""),
        ("cores = 4, mode = \"differs\"", "`cores` is stated as 4"),
        (
            "cores = 8, mode = \"native\"",
            "the simulator has different",
        ),
        ("cores = 8", "the condition `mode` is missing"),
        ("", "the condition `cores` is missing"),
        (
            "cores = 8, mode = \"differs\", x = 1",
            "unknown condition `x`",
        ),
    ] {
        let project = project(stated);
        project.change(CLAIMS_FILE, OF_WORKLOAD, "");
        project.change(CLAIMS_FILE, "shootdown.latency.p99", "first");
        let text = project.read(CLAIMS_FILE);
        let row = "[[claim.row]]\nid = \"two\"\nwhat = \"w\"\nmeasure = \"second\"\n";
        project.write(CLAIMS_FILE, &(text + row));
        let all = problems(&project, &keys);
        match said {
            "" => assert!(!all.contains("condition"), "{all}"),
            said => assert!(all.contains(said), "{stated}: {all}"),
        }
        let line = line(&project, &keys);
        assert_eq!(line, "cores: 8; mode: native or virtualized (`two`)");
    }
}

#[test]
fn rows_of_a_workload_have_the_conditions_of_their_variants() {
    let project = project("cores = 8, mode = \"differs\"");
    let keys = of_workloads(VARIANTS);
    let all = problems(&project, &keys);
    assert!(
        !all.contains("condition") && !all.contains("simulator"),
        "{all}"
    );
    let said = "cores: 8; mode: native or virtualized (`shoot4u`)";
    assert_eq!(line(&project, &keys), said);
    let alike = of_workloads([("stock", "native"), ("shoot4u", "native")]);
    let all = problems(&project, &alike);
    assert!(all.contains("the simulator has \"native\""), "{all}");
    assert_eq!(line(&project, &alike), "cores: 8; mode: native");
}

#[test]
fn what_the_simulator_does_not_give_is_found_by_its_name() {
    for (from, to, said) in [
        (
            "latency.p99",
            "latency.p98",
            "gives no measure `shootdown.latency.p98` of workloads",
        ),
        (
            "\"shootdown\"\n",
            "\"dedup\"\n",
            "the simulator has no workload `dedup`",
        ),
        (
            "[\"shoot4u\"]",
            "[\"third\"]",
            "has no variant `third` of workloads",
        ),
        (SCENARIO, "attc", "nothing is simulated for `attc`"),
        (
            OF_WORKLOAD,
            "",
            "gives no measure `shootdown.latency.p99`\n",
        ),
    ] {
        let project = project("cores = 8, mode = \"differs\"");
        project.change(CLAIMS_FILE, from, to);
        let all = problems(&project, &of_workloads(VARIANTS)) + "\n";
        assert!(all.contains(said), "{to}: {all}");
    }
    let project = project("cores = 8, mode = \"native\"");
    project.change(CLAIMS_FILE, OF_WORKLOAD, "");
    project.change(CLAIMS_FILE, "shootdown.latency.p99", "mean");
    let all = problems(&project, &of_workloads(VARIANTS));
    let said = "the variant `stock` is of workloads, and `mean` of none";
    assert!(all.contains(said), "{all}");
}

#[test]
fn a_record_of_other_conditions_of_a_variant_than_the_simulator_s_is_found() {
    let project = project("cores = 8, mode = \"differs\"");
    let keys = of_workloads(VARIANTS);
    let house = House::load(project.root(), keys.clone()).unwrap();
    let race = house.races().remove(0);
    let record = Record::reduced(project.result(8), &race, &house.keys).unwrap();
    record.save(project.root()).unwrap();
    let now = problems(&project, &keys);
    assert!(!now.contains("its record is of"), "{now}");
    let other = problems(
        &project,
        &of_workloads([("stock", "virtualized"), VARIANTS[1]]),
    );
    let said = "variant `stock`: its record is of \"cores: 8; mode: native\", and the simulator \
                has \"cores: 8; mode: virtualized\"; simulate it again: steady evidence run tail";
    assert!(other.contains(said), "{other}");
}

#[test]
fn a_record_of_a_simulator_that_has_changed_is_old() {
    let project = project("cores = 8, mode = \"differs\"");
    let mut keys = of_workloads(VARIANTS);
    let house = House::load(project.root(), keys.clone()).unwrap();
    let race = house.races().remove(0);
    let record = Record::reduced(project.result(8), &race, &house.keys).unwrap();
    record.save(project.root()).unwrap();
    let old = |keys: &Keys| {
        let house = House::load(project.root(), keys.clone()).unwrap();
        house.old(house.claims().next().unwrap())
    };
    assert_eq!(old(&keys), None);
    let simulated = keys.simulated.get_mut(SCENARIO).unwrap();
    simulated.key = "tomorrow".to_owned();
    assert_eq!(old(&keys).as_deref(), Some("simulator today"));
}
