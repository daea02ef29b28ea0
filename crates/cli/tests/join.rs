// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady join` on files: what is written, and that nothing is where it is refused.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use steady_measures::{
    Better, Clock, EngineInfo, Metric, Repetition, RunResult, ScenarioInfo, Unit, VariantResult,
};

/// Writes a result of these seeds, with one metric.
fn piece(path: &Path, digest: char, seeds: &[u64]) {
    let scenario = ScenarioInfo {
        name: "solo".to_owned(),
        digest: digest.to_string().repeat(64),
        ..ScenarioInfo::default()
    };
    let engine = EngineInfo {
        name: "bochs".to_owned(),
        version: "3.0".to_owned(),
        clock: Clock::Wall,
        description: String::new(),
    };
    let mut result = RunResult::new(scenario, engine, seeds[0]);
    let repetitions = seeds.iter().zip(0..).map(|(&seed, index)| Repetition {
        index,
        seed: Some(seed),
        metrics: vec![Metric::new("time", Unit::Ns, Better::Lower, 5)],
        ..Repetition::default()
    });
    result.variants.push(VariantResult {
        name: "ipi".to_owned(),
        repetitions: repetitions.collect(),
        ..VariantResult::default()
    });
    result.seal();
    result.save_atomic(path).unwrap();
}

fn join(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::cargo_bin("steady").unwrap();
    let output = command.current_dir(folder).arg("join").args(words).output();
    output.unwrap()
}

#[test]
fn pieces_become_one_file_that_is_a_result() {
    let folder = tempfile::tempdir().unwrap();
    piece(&folder.path().join("a.json"), '5', &[1, 2]);
    piece(&folder.path().join("b.json"), '5', &[3]);
    let output = join(folder.path(), &["b.json", "a.json", "-o", "whole.json"]);
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said, "whole.json: 3 runs of solo, 1 variants\n");
    let whole = RunResult::load(&folder.path().join("whole.json")).unwrap();
    let runs = whole.variants[0].repetitions.iter();
    let runs: Vec<_> = runs.map(|run| (run.index, run.seed)).collect();
    assert_eq!(runs, [(0, Some(1)), (1, Some(2)), (2, Some(3))]);
}

#[test]
fn another_scenario_is_refused_by_name_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    piece(&folder.path().join("a.json"), '5', &[1]);
    piece(&folder.path().join("b.json"), '6', &[2]);
    let output = join(folder.path(), &["a.json", "b.json", "-o", "whole.json"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.starts_with("steady: cannot join b.json: the scenario is solo 666"),
        "{said}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}
