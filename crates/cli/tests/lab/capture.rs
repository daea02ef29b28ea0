// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole emulated hosts are recorded: with every access true by the recorded tables, and the same
//! bytes each time.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::support::{ONE_VM, Place, ends_well, steady};

/// Processes with this text in their command line, a capture and its run and emulator among them.
fn processes_that_name(text: &str) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let naming = processes.filter(|entry| {
        // The emulator's line names no file of it, but it runs in a folder below.
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let cwd = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        // What has ended and was not waited for has no line.
        !line.is_empty() && (line.contains(text) || cwd.to_string_lossy().contains(text))
    });
    naming
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid::from_raw))
        .collect()
}

/// Starts a capture of a host that has work for minutes, and waits until it records.
fn started(place: &Place) -> Child {
    let long = ONE_VM.replace("\"50\"", "\"5000000\"");
    let scenario = place.scenario(&long, "");
    let text = std::fs::read_to_string(&scenario).unwrap();
    let text = text.replace("time_limit_s = 30", "time_limit_s = 3000");
    std::fs::write(&scenario, text).unwrap();
    let mut capture = steady();
    capture
        .args(["coherence", "capture", "--max-accesses", "100000000000"])
        .arg("--host")
        .arg(&scenario)
        .arg("-o")
        .arg(place.path("long.sht"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = capture.spawn().unwrap();
    // A Bochs may have to be built.
    for _ in 0..18_000 {
        if place.path("long.sht.run/trace").is_file() {
            return child;
        }
        assert!(child.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(50));
    }
    let _ = child.kill();
    panic!("nothing was recorded within 15 minutes");
}

#[test]
#[ignore = "builds another Bochs: minutes"]
fn nothing_of_a_capture_runs_on_whatever_ends_it() {
    for signal in [Signal::SIGKILL, Signal::SIGTERM, Signal::SIGINT] {
        let place = Place::new();
        let child = started(&place);
        let named = place.path("").to_string_lossy().into_owned();
        let running = processes_that_name(&named);
        assert!(running.len() >= 3, "capture, run, emulator: {running:?}");
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
        let gone = (0..750).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            processes_that_name(&named).is_empty()
        });
        let left = processes_that_name(&named);
        for &pid in &left {
            let _ = kill(pid, Signal::SIGKILL);
        }
        let output = child.wait_with_output().unwrap();
        assert!(gone, "{signal}: {left:?} run on after 15 s");
        if signal != Signal::SIGKILL {
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(130), "{said}");
            assert!(said.contains("no trace was written"), "{said}");
            assert!(!place.path("long.sht").exists(), "{said}");
            assert!(!place.path("long.sht.run").exists(), "{said}");
        }
    }
}

#[test]
#[ignore = "builds another Bochs: minutes"]
fn a_captured_host_is_the_same_each_time_and_all_its_accesses_agree() {
    let place = Place::beside();
    let scenario = place.scenario(ONE_VM, "");
    let captured = |name: &str, accesses: &str| {
        let trace = place.path(name);
        let output = steady()
            .args(["coherence", "capture", "--max-accesses", accesses, "--host"])
            .arg(&scenario)
            .arg("-o")
            .arg(&trace)
            .output()
            .unwrap();
        (output, trace)
    };
    let said = ["one.sht", "other.sht"].map(|name| {
        let (output, trace) = captured(name, "400000");
        ends_well(&output);
        assert!(
            place
                .path(&format!("{name}.run/test/bochs/result.json"))
                .is_file()
        );
        let said = String::from_utf8(output.stdout).unwrap();
        let (first, rest) = said.split_once('\n').unwrap();
        let digest = first.rsplit(' ').next().unwrap().to_owned();
        (digest, rest.to_owned(), std::fs::read(trace).unwrap())
    });
    let (digest, counts, bytes) = &said[0];
    assert_eq!(digest, &said[1].0);
    assert!(bytes == &said[1].2, "the same bytes");
    assert_eq!(digest, &steady_measures::sha256_hex(bytes));
    assert!(counts.contains("accesses of VPID 1,"), "{counts}");
    assert!(counts.ends_with("0 do not agree\n"), "{counts}");
    // More than the run has: nothing is left that looks like a trace.
    let (output, trace) = captured("long.sht", "100000000000");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && !trace.exists(), "{said}");
    assert!(said.contains("before all accesses were recorded"), "{said}");
}

#[test]
#[ignore = "builds another Bochs: minutes"]
fn what_a_capture_saw_of_each_vcpu_is_what_the_kernel_traced() {
    let place = Place::beside();
    let captured = |name: &str, ticks: &str| {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/two-vms.toml");
        steady()
            .args(["coherence", "capture", "--trace", "--variant", "shoot4u"])
            .args(["--after-ticks", ticks, "--host"])
            .arg(shipped)
            .arg("-o")
            .arg(place.path(name))
            .output()
            .unwrap()
    };
    let output = captured("both.sht", "2000000000");
    ends_well(&output);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("since it began, of 4 vCPUs in order"),
        "{said}"
    );
    for kind in [
        "VM exits",
        "VM entries",
        "MSRs read",
        "MSRs written",
        "IPIs",
        "hypercalls",
        "interrupts",
        "pages",
    ] {
        let of = |line: &&str| line.trim_start().starts_with(kind);
        let line = said.lines().rev().find(of).unwrap();
        let numbers: Vec<u64> = line
            .split([' ', ':'])
            .filter_map(|word| word.parse().ok())
            .collect();
        let [recorded, traced, agree] = numbers[..] else {
            panic!("{line}");
        };
        assert!(
            recorded > 0 && recorded == traced && traced == agree,
            "{line}"
        );
    }
    // The guests start, and the kernel does not trace them yet.
    let output = captured("early.sht", "0");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("Record a later time") && said.contains("--after-ticks"),
        "{said}"
    );
    assert!(
        place.path("early.sht").is_file(),
        "what was recorded is kept"
    );
}
