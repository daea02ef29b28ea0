// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Do the rivals that have a kernel of their own have their effect?
//!
//! Those of the boost remedies: does a spinning vCPU give way, where the scheduler would refuse?
//! Both vCPUs of a VM share a pCPU. One sleeps, then sends an IPI and spins until the other has
//! taken it. The one that slept is far behind in virtual time, so that CFS and EEVDF keep it
//! running: it spins, exits, and spins again. Where it is lowered, or the other is credited, it
//! gives way at its first exit or soon after.
//!
//! That of Shoot4U, ranges in PV TLB flush: are fewer TLBs flushed as a whole, and is nothing left
//! that was revoked? Twice as many vCPUs as pCPUs write through mappings that are taken away.

use crate::support::{Place, ends_well, fails_with, metric};

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

/// The pages alone in the variant that `Place::scenario` begins, everything, and nothing.
const RANGES: &str = r#"
host_cmdline = "steady.late=kvm.pv_flush_ranges=1"
[[variant]]
name = "whole"
[[variant]]
name = "nothing"
host_cmdline = "steady.late=kvm.pv_flush_ranges=2"
[measure]
collect = ["kvm-stats"]
"#;

const WRITERS: &str = r#"
[[vm]]
name = "guest"
vcpus = 4
memory_mib = 96
pin = [0, 1, 0, 1]
[[vm.workload]]
program = "shootdown"
args = ["--targets", "3", "--operations", "100", "--sleep-us", "300", "--time-limit-ms", "2000"]
[[vm.workload]]
program = "staleness"
args = ["--operations", "400", "--revokers", "3", "--seed", "2", "--time-limit-ms", "4000"]
"#;

#[test]
#[ignore = "builds another kernel: ten minutes of a core"]
fn noted_ranges_spare_whole_flushes_and_the_rival_leaves_no_revoked_translation() {
    let place = Place::beside();
    let scenario = place.scenario(WRITERS, RANGES);
    // In a Bochs that keeps a guest's entries by their tags over exits.
    let run = |variants: &[&str]| {
        let words = [&["--kernel", "6.12-ranges"], variants].concat();
        let mut command = place.run(&scenario, &words);
        command.env("STEADY_BOCHS", "tagged").output().unwrap()
    };
    ends_well(&run(&["--variant", "plain", "--variant", "whole"]));
    let result = place.result("test", "bochs");
    let [ranges, whole] =
        ["plain", "whole"].map(|variant| metric(&result, variant, "shootdown", "stat.tlb_flush"));
    assert!(
        ranges * 2 < whole,
        "{ranges} whole flushes, {whole} without ranges"
    );
    let said = fails_with(5, &run(&["--variant", "nothing"]));
    assert!(said.contains("landed in the old page"), "{said}");
}
