// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads that are there for what they do: pollers, recorders, the kernel's, and those of a
//! real-time priority. Each was once to be moved, or to be weighed less, with high confidence.

use steady_diagnose::{CauseId, Confidence, EvidenceId, FindingId, StepId};

use super::{BY_INTERRUPT, Lines, steps, the, turns};

const VCPU: (&str, i32) = ("CPU 0/KVM", 1001);

#[test]
fn a_threads_role_decides_what_is_said_of_it_and_what_to_do() {
    let (medium, high) = (Confidence::Medium, Confidence::High);
    let (task, leave, less) = (
        StepId::MoveHostTask,
        StepId::LeavePoller,
        StepId::RecordLess,
    );
    let (work, host) = (StepId::FindKernelWork, CauseId::HostTask);
    let cases = [
        ("pmd-c03/id:8", CauseId::Poller, medium, leave),
        ("pmd61", CauseId::Poller, medium, leave),
        ("lcore-worker-3", CauseId::Poller, medium, leave),
        ("dpdk-worker3", CauseId::Poller, medium, leave),
        ("vpp_wk_0", CauseId::Poller, medium, leave),
        ("reactor_1", CauseId::Poller, medium, leave),
        ("pmdaproc", host, high, task),
        ("trace-cmd", CauseId::Recorder, high, less),
        ("perf", CauseId::Recorder, high, less),
        ("bpftrace", CauseId::Recorder, high, less),
        ("steady", CauseId::Recorder, high, less),
        ("perfect", host, high, task),
        ("kswapd0", host, high, work),
        ("kcompactd1", host, high, work),
        ("khugepaged", host, high, work),
        ("ksmd", host, high, work),
        ("md0_raid6", host, high, work),
        ("md127_resync", host, high, work),
        ("mdadm", host, high, task),
        ("kworker/u8:1", host, high, work),
        ("rcuc/0", host, high, work),
        // Whose device, or whose VM, is not shown.
        (
            "irq/55-vfio-msi",
            CauseId::PassedThrough,
            medium,
            StepId::PostInterrupts,
        ),
        (
            "irq/45-mlx5_com",
            CauseId::Interrupts,
            high,
            StepId::MoveInterrupts,
        ),
        (
            "CPU 0/TCG",
            CauseId::OtherVm,
            medium,
            StepId::FewerVcpusOnHost,
        ),
        ("kvm-nx-lpage-re", host, medium, work),
        ("migration", host, medium, task),
        ("live_migration", host, medium, task),
    ];
    for (name, cause, sure, first) in cases {
        for rounds in [30, 1] {
            let mut lines = Lines::default();
            let off_us = if rounds == 1 { 400_000 } else { 15_000 };
            // One wait is a stall of a VM, and many are steal.
            let run_us = if rounds == 1 { 30_000_000 } else { 10_000 };
            turns(&mut lines, run_us, vec![vec![(name, 900, off_us)]; rounds]);
            let diagnosis = lines.diagnosis(None);
            let of = |id| diagnosis.findings.iter().find(|of| of.id == id);
            let found = of(FindingId::Steal).or_else(|| of(FindingId::LongStall));
            let found = found.unwrap_or_else(|| panic!("{name}: {:#?}", diagnosis.findings));
            assert_eq!(found.cause, cause, "{name}");
            assert!(found.confidence <= sure, "{name}: {found:#?}");
            if rounds == 30 {
                assert_eq!((found.confidence, steps(found)[0]), (sure, first), "{name}");
            } else if cause != CauseId::OtherVm {
                assert_eq!(steps(found)[0], first, "{name}");
            }
        }
    }
}

#[test]
fn no_weight_is_advised_where_who_ran_comes_first_by_its_priority() {
    let lower = StepId::LowerRealTime;
    for (rival, prio, first, lowers) in [
        (("CPU 0/KVM", 2001), 49, lower, true),
        (("CPU 0/KVM", 2001), -1, lower, true),
        (("CPU 0/KVM", 2001), 120, StepId::FewerVcpusOnHost, false),
        (("rtapp", 900), 9, StepId::MoveHostTask, true),
        (("make", 900), 120, StepId::MoveHostTask, false),
    ] {
        let (mut lines, mut us) = (Lines::default(), 1_000_000);
        lines.process = Some(|tid| tid / 1000 * 1000);
        for _ in 0..30 {
            lines.enter(us, 0, 0);
            lines.exit(us + 9_998, 0, 0, BY_INTERRUPT);
            lines.switch_at(us + 10_000, 0, (VCPU, 120), 'R', (rival, prio));
            us += 25_000;
            lines.switch_at(us, 0, (rival, prio), 'S', (VCPU, 120));
        }
        lines.enter(us, 0, 0);
        let diagnosis = lines.diagnosis(None);
        let steal = the(&diagnosis, FindingId::Steal);
        let told = steps(steal);
        assert_eq!(
            (told[0], told.contains(&lower)),
            (first, lowers),
            "{rival:?} {prio}"
        );
        let weights = [StepId::WeighVms, StepId::ShareOrSplit, StepId::MoveOtherVm];
        let weighs = told.iter().any(|step| weights.contains(step));
        assert_eq!(weighs, !lowers, "{rival:?} {prio}");
        let said = |of: &steady_diagnose::Evidence| of.id == EvidenceId::RivalRealTime;
        assert_eq!(steal.evidence.iter().any(said), lowers, "{rival:?} {prio}");
    }
    // A weak priority of its own comes before what others do.
    for (own, first) in [(139, StepId::WeighVms), (120, StepId::MoveHostTask)] {
        let (mut lines, mut us) = (Lines::default(), 1_000_000);
        for _ in 0..30 {
            lines.enter(us, 0, 0);
            lines.exit(us + 9_998, 0, 0, BY_INTERRUPT);
            lines.switch_at(us + 10_000, 0, (VCPU, own), 'R', (("make", 900), 120));
            us += 25_000;
            lines.switch_at(us, 0, (("make", 900), 120), 'S', (VCPU, own));
        }
        lines.enter(us, 0, 0);
        let diagnosis = lines.diagnosis(None);
        assert_eq!(steps(the(&diagnosis, FindingId::Steal))[0], first, "{own}");
    }
}
