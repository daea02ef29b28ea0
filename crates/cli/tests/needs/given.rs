// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the caller's machine is like where nothing of the table is gone: variables that cannot be,
//! programs that do not run, another release, no tree.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::machine::{COMMANDS, Gone, Machine};

#[test]
fn a_variable_that_cannot_be_is_refused_by_both_with_what_is_wrong() {
    let temporary = ("TMPDIR", "/no-such-folder", "temporary files");
    for ((variable, value, name), commands) in [
        (("STEADY_QEMU", "foo", "STEADY_QEMU"), &[1, 6][..]),
        (("STEADY_BOCHS", "foo", "STEADY_BOCHS"), &[0, 2, 3, 5]),
        (temporary, &[0, 1, 5, 7, 10]),
    ] {
        let mut machine = Machine::new();
        machine.variables.push((variable, value));
        for &command in commands {
            let error = machine.both_refuse(&Gone::Nothing, COMMANDS[command], name);
            assert!(error.contains(value), "{error}");
        }
    }
}

#[test]
fn a_program_that_says_no_version_is_a_lack() {
    let machine = Machine::new();
    let stub = machine.path("path/setpriv");
    fs::remove_file(&stub).unwrap();
    fs::write(&stub, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&stub, Permissions::from_mode(0o755)).unwrap();
    let error = machine.both_refuse(&Gone::Nothing, COMMANDS[1], "setpriv");
    assert!(error.contains("is of version unknown"), "{error}");
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
    machine.both_refuse(&gone, COMMANDS[1], "the Steady tree");
    let output = machine.ask(&gone, &["cache", "list"]);
    assert!(output.status.success(), "{output:?}");
}
