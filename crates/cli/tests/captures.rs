// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Are several captures of a program runs of one comparison, and is what is not a run of its own
//! refused? Captures here are made of text.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const NATIVE: [&str; 4] = ["--set", "mode=native", "--set", "hybrid.enabled=false"];
const SCHEMES: [&str; 2] = ["--schemes", "ipi,ideal"];

fn steady(folder: &Path, words: &[&[&str]]) -> Output {
    let all = words.concat();
    Command::new(env!("CARGO_BIN_EXE_steady"))
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .arg("coherence")
        .args(&all)
        .output()
        .unwrap()
}

fn prints(folder: &Path, words: &[&[&str]]) -> String {
    let output = steady(folder, words);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

/// The one line on standard error of a command that must end with status 2.
fn refuses(folder: &Path, words: &[&[&str]]) -> String {
    let output = steady(folder, words);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
    assert!(output.stdout.is_empty(), "nothing is printed");
    said
}

/// A capture of two threads, one of which unmaps a page every `turns` turns.
fn capture(folder: &Path, name: &str, turns: usize) {
    let mut text = String::new();
    for at in 0..2000 {
        if usize::is_multiple_of(at, turns) {
            text.push_str("0 unmap 100000 4000\n");
        }
        let address = 0x10_0000 + at % 4 * 4096;
        write!(text, "0 w {address:x} 8 3\n1 r 100000 8 3\n").unwrap();
    }
    std::fs::write(folder.join("text"), text).unwrap();
    prints(folder, &[&["convert", "-o", name, "text"]]);
}

fn ipc(result: &Value, scheme: usize, run: usize) -> i64 {
    let metrics = &result["variants"][scheme]["repetitions"][run]["metrics"];
    let found = metrics.as_array().unwrap().iter();
    let mut found = found.filter(|metric| metric["name"] == "ipc");
    found.next().unwrap()["value"].as_i64().unwrap()
}

#[test]
fn each_capture_is_a_run_and_the_ratio_has_an_interval_over_them() {
    let place = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..8).map(|at| format!("run{at}.smt")).collect();
    for (at, name) in names.iter().enumerate() {
        capture(place.path(), name, 40 + at);
    }
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let common = [&NATIVE[..], &SCHEMES[..]].concat();
    let shown = prints(place.path(), &[&["compare"], &all, &common]);
    assert!(shown.contains("Instructions per cycle over ipi, 8 captures:"));
    assert!(shown.contains("Other runs: run1.smt, run2.smt"), "{shown}");
    let line = shown.lines().last().unwrap();
    let judged = line.contains(" to ") && line.ends_with("), better");
    assert!(line.starts_with("  ideal        ×") && judged, "{line}");

    let pooled = prints(place.path(), &[&["compare"], &all, &common, &["--json"]]);
    let pooled: Value = serde_json::from_str(&pooled).unwrap();
    let runs = pooled["variants"][0]["repetitions"].as_array().unwrap();
    let seeds: Vec<u64> = runs
        .iter()
        .map(|run| run["seed"].as_u64().unwrap())
        .collect();
    assert_eq!(seeds, [1, 2, 3, 4, 5, 6, 7, 8], "a seed each");
    let mut seen = Vec::new();
    for (run, name) in all.iter().enumerate() {
        let alone = prints(place.path(), &[&["compare", name], &common, &["--json"]]);
        let alone: Value = serde_json::from_str(&alone).unwrap();
        for scheme in [0, 1] {
            assert_eq!(ipc(&pooled, scheme, run), ipc(&alone, scheme, 0), "{name}");
        }
        seen.push(ipc(&alone, 1, 0) - ipc(&alone, 0, 0));
    }
    seen.dedup();
    assert!(seen.len() > 1, "captures differ: {seen:?}");
}

#[test]
fn what_is_not_a_run_of_its_own_is_refused() {
    let place = tempfile::tempdir().unwrap();
    capture(place.path(), "a.smt", 40);
    capture(place.path(), "b.smt", 50);
    std::fs::copy(place.path().join("a.smt"), place.path().join("twin.smt")).unwrap();
    let of = |more: &[&str]| refuses(place.path(), &[&["compare", "a.smt"], more]);
    assert!(of(&["b.smt", "twin.smt"]).contains("twin.smt: it is the capture a.smt again"));
    assert!(of(&["none.smt"]).contains("none.smt: cannot find it"));
    // A file of this name is not what `dedup` is.
    std::fs::copy(place.path().join("b.smt"), place.path().join("dedup")).unwrap();
    assert!(of(&["dedup"]).contains("runs of a workload differ by --seeds"));
    std::fs::write(place.path().join("text"), "0 w 100000 8 3\n").unwrap();
    prints(place.path(), &[&["convert", "-o", "one.smt", "text"]]);
    assert!(of(&["one.smt"]).contains("expected captures of one program"));
    assert!(of(&["b.smt", "--seeds", "8"]).contains("--seeds"));
}

#[test]
fn a_key_that_is_set_is_that_of_a_machine_file_and_a_wrong_one_is_refused() {
    let place = tempfile::tempdir().unwrap();
    capture(place.path(), "a.smt", 40);
    let file = "mode = \"native\"\nhybrid.enabled = false\n";
    std::fs::write(place.path().join("dram.toml"), file).unwrap();
    let shown = prints(place.path(), &[&["compare", "a.smt"], &SCHEMES, &NATIVE]);
    let machine = "Machine paper with mode=native hybrid.enabled=false: native";
    assert!(shown.contains(machine), "{shown}");
    let with = |words: &[&str]| {
        let shown = prints(
            place.path(),
            &[&["compare", "a.smt"], &SCHEMES, words, &["--json"]],
        );
        let result: Value = serde_json::from_str(&shown).unwrap();
        result["variants"].clone()
    };
    let set = with(&NATIVE);
    assert_eq!(set, with(&["--machine", "dram.toml"]));
    assert_ne!(set, with(&[]), "the keys matter");
    for (words, part) in [
        (&["--set", "core.count"][..], "expected KEY=VALUE"),
        (&["--set", "core.cuont=8"][..], "core.cuont"),
        (
            &["--set", "core.count=8", "--set", "core.count=4"][..],
            "twice",
        ),
    ] {
        let said = refuses(place.path(), &[&["run", "a.smt"], words]);
        assert!(said.contains(part), "{said}");
    }
}
