// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is every process gone, whoever ends the race?

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{ONE_VM, Place, fails_with};

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

/// Emulators whose working folder is below `folder`.
fn emulators(folder: &Path) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let below = processes.filter(|entry| {
        std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder))
    });
    below
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
        .collect()
}

/// Starts a race and waits until its emulator runs.
#[expect(
    clippy::zombie_processes,
    reason = "every caller waits for what it is given"
)]
fn start(place: &Place) -> (Child, Vec<Pid>) {
    let scenario = place.scenario(ONE_VM, "");
    let child = place
        // QEMU, since Bochs's run begins with another process in its folder, which makes the CD.
        .run(&scenario, &["--engine", "qemu"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    for _ in 0..6000 {
        let found = emulators(&place.path("out"));
        if !found.is_empty() {
            return (child, found);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("no emulator within 120 s");
}

fn all_gone(place: &Place) -> bool {
    (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        emulators(&place.path("out")).is_empty()
    })
}

#[test]
fn ctrl_c_ends_the_emulator_and_leaves_nothing_half_written() {
    let place = Place::new();
    let (child, _) = start(&place);
    kill(pid(&child), Signal::SIGINT).unwrap();
    let said = fails_with(130, &child.wait_with_output().unwrap());
    assert!(
        said.contains("interrupted; every emulator was ended"),
        "{said}"
    );
    assert!(all_gone(&place));
    assert_eq!(
        std::fs::read_dir(place.path("out/test")).unwrap().count(),
        0,
        "nothing is left"
    );
}

#[test]
fn killing_the_command_outright_ends_the_emulator_too() {
    let place = Place::new();
    let (mut child, _) = start(&place);
    kill(pid(&child), Signal::SIGKILL).unwrap();
    child.wait().unwrap();
    assert!(all_gone(&place));
}

#[test]
fn a_killed_emulator_is_told_with_its_signal_and_last_step() {
    let place = Place::new();
    let (child, emulators) = start(&place);
    for emulator in emulators {
        let _ = kill(emulator, Signal::SIGKILL);
    }
    let said = fails_with(5, &child.wait_with_output().unwrap());
    assert!(
        said.contains("the emulator ended before the host was done: signal: 9"),
        "{said}"
    );
    assert!(said.contains("last step:"), "{said}");
}
