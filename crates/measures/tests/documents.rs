// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The documents in `docs/formats/` against the code that they describe.

mod common;

use serde_json::Value;
use steady_measures::{RunResult, WorkloadReport};

use common::sample;

const RESULT_MD: &str = include_str!("../../../docs/formats/result.md");
const WORKLOAD_MD: &str = include_str!("../../../docs/formats/workload.md");
const SCHEMA: &str = include_str!("../../../docs/formats/result.schema.json");

/// The first example in a document.
fn example(document: &str) -> &str {
    let (_, rest) = document.split_once("```json\n").expect("an example");
    rest.split_once("```").expect("its end").0
}

#[test]
fn the_result_in_the_document_can_be_read() {
    let result = RunResult::from_json("result.md", example(RESULT_MD).as_bytes()).unwrap();
    assert_eq!(result.variants[0].repetitions[0].metrics.len(), 2);
}

#[test]
fn the_line_in_the_document_can_be_read() {
    let line = example(WORKLOAD_MD).replace('\n', "");
    let report = WorkloadReport::from_line("workload.md", &line).unwrap();
    assert_eq!(report.distributions[0].count(), 3);
}

#[test]
fn a_result_fits_the_schema() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    for bytes in [sample().to_json(), example(RESULT_MD).into()] {
        let result: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(misfit(&schema, &schema, &result), None);
    }
}

#[test]
fn figures_of_a_paper_in_an_old_result_are_skipped() {
    let new = String::from_utf8(sample().to_json()).unwrap();
    let digest = format!(r#""digest": "{}""#, "5".repeat(64));
    let papers = r#""papers": [{"source": "Table 1", "vm": "a", "workload": "b", "measure": "time",
        "unit": "us", "base": "ipi", "values": [{"variant": "ipi", "value": 166}]}]"#;
    let old = new.replace(&digest, &format!("{digest}, {papers}"));
    assert_ne!(old, new, "the sample lacks the digest");
    let read = RunResult::from_json("old", old.as_bytes()).unwrap();
    assert_eq!(read, sample());
    assert_eq!(read.to_json(), new.as_bytes());
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let value: Value = serde_json::from_str(&old).unwrap();
    assert_eq!(misfit(&schema, &schema, &value), None);
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let changes = [
        (r#""seed": 7,"#, ""),
        (r#""seed": 7"#, r#""seed": 7.5"#),
        (r#""seed": 7"#, r#""seed": 7, "more": 1"#),
        (r#""version": 1"#, r#""version": 2"#),
        (r#""unit": "ns""#, r#""unit": "us""#),
        (r#""better": "lower""#, r#""better": "less""#),
        (r#""value": "#, r#""valeu": "#),
        (r#""vm": "vm0""#, r#""vm": 0"#),
        (r#""buckets": [["#, r#""buckets": [[1], ["#),
        (r#""buckets": ["#, r#""buckets": [-1, "#),
    ];
    let text = String::from_utf8(sample().to_json()).unwrap();
    for (from, to) in changes {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "the sample lacks {from}");
        RunResult::from_json("x", changed.as_bytes()).expect_err(to);
        let value: Value = serde_json::from_str(&changed).unwrap();
        assert!(
            misfit(&schema, &schema, &value).is_some(),
            "the schema takes {to}"
        );
    }
}

/// Why `value` does not fit `schema`, for the keywords that our schema uses apart from lengths and
/// patterns of strings.
fn misfit(root: &Value, schema: &Value, value: &Value) -> Option<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root
            .pointer(reference.trim_start_matches('#'))
            .expect("a definition");
        return misfit(root, target, value);
    }
    if let Some(only) = schema.get("const") {
        return (only != value).then(|| format!("{value} is not {only}"));
    }
    if let Some(allowed) = schema["enum"].as_array() {
        return (!allowed.contains(value)).then(|| format!("{value} is not one of {allowed:?}"));
    }
    match schema["type"].as_str().expect("a type") {
        "string" => (!value.is_string()).then(|| format!("{value} is not a string")),
        "integer" => {
            let fits = value.is_u64() || (value.is_i64() && schema.get("minimum").is_none());
            (!fits).then(|| format!("{value} is not such an integer"))
        }
        "array" => misfit_of_array(root, schema, value),
        "object" => misfit_of_object(root, schema, value),
        other => Some(format!("unknown type {other}")),
    }
}

fn misfit_of_array(root: &Value, schema: &Value, value: &Value) -> Option<String> {
    let Some(items) = value.as_array() else {
        return Some(format!("{value} is not an array"));
    };
    let length = items.len() as u64;
    if schema["minItems"]
        .as_u64()
        .is_some_and(|least| length < least)
        || schema["maxItems"]
            .as_u64()
            .is_some_and(|most| length > most)
    {
        return Some(format!("{value} has {length} items"));
    }
    items
        .iter()
        .find_map(|item| misfit(root, &schema["items"], item))
}

fn misfit_of_object(root: &Value, schema: &Value, value: &Value) -> Option<String> {
    let Some(object) = value.as_object() else {
        return Some(format!("{value} is not an object"));
    };
    let required = schema["required"].as_array().into_iter().flatten();
    for key in required.filter_map(Value::as_str) {
        if !object.contains_key(key) {
            return Some(format!("{key} is missing"));
        }
    }
    object
        .iter()
        .find_map(|(key, item)| match schema["properties"].get(key) {
            Some(known) => misfit(root, known, item).map(|why| format!("{key}: {why}")),
            None if schema["additionalProperties"].is_object() => {
                misfit(root, &schema["additionalProperties"], item)
            }
            None => Some(format!("{key} is unknown")),
        })
}
