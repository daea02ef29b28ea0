// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does `steady doctor` say of each command what the command itself says, whatever is taken away?
//!
//! Each need of each command is taken away by itself: a program from a made path, a file in a mount
//! namespace of the command alone, a mirror from apt, room from the cache. The host stays as it is.
//! Nothing is built and no emulator is started, as each command must refuse. What the commands do
//! when all is there is asked in `lab`.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use steady_lab_artifacts::need::{Row, rows};

use crate::machine::{COMMANDS, Gone, Machine, command};

mod damaged;
mod given;
mod machine;

/// Every need of a command, as the machine has it, is taken away by itself.
fn each_need_of(at: usize) {
    let (command, words) = COMMANDS[at];
    let mut machine = Machine::new();
    // What is fetched is not the sources that are given.
    if command.contains("--kernel") {
        machine.variables.push(("LINUX_SOURCE", ""));
    }
    let (code, whole) = machine.doctor(&Gone::Nothing, command);
    assert_eq!(
        code,
        Some(0),
        "{command}: this machine lacks something itself: {whole}"
    );
    let needs = whole["commands"][0]["needs"].as_array().unwrap();
    let mut taken = 0;
    for need in needs {
        let (name, found) = (
            need["name"].as_str().unwrap(),
            need["found"].as_str().unwrap(),
        );
        let gone = match name {
            "a Debian mirror" => Gone::Mirror,
            "QEMU" if found.starts_with("packaged") => Gone::Program("qemu-system-x86_64"),
            file if file.starts_with('/') => Gone::File(found),
            program if found.starts_with('/') && machine.programs.contains_key(program) => {
                Gone::Program(program)
            }
            _ => continue,
        };
        machine.both_refuse(&gone, (command, words), name);
        taken += 1;
    }
    assert!(taken >= 3, "{command}: only {taken} needs were taken away");
    if needs
        .iter()
        .any(|need| need["found"].as_str().unwrap().contains(" not built yet"))
    {
        machine.both_refuse(&Gone::Room, (command, words), "room");
    }
}

/// The rows of what some races need beyond their engine.
fn of_extras() -> impl Iterator<Item = Row> {
    let uses = ["trace", "disk", "vmm-qemu", "workload", "bpf", "bpf-build"];
    rows().filter(move |row| row.uses.split(',').any(|one| uses.contains(&one)))
}

/// A scenario of one VM: what is asked of it, of its host and of its variant, and its program.
fn scenario([vm, host, variant, program]: [&str; 4]) -> String {
    format!(
        "schema = 2\nname = \"scenario\"\ntitle = \"x\"\nquestion = \"x?\"\n\
         [host]\npcpus = 1\nmemory_mib = 512\n{host}\n\
         [[vm]]\nname = \"a\"\nvcpus = 1\nmemory_mib = 192\n{vm}\n\
         [[vm.workload]]\nprogram = \"{program}\"\n[[variant]]\nname = \"plain\"\n{variant}\n"
    )
}

