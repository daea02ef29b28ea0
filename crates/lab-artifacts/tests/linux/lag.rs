// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does a group arrive with the debt that it left with, when Debooster moves one of its tasks?

use std::process::Command;

use crate::bench::real_linux;

fn check(words: &[&str]) -> (Option<i32>, String) {
    let script = real_linux().join("debooster/lag/check");
    let output = Command::new(script).args(words).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said + &talk)
}

#[test]
fn a_group_arrives_with_its_debt_and_no_more_and_each_planted_fault_is_found() {
    let (code, said) = check(&[]);
    assert_eq!(code, Some(0), "{said}");
    let (code, faults) = check(&["--list"]);
    assert_eq!(code, Some(0), "{faults}");
    assert_eq!(faults.lines().count(), 4, "{faults}");
    for fault in faults.lines() {
        assert!(said.contains(&format!("fault {fault} broken")), "{said}");
    }
}

#[test]
fn an_unknown_word_is_refused() {
    let (code, said) = check(&["--faults"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("usage: "), "{said}");
}
