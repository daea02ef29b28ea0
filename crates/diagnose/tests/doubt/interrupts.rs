// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host's interrupts in exits that another thing brought, recorded or not; what to do about
//! exits for devices.

use steady_diagnose::{CauseId, Confidence, FindingId, Quantity, StepId};

use super::{Lines, the};

const HARD: (&str, &str) = (
    "irq_handler_entry: irq=24 name=eth0-rx-0",
    "irq_handler_exit: irq=24 ret=handled",
);
const SOFT: (&str, &str) = (
    "softirq_entry: vec=3 [action=NET_RX]",
    "softirq_exit: vec=3 [action=NET_RX]",
);

/// Exits of 5 ms, one each `every_us`, with these records in them, and an interrupt or a softirq.
fn long_exits(every_us: u64, reason: &str, inside: &str, irq: Option<(&str, &str, u64)>) -> Lines {
    let mut lines = Lines::default();
    lines.switch(999_000, 3, ("b", 10), 'S', ("a", 9));
    lines.of(999_500, 0, "kvm_userspace_exit: reason KVM_EXIT_HLT (5)");
    for us in (0..200).map(|at| 1_000_000 + at * every_us) {
        let out_us = us + every_us - 5_000;
        lines.enter(us, 0, 0);
        lines.exit(out_us, 0, 0, reason);
        lines.of(out_us + 2, 0, inside);
        if let Some((begin, end, took_us)) = irq {
            lines.of(out_us + 10, 0, begin);
            lines.of(out_us + 10 + took_us, 0, end);
        }
    }
    lines.enter(1_000_000 + 200 * every_us, 0, 0);
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
            let lines = long_exits(10_000, reason, inside, Some((begin, end, 4_900)));
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
fn what_the_hosts_interrupts_were_for_decides_what_to_do() {
    let (irqs, device) = (CauseId::HostInterrupts, CauseId::PassedThrough);
    let (medium, high) = (Confidence::Medium, Confidence::High);
    let begin = |name: &str| format!("irq_handler_entry: irq=61 name={name}");
    let soft = |of: &str| format!("softirq_entry: vec={of}]");
    let cases = [
        (
            begin("mlx5_comp0@pci:0000:3b:00.0"),
            irqs,
            high,
            StepId::MoveInterrupts,
        ),
        (
            begin("vfio-msix[0](0000:3b:00.0)"),
            device,
            medium,
            StepId::PostInterrupts,
        ),
        (
            begin("vfio-msi[0](0000:3b:00.0)"),
            device,
            medium,
            StepId::PostInterrupts,
        ),
        (
            begin("vfio-intx(0000:3b:00.0)"),
            device,
            medium,
            StepId::PostInterrupts,
        ),
        (soft("3 [action=NET_RX"), irqs, high, StepId::MoveInterrupts),
        (soft("9 [action=RCU"), irqs, high, StepId::OffloadRcu),
        (soft("1 [action=TIMER"), irqs, high, StepId::FewerHostTimers),
        (
            soft("8 [action=HRTIMER"),
            irqs,
            high,
            StepId::FewerHostTimers,
        ),
    ];
    for (begin, cause, sure, first) in cases {
        let end = if begin.starts_with("irq") {
            HARD.1
        } else {
            SOFT.1
        };
        for (reason, inside) in [
            ("EXTERNAL_INTERRUPT", "kvm_fpu: load"),
            ("MSR_WRITE", "kvm_msr: msr_write 6e0 = 0x81cba98c958c9"),
        ] {
            let lines = long_exits(10_000, reason, inside, Some((&begin, end, 4_900)));
            let diagnosis = lines.diagnosis(None);
            let slow = the(&diagnosis, FindingId::SlowExits);
            let found = (slow.cause, slow.confidence, super::steps(slow)[0]);
            assert_eq!(found, (cause, sure, first), "{reason} {begin}");
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
        let diagnosis = long_exits(10_000, "IO_INSTRUCTION", pio, irq).diagnosis(None);
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

#[test]
fn of_exits_and_the_interrupts_in_them_each_is_reported_for_its_own_part() {
    let device = "kvm_userspace_exit: reason KVM_EXIT_IO (2)";
    let (irqs, own) = (CauseId::HostInterrupts, CauseId::UserDevice);
    // How often an exit comes, and how long an interrupt in its 5 ms takes: parts of 5 % and more.
    for (every_us, took_us, causes) in [
        (10_000, 4_000, vec![irqs, own]),
        (20_000, 1_200, vec![own, irqs]),
        (55_000, 1_000, vec![own]),
        (80_000, 3_000, vec![]),
    ] {
        let irq = Some((HARD.0, HARD.1, took_us));
        let diagnosis = long_exits(every_us, "IO_INSTRUCTION", device, irq).diagnosis(None);
        let found = diagnosis.findings.iter();
        let found: Vec<_> = found.filter(|of| of.id == FindingId::SlowExits).collect();
        let all: Vec<CauseId> = found.iter().map(|of| of.cause).collect();
        assert_eq!(all, causes, "{every_us}");
        let own = found.iter().filter(|of| of.cause == own);
        for share in own.flat_map(|of| &of.checks[0].values) {
            assert_eq!(share.quantity, Quantity::Permille(1000), "{every_us}");
        }
    }
}

#[test]
fn what_kvm_answers_itself_is_long_by_its_own_time_and_where_few_exits_have_most_of_it() {
    let pio = "kvm_pio: pio_write at 0x40 size 1 count 1 val 0x10";
    // Exits each of which waits for its pCPU, or of which a few take 40 ms.
    for (waits, long, sure) in [
        (false, false, Confidence::High),
        (true, false, Confidence::High),
        (false, true, Confidence::Medium),
    ] {
        let (mut lines, mut us) = (Lines::default(), 1_000_000);
        lines.of(999_000, 0, "kvm_userspace_exit: reason KVM_EXIT_HLT (5)");
        for at in 0..1_000 {
            lines.enter(us, 0, 0);
            lines.exit(us + 400, 0, 0, "IO_INSTRUCTION");
            lines.of(us + 402, 0, pio);
            us += 480;
            if waits {
                lines.switch(us - 50, 0, ("CPU 0/KVM", 1001), 'R', ("cc1", 900));
                us += 520;
                lines.switch(us - 50, 0, ("cc1", 900), 'S', ("CPU 0/KVM", 1001));
            }
            us += if long && at % 125 == 0 { 40_000 } else { 0 };
        }
        lines.enter(us, 0, 0);
        lines.switch(us + 10, 3, ("b", 10), 'S', ("a", 9));
        let diagnosis = lines.diagnosis(None);
        let slow = the(&diagnosis, FindingId::SlowExits);
        let found = (slow.cause, slow.confidence);
        assert_eq!(found, (CauseId::KernelDevice, sure), "{waits} {long}");
    }
}

#[test]
fn a_device_is_to_be_replaced_only_where_there_is_another() {
    for (access, instead) in [
        (
            "kvm_pio: pio_read at 0x1f0 size 4 count 1 val 0x0",
            StepId::Virtio,
        ),
        (
            "kvm_pio: pio_write at 0x3f8 size 1 count 1 val 0x0",
            StepId::Virtio,
        ),
        (
            "kvm_pio: pio_read at 0x608 size 4 count 1 val 0x0",
            StepId::GuestClock,
        ),
        (
            "kvm_pio: pio_write at 0x70 size 1 count 1 val 0x0",
            StepId::GuestClock,
        ),
        (
            "kvm_pio: pio_write at 0xcf8 size 4 count 1 val 0x0",
            StepId::LookAtGuest,
        ),
        (
            "kvm_pio: pio_write at 0x80 size 1 count 1 val 0x0",
            StepId::LookAtGuest,
        ),
        // Of a port that has no name here it may be a virtio device's own.
        (
            "kvm_pio: pio_write at 0xc010 size 2 count 1 val 0x0",
            StepId::LookAtGuest,
        ),
    ] {
        let mut lines = Lines::default();
        super::exits(&mut lines, "IO_INSTRUCTION", |_| {
            let user = "kvm_userspace_exit: reason KVM_EXIT_IO (2)";
            vec![access.to_owned(), user.to_owned()]
        });
        let diagnosis = lines.diagnosis(None);
        let slow = the(&diagnosis, FindingId::SlowExits);
        assert_eq!(slow.cause, CauseId::UserDevice, "{access}");
        assert_eq!(super::steps(slow)[0], instead, "{access}");
    }
}