#[test]
fn doctor_and_run_agree_without_each_need_of_what_a_scenario_asks_for() {
    let run = &["run", "SCENARIO", "--engine", "qemu", "-o", "OUT"][..];
    let trace = [run, &["--trace"]].concat();
    let disk = "disk_mib = 64";
    let vmm = "vmm = \"qemu\"";
    let bpf = "[variant.scheduler]\nbpf = \"project/scenarios/scx/fifo.bpf.c\"";
    let mut asked = vec![
        ("run --trace".to_owned(), &trace[..], ["", "", "", "spin"]),
        ("run, disk_mib".to_owned(), run, [disk, "", "", "spin"]),
        ("run, vmm = \"qemu\"".to_owned(), run, ["", vmm, "", "spin"]),
        ("run, bpf".to_owned(), run, ["", "", bpf, "spin"]),
    ];
    for program in steady_scenario::PROGRAMS {
        if let steady_scenario::Origin::Debian(_) = program.origin {
            let vm = if program.needs_disk { disk } else { "" };
            let name = format!("run, program = \"{}\"", program.name);
            asked.push((name, run, [vm, "", "", program.name]));
        }
    }
    let machine = Machine::new();
    let mut taken = BTreeSet::new();
    for (command, words, parts) in asked {
        fs::write(machine.path("scenario.toml"), scenario(parts)).unwrap();
        let (code, whole) = machine.doctor(&Gone::Nothing, &command);
        assert_eq!(code, Some(0), "{command}: {whole}");
        let needs = whole["commands"][0]["needs"].as_array().unwrap();
        assert!(needs.iter().any(|need| need["name"] == "QEMU"), "{whole}");
        for need in needs {
            let [name, found] = ["name", "found"].map(|key| need[key].as_str().unwrap());
            // What every race needs is taken away of `run --engine qemu`.
            if !of_extras().any(|row| row.what == name) {
                continue;
            }
            machine.both_refuse(&Gone::File(found), (&command, words), name);
            taken.insert(name.to_owned());
        }
    }
    assert!(of_extras().all(|row| taken.contains(row.what)), "{taken:?}");
}

