// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Are recorded hosts counted and simulated by the command, as the format says? The trace is
//! written by hand; the lab's tests record real ones.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

#[path = "../../memtrace/tests/common/handmade.rs"]
mod handmade;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use handmade::{GONE, LEAVES, Trace};

fn steady(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_steady"))
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .args(words)
        .output()
        .unwrap()
}

fn prints(folder: &Path, words: &[&str]) -> String {
    let output = steady(folder, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "steady {words:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// A folder with `host.sht`: one page goes, and both vCPUs invalidate it; each reads all others.
fn recorded() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    let reads = |trace: &mut Trace| {
        for cpu in [0, 1] {
            for page in 1..8 {
                trace.load(cpu, page << 12, 16 + page);
            }
        }
    };
    reads(&mut trace);
    trace.load(1, 0, 16);
    trace.write(0, LEAVES, GONE).invlpg(0, 0).invlpg(1, 0);
    reads(&mut trace);
    std::fs::write(folder.path().join("host.sht"), trace.ended()).unwrap();
    folder
}

#[test]
fn rates_counts_the_shootdown_of_a_recorded_host() {
    let folder = recorded();
    let text = prints(folder.path(), &["coherence", "rates", "host.sht"]);
    assert!(
        text.contains("tables, level 1: 0 pages new, 1 gone"),
        "{text}"
    );
    assert!(text.contains("1 shootdowns:"), "{text}");
    assert!(text.contains("1.00 pages and 1.00 victims each"), "{text}");
    let json = prints(folder.path(), &["coherence", "rates", "host.sht", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let vm = &json["owners"][0];
    assert_eq!(vm["owner"], "VM 1");
    assert_eq!(vm["updates"]["shootdowns"], 1);
    assert_eq!(vm["updates"]["victims"], 1);
    // 30 loads, and the one by which the tables are known.
    assert_eq!(vm["accesses"], 30);
}

#[test]
fn compare_simulates_the_recorded_shootdown_and_no_other() {
    let folder = recorded();
    // Without slow memory, whose migrations would be updates of their own.
    let machine = prints(folder.path(), &["coherence", "machine"]);
    let machine = machine.replacen("enabled = true", "enabled = false", 1);
    std::fs::write(folder.path().join("dram.toml"), machine).unwrap();
    let words =
        "coherence compare host.sht --machine dram.toml --schemes kvmtlb,ideal --check --json";
    let json = prints(folder.path(), &words.split(' ').collect::<Vec<_>>());
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(counted(&json, "counter.pages_revoked"), [1, 1]);
    assert_eq!(counted(&json, "counter.violations"), [0, 0]);
}

#[test]
fn compare_leaves_vcpus_of_one_processor_on_its_core() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.load(0, 0x2000, 18);
    // The second vCPU enters on the first one's processor.
    trace.record(0, 8, &[2, 0xa01e, 0, 0]);
    trace.record(0, 1, &[1, 0x1000, 1 << 31, 1 << 10, 2, 0xa01e]);
    trace.load(0, 0x2000, 18);
    std::fs::write(folder.path().join("host.sht"), trace.ended()).unwrap();
    let walks = |cores: &str| {
        let cores = format!("core.count={cores}");
        let words = [
            "--schemes",
            "ideal",
            "--warmup",
            "0",
            "--json",
            "--set",
            &cores,
        ];
        let words = [&["coherence", "compare", "host.sht"][..], &words].concat();
        let json: Value = serde_json::from_str(&prints(folder.path(), &words)).unwrap();
        counted(&json, "tlb.walks")
    };
    // One walk for the page, as on a machine of one core.
    assert_eq!(walks("2"), walks("1"));
    assert_eq!(walks("1").len(), 1);
}

/// The values of a counter wherever it is in a result, in the order of schemes.
fn counted(json: &Value, name: &str) -> Vec<u64> {
    match json {
        Value::Object(of) if of.get("name") == Some(&name.into()) => of
            .get("value")
            .and_then(Value::as_u64)
            .into_iter()
            .collect(),
        Value::Object(of) => of.values().flat_map(|of| counted(of, name)).collect(),
        Value::Array(of) => of.iter().flat_map(|of| counted(of, name)).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn check_walks_each_access_of_a_host_again() {
    let folder = recorded();
    let text = prints(folder.path(), &["coherence", "check", "host.sht"]);
    assert!(
        text.contains("walked again: 30 agree, 0 are stale"),
        "{text}"
    );
    let json = prints(folder.path(), &["coherence", "check", "host.sht", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "steady.traces");
    let host = &json["hosts"][0];
    assert_eq!(
        (&host["agreed"], &host["mismatches"]),
        (&30.into(), &0.into())
    );
    assert!(text.contains(host["sha256"].as_str().unwrap()), "{text}");
}

#[test]
fn an_access_that_the_tables_do_not_explain_fails_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = Trace::new();
    trace.load(0, 0x1000, 17).load(0, 0x2000, 99);
    std::fs::write(folder.path().join("host.sht"), trace.ended()).unwrap();
    for words in [
        &["coherence", "check", "host.sht"][..],
        &["coherence", "check", "host.sht", "--json"],
    ] {
        let output = steady(folder.path(), words);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(5), "{text}");
        assert!(
            text.contains("0x2000: recorded frame 0x63, walk Frame(12)"),
            "{text}"
        );
    }
}

#[test]
fn a_host_of_which_nothing_was_walked_fails_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = Trace::new().ended().to_vec();
    // CR0 of both vCPUs, without its bit for paging.
    let paging = [0x80, 0x80, 0x80, 0x80, 0x08];
    let places: Vec<usize> = (0..trace.len() - 5)
        .filter(|&at| trace[at..].starts_with(&paging))
        .collect();
    assert_eq!(places.len(), 2);
    for at in places {
        trace[at + 4] = 0;
    }
    std::fs::write(folder.path().join("host.sht"), trace).unwrap();
    let output = steady(folder.path(), &["coherence", "check", "host.sht"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("walked again: 0 agree, 0 are stale"),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(5), "{text}");
}

#[test]
fn a_programs_trace_is_checked_from_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.txt"), "0 r 0x1000 8\n").unwrap();
    prints(
        folder.path(),
        &["coherence", "convert", "x.txt", "-o", "x.smt"],
    );
    let script = "cat x.smt | \"$0\" coherence check /dev/stdin";
    let output = Command::new("sh")
        .current_dir(folder.path())
        .args(["-c", script, env!("CARGO_BIN_EXE_steady")])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("/dev/stdin: sound"), "{text} {output:?}");
}

#[test]
fn a_trace_that_is_cut_off_is_refused_in_one_line() {
    let folder = recorded();
    let whole = std::fs::read(folder.path().join("host.sht")).unwrap();
    std::fs::write(folder.path().join("cut.sht"), &whole[..whole.len() - 3]).unwrap();
    for command in ["rates", "compare", "check"] {
        let output = steady(folder.path(), &["coherence", command, "cut.sht"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            output.stdout.is_empty() && said.contains("cut.sht"),
            "{said}"
        );
    }
}

#[test]
fn only_a_capture_of_a_host_begins_after_ticks() {
    let folder = recorded();
    let words = "coherence capture --after-ticks 5 -o x.smt -- true";
    let output = steady(folder.path(), &words.split(' ').collect::<Vec<_>>());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--after-ticks"), "{said}");
}
