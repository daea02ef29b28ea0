// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does arithmetic of the remedies that compiles alone hold, and is each planted fault in it found?

use std::process::Command;

use crate::bench::real_linux;

/// What a group that Debooster moves has of its debt, and when Paratick's ticks are due.
const CHECKS: [&str; 2] = ["debooster/lag/check", "paratick/due/check"];

fn check(script: &str, words: &[&str]) -> (Option<i32>, String) {
    let script = real_linux().join(script);
    let output = Command::new(script).args(words).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said + &talk)
}

#[test]
fn what_the_kernel_has_passes_and_each_planted_fault_is_found() {
    for script in CHECKS {
        let (code, said) = check(script, &[]);
        assert_eq!(code, Some(0), "{said}");
        let (code, faults) = check(script, &["--list"]);
        assert_eq!(code, Some(0), "{faults}");
        assert_eq!(faults.lines().count(), 4, "{faults}");
        for fault in faults.lines() {
            assert!(said.contains(&format!("fault {fault} broken")), "{said}");
        }
    }
}

#[test]
fn an_unknown_word_is_refused() {
    for script in CHECKS {
        let (code, said) = check(script, &["--faults"]);
        assert_eq!(code, Some(2));
        assert!(said.contains("usage: "), "{said}");
    }
}
