// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does each fault end inside its limit with one clear error, its logs kept, and no result?

use std::path::Path;
use std::process::Command;

use crate::support::{ONE_VM, Place, fails_with, project, steady};

/// Runs the scenario, which must fail in a run, and returns what was said.
fn fails_in_a_run(place: &Place, scenario: &Path, log: &str) -> String {
    let said = fails_with(5, &place.run(scenario, &[]).output().unwrap());
    assert!(
        !place.path("out/test/bochs/result.json").exists(),
        "a failed race leaves no result"
    );
    let log = place.path("out/test/bochs.failed/plain-r0").join(log);
    assert!(log.is_file(), "{} is kept: {said}", log.display());
    assert!(
        said.contains(log.parent().unwrap().to_str().unwrap()),
        "the logs are named: {said}"
    );
    said
}

#[test]
fn a_panicking_host_is_told_by_the_kernels_own_words() {
    let place = Place::beside();
    let scenario = place.scenario(ONE_VM, "host_cmdline = \"rdinit=/none init=/none\"");
    let said = fails_in_a_run(&place, &scenario, "serial.log");
    assert!(
        said.contains("the emulated host panicked") && said.contains("Kernel panic - not syncing"),
        "{said}"
    );
}

#[test]
fn a_panicking_guest_is_told_by_name_with_its_last_words() {
    let place = Place::beside();
    let scenario = place.scenario(ONE_VM, "guest_cmdline = \"rdinit=/none init=/none\"");
    let said = fails_in_a_run(&place, &scenario, "guest.console.log");
    assert!(
        said.contains("VM guest: its kernel panicked")
            && said.contains("Kernel panic - not syncing"),
        "{said}"
    );
}

#[test]
fn a_crashing_workload_is_told_with_its_exit_code_and_words() {
    let place = Place::beside();
    let vm = ONE_VM.replace("\"50\"", "\"no-number\"");
    let scenario = place.scenario(&vm, "");
    let said = fails_in_a_run(&place, &scenario, "guest.console.log");
    assert!(
        said.contains("shootdown ended with exit code 2") && said.contains("no-number"),
        "{said}"
    );
}

#[test]
fn a_hanging_workload_is_ended_at_its_limit() {
    let place = Place::beside();
    let vm = ONE_VM.replace("\"50\"", "\"100000000\"") + "time_limit_s = 2\n";
    let scenario = place.scenario(&vm, "");
    let said = fails_in_a_run(&place, &scenario, "guest.console.log");
    assert!(said.contains("shootdown ran into its time limit"), "{said}");
}

#[test]
fn an_emulator_without_an_end_is_killed_at_the_wall_limit() {
    let place = Place::new();
    let scenario = place.scenario(ONE_VM, "");
    let said = fails_with(
        5,
        &place
            .run(&scenario, &["--wall-limit", "1"])
            .output()
            .unwrap(),
    );
    assert!(said.contains("no end within 1s, last step: "), "{said}");
}

#[test]
fn a_guest_without_memory_for_its_image_is_refused_with_what_it_needs() {
    let place = Place::beside();
    let scenario = place.scenario(&ONE_VM.replace("memory_mib = 96", "memory_mib = 32"), "");
    let said = fails_with(2, &place.run(&scenario, &[]).output().unwrap());
    assert!(
        said.contains("VM guest has 32 MiB of memory; its image with all programs takes"),
        "{said}"
    );
}

#[test]
fn a_vmm_that_cannot_start_is_told_in_its_own_words() {
    let place = Place::new();
    // More than the VMM's own limit, which the scenario format does not know, in a host that has
    // it: Bochs gives no host as much.
    let vm = ONE_VM.replace("memory_mib = 96", "memory_mib = 3200");
    let scenario = place.scenario(&vm, "");
    let text = std::fs::read_to_string(&scenario)
        .unwrap()
        .replace("memory_mib = 384", "memory_mib = 3500");
    std::fs::write(&scenario, text).unwrap();
    let output = place.run(&scenario, &["--engine", "qemu"]).output();
    let said = fails_with(5, &output.unwrap());
    assert!(
        said.contains("VM guest: its VMM failed") && said.contains("3072"),
        "{said}"
    );
    let log = place.path("out/test/qemu.failed/plain-r0/serial.log");
    assert!(log.is_file(), "{} is kept: {said}", log.display());
}