#[test]
fn doctor_and_the_packing_of_a_kernel_agree_without_each_need() {
    let mut machine = Machine::new();
    machine.variables.push(("LINUX_SOURCE", ""));
    let script = fs::canonicalize(machine.path("project/linux/deb")).unwrap();
    let uses = ["deb", "deb-config", "source"];
    let rows = rows().filter(|row| row.uses.split(',').any(|one| uses.contains(&one)));
    let mut taken = 0;
    for row in rows {
        let program = machine.programs.get(row.what);
        let program = program.map(|path| path.display().to_string());
        // Some are on few machines. Both look into /usr/sbin besides the path.
        let gone = match &program {
            _ if Path::new(row.what).is_absolute() && Path::new(row.what).exists() => {
                Gone::File(row.what)
            }
            Some(path) if path.contains("/sbin/") => Gone::File(path),
            Some(_) => Gone::Program(row.what),
            None => Gone::Nothing,
        };
        let (code, said) = machine.doctor(&gone, "linux/deb");
        let lacks = said["lacks"].as_array().unwrap();
        assert!(
            code == Some(3) && lacks.contains(&row.what.into()),
            "{said}"
        );
        let output = machine.call(&gone, &script, &["OUT"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{row:?}: {error}");
        let fix = said["fix"].as_str().unwrap();
        assert!(error.trim_end().ends_with(fix), "{fix}: {error}");
        // A port has other sources, and the same programs.
        if row.uses.split(',').any(|one| one == "deb") {
            let words = ["--port", "7.3", "--config", "given", "OUT"];
            machine.variables.push(("LINUX_SOURCE", "given"));
            let output = machine.call(&gone, &script, &words);
            machine.variables.pop();
            let error = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(3), "{row:?}: {error}");
            assert!(error.trim_end().ends_with(fix), "{fix}: {error}");
        }
        taken += 1;
    }
    assert!(taken > 15, "only {taken} rows");
}

/// A test for each command, so that they run beside each other.
macro_rules! each_need {
    ($($name:ident = $at:literal),*) => {
        $(#[test]
        fn $name() {
            each_need_of($at);
        })*
    };
}

each_need!(
    doctor_and_run_on_bochs_agree_without_each_need = 0,
    doctor_and_run_on_qemu_agree_without_each_need = 1,
    doctor_and_host_agree_without_each_need = 2,
    doctor_and_selftest_agree_without_each_need = 3,
    doctor_and_build_kernel_agree_without_each_need = 4,
    doctor_and_build_bochs_agree_without_each_need = 5,
    doctor_and_build_qemu_agree_without_each_need = 6,
    doctor_and_build_programs_agree_without_each_need = 7,
    doctor_and_build_qemu_user_agree_without_each_need = 8,
    doctor_and_build_selftests_agree_without_each_need = 9,
    doctor_and_capture_agree_without_each_need = 10,
    doctor_and_run_on_a_packaged_kernel_agree_without_each_need = 12,
    doctor_and_run_on_a_port_agree_without_each_need = 13,
    doctor_and_run_on_a_port_of_the_installed_source_agree_without_each_need = 14
);

#[test]
fn an_emulator_that_a_variable_asks_for_is_a_need_like_others() {
    for (variable, value, command, program, name) in [
        ("STEADY_QEMU", "packaged", 1, "qemu-system-x86_64", "QEMU"),
        ("STEADY_QEMU", "patched", 1, "meson", "meson"),
        ("STEADY_BOCHS", "tagged", 0, "g++", "g++"),
        ("STEADY_BOCHS", "events", 0, "g++", "g++"),
    ] {
        let mut machine = Machine::new();
        machine.variables.push((variable, value));
        let found = machine.both_refuse(&Gone::Program(program), COMMANDS[command], name);
        let refused = format!("{variable} is `");
        assert!(!found.contains(&refused), "{value}: {found}");
    }
    // Debian's Bochs is on few machines: it is gone from the path where it is there.
    let mut machine = Machine::new();
    machine.variables.push(("STEADY_BOCHS", "packaged"));
    let gone = match machine.programs.contains_key("bochs") {
        true => Gone::Program("bochs"),
        false => Gone::Nothing,
    };
    machine.both_refuse(&gone, command("run --engine bochs"), "Bochs");
}

#[test]
fn doctor_and_record_agree_without_each_part_of_tracing() {
    let machine = Machine::new();
    let until = ["record", "--until", "vCPU waits 100 ms", "-o", "OUT"];
    let guest = ["record", "--guest", "--seconds", "1", "-o", "OUT"];
    let asked = [
        command("record"),
        ("record --until", &until),
        ("record --guest", &guest),
    ];
    for (put, expected) in [
        ("true", "is not tracefs: mount it"),
        ("mkdir instances", "is not tracefs: mount it"),
        (
            "mkdir instances events && touch set_event && mount -o remount,ro .",
            "is mounted read-only: remount it",
        ),
        (
            "mkdir instances events && mknod set_event c 1 3 && mount -o remount,nodev .",
            "is refused to root too",
        ),
        (
            "mkdir instances events && touch set_event",
            "none of the tracepoints",
        ),
    ] {
        for (command, words) in asked {
            let (code, said) = machine.doctor(&Gone::Tracing(put), command);
            let found = said["commands"][0]["needs"][0]["found"].as_str().unwrap();
            assert_eq!(code, Some(3), "{said}");
            assert!(found.contains(expected), "{command}: {found}");
            let output = machine.ask(&Gone::Tracing(put), words);
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(3), "{command}: {error}");
            assert!(error.contains(expected), "{command}: {error}");
        }
    }
}

#[test]
fn without_the_kernels_source_all_else_that_lacks_is_named_too() {
    let mut machine = Machine::new();
    machine.variables.push(("LINUX_SOURCE", "/no-such-tree"));
    for command in [0, 3, 4, 9] {
        let error = machine.both_refuse(&Gone::Program("patch"), COMMANDS[command], "patch");
        assert!(
            error.contains("the kernel's source is not there"),
            "{error}"
        );
    }
}

#[test]
fn doctor_and_builds_agree_without_a_network() {
    let mut machine = Machine::new();
    machine.variables.push(("STEADY_BOCHS", "tagged"));
    for command in [0, 5, 6] {
        let error = machine.both_refuse(&Gone::Network, COMMANDS[command], "a Debian mirror");
        assert!(
            error.contains("does not answer: Failed to fetch"),
            "{error}"
        );
    }
}

#[test]
fn doctor_refuses_a_command_that_it_does_not_know() {
    let machine = Machine::new();
    let output = machine.ask(&Gone::Nothing, &["doctor", "dig"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("no command `dig`") && said.contains("build kernel"),
        "{said}"
    );
}
