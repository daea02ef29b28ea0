// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is a row the geometric mean of several workloads in each run, by the one estimator?

use steady_evidence::{Record, entry};
use steady_measures::{Better, Metric, RunResult, Unit};

use super::common::{CLAIMS_FILE, Project};
use super::found;

/// Time of a run is 1 ms and 4 ms without the remedy, and 1 ms and 1 ms with it.
fn result(project: &Project) -> RunResult {
    let mut result = project.result(8);
    for variant in &mut result.variants {
        let second = if variant.name == "stock" { 4 } else { 1 };
        for run in &mut variant.repetitions {
            let time = |workload: &str, ms: i64| {
                let ns = ms * 1_000_000 + i64::from(run.index);
                let metric = Metric::new("time", Unit::Ns, Better::Lower, ns);
                metric.in_vm("victim").of_workload(workload)
            };
            let both = [time("shootdown", 1), time("shootdown-2", second)];
            run.metrics.extend(both);
        }
    }
    result.seal();
    result
}

/// A project with two workloads and a row that is the mean of their times.
fn project(over: &str) -> Project {
    let project = Project::bare();
    let twice = r#"{ program = "shootdown" }, { program = "shootdown" }"#;
    project.change("scenarios/pair.toml", r#"{ program = "shootdown" }"#, twice);
    let text = project.read(CLAIMS_FILE);
    let row = format!(
        "{text}[[claim.row]]\nid = \"mean\"\nvm = \"victim\"\nmean_over = [{over}]\n\
         measure = \"time\"\nwhat = \"mean time\"\n"
    );
    project.write(CLAIMS_FILE, &row);
    project
}

const BOTH: &str = "\"shootdown\", \"shootdown-2\"";

#[test]
fn a_mean_of_two_programs_halves_where_one_takes_a_quarter_of_its_time() {
    let project = project(BOTH);
    let house = project.house();
    let race = house.races().remove(0);
    let record = Record::reduced(result(&project), &race, &house.keys).unwrap();
    record.save(project.root()).unwrap();
    project.render();
    assert_eq!(project.problems(), Vec::<String>::new());
    let house = project.house();
    let claim = house.claim("tail").unwrap();
    let row = claim.row("mean").unwrap();
    let entry = entry(&house, claim, row, "shoot4u", None).unwrap();
    assert_eq!(
        (entry.base_value(), entry.value()),
        ("2.00 ms".into(), "1.00 ms".into())
    );
    assert!(entry.ratio().starts_with("×0.50 ["), "{}", entry.ratio());
    assert_eq!(entry.runs(), 8);
}

/// How many runs have the mean, once this result is recorded.
fn runs_of_the_mean(project: &Project, mut result: RunResult) -> usize {
    result.seal();
    let house = project.house();
    let race = house.races().remove(0);
    let record = Record::reduced(result, &race, &house.keys).unwrap();
    record.save(project.root()).unwrap();
    let house = project.house();
    let claim = house.claim("tail").unwrap();
    let row = claim.row("mean").unwrap();
    entry(&house, claim, row, "shoot4u", None).unwrap().runs()
}

#[test]
fn a_run_that_lacks_one_of_the_programs_has_no_mean() {
    let project = project(BOTH);
    let mut result = result(&project);
    for variant in &mut result.variants {
        let run = &mut variant.repetitions[3];
        let second = |metric: &Metric| metric.workload.as_deref() == Some("shootdown-2");
        run.metrics.retain(|metric| !second(metric));
    }
    assert_eq!(runs_of_the_mean(&project, result), 7);
}

#[test]
fn a_run_with_two_units_has_no_mean() {
    let project = project(BOTH);
    let mut result = result(&project);
    for variant in &mut result.variants {
        let mut all = variant.repetitions[3].metrics.iter_mut();
        let second = |metric: &&mut Metric| metric.workload.as_deref() == Some("shootdown-2");
        all.find(second).unwrap().unit = Unit::Count;
    }
    assert_eq!(runs_of_the_mean(&project, result), 7);
}

#[test]
fn a_mean_over_a_program_that_the_scenario_lacks_is_found() {
    found(
        &project("\"shootdown\", \"third\""),
        &["row `mean`", "`third`"],
    );
}

#[test]
fn a_row_of_one_program_that_is_a_mean_too_is_found() {
    let project = project(BOTH);
    let both = "workload = \"shootdown\"\nmean_over";
    project.change(CLAIMS_FILE, "mean_over", both);
    found(
        &project,
        &["row `mean`", "`mean_over` is in place of `workload`"],
    );
}
