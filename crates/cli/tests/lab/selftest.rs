// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Do the remedies keep their contracts with KVM? Their own selftests, in Bochs, which repeats a
//! verdict; Shoot4U's stress and QEMU are left to `steady selftest`. And is our QEMU mended?

use crate::support::{Place, ends_well, steady};

const OURS: [&str; 5] = [
    "shoot4u_test",
    "shoot4u_host_test",
    "debooster_test",
    "strict_boost_test",
    "strict_boost_stress_test",
];

#[test]
fn the_remedies_own_selftests_pass_on_the_patched_kernel() {
    let place = Place::new();
    let output = steady()
        .args(["selftest", "--engine", "bochs", "--kernel", "patched"])
        .args(OURS)
        .arg("-o")
        .arg(place.path("out"))
        .output()
        .unwrap();
    ends_well(&output);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    for name in OURS {
        let line = said.lines().find(|line| line.contains(name));
        assert!(line.is_some_and(|line| line.contains("pass")), "{said}");
    }
}

/// As it is packaged it takes about one in two hundred of them twice in this test.
#[test]
fn our_qemu_takes_each_injected_interrupt_once() {
    let place = Place::new();
    let output = steady()
        .args(["selftest", "--engine", "qemu", "--kernel", "patched"])
        .arg("injected_once_test")
        .arg("-o")
        .arg(place.path("out"))
        .output()
        .unwrap();
    ends_well(&output);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said
        .lines()
        .find(|line| line.contains("injected_once_test"));
    assert!(line.is_some_and(|line| line.contains("pass")), "{said}");
}
