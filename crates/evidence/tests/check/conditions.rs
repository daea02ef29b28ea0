// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Are the conditions of a claim those of what it races, and does the page print them?

use steady_evidence::{House, Keys, Record, conditions_line};

use crate::common::{CLAIMS_FILE, Project};

#[test]
fn a_condition_that_differs_stands_with_the_variants_that_have_it() {
    let project = Project::bare();
    let remedy = "shoot4u = {}";
    let pv = format!("{remedy}, pv = {{ ipi = false }}");
    project.change("scenarios/pair.toml", remedy, &pv);
    project.change(CLAIMS_FILE, "pv = \"all\"", "pv = \"differs\"");
    project.save_record(8);
    project.render();
    assert_eq!(project.problems(), Vec::<String>::new());
    let page = project.read("docs/validation/shoot4u.md");
    let both = "all PV features (`stock`) or PV features but ipi (`shoot4u`); PLE on, window";
    assert!(page.contains(both), "{page}");
    assert!(page.contains("; 250 Hz |"), "{page}");
}

#[test]
fn a_simulated_claim_states_the_conditions_that_the_simulator_has() {
    let of = |mode: &str| {
        let conditions = [("cores", "8"), ("mode", mode)];
        conditions.map(|(key, value)| (key.to_owned(), value.to_owned()))
    };
    let measures = [("first", "native"), ("second", "virtualized")];
    let keys = Keys {
        simulated: measures
            .map(|(name, mode)| (name.to_owned(), of(mode).into()))
            .into(),
        ..Keys::default()
    };
    let before =
        "ple = \"on\", pv = \"all\", placement = \"pinned\", vms = 1, vcpus = 2, pcpus = 2";
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
        let project = Project::bare();
        project.change(CLAIMS_FILE, "\"bochs\"", "\"coherence\"");
        project.change(CLAIMS_FILE, before, stated);
        project.change(CLAIMS_FILE, "shootdown.latency.p99", "first");
        let text = project.read(CLAIMS_FILE);
        let row = "[[claim.row]]\nid = \"two\"\nwhat = \"w\"\nmeasure = \"second\"\n";
        project.write(CLAIMS_FILE, &(text + row));
        let house = House::load(project.root(), keys.clone()).unwrap();
        let problems = steady_evidence::check(&house);
        let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let of_conditions: Vec<_> = all.iter().filter(|one| one.contains("condition")).collect();
        match said {
            "" => assert_eq!(of_conditions, [""; 0]),
            said => assert!(all.join("\n").contains(said), "{stated}: {all:?}"),
        }
        let line = conditions_line(&house, house.claims().next().unwrap());
        assert_eq!(line, "cores: 8; mode: native or virtualized (`two`)");
    }
}

#[test]
fn a_simulated_record_of_other_conditions_than_the_simulator_s_is_found() {
    let keys = |mode: &str| {
        let conditions = [("cores", "8"), ("mode", mode)];
        let conditions = conditions.map(|(key, value)| (key.to_owned(), value.to_owned()));
        Keys {
            simulated: [("shootdown.latency.p99".to_owned(), conditions.into())].into(),
            ..Keys::default()
        }
    };
    let project = Project::bare();
    project.change(CLAIMS_FILE, "\"bochs\"", "\"coherence\"");
    let stated =
        "ple = \"on\", pv = \"all\", placement = \"pinned\", vms = 1, vcpus = 2, pcpus = 2";
    project.change(CLAIMS_FILE, stated, "cores = 8, mode = \"native\"");
    let house = House::load(project.root(), keys("native")).unwrap();
    let race = house.races().remove(0);
    let record = Record::reduced(project.result(8), &race, &house.keys).unwrap();
    record.save(project.root()).unwrap();
    let problems = |mode: &str| {
        let house = House::load(project.root(), keys(mode)).unwrap();
        let all = steady_evidence::check(&house);
        let all: Vec<String> = all.iter().map(ToString::to_string).collect();
        all.join("\n")
    };
    let native = problems("native");
    assert!(!native.contains("its record is of"), "{native}");
    project.change(CLAIMS_FILE, "\"native\"", "\"virtualized\"");
    let other = problems("virtualized");
    let said = "row `p99`: its record is of \"cores: 8; mode: native\", and the simulator has \
                \"cores: 8; mode: virtualized\"; simulate it again: steady evidence run tail";
    assert!(other.contains(said), "{other}");
}
