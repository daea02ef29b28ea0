// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a trace hides without a mark: by a filter, on pCPUs that were not recorded, in losses that
//! text does not show, below the host, and in tables that are cut off.

use steady_diagnose::{CauseId, Confidence, EvidenceId, Finding, FindingId};

use super::{BY_INTERRUPT, IDLE, Lines, Run, comm, the, turns};

fn has(finding: &Finding, id: EvidenceId) -> bool {
    finding.evidence.iter().any(|of| of.id == id)
}

#[test]
fn where_only_switches_of_vcpus_are_recorded_who_ran_between_is_never_sure() {
    let cases: [(&str, bool, u64, bool); 4] = [
        ("backup", true, 60, true),
        ("kworker/0:1", true, 60, true),
        ("backup", false, 60, false),
        // A few say no more.
        ("backup", true, 1, true),
    ];
    for (name, filtered, times, hidden) in cases {
        let mut lines = Lines {
            filtered,
            ..Lines::default()
        };
        let rival: Run<'_> = (name, 2900, 9_000);
        turns(&mut lines, 6_000, (0..times).map(|_| vec![rival]));
        let diagnosis = lines.diagnosis(None);
        let steal = the(&diagnosis, FindingId::Steal);
        assert_eq!(diagnosis.traces[0].only_vcpus, hidden, "{name} {times}");
        assert_eq!(has(steal, EvidenceId::OnlyVcpus), hidden, "{name} {times}");
        if hidden {
            assert!(steal.confidence < Confidence::High, "{name}");
        }
    }
}

#[test]
fn no_program_is_surely_the_cause_where_its_pcpu_is_silent_for_longer_than_a_turn() {
    // Who ran, its priority, for how long in each wait, and whether that is doubted.
    let cases: [(&str, i16, u64, bool); 5] = [
        ("mysqld", 120, 400_000, true),
        ("mysqld", 130, 400_000, true),
        ("mysqld", 120, 40_000, false),
        // It comes first, or need not let go.
        ("mysqld", 100, 400_000, false),
        ("kworker/0:1", 120, 400_000, false),
    ];
    for (name, prio, wait_us, doubted) in cases {
        let (mut lines, mut us) = (Lines::default(), 1_000_000);
        let (vcpu, rival) = (("CPU 0/KVM", 1001), (name, 2900));
        for _ in 0..8 {
            lines.enter(us, 0, 0);
            lines.exit(us + 600_000, 0, 0, BY_INTERRUPT);
            us += 600_001;
            lines.switch_at(us, 0, (vcpu, 120), 'R', (rival, prio));
            // Elsewhere work goes on.
            for at in (us..us + wait_us).step_by(9_000) {
                lines.switch(at, 3, ("a", 9), 'S', ("b", 10));
                lines.switch(at + 4_000, 3, ("b", 10), 'S', ("a", 9));
            }
            us += wait_us + 9_000;
            lines.switch_at(us, 0, (rival, prio), 'S', (vcpu, 120));
        }
        let diagnosis = lines.diagnosis(None);
        let steal = the(&diagnosis, FindingId::Steal);
        let said = has(steal, EvidenceId::PcpuSilent);
        assert_eq!(said, doubted, "{name} {prio} {wait_us}");
        let sure = steal.confidence == Confidence::High;
        assert_eq!(sure, !doubted, "{name} {prio} {wait_us}");
    }
}

/// vCPU 0 leaves for a device in its VMM; each `every`th time that takes `long_us`.
fn device(short_us: u64, every: u64, long_us: u64) -> Lines {
    let (mut lines, mut us) = (Lines::default(), 1_000_000);
    let vcpu = ("CPU 0/KVM", 1001);
    for at in 0..600 {
        lines.enter(us, 0, 0);
        lines.exit(us + 100, 0, 0, "EPT_MISCONFIG");
        lines.of(
            us + 101,
            0,
            "kvm_mmio: mmio write len 4 gpa 0xfebc0018 val 0x1",
        );
        lines.of(us + 102, 0, "kvm_userspace_exit: reason KVM_EXIT_MMIO (6)");
        us += 100 + if at % every == 0 { long_us } else { short_us };
        if at % 100 == 99 {
            lines.switch(us, 0, vcpu, 'S', IDLE);
            lines.switch(us + 5, 0, IDLE, 'R', vcpu);
            us += 10;
        }
    }
    lines.enter(us, 0, 0);
    lines
}

#[test]
fn a_device_is_not_surely_what_takes_long_where_most_of_its_exits_are_short() {
    let (medium, high) = (Confidence::Medium, Confidence::High);
    for (short_us, every, long_us, sure) in [
        (15, 50, 20_000, medium),
        (15, 3, 420, medium),
        (400, 50, 420, high),
        (60, 50, 70, high),
    ] {
        let diagnosis = device(short_us, every, long_us).diagnosis(None);
        let exits = the(&diagnosis, FindingId::SlowExits);
        let is = (exits.cause, exits.confidence);
        assert_eq!(is, (CauseId::UserDevice, sure), "{short_us} {long_us}");
    }
}

