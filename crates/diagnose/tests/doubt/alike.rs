// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Causes that look like others: the deadline class, core scheduling, an unplugged pCPU, a
//! suspended host, a debugger, ticks of an unknown rate. None that a trace shows alike is sure.

use steady_diagnose::{CauseId, Confidence, Diagnosis, FindingId};

use super::{BY_INTERRUPT, IDLE, Lines, exits, notes, the};

const VCPU: (&str, i32) = ("CPU 0/KVM", 1001);
const TASK: (&str, i32) = ("cc1", 900);
/// A thread of the kernel, which need not let go of its pCPU.
const WORK: (&str, i32) = ("kworker/0:1", 901);

/// vCPU 0 runs for some microseconds, and is then kept off its pCPU by a thread that sleeps.
fn kept_off(lines: &mut Lines, times: u64, run_us: u64, off_us: u64, by: (&str, i32)) -> u64 {
    let mut us = 1_000_000;
    for _ in 0..times {
        lines.enter(us, 0, 0);
        lines.exit(us + run_us - 2, 0, 0, BY_INTERRUPT);
        lines.switch(us + run_us, 0, VCPU, 'R', by);
        us += run_us + off_us;
        let state = if by.1 == 0 { 'R' } else { 'S' };
        lines.switch(us, 0, by, state, VCPU);
    }
    lines.enter(us, 0, 0);
    us
}

fn found(diagnosis: &Diagnosis, id: FindingId) -> (CauseId, Confidence) {
    let finding = the(diagnosis, id);
    (finding.cause, finding.confidence)
}

#[test]
fn a_vcpu_of_the_deadline_class_uses_up_its_own_time() {
    for (priority, cause, sure) in [
        (120, CauseId::HostTask, Confidence::High),
        (-1, CauseId::RealTimeTasks, Confidence::Medium),
    ] {
        let (mut lines, mut us) = (Lines::default(), 1_000_000);
        for _ in 0..40 {
            lines.enter(us, 0, 0);
            lines.exit(us + 3_998, 0, 0, BY_INTERRUPT);
            lines.switch_at(us + 4_000, 0, (VCPU, priority), 'R', (TASK, 120));
            us += 10_000;
            lines.switch_at(us, 0, (TASK, 120), 'R', (VCPU, priority));
        }
        lines.enter(us, 0, 0);
        // That there is no limit of CPU time is known.
        let diagnosis = lines.diagnosis(notes(&[], Some("max 100000")));
        assert_eq!(found(&diagnosis, FindingId::Steal), (cause, sure));
    }
}

#[test]
fn an_idle_pcpu_beside_a_noted_limit_is_the_limits_by_the_periods_arithmetic_alone() {
    let (limit, other) = (CauseId::CpuMax, CauseId::IdleBeside);
    // How often, and for how long, the vCPU runs and its pCPU idles; the limit is 50 ms of 100 ms.
    for (times, run_us, off_us, cause) in [
        (60, 50_000, 50_000, limit),
        // One vCPU is stopped once a period.
        (60, 4_000, 4_000, other),
        // It runs for longer than its quota.
        (60, 75_000, 25_000, other),
        (1, 2_000_000, 50_000, other),
        // It waits for longer than its quota leaves of a period.
        (60, 35_000, 65_000, other),
    ] {
        let mut lines = Lines::default();
        kept_off(&mut lines, times, run_us, off_us, IDLE);
        let diagnosis = lines.diagnosis(notes(&[], Some("50000 100000")));
        let sure = match cause == limit {
            true => Confidence::High,
            false => Confidence::Medium,
        };
        let steal = found(&diagnosis, FindingId::Steal);
        assert_eq!(steal, (cause, sure), "{run_us} {off_us}");
    }
}

#[test]
fn where_a_vcpu_goes_on_elsewhere_the_thread_before_it_may_have_gone_too() {
    for (to, sure) in [(0, Confidence::High), (2, Confidence::Medium)] {
        let mut lines = Lines::default();
        let us = kept_off(&mut lines, 60, 5_000, 500, WORK);
        lines.exit(us + 2, 0, 0, BY_INTERRUPT);
        lines.switch(us + 4, 0, VCPU, 'R', WORK);
        for at in (us..us + 2_600_000).step_by(20_000) {
            lines.enter(at, 1, 1);
            lines.exit(at + 9_000, 1, 1, BY_INTERRUPT);
        }
        let from = if to == 0 { WORK } else { IDLE };
        lines.switch(us + 2_500_000, to, from, 'S', VCPU);
        lines.enter(us + 2_500_002, 0, to);
        let diagnosis = lines.diagnosis(None);
        let steal = found(&diagnosis, FindingId::Steal);
        assert_eq!(steal, (CauseId::HostTask, sure), "on pCPU {to}");
    }
}

