// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does a BPF scheduler host two VMs, and is one that lets a task wait reported as such?
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
        "both ended, and the watcher saw no end of the scheduler"
    );
}

#[test]
fn one_that_lets_a_task_wait_is_ended_by_the_kernel_and_reported() {
    let place = Place::new();
    let scenario = place.path("scx.toml");
    let text = std::fs::read_to_string(project("scenarios/scx.toml")).unwrap();
    let text = text.replace("scx/fifo.bpf.c", "forgets.bpf.c");
    std::fs::write(&scenario, text).unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/scx/forgets.bpf.c");
    std::fs::copy(source, place.path("forgets.bpf.c")).unwrap();
    let words = [&KERNEL[..], &["--variant", "fifo"]].concat();
    let output = place.run(&scenario, &words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    for part in ["the BPF scheduler", "runnable task stall", "forgets"] {
        assert!(said.contains(part), "{part} is not in: {said}");
    }
}

#[test]
fn a_kernel_without_sched_ext_is_refused_before_it_boots() {
    let place = Place::new();
    let scenario = project("scenarios/scx.toml");
    let words = ["--engine", "qemu", "--variant", "fifo"];
    let output = place.run(&scenario, &words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    let expected = "CONFIG_SCHED_CLASS_EXT; use --kernel debian-13-backports";
    assert!(said.contains(expected), "{said}");
    let run = place.path("out/scx/qemu/fifo-r0");
    assert!(!run.exists(), "nothing has booted");
}
