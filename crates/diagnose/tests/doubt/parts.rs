// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is little of a VM's time and much of one vCPU's, or little of each of many reasons and much
//! in all; what threads lose that serve a VM and were not woken. Each was once an all-clear.

use steady_diagnose::{CauseId, Confidence, Finding, FindingId, StepId};

use super::{BY_INTERRUPT, Lines, steps, the};

const VCPU: (&str, i32) = ("CPU 0/KVM", 1001);
const TASK: (&str, i32) = ("backup", 900);
const MAIN: (&str, i32) = ("qemu-kvm", 1000);

fn swapper(cpu: u32) -> (&'static str, i32) {
    [("swapper/0", 0), ("swapper/1", 0)][usize::try_from(cpu).unwrap()]
}

/// Loses a time of vCPU 0, in microseconds from and up to.
type Loses = fn(&mut Lines, u64, u64);

fn ready(lines: &mut Lines, us: u64, to_us: u64) {
    lines.switch(us, 0, VCPU, 'R', TASK);
    lines.switch(to_us, 0, TASK, 'S', VCPU);
}

fn sleeps(lines: &mut Lines, us: u64, to_us: u64) {
    lines.switch(us, 0, VCPU, 'S', swapper(0));
    lines.switch(to_us, 0, swapper(0), 'R', VCPU);
}

fn stuck(lines: &mut Lines, us: u64, to_us: u64) {
    lines.switch(us, 0, VCPU, 'D', swapper(0));
    lines.switch(to_us, 0, swapper(0), 'R', VCPU);
}

fn works(_: &mut Lines, _: u64, _: u64) {}

/// vCPU 0 of several, each on its own pCPU, loses `lost_us` of each 50 ms.
fn one_of(vcpus: i32, lost_us: u64, turns: u64, loses: Loses) -> Lines {
    let mut lines = Lines::default();
    lines.switch(999_000, 99, ("b", 10), 'S', ("a", 9));
    for vcpu in 1..vcpus {
        lines.enter(999_500, vcpu, u32::try_from(vcpu).unwrap());
    }
    for us in (0..turns).map(|at| 1_000_000 + at * 50_000) {
        lines.enter(us, 0, 0);
        let out_us = us + 50_000 - lost_us - 20;
        lines.exit(out_us, 0, 0, "WBINVD");
        loses(&mut lines, out_us + 5, us + 49_990);
        // The others do not stand still.
        for vcpu in 1..vcpus {
            let cpu = u32::try_from(vcpu).unwrap();
            lines.exit(us + 49_992, vcpu, cpu, BY_INTERRUPT);
            lines.enter(us + 49_993, vcpu, cpu);
        }
    }
    lines.enter(1_000_000 + turns * 50_000, 0, 0);
    lines
}

#[test]
fn one_vcpu_that_loses_much_of_its_time_is_found_in_a_vm_of_any_size() {
    let kinds: [(Loses, FindingId); 4] = [
        (ready, FindingId::Steal),
        (sleeps, FindingId::Asleep),
        (stuck, FindingId::Uninterruptible),
        (works, FindingId::SlowExits),
    ];
    for (loses, id) in kinds {
        for vcpus in [1, 3, 8, 64] {
            for lost_us in [7_000, 48_000] {
                let diagnosis = one_of(vcpus, lost_us, 40, loses).diagnosis(None);
                let found = diagnosis.findings.iter().find(|of| of.id == id);
                let found = found.unwrap_or_else(|| panic!("{id:?} of {vcpus}, {lost_us}"));
                let share = lost_us / 50 / u64::try_from(vcpus).unwrap();
                match found.vcpu {
                    Some(vcpu) => {
                        assert_eq!((vcpu, found.vm.as_deref()), (0, Some("vm1")));
                        assert!(found.lost_permille.abs_diff(lost_us / 50) < 3, "{found:?}");
                        assert!(share < 50, "{id:?}: it is much of the VM's time");
                    }
                    None => assert!(found.lost_permille.abs_diff(share) < 3, "{found:?}"),
                }
                if id == FindingId::Steal {
                    let who = found.culprits[0].name.as_deref();
                    assert_eq!((found.cause, who), (CauseId::HostTask, Some("backup")));
                }
            }
        }
    }
    // What is neither a tenth of its time nor as long as a stall that is felt is not.
    for (lost_us, turns) in [(4_000, 40), (25_000, 3)] {
        let diagnosis = one_of(64, lost_us, turns, ready).diagnosis(None);
        let worth = |of: &&Finding| of.id == FindingId::Steal || of.vcpu.is_some();
        assert_eq!(
            diagnosis.findings.iter().find(worth),
            None,
            "{lost_us} {turns}"
        );
    }
}