#[test]
fn a_host_without_virtualization_is_told_by_what_its_cpu_lacks() {
    let place = Place::beside();
    let scenario = place.scenario(ONE_VM, "host_cmdline = \"clearcpuid=vmx\"");
    let said = fails_in_a_run(&place, &scenario, "serial.log");
    assert!(said.contains("the host has no /dev/kvm"), "{said}");
}

#[test]
fn more_memory_than_the_engine_gives_is_refused_before_anything_is_built() {
    let place = Place::new();
    let scenario = place.scenario(ONE_VM, "");
    let text = std::fs::read_to_string(&scenario)
        .unwrap()
        .replace("memory_mib = 384", "memory_mib = 3500");
    std::fs::write(&scenario, text).unwrap();
    let said = fails_with(2, &place.run(&scenario, &[]).output().unwrap());
    assert!(
        said.contains(
            "3500 MiB of host memory; the engine bochs gives at most 2048; lower host.memory_mib"
        ),
        "{said}"
    );
}

#[test]
fn more_pcpus_than_the_engine_gives_are_refused_before_anything_is_built() {
    let place = Place::new();
    let scenario = place.scenario(ONE_VM, "");
    let text = std::fs::read_to_string(&scenario)
        .unwrap()
        .replace("pcpus = 2", "pcpus = 48");
    std::fs::write(&scenario, text).unwrap();
    let said = fails_with(
        2,
        &place
            .run(&scenario, &["--engine", "bochs"])
            .output()
            .unwrap(),
    );
    assert!(
        said.contains("48 pCPUs; the engine bochs gives at most 16; lower host.pcpus"),
        "{said}"
    );
}

#[test]
fn an_unknown_variant_is_answered_with_the_nearest_one() {
    let place = Place::new();
    let scenario = place.scenario(ONE_VM, "");
    let said = fails_with(
        2,
        &place
            .run(&scenario, &["--variant", "plaim"])
            .output()
            .unwrap(),
    );
    assert!(said.contains("did you mean `plain`?"), "{said}");
}

#[test]
fn a_missing_emulator_is_told_with_its_package() {
    let place = Place::new();
    let scenario = place.scenario(ONE_VM, "");
    let said = fails_with(
        3,
        &place
            .run(&scenario, &["--engine", "qemu"])
            .env_remove("STEADY_QEMU")
            .env("PATH", place.folder.path())
            .output()
            .unwrap(),
    );
    assert!(
        said.contains("QEMU is neither installed nor compiled")
            && said.contains("apt-get install")
            && said.contains(" qemu-system-x86 "),
        "{said}"
    );
}

/// `steady build kernel` from `tree`, in a project without hooks, so that any tree takes them.
fn build_kernel(place: &Place, tree: &Path) -> std::process::Output {
    let linux = place.path("home/linux");
    std::fs::create_dir_all(&linux).unwrap();
    for name in ["apply", "configure", "lib.sh"] {
        std::fs::copy(project().join("linux").join(name), linux.join(name)).unwrap();
    }
    std::os::unix::fs::symlink(project().join("linux/config"), linux.join("config")).unwrap();
    steady()
        .args(["build", "kernel"])
        .env("STEADY_HOME", place.path("home"))
        .env("LINUX_SOURCE", tree)
        .env("STEADY_CACHE", place.path("cache"))
        .output()
        .unwrap()
}

#[test]
fn a_kernel_that_does_not_build_is_told_with_its_log() {
    let place = Place::new();
    let tree = place.path("linux");
    std::fs::create_dir_all(tree.join("arch/x86/kvm")).unwrap();
    std::fs::write(
        tree.join("Makefile"),
        "VERSION = 6\nPATCHLEVEL = 12\n\ntinyconfig:\n\t@echo 'main.c:1: error: broken'; exit 1\n",
    )
    .unwrap();
    let said = fails_with(4, &build_kernel(&place, &tree));
    assert!(
        said.contains("linux/configure failed") && said.contains("error: broken"),
        "{said}"
    );
    let log = said.split("log: ").nth(1).unwrap().lines().next().unwrap();
    assert!(Path::new(log).is_file(), "the log {log} is kept");
}

