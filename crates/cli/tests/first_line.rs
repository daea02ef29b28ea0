// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the first sentence of an answer have what stalls, in which VM, whose fault it is and how
//! sure that is, for every input whose answer is known?

use std::path::Path;
use std::process::{Command, Stdio};

/// Every input whose answer is known, and the first sentence of its answer.
const FIRST: [(&str, &str); 22] = [
    (
        "01-own-events-only",
        "vm1: vCPUs are ready and do not run; fault: the host (stress-ng); medium confidence.",
    ),
    (
        "02-lost-while-out",
        "vm1: vCPUs may have been ready and not run; fault: not known, as events were \
         lost; low confidence.",
    ),
    (
        "03-one-4s-freeze-of-one-of-8-vcpus",
        "vm1: a vCPU was ready and did not run for 4.00 s; fault: the host (backup); \
         medium confidence.",
    ),
    (
        "04-one-2s-dstate",
        "vm1: a vCPU waited in the host (D state) for 2.00 s; fault: the host's memory; \
         medium confidence.",
    ),
    (
        "05-vmm-holds-the-vcpu",
        "vm1: vCPU threads sleep though their guests have not halted; fault: its VMM; \
         medium confidence.",
    ),
    (
        "06-one-vm-ids-apart",
        "vm1: vCPUs are ready and do not run; fault: the VM's own vCPUs, on too few pCPUs; \
         medium confidence.",
    ),
    (
        "07-limit-beside-neighbour",
        "web: vCPUs are ready and do not run; fault: its limit (cpu.max); medium confidence.",
    ),
    (
        "08-one-exit-to-the-vmm-has-the-time",
        "vm1: exits for EPT_VIOLATION take much time; fault: its VMM; medium confidence.",
    ),
    (
        "09-exits-only-storm",
        "vm1: exits for npf come in a storm; fault: the guest, or KVM; medium confidence.",
    ),
    (
        "10-arm64-irq",
        "vm1: exits for IRQ take much time; fault: not shown; low confidence.",
    ),
    (
        "11-clock-goes-back",
        "vm1: vCPUs are ready and do not run; fault: the host (batch); medium confidence.",
    ),
    (
        "12-tsc-clock",
        "vm1: vCPUs are ready and do not run; fault: the host (batch); medium confidence.",
    ),
    (
        "13-timers-of-programs",
        "vm1: the guest leaves to arm timers, and when they expire; fault: the guest; \
         medium confidence.",
    ),
    (
        "14-vhost-waits-vcpu-blocked",
        "vm1: vhost-1000, which serves it, waits for its pCPU; fault: the host (backup); \
         medium confidence.",
    ),
    (
        "15-host-overcommitted",
        "host: vCPUs are ready and do not run; fault: the host, with too few pCPUs; \
         medium confidence.",
    ),
    (
        "16-quoted-printable",
        "vm1: exits for EPT_VIOLATION take much time; fault: the host's memory; medium \
         confidence.",
    ),
    (
        "perf-kvm-stat-live.txt",
        "perf-kvm-stat-live.txt: exits for IO_INSTRUCTION take much time; fault: its \
         VMM; low confidence.",
    ),
    (
        "kvm_stat.txt",
        "openeuler-20_03: KVM's events are counted without times; fault: not shown; low \
         confidence.",
    ),
    (
        "virsh-domstats.txt",
        "vm-a: vCPUs are ready and do not run; fault: not shown; low confidence.",
    ),
    (
        "perf-sched-latency.txt",
        "perf-sched-latency.txt: vCPUs are ready and do not run; fault: not shown; low \
         confidence.",
    ),
    (
        "perf-stat-kvm.txt",
        "perf-stat-kvm.txt: KVM's events are counted without times; fault: not shown; \
         low confidence.",
    ),
    (
        "guest-soft-lockup.txt",
        "guest-soft-lockup.txt: the kernel's log: soft lockup, on a machine named host (CPU and \
         length not in it); fault: a vCPU off its pCPU, if a guest wrote it; medium confidence.",
    ),
];

#[test]
fn the_first_sentence_has_what_stalls_in_which_vm_whose_fault_it_is_and_how_sure_that_is() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let place = tempfile::tempdir().unwrap();
    for (name, first) in FIRST {
        if name.ends_with(".txt") {
            let table = crates.join("tables/tests/cases").join(name);
            std::fs::copy(table, place.path().join(name)).unwrap();
        } else {
            let trace = crates.join(format!("diagnose/tests/cases/inputs/{name}.txt"));
            std::fs::copy(trace.with_extension("txt.zst"), place.path().join(name)).unwrap();
            let notes = trace.with_extension("txt.vms");
            let _none = std::fs::copy(notes, place.path().join(format!("{name}.vms")));
        }
        let output = Command::new(env!("CARGO_BIN_EXE_steady"))
            .args(["diagnose", name])
            .current_dir(place.path())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap().replace('\n', " ");
        assert!(said.starts_with(first), "{name}: {said}");
    }
}
