// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Do the remedies keep their contracts with KVM? Their own selftests, in Bochs, which repeats a
//! verdict; Shoot4U's stress is left to `steady selftest`.

use crate::support::{Place, ends_well, steady};

fn pass_on_the_patched_kernel(names: &[&str]) {
    pass(&Place::beside(), &["--engine", "bochs"], names);
}

/// Their logs are in `selftest/` of the place.
pub fn pass(place: &Place, words: &[&str], names: &[&str]) {
    let output = steady()
        .args(["selftest", "--kernel", "patched"])
        .args(words)
        .args(names)
        .arg("-o")
        .arg(place.path("out"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    for name in names {
        let line = said.lines().find(|line| line.contains(name));
        assert!(line.is_some_and(|line| line.contains("pass")), "{said}");
    }
}

#[test]
fn shoot4u_s_own_selftests_pass_on_the_patched_kernel() {
    let ours = [
        "shoot4u_test",
        "shoot4u_host_test",
        "shoot4u_emulation_test",
    ];
    pass_on_the_patched_kernel(&ours);
}

/// One a test: together they take eight minutes of one CPU.
#[test]
fn the_debooster_apart_test_passes_on_the_patched_kernel() {
    pass_on_the_patched_kernel(&["debooster_apart_test"]);
}

#[test]
fn the_debooster_faults_test_passes_on_the_patched_kernel() {
    pass_on_the_patched_kernel(&["debooster_faults_test"]);
}

#[test]
fn the_debooster_test_passes_on_the_patched_kernel() {
    pass_on_the_patched_kernel(&["debooster_test"]);
}

#[test]
fn the_strict_boost_test_passes_on_the_patched_kernel() {
    pass_on_the_patched_kernel(&["strict_boost_test"]);
}

/// QEMU's AMD processor has no NRIPS, so that KVM takes every call's usual path there.
#[test]
fn on_amd_a_call_is_carried_out_right_after_the_exit_with_interrupts_off() {
    let place = Place::beside();
    let amd = ["--engine", "bochs", "--cpu", "amd"];
    pass(
        &place,
        &amd,
        &[
            "shoot4u_test",
            "shoot4u_host_test",
            "shoot4u_emulation_test",
        ],
    );
    let log = place.path("out/selftest/bochs-amd-patched/shoot4u_host_test.log");
    let said = std::fs::read_to_string(log).unwrap();
    for count in [8, 64] {
        let of_call = |line: &&str| line.contains(&format!(" {count} targets:"));
        let line = said.lines().find(of_call).unwrap_or(&said);
        assert!(line.contains(" interrupts off;"), "{line}");
    }
}

/// In a Bochs that keeps a guest's entries by their tags over exits.
#[test]
fn an_invalidation_that_is_left_out_is_seen_on_a_tlb_with_tags() {
    let place = Place::beside();
    for (cpu, words, missed) in [("bochs", &[][..], 6), ("bochs-amd", &["--cpu", "amd"], 2)] {
        let output = steady()
            .env("STEADY_BOCHS", "tagged")
            .args(["selftest", "--kernel", "patched", "--engine", "bochs"])
            .args(words)
            .arg("shoot4u_tlb_test")
            .arg("-o")
            .arg(place.path("out"))
            .output()
            .unwrap();
        ends_well(&output);
        let log = place.path(&format!("out/selftest/{cpu}-patched/shoot4u_tlb_test.log"));
        let said = std::fs::read_to_string(log).unwrap();
        assert!(said.contains("entries are kept over an exit"), "{said}");
        let old = [": 21", ": 23"];
        let seen = said
            .lines()
            .filter(|line| old.iter().any(|end| line.ends_with(end)));
        assert_eq!(seen.count(), missed, "{said}");
    }
}

/// There interrupts are posted, and are not in the IRR while they are pending.
#[test]
fn strict_boost_and_debooster_hold_where_the_processor_delivers_interrupts() {
    let tests = ["strict_boost_test", "debooster_test"];
    pass(
        &Place::beside(),
        &["--engine", "bochs", "--cpu", "apicv"],
        &tests,
    );
}
