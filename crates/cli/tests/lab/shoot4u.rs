// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the checker stay silent on a trace of the real kernel, and find a fault planted there?
//! Two variants of the scenario; docs/shoot4u-proof.md has the command that runs all.

use std::process::Output;

use crate::support::{Place, ends_well, fails_with, project, steady};

fn check(place: &Place, variant: &str) -> Output {
    let trace = place.path(&format!("out/shoot4u-faults/bochs/{variant}-r0/trace.dat"));
    steady()
        .args(["shoot4u", "check"])
        .arg(trace)
        .output()
        .unwrap()
}

#[test]
fn a_trace_of_the_lab_holds_and_one_with_a_planted_fault_does_not() {
    let place = Place::new();
    let scenario = project().join("scenarios/shoot4u-faults.toml");
    let words = [
        "--trace",
        "--variant",
        "deferred",
        "--variant",
        "short-range",
    ];
    ends_well(&place.run(&scenario, &words).output().unwrap());
    let sound = check(&place, "deferred");
    let said = String::from_utf8_lossy(&sound.stdout).into_owned();
    assert!(
        sound.status.success() && said.contains(": holds: "),
        "{said}"
    );
    let faulty = check(&place, "short-range");
    fails_with(5, &faulty);
    let said = String::from_utf8_lossy(&faulty.stdout).into_owned();
    assert!(said.contains("VIOLATED"), "{said}");
}
