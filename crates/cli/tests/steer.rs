// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady place` and `steady fold` on this machine, which has no VM: words, exit codes, units.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::path::Path;
use std::process::{Command, Output};

fn steady(words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steady"));
    command.args(words).env("NO_COLOR", "1").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_dry_run_without_vms_says_so_and_ends_in_its_time() {
    let output = steady(&["place", "--seconds", "1", "--vm", "no-such-vm"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output).contains("no such VM runs yet"),
        "{}",
        said(&output)
    );
    assert!(said(&output).contains("of one pCPU"), "{}", said(&output));
    assert!(output.stdout.is_empty());
}

#[test]
fn an_undo_of_nothing_is_no_error_and_a_folder_in_the_way_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.jsonl");
    for command in ["place", "fold"] {
        let output = steady(&[command, "--undo", "--state", state.to_str().unwrap()]);
        assert!(output.status.success(), "{}", said(&output));
        let output = steady(&[
            command,
            "--undo",
            "--state",
            folder.path().to_str().unwrap(),
        ]);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            said(&output).contains("this file keeps what must be undone"),
            "{}",
            said(&output)
        );
    }
}

#[test]
fn contradictions_are_refused_by_the_command_line() {
    for words in [
        ["place", "--apply", "--undo"],
        ["fold", "--apply", "--undo"],
    ] {
        assert_eq!(steady(&words).status.code(), Some(2), "{words:?}");
    }
    assert_eq!(
        steady(&["place", "--pin", "--least", "2"]).status.code(),
        Some(2)
    );
    assert_eq!(
        steady(&["place", "--interval-ms", "1"]).status.code(),
        Some(2)
    );
}

#[test]
fn the_units_start_and_undo_by_words_that_the_command_has() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../units");
    let mut found = 0;
    for unit in std::fs::read_dir(units).unwrap() {
        let text = std::fs::read_to_string(unit.unwrap().path()).unwrap();
        for line in text.lines().filter(|line| line.starts_with("Exec")) {
            let words = line
                .split_once('=')
                .unwrap()
                .1
                .strip_prefix("/usr/bin/steady ")
                .unwrap();
            let words: Vec<&str> = words.split(' ').chain(["--help"]).collect();
            assert!(steady(&words).status.success(), "{line}");
            found += 1;
        }
        assert!(
            text.contains("ExecStopPost=/usr/bin/steady"),
            "undone after a crash"
        );
    }
    assert_eq!(found, 4);
}