#[test]
fn a_thread_of_unknown_process_that_may_be_the_vmms_is_not_surely_a_stranger() {
    let cases = [
        ("iou-wrk-990", 2900, true),
        ("iou-sqp-1000", 2900, true),
        ("iou-wrk-7000", 2900, false),
        ("dump_thread", 2900, true),
        ("get_dirtyrate", 2900, true),
        ("touch_pages", 2900, true),
        ("virtio-blk-io", 2900, true),
        ("virtio-net-rx", 2900, true),
        ("threadpool-work", 2900, true),
        ("ioeventfd-work", 2900, true),
        // By its number.
        ("worker", 1010, true),
        ("mysqld", 1010, true),
        ("mysqld", 2900, false),
        ("kswapd0", 1010, false),
    ];
    for (name, tid, may_be) in cases {
        let mut lines = Lines::default();
        turns(&mut lines, 10_000, vec![vec![(name, tid, 15_000)]; 30]);
        let diagnosis = lines.diagnosis(None);
        let steal = the(&diagnosis, FindingId::Steal);
        let said = has(steal, EvidenceId::MayBeOwnVmm);
        let sure = steal.confidence == Confidence::High;
        assert_eq!((said, sure), (may_be, !may_be), "{name} {tid}");
    }
}

#[test]
fn exits_about_many_places_are_summed_by_what_they_are() {
    // The fault's error, how many parts of memory, and the cause.
    for (error, parts, cause) in [
        (0x18b, 1, CauseId::WriteProtected),
        (0x18b, 128, CauseId::WriteProtected),
        (0x18b, 700, CauseId::WriteProtected),
        (0x182, 128, CauseId::MappingMemory),
        (0x182, 700, CauseId::MappingMemory),
    ] {
        let (mut lines, mut us) = (Lines::default(), 1_000_000);
        lines.switch(us, 0, IDLE, 'R', ("CPU 0/KVM", 1001));
        for at in 0..2_100_u64 {
            lines.enter(us, 0, 0);
            lines.exit(us + 20, 0, 0, "EPT_VIOLATION");
            let address = (at % parts) << 26;
            let fault = "kvm_page_fault: vcpu 0 rip 0xffffffff81000000 address";
            let fault = format!("{fault} 0x{address:016x} error_code {error:#x}");
            lines.of(us + 21, 0, &fault);
            us += 40;
        }
        lines.enter(us, 0, 0);
        let diagnosis = lines.diagnosis(None);
        let exits = the(&diagnosis, FindingId::SlowExits);
        assert_eq!(exits.cause, cause, "{error:#x} {parts}");
        assert_eq!(exits.culprits[0].permille, 1000, "{:?}", exits.culprits);
        let gain = exits.next[0].gain.as_ref().unwrap();
        assert_eq!(
            (gain.removes_ns, gain.leaves_ns),
            (exits.lost_ns, 0),
            "{parts}"
        );
        let share = &exits.evidence[0];
        let text = format!("{share:?}");
        assert!(text.contains("Count(2100)"), "{text}");
        assert!(text.contains("\"max\", quantity: Ns(20000)"), "{text}");
    }
}

#[test]
fn a_host_that_stands_still_often_is_found_where_several_vcpus_ran() {
    for (vcpus, times, still_ms, found) in [
        (4, 3, 300, true),
        (4, 4, 300, true),
        (4, 10, 200, true),
        (4, 50, 60, true),
        (1, 10, 200, false),
        // It is silent most of the time.
        (4, 10, 2_500, false),
    ] {
        let (mut lines, mut us) = (Lines::default(), 1_000_000);
        for vcpu in 0..vcpus {
            let (cpu, name) = (u32::try_from(vcpu).unwrap(), comm(vcpu));
            lines.switch(us, cpu, IDLE, 'R', (&name, 1001 + vcpu));
        }
        for _ in 0..times {
            for _ in 0..700 {
                for vcpu in 0..vcpus {
                    let cpu = u32::try_from(vcpu).unwrap();
                    lines.enter(us, vcpu, cpu);
                    lines.exit(us + 900, vcpu, cpu, BY_INTERRUPT);
                    lines.enter(us + 905, vcpu, cpu);
                }
                us += 1_000;
            }
            us += still_ms * 1_000;
        }
        (0..vcpus).for_each(|vcpu| lines.exit(us, vcpu, u32::try_from(vcpu).unwrap(), "HLT"));
        let diagnosis = lines.diagnosis(None);
        let is = diagnosis.findings.iter();
        let is = is.filter(|of| of.id == FindingId::HostStoodStill).count() == 1;
        assert_eq!(is, found, "{vcpus} vCPUs, {times} of {still_ms} ms");
    }
}
