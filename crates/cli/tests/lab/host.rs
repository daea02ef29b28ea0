// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady host`: a program of the user's in an emulated host, with its words and exit code.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::support::{Place, steady};

fn host(place: &Place, words: &[&str]) -> Command {
    let mut command = steady();
    command
        .arg("host")
        .args(words)
        .arg("-o")
        .arg(place.path("out"));
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Ends within the command's own limit.
fn with_script(mut command: Command, script: &str) -> Output {
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(script.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_script_runs_beside_kvm_on_each_engine_and_its_exit_code_comes_back() {
    for (engine, flag) in [("qemu", "svm"), ("bochs", "vmx")] {
        let place = Place::new();
        let script = format!(
            "grep -c '^flags.* {flag} ' /proc/cpuinfo; [ -c /dev/kvm ] && seq 2000; exit 7"
        );
        let output = with_script(host(&place, &["--engine", engine]), &script);
        assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
        let lines: Vec<u32> = text(&output.stdout)
            .lines()
            .map(|line| line.parse().unwrap())
            .collect();
        let expected: Vec<u32> = std::iter::once(2).chain(1..=2000).collect();
        assert!(lines == expected, "{engine}: {} lines", lines.len());
    }
}

#[test]
fn a_second_program_in_the_same_folder_says_its_own_words() {
    let place = Place::new();
    for (script, words, code) in [("echo one; exit 1", "one\n", 1), ("echo two", "two\n", 0)] {
        let output = with_script(host(&place, &[]), script);
        assert_eq!(text(&output.stdout), words, "{}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(code));
    }
}

#[test]
fn a_program_that_was_added_finds_its_libraries_and_its_file() {
    let place = Place::new();
    let file = place.path("words");
    std::fs::write(&file, "b\na\n").unwrap();
    let words = ["--add", "/usr/bin/sort:/opt/", "--add"];
    let place_of = format!("{}:/data/words", file.display());
    let command = host(&place, &[&words[..], &[&place_of]].concat());
    let output = with_script(
        command,
        "/opt/sort --version | head -1; /opt/sort /data/words",
    );
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.starts_with("sort (GNU coreutils)"), "{said}");
    assert!(said.ends_with("\na\nb\n"), "{said}");
}

#[test]
fn a_program_without_end_is_ended_by_the_limit_and_said_so() {
    let place = Place::new();
    let output = with_script(
        host(&place, &["--limit", "12s"]),
        "echo begun; while :; do :; done",
    );
    assert_eq!(output.status.code(), Some(5));
    let said = text(&output.stderr);
    assert!(said.contains("no end within 12s"), "{said}");
    assert!(said.contains("last step: "), "{said}");
}

#[test]
fn a_panic_of_the_host_is_told_with_the_kernels_words() {
    let place = Place::new();
    let output = with_script(host(&place, &[]), "echo c > /proc/sysrq-trigger; sleep 9");
    assert_eq!(output.status.code(), Some(5), "{}", text(&output.stdout));
    let said = text(&output.stderr);
    assert!(said.contains("Kernel panic - not syncing: sysrq"), "{said}");
}

#[test]
fn the_printed_command_line_starts_the_emulator_and_nothing_was_started() {
    let place = Place::new();
    let output = with_script(host(&place, &["--print", "--append", "a=b c"]), "");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(
        said.starts_with("cd ") && said.contains("qemu-system-x86_64 "),
        "{said}"
    );
    assert!(said.contains(" a=b c' "), "{said}");
    assert!(place.path("out/host/qemu/initrd").is_file());
    assert!(!place.path("out/host/qemu/serial.log").exists());
}

#[test]
fn more_than_an_engine_has_and_no_script_are_refused_before_anything_is_built() {
    let place = Place::new();
    let output = with_script(
        host(&place, &["--engine", "bochs", "--pcpus", "17"]),
        "true",
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("at most 16"),
        "{}",
        text(&output.stderr)
    );
    let output = with_script(host(&place, &[]), "");
    assert!(!output.status.success());
    assert!(
        text(&output.stderr).contains("--init FILE"),
        "{}",
        text(&output.stderr)
    );
}
