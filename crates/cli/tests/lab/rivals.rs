// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Do the rivals of the boost remedies that have a kernel of their own have their effect: does a
//! spinning vCPU give way, where the scheduler would refuse?
//!
//! Both vCPUs of a VM share a pCPU. One sleeps, then sends an IPI and spins until the other has
//! taken it. The one that slept is far behind in virtual time, so that CFS and EEVDF keep it
//! running: it spins, exits, and spins again. Where it is lowered, or the other is credited, it
//! gives way at its first exit or soon after.

use crate::support::{Place, ends_well, metric};

const VM: &str = r#"
[[vm]]
name = "guest"
vcpus = 2
memory_mib = 96
pin = [0, 0]
pv = { tlb_flush = false, ipi = false, sched_yield = false, unhalt = false }
[[vm.workload]]
program = "shootdown"
args = ["--targets", "1", "--operations", "60", "--sleep-us", "6000"]
"#;

/// On 6.1 the choice alone in the variant that `Place::scenario` begins, and one lowered as well.
const TALK: &str = r#"
host_cmdline = "steady.late=kvm.talk=1"
switches = { ple_window_ns = 1365 }
[[variant]]
name = "lowered"
host_cmdline = "steady.late=kvm.talk=1 steady.late=sched.talk=1"
switches = { ple_window_ns = 1365 }
"#;

const SHOOTDOWNS: i64 = 60;

#[test]
#[ignore = "builds another kernel: ten minutes of a core"]
fn a_vcpu_that_spins_gives_way_on_cfs_only_where_it_is_lowered() {
    let place = Place::beside();
    let scenario = place.scenario(VM, TALK);
    ends_well(&place.run(&scenario, &["--kernel", "6.1"]).output().unwrap());
    let result = place.result("test", "bochs");
    let exits = |variant| metric(&result, variant, "shootdown", "exits.PAUSE_INSTRUCTION");
    let (chosen, lowered) = (exits("plain"), exits("lowered"));
    let said = format!("{chosen} exits with the choice alone, {lowered} where it is lowered");
    assert!(chosen > 10 * SHOOTDOWNS, "CFS refuses: {said}");
    let few = SHOOTDOWNS..3 * SHOOTDOWNS;
    assert!(few.contains(&lowered), "{said}");
}

/// Both halves in the variant that `Place::scenario` begins, then the choice alone, and neither.
const PROPOSAL: &str = r#"
host_cmdline = "steady.late=kvm.proposal=1 steady.late=sched.proposal=1"
switches = { ple_window_ns = 1365 }
[[variant]]
name = "chosen"
host_cmdline = "steady.late=kvm.proposal=1"
switches = { ple_window_ns = 1365 }
[[variant]]
name = "credited"
host_cmdline = "steady.late=sched.proposal=1"
switches = { ple_window_ns = 1365 }
[[variant]]
name = "neither"
switches = { ple_window_ns = 1365 }
"#;

#[test]
#[ignore = "builds another kernel: ten minutes of a core"]
fn a_vcpu_that_spins_gives_way_where_a_proposal_chooses_and_credits_the_receiver() {
    let place = Place::beside();
    let scenario = place.scenario(VM, PROPOSAL);
    let kernel = ["--kernel", "6.12-proposal"];
    ends_well(&place.run(&scenario, &kernel).output().unwrap());
    let result = place.result("test", "bochs");
    let exits = |variant| metric(&result, variant, "shootdown", "exits.PAUSE_INSTRUCTION");
    let [both, chosen, credited, neither] = ["plain", "chosen", "credited", "neither"].map(exits);
    let said = format!("{both} both, {chosen} chosen, {credited} credited, {neither} neither");
    assert!(both * 3 < chosen * 2, "the credit: {said}");
    assert!(chosen * 2 < credited.min(neither), "the choice: {said}");
}