#[test]
fn a_stall_in_which_no_pcpu_recorded_anything_may_be_the_hosts() {
    for (quiet, sure) in [(false, Confidence::High), (true, Confidence::Medium)] {
        let mut lines = Lines::default();
        let us = kept_off(&mut lines, 400, 150_000, 50, WORK);
        lines.exit(us + 2, 0, 0, BY_INTERRUPT);
        lines.switch(us + 4, 0, VCPU, 'R', WORK);
        let apart_us = if quiet { 390_000 } else { 9_000 };
        for at in (1_000_000..us + 400_000).step_by(9_000) {
            if at < us || (at - us) % apart_us < 9_000 {
                lines.switch(at, 3, ("a", 9), 'S', ("b", 10));
                lines.switch(at + 4_000, 3, ("b", 10), 'S', ("a", 9));
            }
        }
        lines.switch(us + 400_000, 0, WORK, 'S', VCPU);
        lines.enter(us + 400_002, 0, 0);
        let mut all: Vec<&str> = lines.text.lines().collect();
        all.sort_by_key(|line| {
            let time = line.split("d..2. ").nth(1).unwrap().split(':').next();
            time.map(|time| (time.len(), time))
        });
        lines.text = all.join("\n") + "\n";
        let diagnosis = lines.diagnosis(None);
        let stall = found(&diagnosis, FindingId::LongStall);
        assert_eq!(stall, (CauseId::HostTask, sure), "quiet: {quiet}");
    }
}

#[test]
fn a_short_idle_time_after_a_wake_up_may_be_core_schedulings() {
    let (mut lines, mut us) = (Lines::default(), 1_000_000);
    for _ in 0..300 {
        lines.enter(us, 0, 0);
        lines.exit(us + 500, 0, 0, "HLT");
        lines.switch(us + 510, 0, VCPU, 'S', IDLE);
        let woken = "sched_wakeup: comm=CPU 0/KVM pid=1001 prio=120 target_cpu=000";
        lines.line(us + 1_000, ("<idle>", 0), 1, woken);
        us += 1_600;
        lines.switch(us, 0, IDLE, 'R', VCPU);
    }
    lines.enter(us, 0, 0);
    let steal = found(&lines.diagnosis(None), FindingId::Steal);
    assert_eq!(steal, (CauseId::WakingPcpu, Confidence::Medium));
}

#[test]
fn what_goes_to_the_vmm_is_surely_a_devices_only_by_its_reason() {
    for (reason, to, sure) in [
        ("IO_INSTRUCTION", "KVM_EXIT_IO (2)", Confidence::High),
        ("EPT_MISCONFIG", "KVM_EXIT_MMIO (6)", Confidence::High),
        ("EXCEPTION_NMI", "KVM_EXIT_DEBUG (4)", Confidence::Medium),
        ("MSR_WRITE", "KVM_EXIT_X86_WRMSR (30)", Confidence::Medium),
        ("VMCALL", "KVM_EXIT_HYPERCALL (3)", Confidence::Medium),
    ] {
        let mut lines = Lines::default();
        exits(&mut lines, reason, |_| {
            vec![format!("kvm_userspace_exit: reason {to}")]
        });
        let slow = found(&lines.diagnosis(None), FindingId::SlowExits);
        assert_eq!(slow, (CauseId::UserDevice, sure), "{to}");
    }
}

#[test]
fn timers_are_surely_those_of_programs_only_beyond_the_ticks_of_any_kernel() {
    let (ticks, timers) = (CauseId::GuestTicks, CauseId::GuestTimers);
    let (medium, high) = (Confidence::Medium, Confidence::High);
    for (apart_us, halts, arms, cause, sure) in [
        // As many as a kernel of 1000 Hz has, or of 250 Hz with programs.
        (1_700, true, true, timers, medium),
        (6_000, true, true, ticks, medium),
        // A program may arm a timer as regularly as a kernel its tick.
        (4_000, false, true, ticks, medium),
        (4_000, true, true, ticks, medium),
        (70, true, true, timers, high),
        // No record shows what was armed.
        (70, true, false, ticks, medium),
        // Each of them may be a halt that does not exit.
        (70, false, true, timers, medium),
    ] {
        let mut lines = Lines::default();
        lines.switch(1_000_000, 3, ("b", 10), 'S', ("a", 9));
        for us in (1_000_010..3_000_000).step_by(apart_us) {
            let us = u64::try_from(us).unwrap();
            lines.enter(us, 0, 0);
            lines.exit(us + 20, 0, 0, "PREEMPTION_TIMER");
            lines.enter(us + 30, 0, 0);
            lines.exit(us + 40, 0, 0, "MSR_WRITE");
            if arms {
                lines.of(us + 42, 0, "kvm_msr: msr_write 6e0 = 0xf4240");
            }
            if halts && us / 100_000 != (us - u64::try_from(apart_us).unwrap()) / 100_000 {
                lines.enter(us + 50, 0, 0);
                lines.exit(us + 55, 0, 0, "HLT");
            }
        }
        let found = found(&lines.diagnosis(None), FindingId::TimerExits);
        assert_eq!(found, (cause, sure), "{apart_us} {halts} {arms}");
    }
}
