// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does a BPF scheduler host two VMs, and is one that is not loaded, or ends, reported as such?
//!
//! Host and guests boot the kernel of Debian 13's backports, which has `sched_ext`.

use std::path::Path;

use serde_json::Value;

use crate::support::{Place, ends_well};

const KERNEL: [&str; 4] = ["--engine", "qemu", "--kernel", "debian-13-backports"];

fn project(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}

#[test]
fn a_scheduler_of_its_own_hosts_two_vms_beside_the_kernels() {
    let place = Place::new();
    let scenario = project("scenarios/scx.toml");
    ends_well(&place.run(&scenario, &KERNEL).output().unwrap());
    let result: Value = place.result("scx", "qemu");
    let release = result["config"]["kernel.release"].as_str().unwrap();
    assert!(release.starts_with("7."), "{release}");
    let digest = result["config"]["scheduler.fifo.bpf.c"].as_str().unwrap();
    assert_eq!(digest.len(), 64, "the source's SHA-256");
    let variants = result["variants"].as_array().unwrap();
    assert_eq!(
        variants.len(),
        2,
        "both ended, and the host's init saw the scheduler enabled from its load to the end"
    );
}

/// Races with a scheduler of `scx/` in place of the shipped one, which must be an error; gives the
/// place, and what was said.
fn fails_with(file: &str) -> (Place, String) {
    let place = Place::new();
    let scenario = place.path("scx.toml");
    let text = std::fs::read_to_string(project("scenarios/scx.toml")).unwrap();
    let text = text.replace("scx/fifo.bpf.c", file);
    std::fs::write(&scenario, text).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/scx");
    std::fs::copy(source.join(file), place.path(file)).unwrap();
    let words = [&KERNEL[..], &["--variant", "fifo"]].concat();
    let output = place.run(&scenario, &words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    (place, said)
}

fn says(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
}

#[test]
fn one_that_lets_a_task_wait_is_ended_by_the_kernel_and_reported() {
    let (_place, said) = fails_with("forgets.bpf.c");
    says(
        &said,
        &["the BPF scheduler forgets ended", "runnable task stall"],
    );
}

#[test]
fn one_that_ends_by_an_error_of_its_own_is_reported_with_its_words() {
    let (place, said) = fails_with("errs.bpf.c");
    let ended = "the BPF scheduler errs ended before the VMs had stopped";
    says(&said, &[ended, "it has had enough"]);
    let serial = place.path("out/scx/qemu.failed/fifo-r0/serial.log");
    assert!(serial.is_file(), "the failed run is kept");
}

#[test]
fn one_that_the_verifier_refuses_is_reported_with_the_verifiers_words() {
    let (place, said) = fails_with("strays.bpf.c");
    let refused = "/scx/strays.bpf.o does not schedule the host: bpftool ended";
    says(&said, &[refused, "expected 0", "scx.log"]);
    let log = place.path("out/scx/qemu.failed/fifo-r0/scx.log");
    let log = std::fs::read_to_string(log).unwrap();
    says(&log, &["invalid mem access 'scalar'"]);
}

#[test]
fn one_that_is_loaded_and_schedules_nothing_is_not_taken_for_a_scheduler() {
    let (_place, said) = fails_with("reno.bpf.c");
    let refused = "/scx/reno.bpf.o does not schedule the host";
    says(&said, &[refused, "state is `disabled`, expected `enabled`"]);
}

#[test]
fn a_kernel_without_sched_ext_is_refused_before_it_boots() {
    let place = Place::new();
    let scenario = project("scenarios/scx.toml");
    let words = ["--engine", "qemu", "--variant", "fifo"];
    let output = place.run(&scenario, &words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    let expected = "CONFIG_SCHED_CLASS_EXT; use bpf or debian-13-backports";
    assert!(said.contains(expected), "{said}");
    let run = place.path("out/scx/qemu/fifo-r0");
    assert!(!run.exists(), "nothing has booted");
}