#[test]
fn of_one_vcpu_a_single_stall_and_a_finding_about_its_vm_are_said_once() {
    let mut lines = one_of(64, 20, 10, works);
    lines.exit(1_500_010, 0, 0, BY_INTERRUPT);
    ready(&mut lines, 1_500_015, 1_900_000);
    let diagnosis = lines.diagnosis(None);
    let stalls = diagnosis.findings.iter();
    let stalls: Vec<_> = stalls.filter(|of| of.cause == CauseId::HostTask).collect();
    assert_eq!(stalls.len(), 1, "{stalls:#?}");
    assert_eq!((stalls[0].id, stalls[0].vcpu), (FindingId::LongStall, None));
    // Of two, the worse one is named.
    let lines = one_of(128, 25_000, 8, |lines, us, to_us| {
        let (second, cron) = (("CPU 1/KVM", 1002), ("cron", 901));
        lines.switch(us - 10_000, 1, second, 'R', cron);
        ready(lines, us, to_us);
        lines.switch(to_us, 1, cron, 'S', second);
    });
    let diagnosis = lines.diagnosis(None);
    let steal = diagnosis.findings.iter();
    let steal: Vec<_> = steal.filter(|of| of.id == FindingId::Steal).collect();
    let worst: Vec<_> = steal.iter().map(|of| of.vcpu).collect();
    assert_eq!(worst, [Some(1)], "{steal:#?}");
}

#[test]
fn exits_of_many_reasons_that_take_little_each_and_much_in_all_are_found() {
    let names = [
        "CPUID",
        "MSR_READ",
        "MSR_WRITE",
        "CR_ACCESS",
        "DR_ACCESS",
        "INVLPG",
        "WBINVD",
        "XSETBV",
        "RDPMC",
        "APIC_ACCESS",
        "VMCALL",
        "RDTSCP",
    ];
    // How many reasons, how long each exit takes of 100 us, and whether it is much in all.
    for (count, out_us, found) in [
        (12, 55, true),
        (12, 12, true),
        (12, 8, false),
        (3, 14, true),
        (3, 9, false),
        (1, 4, false),
    ] {
        let mut lines = Lines::default();
        lines.switch(999_000, 3, ("b", 10), 'S', ("a", 9));
        for at in 0..10_000 {
            let us = 1_000_000 + at * 100;
            lines.enter(us, 0, 0);
            let name = names[usize::try_from(at).unwrap() % count];
            lines.exit(us + 100 - out_us, 0, 0, name);
        }
        lines.enter(2_000_000, 0, 0);
        let diagnosis = lines.diagnosis(None);
        let slow = diagnosis.findings.iter();
        let slow: Vec<_> = slow.filter(|of| of.id == FindingId::SlowExits).collect();
        assert_eq!(
            slow.len(),
            usize::from(found),
            "{count} {out_us}: {slow:#?}"
        );
        for slow in slow {
            assert_eq!(slow.of.as_deref(), Some("many reasons"));
            assert_eq!(slow.confidence, Confidence::Low);
            assert!(slow.lost_permille.abs_diff(out_us * 10) < 3, "{slow:#?}");
        }
    }
}

#[test]
fn where_short_exits_are_long_what_is_below_the_host_stopped_it() {
    let user = "kvm_userspace_exit: reason KVM_EXIT_IO (2)";
    let pio = "kvm_pio: pio_write at 0x3f8 size 1 count 1 val 0x41";
    let (stopped, handling) = (CauseId::HostStopped, CauseId::Handling);
    // How long a CPUID, and an access to a device of the VMM, keeps the vCPU of 50 ms.
    for (cpuid_us, io_us, cause, device) in [
        (10_000, 10_000, Some(stopped), Confidence::Medium),
        (3_000, 10_000, Some(stopped), Confidence::Medium),
        (0, 10_000, None, Confidence::High),
    ] {
        let (mut lines, mut us) = (Lines::default(), 1_000_000);
        lines.switch(999_000, 3, ("b", 10), 'S', ("a", 9));
        for _ in 0..60 {
            lines.enter(us, 0, 0);
            lines.exit(us + 10_000, 0, 0, "IO_INSTRUCTION");
            lines.of(us + 10_002, 0, pio);
            lines.of(us + 10_004, 0, user);
            us += 10_000 + io_us;
            if cpuid_us > 0 {
                lines.enter(us, 0, 0);
                lines.exit(us + 10_000, 0, 0, "CPUID");
                us += 10_000 + cpuid_us;
            }
        }
        lines.enter(us, 0, 0);
        let diagnosis = lines.diagnosis(None);
        let of = |name: &str| {
            let mut found = diagnosis.findings.iter();
            found.find(|found| found.of.as_deref() == Some(name))
        };
        assert_eq!(of("CPUID").map(|of| of.cause), cause, "{cpuid_us}");
        let io = of("IO_INSTRUCTION").unwrap();
        assert_eq!(
            (io.cause, io.confidence),
            (CauseId::UserDevice, device),
            "{cpuid_us}"
        );
    }
    // Many short ones are the guest's.
    let (mut lines, mut us) = (Lines::default(), 1_000_000);
    lines.switch(999_000, 3, ("b", 10), 'S', ("a", 9));
    for _ in 0..5_000 {
        lines.enter(us, 0, 0);
        lines.exit(us + 30, 0, 0, "CPUID");
        us += 60;
    }
    lines.enter(us, 0, 0);
    let diagnosis = lines.diagnosis(None);
    assert_eq!(the(&diagnosis, FindingId::SlowExits).cause, handling);
}

