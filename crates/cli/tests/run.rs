// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady run --check`: what it says of a scenario. No engine is started.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use steady_scenario::{Runs, Scenario};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn faults() -> PathBuf {
    crates().join("../scenarios/shoot4u-faults.toml")
}

fn check(words: &[&str], scenario: &Path) -> Output {
    let mut command = Command::cargo_bin("steady").unwrap();
    let output = command
        .args(["run", "--check"])
        .args(words)
        .arg(scenario)
        .output();
    output.unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_printed_scenario_is_printed_the_same_and_has_its_digest() {
    let folder = tempfile::tempdir().unwrap();
    let new = folder.path().join("shoot4u-faults.toml");
    let printed = check(&["--print"], &faults());
    std::fs::write(&new, &printed.stdout).unwrap();
    let again = check(&["--print"], &new);
    assert_eq!(again.stdout, printed.stdout);
    let digest = |output| {
        said(output)
            .trim_end()
            .rsplit(' ')
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(digest(&again), digest(&printed));
}

/// What `--check` says of the base scenario after an edit, which it must refuse.
fn refused(from: &str, to: &str) -> String {
    let base = crates().join("scenario/tests/common/base.toml");
    let text = std::fs::read_to_string(base).unwrap();
    assert!(text.contains(from), "the base scenario lacks {from}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("base.toml");
    std::fs::write(&file, text.replace(from, to)).unwrap();
    let output = check(&[], &file);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn checking_refuses_what_is_no_measure_program_or_argument() {
    let measure = "[measure]\ncollect = [\"exit\"]\n\n[[variant]]";
    let said = refused("[[variant]]", measure);
    assert!(said.contains("did you mean `exits`?"), "{said}");
    let said = refused("\"spin\"", "\"spim\"");
    assert!(said.contains("did you mean `spin`?"), "{said}");
    let dedup = "program = \"dedup\"\nargs = [\"input-kib=0\"]\n#";
    let said = refused("program = \"shootdown\"\nargs", dedup);
    assert!(said.contains("base.toml: workload dedup"), "{said}");
    assert!(
        said.contains("expected input-kib=N with N from 1"),
        "{said}"
    );
    assert!(!said.contains(": ok"), "{said}");
}

#[test]
fn every_shipped_scenario_passes_the_check() {
    let scenarios = crates().join("../scenarios");
    for folder in [scenarios.clone(), scenarios.join("papers")] {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path
                .extension()
                .is_some_and(|extension| extension == "toml")
            {
                said(&check(&[], &path));
            }
        }
    }
}

/// The programs of a suite are in no repository; these stand in their places.
#[test]
fn a_suite_s_scenario_passes_the_check_where_its_programs_are_and_nowhere_else() {
    let mut seen = 0;
    for entry in crates().join("../scenarios/suite").read_dir().unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        seen += 1;
        let refused = check(&[], &path);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(text.contains("or that of --programs"), "{text}");
        let folder = tempfile::tempdir().unwrap();
        let scenario = Scenario::load(&path).unwrap();
        for workload in scenario.vms.iter().flat_map(|vm| &vm.workloads) {
            let Runs::Brought(program) = &workload.program else {
                continue;
            };
            let files = workload.files.iter();
            let files = files.map(|file| file.split_once(':').unwrap().0);
            for file in std::iter::once(program.path()).chain(files) {
                let file = folder.path().join(file);
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, "#!/bin/sh\n").unwrap();
            }
        }
        said(&check(
            &["--programs", folder.path().to_str().unwrap()],
            &path,
        ));
    }
    assert!(seen > 0);
}

#[test]
fn checking_for_an_engine_refuses_what_a_run_on_it_would() {
    let shipped = std::fs::read_to_string(crates().join("../scenarios/solo.toml")).unwrap();
    let pcpus = shipped
        .lines()
        .find(|line| line.starts_with("pcpus"))
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large.toml");
    let named = shipped.replace("name = \"solo\"", "name = \"large\"");
    std::fs::write(&large, named.replace(pcpus, "pcpus = 64")).unwrap();
    said(&check(&[], &large));
    said(&check(&["--engine", "qemu"], &large));
    for words in [
        &["--engine", "bochs"][..],
        &["--engine", "qemu", "--engine", "bochs"],
    ] {
        let output = check(words, &large);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(
            text.contains("64 pCPUs; the engine bochs gives at most 16"),
            "{text}"
        );
    }
    let output = check(&["--variant", "no-such"], &large);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn checking_refuses_a_variants_kernel_that_is_not_known_or_not_there() {
    let shipped = std::fs::read_to_string(crates().join("../scenarios/two-kernels.toml")).unwrap();
    let debian = "kernel = \"debian-12\"";
    assert!(shipped.contains(debian));
    let folder = tempfile::tempdir().unwrap();
    let made = folder.path().join("two-kernels.toml");
    std::fs::write(folder.path().join("mine.deb"), "!<arch>\n").unwrap();
    for (kernel, words) in [
        ("./mine.deb", [""; 2]),
        (
            "debian-11",
            ["no kernel `debian-11`", "debian-13-backports"],
        ),
        ("./yours.deb", ["cannot be read", "yours.deb"]),
        (
            "./objects",
            ["no built kernel", "objects/arch/x86/boot/bzImage"],
        ),
    ] {
        let written = format!("kernel = \"{kernel}\"");
        std::fs::write(&made, shipped.replace(debian, &written)).unwrap();
        let output = check(&[], &made);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let status = if words[0].is_empty() { 0 } else { 2 };
        assert_eq!(output.status.code(), Some(status), "{text}");
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
}

#[test]
fn printing_needs_checking() {
    let mut command = Command::cargo_bin("steady").unwrap();
    let output = command
        .args(["run", "--print"])
        .arg(faults())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn a_race_in_pieces_begins_with_the_seed_that_is_asked_for() {
    let shipped = crates().join("../scenarios/staleness-8vcpu.toml");
    let lines = |words: &[&str]| -> Vec<String> {
        let printed = check(&[&["--print"], words].concat(), &shipped).stdout;
        let text = String::from_utf8(printed).unwrap();
        text.lines().map(str::to_owned).collect()
    };
    let (whole, piece) = (lines(&[]), lines(&["--seed", "18446744073709551615"]));
    let changed = |(old, new): (&String, &String)| (old != new).then(|| new.clone());
    let changed: Vec<String> = whole.iter().zip(&piece).filter_map(changed).collect();
    assert_eq!(changed, ["seed = 18446744073709551615"]);
    assert_eq!(whole.len(), piece.len());
}

#[test]
fn talk_that_cannot_be_printed_changes_no_status() {
    let missing = Path::new("there-is-no-such.toml");
    for (scenario, status) in [(faults().as_path(), 0), (missing, 2)] {
        let full = std::fs::File::options()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let ended = std::process::Command::new(env!("CARGO_BIN_EXE_steady"))
            .args(["run", "--check"])
            .arg(scenario)
            .stderr(full)
            .status();
        assert_eq!(ended.unwrap().code(), Some(status), "{scenario:?}");
    }
}

#[test]
fn a_scenario_that_cannot_be_printed_is_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full");
    let ended = std::process::Command::new(env!("CARGO_BIN_EXE_steady"))
        .args(["run", "--check", "--print"])
        .arg(faults())
        .stdout(full.unwrap())
        .output();
    let ended = ended.unwrap();
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(said.contains("No space left on device"), "{said}");
}

#[test]
fn a_kernel_that_cannot_be_raced_on_is_refused_by_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("junk.deb"), "junk").unwrap();
    std::fs::create_dir(path("empty")).unwrap();
    for (kernel, expected) in [
        (
            "bogus".to_owned(),
            "there is no kernel `bogus`; expected lab,",
        ),
        (path("gone.deb"), "gone.deb cannot be read: No such file"),
        (
            path("junk.deb"),
            "junk.deb is not a Debian package: expected",
        ),
        (
            path("empty"),
            "empty/arch/x86/boot/bzImage is not there; expected",
        ),
    ] {
        let output = check(&["--kernel", &kernel], &faults());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(expected), "{said}");
        assert_eq!(output.status.code(), Some(2), "{said}");
    }
    let solo = crates().join("../scenarios/solo.toml");
    said(&check(&["--kernel", "debian-12"], &solo));
}
