// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does a spinning vCPU on Linux 6.1 give way to the one that KVM chose, where CFS would refuse?
//!
//! Both vCPUs of a VM share a pCPU. One sleeps, then sends an IPI and spins until the other has
//! taken it. The one that slept is far behind in virtual time, so that CFS keeps it running: it
//! spins, exits, and spins again. Lowered, it gives way at its first exit or soon after.

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

/// The choice alone in the variant that `Place::scenario` begins, and one that is lowered as well.
const VARIANTS: &str = r#"
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
    let scenario = place.scenario(VM, VARIANTS);
    ends_well(&place.run(&scenario, &["--kernel", "6.1"]).output().unwrap());
    let result = place.result("test", "bochs");
    let exits = |variant| metric(&result, variant, "shootdown", "exits.PAUSE_INSTRUCTION");
    let (chosen, lowered) = (exits("plain"), exits("lowered"));
    let said = format!("{chosen} exits with the choice alone, {lowered} where it is lowered");
    assert!(chosen > 10 * SHOOTDOWNS, "CFS refuses: {said}");
    let few = SHOOTDOWNS..3 * SHOOTDOWNS;
    assert!(few.contains(&lowered), "{said}");
}