#[test]
fn a_kernel_source_of_another_version_is_refused() {
    let place = Place::new();
    let tree = place.path("linux");
    std::fs::create_dir_all(tree.join("arch/x86/kvm")).unwrap();
    std::fs::write(tree.join("Makefile"), "VERSION = 5\nPATCHLEVEL = 4\n").unwrap();
    let said = fails_with(4, &build_kernel(&place, &tree));
    assert!(
        said.contains("is Linux 5.4; the hooks are for 6.12"),
        "{said}"
    );
}

#[test]
fn a_kernel_missing_from_the_cache_folder_is_told_with_how_to_mend_it() {
    let place = Place::new();
    let scenario = place.scenario(ONE_VM, "");
    let cache = place.path("cache");
    // The cache may hold kernels of earlier trees: every one loses its image.
    for kernel in std::fs::read_dir(steady_cache()).unwrap().flatten() {
        if kernel.path().join("release").is_file() {
            let copy = cache.join(kernel.file_name());
            std::fs::create_dir_all(&copy).unwrap();
            std::fs::copy(kernel.path().join("release"), copy.join("release")).unwrap();
        }
    }
    let said = fails_with(
        3,
        &place
            .run(&scenario, &["--engine", "qemu"])
            .env("STEADY_CACHE", &cache)
            .env("STEADY_QEMU", "packaged")
            .output()
            .unwrap(),
    );
    assert!(
        said.contains("bzImage is missing") && said.contains("steady cache prune kernel-"),
        "{said}"
    );
}

fn steady_cache() -> std::path::PathBuf {
    let home = std::env::var_os("HOME").unwrap_or_else(|| "/root".into());
    std::env::var_os("STEADY_CACHE")
        .map_or_else(|| Path::new(&home).join(".cache/steady"), Into::into)
}

#[test]
fn a_place_without_room_is_refused_with_figures() {
    let place = Place::new();
    let disk = SmallDisk::mount(&place.path("small"), "4m");
    let scenario = place.scenario(ONE_VM, "");
    let output = steady()
        .arg("run")
        .arg(&scenario)
        .arg("-o")
        .arg(&disk.0)
        .output()
        .unwrap();
    let said = fails_with(1, &output);
    assert!(said.contains("at least 256 are needed"), "{said}");
}

#[test]
fn a_disk_that_fills_up_during_a_run_is_told_to_be_full() {
    let place = Place::new();
    let disk = SmallDisk::mount(&place.path("small"), "300m");
    let scenario = place.scenario(ONE_VM, "");
    let mut command = steady();
    command
        .arg("run")
        .arg(&scenario)
        .arg("-o")
        .arg(&disk.0)
        .args(["--engine", "bochs"])
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    let run = disk.0.join("test");
    // As soon as the run has its folder, nothing is left for its files.
    for _ in 0..6000 {
        if run.is_dir() && find_stream(&run) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let _ = Command::new("dd")
        .args(["if=/dev/zero", "bs=64k"])
        .arg(format!("of={}", disk.0.join("filler").display()))
        .output();
    let said = fails_with(5, &child.wait_with_output().unwrap());
    assert!(
        said.contains("No space left on device") || said.contains("the disk is full"),
        "{said}"
    );
    assert!(!disk.0.join("test/bochs/result.json").exists());
}

fn find_stream(folder: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return false;
    };
    entries
        .flatten()
        .any(|entry| entry.path().join("plain-r0/stream.bin").is_file())
}

/// A small file system; mounting one takes root, which the lab's set-up needs anyway.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(at: &Path, size: &str) -> Self {
        std::fs::create_dir_all(at).unwrap();
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(at)
            .status()
            .unwrap();
        assert!(status.success(), "mounting a small tmpfs needs root");
        Self(at.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}
