// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shoot4U in the real kernel: does it keep its promise on a shared host, and does the checker stay
//! silent on its trace, and find a fault that is planted there? Two variants of each scenario;
//! docs/shoot4u-proof.md has the command that runs all faults.

use std::process::Output;

use crate::support::{ONE_VM, Place, ends_well, fails_with, metric, project, steady};

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

/// A vCPU with a pCPU of its own answers at once. KVM's own flush is left out by the same words,
/// `pv_tlb_flush_supported()` in arch/x86/kernel/kvm.c.
#[test]
fn a_guest_that_is_told_of_dedicated_pcpus_interrupts_and_asks_no_host() {
    let place = Place::beside();
    let variant = |name: &str, switches: &str| {
        format!(
            "[[variant]]\nname = \"{name}\"\nguest_cmdline = \"idle=nomwait\"\n\
             [variant.shoot4u]\n[variant.pv]\nipi = false\n[variant.switches]\n{switches}\n"
        )
    };
    let path = place.path("test.toml");
    let text = format!(
        "schema = 2\nname = \"test\"\ntitle = \"t\"\nquestion = \"q\"\n\
         [host]\npcpus = 2\nmemory_mib = 384\ntime_limit_s = 30\n{ONE_VM}\n{}{}{}",
        variant("shared", ""),
        variant("hint", "dedicated = \"hint\""),
        variant("mwait", "dedicated = \"mwait\""),
    );
    std::fs::write(&path, text).unwrap();
    ends_well(&place.run(&path, &[]).output().unwrap());
    let result = place.result("test", "bochs");
    let count = |variant| {
        let of = |name| metric(&result, variant, "shootdown", name);
        (of("shootdown.ipis"), of("stat.hypercalls"))
    };
    // Each of 50 shootdowns has one target.
    let (ipis, hypercalls) = count("shared");
    assert!(ipis < 25 && hypercalls >= 50, "{ipis}, {hypercalls}");
    for shown in ["hint", "mwait"] {
        let (ipis, hypercalls) = count(shown);
        assert!(
            ipis >= 50 && hypercalls < 25,
            "{shown}: {ipis}, {hypercalls}"
        );
    }
}

#[test]
fn beside_another_vm_a_shootdown_takes_a_twentieth_of_its_time_with_ipis() {
    let place = Place::beside();
    let result = place.two_vms();
    let mean_ns = |variant| metric(result, variant, "shootdown", "shootdown.latency.mean");
    let (ipi_ns, deferred_ns) = (mean_ns("ipi"), mean_ns("shoot4u"));
    assert!(
        ipi_ns >= 20 * deferred_ns,
        "{ipi_ns} ns against {deferred_ns} ns"
    );
}
