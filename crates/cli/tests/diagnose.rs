// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Do the commands of the guide work on the trace that ships, and is bad input answered with one
//! clear line?

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const STALL: &str = "crates/diagnose/tests/fixtures/stall.dat";
const MAP: &str = "crates/diagnose/tests/fixtures/stall.map";

fn project() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap().to_path_buf()
}

/// A folder of its own in which the project's `crates` can be seen.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(project().join("crates"), place.path().join("crates")).unwrap();
    place
}

fn steady(place: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_steady"))
        .current_dir(place)
        .env("NO_COLOR", "1")
        .args(words)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    // Sentences are broken into lines at any blank.
    let words = String::from_utf8(bytes.to_vec()).unwrap();
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_guides_commands_lead_to_the_findings_that_it_tells_of() {
    let guide = std::fs::read_to_string(project().join("docs/GUIDE.md")).unwrap();
    let section = guide.split("\n## ").find(|s| s.starts_with("2. ")).unwrap();
    // A command of two lines has a backslash at the end of the first, as for a shell.
    let section = section.replace("\\\n", " ");
    let commands = section.lines().filter_map(|line| {
        let command = line.split('#').next()?.strip_prefix("steady ")?;
        Some(command.split_whitespace().collect::<Vec<_>>())
    });
    let place = place();
    let (mut ran, mut said) = (0, String::new());
    for words in commands {
        let output = steady(place.path(), &words);
        let talk = text(&output.stderr);
        assert!(output.status.success(), "{words:?}: {talk}");
        said += &text(&output.stdout);
        ran += 1;
    }
    assert_eq!(ran, 6);
    // What the guide says that one reads.
    for words in [
        "vCPUs are ready and do not run",
        "pause-loop exits come again and again at one place",
        "33.1 %",
        "86.3 %",
        "65.5 %",
    ] {
        assert!(text(section.as_bytes()).contains(words), "guide: {words}");
        assert!(said.contains(words), "said: {words}");
    }
    for file in ["stall.html", "stall.pftrace", "stall/findings.csv"] {
        assert!(
            place.path().join(file).metadata().unwrap().len() > 500,
            "{file}"
        );
    }
}

#[test]
fn the_three_ways_in_which_boosts_fail_are_named_with_their_shares() {
    let place = place();
    let output = steady(
        place.path(),
        &["diagnose", STALL, "--symbols", MAP, "--json"],
    );
    let diagnosis: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = diagnosis["findings"].as_array().unwrap();
    for id in [
        "boost-scheduler-mismatch",
        "boost-overboost",
        "boost-lost-opportunity",
        "pause-continuous",
    ] {
        let finding = findings.iter().find(|finding| finding["id"] == id);
        let finding = finding.unwrap_or_else(|| panic!("{id}"));
        assert!(
            finding["evidence"][0].to_string().contains("permille"),
            "{id}"
        );
        assert!(!finding["next"].as_array().unwrap().is_empty(), "{id}");
    }
}

#[test]
fn a_bad_trace_among_several_is_told_and_the_others_are_diagnosed() {
    let place = place();
    std::fs::write(place.path().join("empty"), "").unwrap();
    let output = steady(place.path(), &["diagnose", "empty", STALL]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("empty: the trace is empty"));
    assert!(text(&output.stdout).contains("vCPUs are ready and do not run"));
}

#[test]
fn a_trace_that_cannot_be_diagnosed_leaves_no_part_of_a_drawing() {
    let place = place();
    std::fs::write(place.path().join("empty"), "").unwrap();
    let names = || {
        let entries = std::fs::read_dir(place.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let output = steady(place.path(), &["diagnose", "empty", "--perfetto", "drawn"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(names(), before);
    // Behind a trace that had events, but none that show anything, the drawing begins again.
    let line = "            bash-1 [000] 1.000001: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 \
                prev_state=S ==> next_comm=b next_pid=2 next_prio=120\n";
    std::fs::write(place.path().join("idle"), line).unwrap();
    for (traces, drawn) in [(&[STALL][..], "one"), (&["idle", STALL], "two")] {
        steady(
            place.path(),
            &[&["diagnose"], traces, &["--perfetto", drawn]].concat(),
        );
    }
    let read = |name: &str| std::fs::read(place.path().join(name)).unwrap();
    assert!(read("one") == read("two"));
}

#[test]
fn what_is_no_trace_or_not_in_it_is_refused_with_what_was_expected() {
    let place = place();
    std::fs::write(place.path().join("notes.txt"), "one line\n").unwrap();
    for (words, expected) in [
        (
            &["diagnose", "notes.txt"][..],
            "notes.txt: not a trace, a table or a log",
        ),
        (
            &["diagnose", "absent"][..],
            "absent: cannot read the trace: No such file",
        ),
        (
            &["diagnose", STALL, "--symbols", "notes.txt"][..],
            "notes.txt",
        ),
        (
            &["diagnose", STALL, "--vm", "vm3"][..],
            "vm1 of crates/diagnose/tests/fixtures/stall.dat with vCPUs 0 1 2, vm2 of",
        ),
        (&["diagnose", STALL, "--vcpu", "3"][..], "vm1 of"),
        (
            &["diagnose", STALL, "--time", "2-3"][..],
            "the trace lasts 1348 ms",
        ),
        (
            &["diagnose", STALL, "--workload", "hackbench"][..],
            "was not recorded while `hackbench` ran; no workload is noted beside it",
        ),
        (&["diagnose"][..], "required arguments"),
    ] {
        let output = steady(place.path(), words);
        let talk = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {talk}");
        assert!(talk.contains(expected), "{words:?}: {talk}");
        assert_eq!(output.stdout, b"", "{words:?}");
    }
}

#[test]
fn a_workload_is_looked_at_alone() {
    let place = place();
    let exit = |ms: u64| {
        let (entry, exit) = (10_000 + 100 * ms, 10_050 + 100 * ms);
        format!(
            " CPU 0/KVM-70 [000] d..1. 7.0{entry}: kvm_entry: vcpu 0, rip 0xffffffff81000000\n \
             CPU 0/KVM-70 [000] d..1. 7.0{exit}: kvm_exit: reason PAUSE_INSTRUCTION \
             rip 0xffffffff81000000 info 0 0\n"
        )
    };
    // The trace's clock is 300 ms ahead of the host's.
    let timer = " <idle>-0 [000] d.h1. 7.010000: hrtimer_expire_entry: hrtimer=01 \
                 function=tick_nohz_handler now=6710000000\n";
    let trace: String = (0..10).map(exit).collect();
    let noted = r#"{"schema": "steady.workloads", "version": 1, "workloads": [
        {"vm": "first", "workload": "hackbench", "from_ns": 6710200000, "to_ns": 6710499000}]}"#;
    std::fs::write(place.path().join("trace.txt"), format!("{timer}{trace}")).unwrap();
    std::fs::write(place.path().join("trace.txt.workloads"), noted).unwrap();
    for (words, exits) in [
        (&[][..], "10 pause-loop exits"),
        (&["--workload", "hackbench"][..], "3 pause-loop exits"),
        (&["--workload", "first.hackbench"][..], "3 pause-loop exits"),
    ] {
        let words = [&["diagnose", "trace.txt", "--verbose"][..], words].concat();
        let output = steady(place.path(), &words);
        let said = text(&output.stdout);
        assert!(
            said.contains(exits),
            "{words:?}: {said} {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_trace_from_a_pipe_gives_what_the_file_gives() {
    let place = place();
    let file = steady(place.path(), &["diagnose", STALL]);
    let piped = Command::new(env!("CARGO_BIN_EXE_steady"))
        .args(["diagnose", "-"])
        .env("NO_COLOR", "1")
        .stdin(std::fs::File::open(project().join(STALL)).unwrap())
        .output()
        .unwrap();
    let piped = text(&piped.stdout).replace("standard input", STALL);
    assert_eq!(piped, text(&file.stdout));
}

#[test]
fn without_a_folder_for_temporary_files_that_is_said_and_not_the_trace_blamed() {
    // What comes through a pipe is copied, since a trace is read at places.
    let none = place().path().join("none");
    let ended = Command::new("sh")
        .current_dir(project())
        .env("TMPDIR", &none)
        .args(["-c", "cat \"$1\" | \"$0\" diagnose -"])
        .args([env!("CARGO_BIN_EXE_steady"), STALL])
        .output()
        .unwrap();
    assert!(!ended.status.success());
    let said = text(&ended.stderr);
    let folder = format!("no temporary file can be made in {}", none.display());
    assert!(said.contains(&folder), "{said}");
    assert!(said.contains("set TMPDIR to a folder"), "{said}");
}

#[test]
fn a_reader_that_has_had_enough_is_no_error() {
    for words in [&["diagnose", STALL, "--json"][..], &["diagnose", STALL]] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_steady"))
            .current_dir(project())
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Closed before anything is written, as by `head` once it has its lines.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(text(&output.stderr), "", "{words:?}");
        assert!(output.status.success(), "{words:?}");
    }
}

#[test]
fn a_trace_whose_lines_are_mostly_unread_says_so_first_and_fails() {
    let place = place();
    let event = "       CPU 0/KVM-40 [000] d..1. 5.000001: kvm_entry: vcpu 0\n";
    let log = "Nov 22 07:00:00 host app: a line of a log\n";
    std::fs::write(
        place.path().join("log"),
        event.to_owned() + &log.repeat(999),
    )
    .unwrap();
    let output = steady(place.path(), &["diagnose", "log"]);
    let talk = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{talk}");
    let expected = "steady: log: 999 of 1000 lines could not be read (99.9 %), the first: line 2";
    assert!(talk.starts_with(expected), "{talk}");
    std::fs::write(place.path().join("log"), event.repeat(30) + log).unwrap();
    let output = steady(place.path(), &["diagnose", "log"]);
    assert!(output.status.success() && text(&output.stderr).contains("1 of 31 lines"));
}

#[test]
fn notes_beside_a_trace_name_its_vms() {
    let place = place();
    std::fs::copy(project().join(STALL), place.path().join("t.dat")).unwrap();
    let diagnose = || {
        let output = steady(place.path(), &["diagnose", "t.dat", "--json"]);
        let talk = text(&output.stderr);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (json["traces"][0].clone(), talk)
    };
    let (trace, _) = diagnose();
    let note = |at: usize, name: &str| {
        let vcpus = trace["vms"][at]["vcpus"].as_array().unwrap();
        let vcpus = vcpus.iter().map(|vcpu| {
            serde_json::json!({"number": vcpu["number"], "tid": vcpu["tid"], "cpus": "0-1",
                "cgroup": null, "cpu_max": null, "cpu_weight": null})
        });
        serde_json::json!({"name": name, "process": 7 + at, "vmm": "qemu", "cgroup": null,
            "threads": [], "vcpus": vcpus.collect::<Vec<_>>()})
    };
    let vms = [note(0, "web"), note(1, "db")];
    let notes = serde_json::json!({"schema": "steady.vms", "version": 1, "vms": vms});
    std::fs::write(place.path().join("t.dat.vms"), notes.to_string()).unwrap();
    let (named, _) = diagnose();
    assert_eq!(
        (&named["vms"][0]["name"], &named["vms"][1]["name"]),
        (&"web".into(), &"db".into())
    );
    assert_eq!(named["vms_by"], "process");
    assert_eq!(named["vms"][0]["note"]["vcpus"][0]["cpus"], "0-1");
    assert_eq!(named["vms"][0]["exits"], trace["vms"][0]["exits"]);
    std::fs::write(place.path().join("t.dat.vms"), "{}").unwrap();
    let (without, talk) = diagnose();
    assert_eq!(without, trace);
    assert!(
        talk.contains("t.dat.vms: not the notes of `steady record`"),
        "{talk}"
    );
}

#[test]
fn completions_and_man_pages_know_the_commands() {
    let place = place();
    let output = steady(place.path(), &["completions", "bash"]);
    let script = text(&output.stdout);
    assert!(script.contains("--perfetto") && script.contains("--buffer-kib"));
    let output = steady(place.path(), &["man", "man"]);
    assert!(output.status.success());
    for page in ["man/steady-diagnose.1", "man/steady-record.1"] {
        assert!(place.path().join(page).is_file(), "{page}");
    }
}

#[test]
fn a_dry_run_refuses_what_its_commands_cannot_do() {
    let place = place();
    for words in [
        &["--until", "vCPU waits 100 ms"][..],
        &["--vm", "web"],
        &["--redact"],
    ] {
        let arguments = [&["record", "--dry-run"], words].concat();
        let output = steady(place.path(), &arguments);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        let said = text(&output.stderr);
        assert!(
            said.contains(words[0]) && output.stdout.is_empty(),
            "{said}"
        );
    }
}
