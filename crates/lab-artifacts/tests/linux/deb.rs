// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `linux/deb`, without a build: its refusals, and the configuration that it makes of Debian's.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::{Bench, real_linux};

/// What a host's and a guest's remedies are built by.
const REMEDIES: [&str; 6] = [
    "CONFIG_KVM_GUEST_PARATICK",
    "CONFIG_KVM_GUEST_SHOOT4U",
    "CONFIG_KVM_PARATICK",
    "CONFIG_KVM_SHOOT4U",
    "CONFIG_KVM_STRICT_BOOST",
    "CONFIG_SCHED_DEBOOSTER",
];
/// What serves the tests and the comparisons here, and nothing else.
const OURS_ALONE: [&str; 5] = [
    "CONFIG_KVM_MARK_LEFT",
    "CONFIG_KVM_SHOOT4U_FAULTS",
    "CONFIG_KVM_SHOOT4U_RIVALS",
    "CONFIG_SCHED_DEBOOSTER_FAULTS",
    "CONFIG_SCHED_DEBOOSTER_PENALTY",
];
/// The package linux-config-6.12's.
const DEBIANS: &str = "/usr/src/linux-config-6.12/config.amd64_none_amd64.xz";

const HEAD: &str = "#\n# Linux/x86 6.12.1 Kernel Configuration\n#\nCONFIG_X86_64=y\n";
const LSMOD: &str = "Module                  Size  Used by\n";

/// A symbol's line in a configuration, by its name.
fn symbols(config: &str) -> BTreeMap<&str, &str> {
    config
        .lines()
        .filter_map(|line| {
            let (name, _) = line.split_once('=')?;
            name.starts_with("CONFIG_").then_some((name, line))
        })
        .collect()
}

fn modules(config: &str) -> usize {
    config.lines().filter(|line| line.ends_with("=m")).count()
}

/// The configuration that the project's own script makes of `given` for the kernel's real sources.
fn configured(place: &Path, given: &Path, words: &[&Path]) -> Result<String, String> {
    let out = place.join("made");
    let output = Command::new(real_linux().join("deb"))
        .arg("--config-only")
        .arg("--config")
        .arg(given)
        .args(words)
        .arg(&out)
        .output()
        .unwrap();
    if output.status.success() {
        Ok(fs::read_to_string(out).unwrap())
    } else {
        assert!(!out.exists(), "nothing half-written");
        Err(String::from_utf8(output.stderr).unwrap())
    }
}

/// Debian's configuration with lines of ours behind it, of which the last counts.
fn debians_with(place: &Path, more: &str) -> PathBuf {
    let output = Command::new("xz").args(["-dc", DEBIANS]).output().unwrap();
    assert!(
        output.status.success(),
        "{DEBIANS} is not there: apt-get install linux-config-6.12"
    );
    let text = String::from_utf8(output.stdout).unwrap();
    let given = place.join("given");
    fs::write(&given, text + more).unwrap();
    given
}

