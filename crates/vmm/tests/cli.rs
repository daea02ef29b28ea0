// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line, by the program itself: each mistake ends with exit code 1, one message on
//! stderr and nothing on stdout. No test needs KVM.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::process::{Command, Output};

fn run(extra: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steady-vmm"));
    for flag in [
        "--name",
        "--kernel",
        "--initrd",
        "--console",
        "--channel",
        "--report",
    ] {
        if !extra.contains(&flag) {
            command.args([flag, "/nonexistent/x"]);
        }
    }
    command.args(extra).output().unwrap()
}

#[track_caller]
fn fails_with(extra: &[&str], expected: &[&str]) {
    let output = run(extra);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(output.stdout.is_empty());
    for words in expected {
        assert!(message.contains(words), "no `{words}` in: {message}");
    }
}

#[test]
fn the_255th_vcpu_is_refused_with_the_reason() {
    fails_with(
        &["--cpus", "255"],
        &["255 vCPUs", "8-bit APIC ids", "give 1 to 254"],
    );
    fails_with(&["--cpus", "0"], &["at least one vCPU"]);
}

#[test]
fn memory_out_of_range_is_refused_with_the_range() {
    fails_with(
        &["--memory-mib", "3073"],
        &["--memory-mib 3073", "64 to 3072"],
    );
    fails_with(&["--memory-mib", "63"], &["--memory-mib 63"]);
}

#[test]
fn a_pin_list_of_the_wrong_length_is_refused() {
    fails_with(
        &["--cpus", "4", "--pin", "0,1"],
        &["--pin names 2 host CPUs for 4 vCPUs"],
    );
}

#[test]
fn a_misspelt_feature_names_the_nearest() {
    fails_with(
        &["--pv", "shed-yield=off"],
        &["`shed-yield`", "did you mean `sched-yield`?"],
    );
    fails_with(&["--pv-bit", "40=on"], &["`40` is not a feature bit"]);
}

#[test]
fn a_ninth_disk_is_refused() {
    let disks: Vec<&str> = ["--disk", "d"].into_iter().cycle().take(18).collect();
    fails_with(&disks, &["9 disks", "for 8 only"]);
}

#[test]
fn a_missing_argument_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_steady-vmm"))
        .output()
        .unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains("--kernel"), "{message}");
}

#[test]
fn help_explains_every_exit_code() {
    let output = run(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    for words in [
        "guest-panic",
        "triple-fault",
        "guest-reset",
        "kvm-error",
        "killed",
        "0x604",
    ] {
        assert!(text.contains(words), "{words}");
    }
}
