// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the caller's machine is like where nothing of the table is gone: variables that cannot be,
//! programs that do not run, another release, no tree.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::machine::{COMMANDS, Gone, Machine, command};

#[test]
fn a_variable_that_cannot_be_is_refused_by_both_with_what_is_wrong() {
    let temporary = ("TMPDIR", "/no-such-folder", "temporary files");
    for ((variable, value, name), commands) in [
        (("STEADY_QEMU", "foo", "STEADY_QEMU"), &[1, 6][..]),
        (("STEADY_BOCHS", "foo", "STEADY_BOCHS"), &[0, 2, 3, 5]),
        (temporary, &[0, 1, 5, 7, 10]),
        (("PATH", "", "PATH"), &[0, 1, 4, 5, 7, 10]),
        (("PATH", "/no-such-folder", "PATH"), &[0, 1]),
        (
            ("STEADY_HOME", "/no-such-folder", "the Steady tree"),
            &[1, 4, 9],
        ),
        (
            ("LINUX_SOURCE", "/etc/passwd", "the kernel's source"),
            &[1, 4],
        ),
    ] {
        let mut machine = Machine::new();
        machine.variables.push((variable, value));
        for &command in commands {
            let error = machine.both_refuse(&Gone::Nothing, COMMANDS[command], name);
            assert!(error.contains(value), "{error}");
            assert!(name != "PATH" || !error.contains("apt-get"), "{error}");
        }
    }
}

/// Puts a shell script in the place of a program of the path.
fn stub(machine: &Machine, name: &str, script: &str) {
    let stub = machine.path("path").join(name);
    let _ = fs::remove_file(&stub);
    fs::write(&stub, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&stub, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_program_that_is_there_and_does_not_work_is_a_lack() {
    let (fails, silent) = ("exit 1", "exit 0");
    for (program, script, commands, name, expected) in [
        (
            "setpriv",
            "echo setpriv",
            &[1, 4][..],
            "setpriv",
            "is of version unknown",
        ),
        (
            "setpriv",
            fails,
            &[1],
            "setpriv",
            "--version ends with exit status: 1",
        ),
        (
            "xorriso",
            fails,
            &[0, 2],
            "xorriso",
            "--version ends with exit status: 1",
        ),
        (
            "xorriso",
            silent,
            &[0, 3],
            "xorriso",
            "--version prints nothing",
        ),
        ("xorriso", "sleep 60", &[0], "xorriso", "no end within 10 s"),
        ("gcc", fails, &[0, 4, 6, 9], "gcc", "does not work"),
        ("cargo", fails, &[1, 7], "cargo", "does not work"),
        (
            "tar",
            silent,
            &[4, 5, 12],
            "tar",
            "--version prints nothing",
        ),
        ("dpkg-deb", fails, &[12], "dpkg-deb", "does not work"),
        (
            "qemu-system-x86_64",
            fails,
            &[1, 6],
            "QEMU",
            "--version ends with exit status: 1",
        ),
        (
            "qemu-system-x86_64",
            silent,
            &[1],
            "QEMU",
            "--version prints nothing",
        ),
    ] {
        let machine = Machine::new();
        stub(&machine, program, script);
        for &command in commands {
            let error = machine.both_refuse(&Gone::Nothing, COMMANDS[command], name);
            let place = machine.path("path").join(program).display().to_string();
            let words = [expected, &place];
            assert!(words.iter().all(|&words| error.contains(words)), "{error}");
        }
    }
}

#[test]
fn a_packaged_emulator_that_a_variable_asks_for_must_work() {
    for (variable, program, command, name) in [
        ("STEADY_BOCHS", "bochs", 0, "Bochs"),
        ("STEADY_QEMU", "qemu-system-x86_64", 1, "QEMU"),
    ] {
        let mut machine = Machine::new();
        machine.variables.push((variable, "packaged"));
        stub(&machine, program, "exit 1");
        let error = machine.both_refuse(&Gone::Nothing, COMMANDS[command], name);
        assert!(error.contains("does not work"), "{error}");
    }
}

#[test]
fn another_python_is_not_asked() {
    let machine = Machine::new();
    stub(&machine, "python3", "exit 1");
    assert_eq!(machine.doctor(&Gone::Nothing, "build qemu").0, Some(0));
    assert_eq!(machine.doctor(&Gone::Nothing, "build qemu-user").0, Some(0));
}

#[test]
fn captures_lack_a_compiler_or_the_package_of_the_release_that_has_plugins() {
    let mut machine = Machine::new();
    machine.package();
    for name in ["gcc", "qemu-x86_64"] {
        let _ = fs::remove_file(machine.path("path").join(name));
    }
    for (release, name, package) in [
        (
            "12",
            "qemu-x86_64 with plugins",
            "apt-get install qemu-user",
        ),
        ("13", "gcc", "apt-get install build-essential"),
    ] {
        for command in [8, 10] {
            let gone = Gone::Release(release);
            let error = machine.both_refuse(&gone, COMMANDS[command], name);
            assert!(error.trim_end().ends_with(package), "{error}");
        }
    }
}

#[test]
fn without_a_tree_doctor_says_what_works_and_what_lacks_it() {
    let machine = Machine::new();
    let mark = fs::canonicalize(machine.path("project/linux/config/lab.config")).unwrap();
    let gone = Gone::File(mark.to_str().unwrap());
    for (command, code) in [("diagnose", 0), ("cache list", 0), ("run --engine qemu", 3)] {
        let (found, said) = machine.doctor(&gone, command);
        assert_eq!(found, Some(code), "{said}");
        let lacks = said["lacks"].as_array().unwrap();
        assert_eq!(
            lacks.contains(&"the Steady tree".into()),
            code == 3,
            "{said}"
        );
    }
    machine.both_refuse(&gone, command("run --engine qemu"), "the Steady tree");
    let output = machine.ask(&gone, &["cache", "list"]);
    assert!(output.status.success(), "{output:?}");
}
