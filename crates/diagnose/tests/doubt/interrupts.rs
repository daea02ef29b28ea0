// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host's interrupts in exits that another thing brought, recorded or not.

use steady_diagnose::{CauseId, Confidence, FindingId};

use super::{Lines, the};

const HARD: (&str, &str) = (
    "irq_handler_entry: irq=24 name=eth0-rx-0",
    "irq_handler_exit: irq=24 ret=handled",
);
const SOFT: (&str, &str) = (
    "softirq_entry: vec=3 [action=NET_RX]",
    "softirq_exit: vec=3 [action=NET_RX]",
);

/// Exits of 5 ms, one each 10 ms, with these records in them, and an interrupt or a softirq.
fn long_exits(reason: &str, inside: &str, irq: Option<(&str, &str, u64)>) -> Lines {
    let mut lines = Lines::default();
    lines.switch(999_000, 3, ("swapper/3", 0), 'R', ("a", 9));
    lines.of(999_500, 0, "kvm_userspace_exit: reason KVM_EXIT_HLT (5)");
    for us in (1_000_000..3_000_000).step_by(10_000) {
        lines.enter(us, 0, 0);
        lines.exit(us + 5_000, 0, 0, reason);
        lines.of(us + 5_002, 0, inside);
        if let Some((begin, end, took_us)) = irq {
            lines.of(us + 5_010, 0, begin);
            lines.of(us + 5_010 + took_us, 0, end);
        }
    }
    lines.enter(3_000_000, 0, 0);
    lines
}

#[test]
fn the_hosts_interrupts_in_an_exit_are_not_the_time_of_what_the_exit_was_about() {
    for (reason, inside) in [
        (
            "IO_INSTRUCTION",
            "kvm_pio: pio_write at 0x40 size 1 count 1 val 0x10",
        ),
        (
            "IO_INSTRUCTION",
            "kvm_userspace_exit: reason KVM_EXIT_IO (2)",
        ),
        ("MSR_WRITE", "kvm_msr: msr_write 6e0 = 0x81cba98c958c9"),
        (
            "VMCALL",
            "kvm_hypercall: nr 0x5 a0 0x1 a1 0x0 a2 0x0 a3 0x0",
        ),
    ] {
        for (begin, end) in [HARD, SOFT] {
            let lines = long_exits(reason, inside, Some((begin, end, 4_900)));
            let found = lines.diagnosis(None).findings;
            let sure = found.iter().filter(|of| of.confidence == Confidence::High);
            let sure: Vec<_> = sure.map(|of| of.cause).collect();
            let at = format!("{reason} {inside} {begin}");
            assert_eq!(sure, [CauseId::HostInterrupts], "{at}");
            assert_eq!(found[0].cause, CauseId::HostInterrupts, "{at}");
        }
    }
}

#[test]
fn what_kvm_answers_itself_for_long_is_surely_its_own_only_beside_recorded_interrupts() {
    let pio = "kvm_pio: pio_write at 0x40 size 1 count 1 val 0x10";
    for (irq, sure) in [
        (None, Confidence::Medium),
        (Some((HARD.0, HARD.1, 40)), Confidence::High),
    ] {
        let diagnosis = long_exits("IO_INSTRUCTION", pio, irq).diagnosis(None);
        let slow = the(&diagnosis, FindingId::SlowExits);
        let found = (slow.cause, slow.confidence);
        assert_eq!(found, (CauseId::KernelDevice, sure));
        let irq_ns = irq.map_or(0, |irq| irq.2 * 1_000) * 200;
        let whole_ns = 200 * 5_000_000;
        assert_eq!(slow.lost_ns, whole_ns - irq_ns);
    }
    // Short ones need no such records.
    let mut lines = Lines::default();
    lines.of(999_000, 0, "kvm_userspace_exit: reason KVM_EXIT_HLT (5)");
    super::exits(&mut lines, "IO_INSTRUCTION", |_| vec![pio.to_owned()]);
    let diagnosis = lines.diagnosis(None);
    let slow = the(&diagnosis, FindingId::SlowExits);
    let found = (slow.cause, slow.confidence);
    assert_eq!(found, (CauseId::KernelDevice, Confidence::High));
}
