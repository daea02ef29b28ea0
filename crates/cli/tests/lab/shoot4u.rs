// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shoot4U in the real kernel: does it keep its promise on a shared host, and does the checker stay
//! silent on its trace, and find a fault that is planted there? Two variants of each scenario;
//! docs/shoot4u-proof.md has the command that runs all faults.

use std::process::Output;

use crate::support::{Place, ends_well, fails_with, metric, project, steady};

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
    let place = Place::beside();
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

#[test]
fn beside_another_vm_a_shootdown_takes_a_twentieth_of_its_time_with_ipis() {
    let place = Place::beside();
    let scenario = "scenarios/papers/shoot4u-table1.toml";
    let result = place.raced(scenario, &["ipi-2vm", "deferred-2vm"]);
    let mean_ns = |variant| metric(&result, variant, "shootdown", "shootdown.latency.mean");
    let (ipi_ns, deferred_ns) = (mean_ns("ipi-2vm"), mean_ns("deferred-2vm"));
    assert!(
        ipi_ns >= 20 * deferred_ns,
        "{ipi_ns} ns against {deferred_ns} ns"
    );
}
