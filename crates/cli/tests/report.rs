// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady report`: two results against each other, for other programs, and what is not a result.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use steady_measures::{
    Better, Clock, EngineInfo, Metric, Repetition, RunResult, ScenarioInfo, Unit, VariantResult,
};

/// Runs of the variants `stock` and `other`, of seeds 1 to 3; the first's times are these, in ns.
fn result(kernel: &str, other: &str, times: [i64; 3]) -> RunResult {
    let scenario = ScenarioInfo {
        name: "made".to_owned(),
        title: "A made result".to_owned(),
        question: "Is it shown?".to_owned(),
        digest: "0".repeat(64),
    };
    let engine = EngineInfo {
        name: "bochs".to_owned(),
        version: "3.0".to_owned(),
        clock: Clock::Simulated,
        description: "made".to_owned(),
    };
    let mut result = RunResult::new(scenario, engine, 1);
    result
        .config
        .insert("kernel.release".to_owned(), kernel.to_owned());
    let runs = |factor: i64| {
        let values = times.into_iter().zip(0..);
        let runs = values.map(|(time, index)| Repetition {
            index,
            seed: Some(u64::from(index) + 1),
            metrics: vec![
                Metric::new("time", Unit::Ns, Better::Lower, time * factor)
                    .in_vm("a, b")
                    .of_workload("hackbench"),
            ],
            ..Repetition::default()
        });
        runs.collect::<Vec<_>>()
    };
    result.variants = [("stock", 1), (other, 3)]
        .map(|(name, factor)| VariantResult {
            name: name.to_owned(),
            title: format!("Runs of {name}"),
            repetitions: runs(factor),
            ..VariantResult::default()
        })
        .into();
    result.seal();
    result
}

struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        let before = result("6.12.1", "other", [100_000, 200_000, 300_000]);
        let after = result("6.12.2", "new", [50_000, 100_000, 150_000]);
        before.save_atomic(&bench.path("before.json")).unwrap();
        after.save_atomic(&bench.path("after.json")).unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn report(&self, words: &[&str]) -> Output {
        let mut command = Command::cargo_bin("steady").unwrap();
        let command = command.arg("report").args(words).current_dir(self.0.path());
        command.env("COLUMNS", "100").output().unwrap()
    }

    fn shows(&self, words: &[&str]) -> String {
        let output = self.report(words);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What is said of results that must be refused.
    fn refuses(&self, code: i32, words: &[&str]) -> String {
        let output = self.report(words);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

#[test]
fn two_results_are_set_against_each_other_with_all_that_differs() {
    let bench = Bench::new();
    let text = bench.shows(&["before.json", "after.json"]);
    let (_, against) = text.split_once("\nA and B\n").unwrap();
    for expected in [
        "- A: before.json",
        "- B: after.json",
        "- differs: kernel.release: A 6.12.1, B 6.12.2",
        "- not compared, as the other has none: other of A, new of B",
    ] {
        assert!(
            against.lines().any(|line| line == expected),
            "{expected}: {against}"
        );
    }
    assert!(against.contains("stock: Runs of stock"), "{against}");
    let row = against.lines().find(|line| line.contains("200")).unwrap();
    assert!(
        row.contains("100") && row.contains("×0.50"),
        "half of it: {row}"
    );
    let same = bench.shows(&["before.json", "before.json"]);
    assert!(
        same.contains("- nothing differs but what was measured"),
        "{same}"
    );
}

#[test]
fn a_single_result_is_not_set_against_anything() {
    let bench = Bench::new();
    assert!(!bench.shows(&["before.json"]).contains("A and B"));
}

#[test]
fn csv_has_every_value_of_every_run_and_quotes_what_must_be() {
    let bench = Bench::new();
    let text = bench.shows(&["before.json", "after.json", "--csv"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 2 * 2 * 3);
    assert!(lines[0].starts_with("file,scenario,engine,variant,repetition,seed,"));
    let first = "before.json,made,bochs,stock,0,1,\"a, b\",hackbench,time,ns,lower,100000";
    assert_eq!(lines[1], first);
}

#[test]
fn markdown_has_a_table_of_each_result_and_of_both() {
    let bench = Bench::new();
    let text = bench.shows(&["before.json", "--markdown"]);
    assert!(text.contains("| measure | stock | other |"), "{text}");
    assert!(text.contains("×3.00"), "{text}");
    let text = bench.shows(&["before.json", "after.json", "--markdown"]);
    assert!(
        text.contains("\n## A and B\n") && text.contains("| measure | A | B |"),
        "{text}"
    );
}

#[test]
fn what_is_not_a_result_gets_one_clear_error() {
    let bench = Bench::new();
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../diagnose/tests/fixtures/stall.dat");
    let said = bench.refuses(2, &[trace.to_str().unwrap()]);
    assert!(
        said.contains("stall.dat is not a result: it begins with"),
        "{said}"
    );
    assert!(said.contains("`steady diagnose` reads traces"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn the_status_says_whether_a_file_or_what_is_in_it_is_wrong() {
    let bench = Bench::new();
    let text = std::fs::read_to_string(bench.path("before.json")).unwrap();
    let with = |name: &str, from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        std::fs::write(bench.path(name), text.replace(from, to)).unwrap();
    };
    with("newer.json", "\"version\": 1", "\"version\": 9");
    with("kind.json", "steady.result", "steady.other");
    with("changed.json", "100000", "100001");
    with("cut.json", "\"measures_digest\"", "");
    std::fs::write(bench.path("empty.json"), "").unwrap();
    for (code, words, expected) in [
        (1, &["none.json"][..], "cannot read none.json"),
        (2, &["empty.json"], "it begins with nothing"),
        (2, &["newer.json"], "is newer than version 1"),
        (2, &["kind.json"], "schema is \"steady.other\""),
        (2, &["changed.json"], "digest"),
        (2, &["cut.json"], "cut.json:"),
        (
            2,
            &["before.json", "--variant", "foo"],
            "no variant \"foo\"",
        ),
        (
            2,
            &["before.json", "--csv", "--markdown"],
            "cannot be used with",
        ),
        (2, &[], "required"),
    ] {
        let said = bench.refuses(code, words);
        assert!(said.contains(expected), "{words:?}: {said}");
    }
}
