// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the model of Paratick's tick hold, and does it find every planted fault? Needs Spin, which
//! setup/install installs.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::process::Command;

/// The exit code of the model's script and what it prints.
fn check(words: &[&str]) -> (Option<i32>, String) {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../linux/paratick/model/check"
    );
    let output = Command::new(script).args(words).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    (
        output.status.code(),
        printed + &String::from_utf8_lossy(&output.stderr),
    )
}

#[test]
fn the_model_holds_without_a_fault_and_finds_each_planted_one() {
    let (code, printed) = check(&[]);
    assert_eq!(code, Some(0), "{printed}");
    let (code, faults) = check(&["--list"]);
    assert_eq!(code, Some(0), "{faults}");
    assert!(faults.lines().count() >= 12, "{faults}");
    for fault in faults.lines() {
        let found = printed
            .lines()
            .any(|line| line.starts_with(&format!("fault {fault} ")) && line.contains(" broken "));
        assert!(found, "{fault} was not tried:\n{printed}");
    }
}

#[test]
fn an_unknown_fault_is_refused() {
    let (code, printed) = check(&["--show", "no-such"]);
    assert_eq!(code, Some(2));
    assert!(printed.contains("no fault 'no-such'"), "{printed}");
}
