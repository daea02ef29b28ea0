// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Result files: what is written is read back, and what is wrong is refused with its place.

mod common;

use proptest::prelude::*;
use steady_measures::{Error, RunResult, WorkloadReport, sha256_hex};

use common::sample;

/// The sample's file with one piece of text replaced, and the error that reading it gives.
fn refused(from: &str, to: &str) -> String {
    let text = String::from_utf8(sample().to_json()).expect("JSON is UTF-8");
    assert!(text.contains(from), "the sample lacks {from}");
    let changed = text.replacen(from, to, 1);
    let read = RunResult::from_json("out/result.json", changed.as_bytes());
    read.expect_err(to).to_string()
}

#[test]
fn a_saved_result_is_loaded_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("result.json");
    sample().save_atomic(&path).unwrap();
    assert_eq!(RunResult::load(&path).unwrap(), sample());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}

#[test]
fn a_result_file_has_one_metric_a_line() {
    let text = String::from_utf8(sample().to_json()).unwrap();
    assert!(text.ends_with("\n}\n") && !text.contains("\n\n"));
    let line = text
        .lines()
        .find(|line| line.contains("EXTERNAL_INTERRUPT"))
        .unwrap();
    assert_eq!(
        line.trim(),
        r#"{"vm": "vm0", "name": "exits.EXTERNAL_INTERRUPT", "unit": "count", "better": "lower", "value": 1234}"#
    );
}

#[test]
fn the_digest_sees_measures_and_warnings_but_not_the_run_or_artifacts() {
    let digest = sample().digest_of_measures();
    let mut other = sample();
    other.run.wall_ms += 1;
    other.variants[0].repetitions[0].artifacts.clear();
    assert_eq!(other.digest_of_measures(), digest);
    let mut other = sample();
    other.variants[1].repetitions[1].metrics[0].value += 1;
    assert_ne!(other.digest_of_measures(), digest);
    let mut other = sample();
    other.variants[0].repetitions[0].warnings.clear();
    assert_ne!(other.digest_of_measures(), digest);
}

#[test]
fn seeds_and_a_reason_for_missing_runs_are_read_back_and_not_in_the_digest() {
    let mut other = sample();
    other.partial = Some("3 of 4 runs: interrupted".to_owned());
    other.variants[0].repetitions[0].seed = Some(u64::MAX);
    assert_eq!(other.digest_of_measures(), sample().measures_digest);
    let read = RunResult::from_json("result.json", &other.to_json()).unwrap();
    assert_eq!(read, other);
}

#[test]
fn a_result_from_before_there_were_seeds_is_read() {
    let text = String::from_utf8(sample().to_json()).unwrap();
    let old: String = text
        .lines()
        .filter(|line| !line.contains("\"seed\": 1,") && !line.contains("\"seed\": 2,"))
        .map(|line| format!("{line}\n"))
        .collect();
    let read = RunResult::from_json("result.json", old.as_bytes()).unwrap();
    let mut repetitions = read.variants.iter().flat_map(|each| &each.repetitions);
    assert!(
        repetitions.all(|repetition| repetition.seed.is_none()),
        "{old}"
    );
    assert_eq!(read.measures_digest, sample().measures_digest);
}