#[test]
fn each_wrong_call_is_told_with_what_was_expected() {
    let bench = Bench::new();
    bench.write("good", HEAD);
    bench.write("older", &HEAD.replace("6.12.1", "6.1.170"));
    bench.write("arm", "# Linux/arm64 6.12.1 Kernel Configuration\n");
    bench.write("i386", &HEAD.replace("CONFIG_X86_64=y", "CONFIG_X86_32=y"));
    bench.write("words", "two words\n");
    bench.write("no-kvm", &format!("{LSMOD}ext4 1 0\n"));
    let with = |words: &[&'static str]| [&["--config", "good"], words].concat();
    let cases = [
        (vec![], "expected one OUT, found 0"),
        (vec!["out", "more"], "expected one OUT, found 2"),
        (vec!["out", "--jobs", "2"], "options come before it"),
        (vec![""], "OUT is empty"),
        (vec!["--module", "x", "out"], "there is no option --module"),
        (vec!["--modules"], "--modules wants a value"),
        (vec!["--jobs", "0", "out"], "expected a number from 1 on"),
        (vec!["--port", "7.0", "out"], "a port to 7.3 alone"),
        (vec!["--port", "6.1", "out"], "a port to 7.3 alone"),
        (vec!["--jobs", "many", "out"], "expected a number from 1 on"),
        (
            vec!["--config", "gone", "out"],
            "--config gone: there is no such file",
        ),
        (
            vec!["--config", "older", "out"],
            "is of Linux 6.1.170; the remedies are for 6.12",
        ),
        (
            vec!["--config", "arm", "out"],
            "is not a configuration of a kernel for x86",
        ),
        (vec!["--config", "i386", "out"], "is not for x86-64"),
        (
            vec!["--config", "words", "out"],
            "is not a configuration of a kernel for x86",
        ),
        (
            with(&["--modules", "gone", "out"]),
            "there is no such file; lsmod >gone makes it",
        ),
        (
            with(&["--modules", "words", "out"]),
            "is not what lsmod prints",
        ),
        (
            with(&["--modules", "no-kvm", "out"]),
            "lists no kvm: load kvm_intel or kvm_amd",
        ),
        (
            with(&["--config-only", "tree"]),
            "tree is a folder: --config-only wants a file",
        ),
    ];
    for (words, expected) in cases {
        let said = bench.refuses("deb", &words);
        assert!(said.contains(expected), "{words:?}: {said}");
        assert!(!bench.path("out").exists(), "{words:?}");
    }
}

#[test]
fn sources_that_are_not_there_or_of_another_kernel_are_refused() {
    let bench = Bench::new();
    bench.write("good", HEAD);
    bench.write("older/Makefile", "VERSION = 6\nPATCHLEVEL = 6\n");
    for (source, expected) in [
        (
            "gone",
            "gone is not there: apt-get install linux-source-6.12",
        ),
        ("older", "older is Linux 6.6; the hooks are for 6.12"),
    ] {
        let output = Command::new(bench.path("linux/deb"))
            .args(["--config", "good", "--config-only", "out"])
            .env("LINUX_SOURCE", source)
            .current_dir(bench.path(""))
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn the_distributions_configuration_gets_the_remedies_and_loses_its_keys() {
    let place = tempfile::tempdir().unwrap();
    let keys = "CONFIG_SYSTEM_TRUSTED_KEYS=\"debian/certs/x.pem\"\nCONFIG_BUILD_SALT=\"6.12\"\n\
                CONFIG_MODULE_SIG_KEY=\"\"\n# CONFIG_MODULE_SIG_ALL is not set\n";
    let given = debians_with(place.path(), keys);
    let made = configured(place.path(), &given, &[]).unwrap();
    let have = symbols(&made);
    for name in REMEDIES {
        assert_eq!(have.get(name), Some(&&*format!("{name}=y")));
    }
    for name in OURS_ALONE {
        assert_eq!(have.get(name), None);
    }
    for line in [
        "CONFIG_LOCALVERSION=\"-steady\"",
        "CONFIG_DEBUG_INFO_NONE=y",
        "CONFIG_SYSTEM_TRUSTED_KEYS=\"\"",
        "CONFIG_BUILD_SALT=\"\"",
        "CONFIG_MODULE_SIG_ALL=y",
        "CONFIG_MODULE_SIG_KEY=\"certs/signing_key.pem\"",
    ] {
        assert!(made.lines().any(|found| found == line), "{line}");
    }
    // All else is Debian's: what is lost hangs on debug info.
    let before = fs::read_to_string(&given).unwrap();
    let lost: Vec<&str> = symbols(&before)
        .into_iter()
        .filter(|(name, line)| have.get(name) != Some(line) && !keys.contains(name))
        .map(|(name, _)| name)
        .collect();
    assert!(lost.len() < 40, "{lost:?}");
    assert!(modules(&made) > 3000, "{} modules", modules(&made));
}

#[test]
fn of_the_modules_those_of_the_list_are_left_and_the_remedies_with_them() {
    let place = tempfile::tempdir().unwrap();
    let given = debians_with(place.path(), "");
    let list = real_linux().join("lab.lsmod");
    let made = configured(place.path(), &given, &[Path::new("--modules"), &list]).unwrap();
    let have = symbols(&made);
    for name in REMEDIES {
        assert_eq!(have.get(name), Some(&&*format!("{name}=y")));
    }
    for name in [
        "CONFIG_KVM_AMD",
        "CONFIG_KVM_INTEL",
        "CONFIG_EXT4_FS",
        "CONFIG_SATA_AHCI",
    ] {
        assert_eq!(have.get(name), Some(&&*format!("{name}=m")));
    }
    assert!(modules(&made) < 150, "{} modules", modules(&made));
}

#[test]
fn a_configuration_that_cannot_have_the_remedies_is_refused_by_their_names() {
    let place = tempfile::tempdir().unwrap();
    let given = debians_with(place.path(), "# CONFIG_VIRTUALIZATION is not set\n");
    let Err(said) = configured(place.path(), &given, &[]) else {
        panic!("it was accepted");
    };
    assert!(said.contains("these lines did not take"), "{said}");
    assert!(said.contains("CONFIG_KVM_SHOOT4U=y"), "{said}");
    assert!(!said.contains("CONFIG_SCHED_DEBOOSTER=y"), "{said}");
}

#[test]
fn a_port_is_for_a_configuration_and_sources_of_its_own_kernel() {
    let place = tempfile::tempdir().unwrap();
    let refuses = |name: &str, given: &Path| {
        let words = [Path::new("--port"), Path::new(name)];
        configured(place.path(), given, &words).expect_err("it was accepted")
    };
    let given = place.path().join("given");
    fs::write(&given, HEAD).unwrap();
    let said = refuses("7.3", &given);
    assert!(said.contains("6.12.1; the remedies are for 7.3"), "{said}");
    fs::write(&given, HEAD.replace("6.12.1", "7.3.4")).unwrap();
    let older = place.path().join("older");
    fs::create_dir(&older).unwrap();
    fs::write(older.join("Makefile"), "VERSION = 6\nPATCHLEVEL = 12\n").unwrap();
    let asked = |source: &Path, words: &[&Path]| {
        let output = Command::new(real_linux().join("deb"))
            .args(["--port", "7.3", "--config-only"])
            .args(words)
            .arg(place.path().join("out"))
            .env("LINUX_SOURCE", source)
            .output()
            .unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    let with: [&Path; 2] = [Path::new("--config"), &given];
    let said = asked(&older, &with);
    let other = format!(
        "linux/deb: {} is Linux 6.12; these hooks are for 7.3",
        older.display()
    );
    assert!(said.contains(&other), "{said}");
    let gone = place.path().join("gone");
    let said = asked(&gone, &with);
    assert!(said.contains("apt-get install linux-source-7.3"), "{said}");
    // It lacks the configuration, too, on machines that have none of 7.3.
    let said = asked(&gone, &[]);
    assert!(said.contains("apt-get install linux-"), "{said}");
    assert!(said.contains("-7.3, or"), "{said}");
}

#[test]
fn all_that_a_port_lacks_is_named_at_once() {
    let place = tempfile::tempdir().unwrap();
    let output = Command::new(real_linux().join("deb"))
        .args(["--port", "7.3", "--modules"])
        // With all of it there, this ends the call.
        .arg(place.path().join("no-such-list"))
        .arg(place.path().join("out"))
        .env_remove("LINUX_SOURCE")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let there = |path: &str| Path::new(path).exists();
    let configured = there("/usr/src/linux-config-7.3/config.amd64_none_amd64.xz");
    assert_ne!(configured, said.contains("linux-config-7.3"), "{said}");
    let sourced = there("/usr/src/linux-source-7.3.tar.xz");
    assert_ne!(sourced, said.contains("linux-source-7.3"), "{said}");
    if !(configured && sourced) {
        assert_eq!(output.status.code(), Some(3), "{said}");
    }
}