#[test]
fn who_keeps_a_vcpu_off_comes_before_another_that_spins_at_an_unknown_place() {
    let mut lines = Lines::default();
    let second = ("CPU 1/KVM", 1002);
    for us in (0..60).map(|at| 1_000_000 + at * 40_000) {
        for spin in 0..18 {
            let us = us + spin * 2_000;
            lines.enter(us, 0, 0);
            lines.exit(us + 100, 0, 0, "PAUSE_INSTRUCTION");
        }
        lines.enter(us + 36_010, 1, 1);
        lines.exit(us + 39_990, 1, 1, BY_INTERRUPT);
        lines.switch(us + 39_995, 1, second, 'R', TASK);
        lines.switch(us + 75_995, 1, TASK, 'S', second);
    }
    let mut sorted: Vec<&str> = lines.text.lines().collect();
    let at = |line: &&str| line.split("d..2. ").nth(1).unwrap()[..10].to_owned();
    sorted.sort_by_key(at);
    lines.text = sorted.join("\n") + "\n";
    let mut findings = lines.diagnosis(None).findings.into_iter();
    let first = findings.next().unwrap();
    assert_eq!(
        (first.id, first.cause),
        (FindingId::Steal, CauseId::HostTask)
    );
    let spins = findings
        .find(|of| of.id == FindingId::PauseUnknown)
        .unwrap();
    assert!(spins.lost_permille > first.lost_permille, "{spins:#?}");
}

/// The thread that serves vCPU 0 is off its pCPU for 70 of 100 ms, after it was woken or was
/// switched out ready; `rival` runs meanwhile.
fn served(server: (&str, i32), rival: (&str, i32), woken: bool, process: i32) -> Lines {
    let mut lines = Lines::default();
    if process > 0 {
        lines.process = match process {
            1000 => Some(|tid| if tid == 900 { 900 } else { 1000 }),
            _ => Some(|tid| if tid == 1001 { 1000 } else { 900 }),
        };
    }
    let wakes = |of: (&str, i32), cpu: u32| {
        format!(
            "sched_wakeup: comm={} pid={} prio=120 target_cpu={cpu:03}",
            of.0, of.1
        )
    };
    for us in (0..30).map(|at| 1_000_000 + at * 100_000) {
        lines.enter(us, 0, 0);
        lines.exit(us + 10_000, 0, 0, "HLT");
        lines.of(us + 10_010, 0, &wakes(server, 1));
        lines.switch(us + 10_020, 0, VCPU, 'S', swapper(0));
        if !woken {
            lines.switch(us + 10_030, 1, rival, 'S', server);
            lines.switch(us + 12_000, 1, server, 'R', rival);
        }
        lines.switch(
            us + 82_000,
            1,
            rival,
            if rival.1 == 0 { 'R' } else { 'S' },
            server,
        );
        lines.line(us + 82_100, server, 1, &wakes(VCPU, 0));
        lines.switch(us + 82_200, 1, server, 'S', rival);
        lines.switch(us + 82_300, 0, swapper(0), 'R', VCPU);
    }
    lines
}

#[test]
fn a_thread_that_serves_a_vm_waits_too_where_it_was_preempted_or_a_limit_holds_it() {
    let (task, limit) = (CauseId::HostTask, CauseId::CpuMax);
    let cases = [
        // The server, its process, who runs, whether it was woken, and the cause.
        (MAIN, 1000, TASK, true, Some(task)),
        (MAIN, 1000, TASK, false, Some(task)),
        (MAIN, 1000, swapper(1), true, Some(limit)),
        (MAIN, 1000, swapper(1), false, Some(limit)),
        (("vhost-1000", 1050), 0, TASK, false, Some(task)),
        (MAIN, 0, TASK, false, Some(task)),
        // A program of the host that was preempted, and wakes a vCPU after that, does not show to
        // serve it.
        (("iperf", 950), 900, TASK, false, None),
        (("iperf", 950), 900, TASK, true, Some(task)),
    ];
    for (at, (server, process, rival, woken, cause)) in cases.into_iter().enumerate() {
        let diagnosis = served(server, rival, woken, process).diagnosis(None);
        let Some(cause) = cause else {
            assert_eq!(diagnosis.findings, [], "case {at}");
            continue;
        };
        let found = the(&diagnosis, FindingId::ServerWaits);
        assert_eq!(
            (found.cause, found.of.as_deref()),
            (cause, Some(server.0)),
            "case {at}"
        );
        assert_eq!(found.confidence, Confidence::Medium);
        let least = if woken { 710 } else { 690 };
        assert!(found.lost_permille >= least, "case {at}: {found:#?}");
        let first = match cause {
            CauseId::CpuMax => StepId::RaiseServerLimit,
            _ => StepId::MoveServer,
        };
        assert_eq!(steps(found)[0], first, "case {at}");
    }
}