#[test]
fn the_digest_is_that_of_the_compact_json_without_artifacts_and_seeds() {
    let mut variants = sample().variants;
    for repetition in variants
        .iter_mut()
        .flat_map(|variant| &mut variant.repetitions)
    {
        repetition.artifacts.clear();
        repetition.seed = None;
    }
    let text = serde_json::to_string(&variants)
        .unwrap()
        .replace(r#","artifacts":[]"#, "");
    assert_eq!(sha256_hex(text.as_bytes()), sample().measures_digest);
}

#[test]
fn a_changed_measure_is_noticed() {
    let error = refused(r#""value": 1234"#, r#""value": 1235"#);
    assert!(
        error.starts_with("out/result.json: measures_digest is"),
        "{error}"
    );
}

#[test]
fn a_newer_version_is_named_as_such_whatever_else_it_holds() {
    let error = refused(r#""version": 1"#, r#""version": 2, "novelty": {}"#);
    assert_eq!(
        error,
        "out/result.json: steady.result version 2 is newer than version 1, the newest this \
         program reads; use the program that wrote it, or run the scenario again"
    );
}

#[test]
fn another_document_is_named_as_such() {
    let error = RunResult::from_json("x.json", br#"{"schema":"steady.workload"}"#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "x.json: schema is \"steady.workload\", expected \"steady.result\"; this is not such a \
         document"
    );
}

#[test]
fn a_wrong_value_is_refused_with_line_column_and_key() {
    let error = refused(r#""unit": "count""#, r#""unit": "us""#);
    let text = String::from_utf8(sample().to_json()).unwrap();
    let (before, _) = text.split_once(r#""unit": "count""#).unwrap();
    let place = format!("out/result.json:{}:", before.lines().count());
    assert!(error.starts_with(&place), "{error}");
    assert!(
        error.contains("unknown variant `us`, expected one of `ns`"),
        "{error}"
    );
    assert!(
        error.ends_with("(at variants[0].repetitions[0].metrics[5].unit)"),
        "{error}"
    );
}

#[test]
fn a_fraction_is_refused() {
    let error = refused(r#""value": 1234"#, r#""value": 1234.5"#);
    assert!(
        error.contains("floating point `1234.5`, expected i64"),
        "{error}"
    );
}

#[test]
fn an_unknown_key_is_refused() {
    let error = refused(r#""seed": 7"#, r#""sede": 7"#);
    assert!(
        error.contains("unknown field `sede`, expected one of `schema`"),
        "{error}"
    );
}

#[test]
fn a_contradicting_distribution_is_refused_where_it_stands() {
    let error = refused(r#""count": 50, "sum""#, r#""count": 51, "sum""#);
    assert!(error.contains("hold 50 values, but count is 51"), "{error}");
    assert!(
        error.contains("(at variants[0].repetitions[0].distributions[0]"),
        "{error}"
    );
}

#[test]
fn a_bad_metric_name_is_refused() {
    let error = refused("exits.EXTERNAL_INTERRUPT", "exits..EXTERNAL INTERRUPT");
    assert!(
        error.contains("expected letters, digits, '_' and '-' in segments"),
        "{error}"
    );
}

#[test]
fn an_unknown_clock_is_refused() {
    let error = refused("instructions at 100000000 per second", "sundial");
    assert!(
        error.contains("clock \"sundial\" is unknown; expected \"wall\""),
        "{error}"
    );
}

#[test]
fn contradictions_between_parts_are_refused() {
    type Case = (&'static str, fn(&mut RunResult));
    let cases: [Case; 6] = [
        ("no variants", |r| r.variants.clear()),
        ("two variants named \"ipi\"", |r| {
            r.variants[1].name = "ipi".to_owned()
        }),
        ("repetition 0 out of order", |r| {
            r.variants[0].repetitions[1].index = 0
        }),
        (
            "metric \"shootdown.latency.mean\" twice for VM vm0 and workload latency",
            |r| {
                let metrics = &mut r.variants[0].repetitions[0].metrics;
                metrics.push(metrics[0].clone());
            },
        ),
        ("expected a path inside the result's directory", |r| {
            r.variants[0].repetitions[0].artifacts[0].path = "../../etc/passwd".to_owned();
        }),
        ("expected 64 lower-case hexadecimal digits", |r| {
            r.variants[0].repetitions[0].artifacts[0].sha256 = "A".repeat(64);
        }),
    ];
    for (expected, spoil) in cases {
        let mut result = sample();
        spoil(&mut result);
        result.seal();
        let error = result.validate().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}\nlacks: {expected}");
    }
}

#[test]
fn an_unsealed_result_is_not_saved() {
    let directory = tempfile::tempdir().unwrap();
    let mut result = sample();
    result.measures_digest.clear();
    let saved = result.save_atomic(&directory.path().join("result.json"));
    assert!(matches!(saved, Err(Error::Invalid { .. })));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn truncated_files_are_refused_at_every_length() {
    let bytes = sample().to_json();
    for length in 0..bytes.len() - 2 {
        RunResult::from_json("x", &bytes[..length]).expect_err("a part of a result");
    }
}

#[test]
fn a_workload_line_gets_scope_and_summary() {
    let line = r#"{"schema":"steady.workload","version":1,"program":"shootdown","metrics":[{"name":"time","unit":"ns","better":"lower","value":5}],"distributions":[{"name":"shootdown.latency","unit":"ns","count":1,"sum":9,"min":9,"max":9,"buckets":[[9,9,1]]}]}"#;
    let report = WorkloadReport::from_line("VM vm0", line).unwrap();
    assert_eq!(report.to_line().trim_end(), line);
    let (metrics, distributions) = report.scoped("vm0", "latency").unwrap();
    assert!(metrics.iter().all(|m| m.vm.as_deref() == Some("vm0")));
    assert!(
        metrics
            .iter()
            .any(|m| m.name == "shootdown.latency.p99" && m.value == 9)
    );
    assert_eq!(distributions[0].workload(), Some("latency"));
}

#[test]
fn a_workload_line_with_a_scope_of_its_own_is_refused() {
    let line = r#"{"schema":"steady.workload","version":1,"program":"p","metrics":[{"vm":"vm1","name":"time","unit":"ns","better":"lower","value":5}]}"#;
    let error = WorkloadReport::from_line("VM vm0", line).unwrap_err();
    assert_eq!(
        error.to_string(),
        "VM vm0: metric \"time\" names a VM or a workload; a program leaves both out"
    );
}

proptest! {
    #[test]
    fn damaged_files_are_read_or_refused_but_never_panic(
        damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = sample().to_json();
        for (at, byte) in damage {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        if let Ok(result) = RunResult::from_json("x", &bytes) {
            prop_assert_eq!(result.digest_of_measures(), result.measures_digest);
        }
    }

    #[test]
    fn any_line_of_a_guest_is_read_or_refused_but_never_panics(line in "\\PC*") {
        prop_assert!(WorkloadReport::from_line("VM vm0", &line).is_err());
    }
}
