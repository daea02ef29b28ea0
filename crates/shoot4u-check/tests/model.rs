// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the model of the protocol hold, and does it find every planted fault? Needs Spin, which
//! setup/install installs.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::process::Command;

fn check(words: &[&str]) -> (Option<i32>, String) {
    let script = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../linux/shoot4u/model/check"
    );
    let output = Command::new(script).args(words).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said + &talk)
}

#[test]
fn the_model_holds_without_a_fault_and_finds_each_planted_one() {
    let (code, said) = check(&[]);
    assert_eq!(code, Some(0), "{said}");
    let (code, faults) = check(&["--list"]);
    assert_eq!(code, Some(0), "{faults}");
    assert!(faults.lines().any(|fault| fault == "skip-pcpu"), "{faults}");
    for fault in faults.lines() {
        let found = said
            .lines()
            .any(|line| line.starts_with(&format!("fault {fault} ")) && line.contains(" broken "));
        assert!(found, "{fault} was not tried:\n{said}");
    }
}

#[test]
fn an_unknown_fault_is_refused() {
    let (code, said) = check(&["--show", "no-such"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("no fault 'no-such'"), "{said}");
}

#[test]
fn a_counterexample_can_be_shown() {
    let (code, said) = check(&["--show", "drop-request"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("assertion violated"), "{said}");
}
