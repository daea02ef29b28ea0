// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Limits of any period, names, priorities, interrupts and places that do not show their cause.

use steady_diagnose::{CauseId, Confidence, Finding, FindingId, StepId};

use super::{BY_INTERRUPT, IDLE, Lines, comm, notes, steps, the, turns};

const VCPU: (&str, i32) = ("CPU 0/KVM", 1001);

/// In each turn vCPU 0 runs and is switched out ready, and another thread runs until this state.
fn turns_with(
    lines: &mut Lines,
    (run_us, off_us): (u64, u64),
    priority: i16,
    rival: ((&str, i32), i16),
    state: char,
) {
    let mut us = 1_000_000;
    for turn in 0..40 {
        lines.enter(us, 0, 0);
        us += run_us + turn % 3;
        lines.exit(us - 2, 0, 0, BY_INTERRUPT);
        lines.switch_at(us, 0, (VCPU, priority), 'R', rival);
        us += off_us - turn % 3;
        lines.switch_at(us, 0, rival, state, (VCPU, priority));
    }
    lines.enter(us, 0, 0);
}

#[test]
fn a_neighbour_that_could_have_gone_on_may_hide_a_limit_that_the_notes_do_not_exclude() {
    let (medium, high) = (Confidence::Medium, Confidence::High);
    // The vCPU runs, and waits; how the neighbour leaves; whether the notes have that there is no
    // limit; how sure it is.
    let cases = [
        (20_000, 30_000, 'R', false, medium),
        (5_000, 15_000, 'R', false, medium),
        (3_000, 7_000, 'R', false, medium),
        (20_000, 30_000, 'R', true, high),
        // It slept by itself: the vCPU could run at once.
        (20_000, 30_000, 'S', false, high),
        // Slices of the scheduler, or ticks after the refills of a limit of 2.5 ms each 5 ms.
        (4_000, 4_000, 'R', false, medium),
        (4_000, 4_000, 'R', true, high),
    ];
    for (name, cause) in [
        ("batch", CauseId::HostTask),
        ("ksoftirqd/0", CauseId::Interrupts),
    ] {
        for (at, (run_us, off_us, state, noted, sure)) in cases.into_iter().enumerate() {
            let mut lines = Lines::default();
            let times = (run_us, off_us);
            turns_with(&mut lines, times, 120, ((name, 900), 120), state);
            let notes = noted.then(|| notes(&[], Some("max 100000"))).flatten();
            let diagnosis = lines.diagnosis(notes);
            let steal = the(&diagnosis, FindingId::Steal);
            let found = (steal.cause, steal.confidence);
            assert_eq!(found, (cause, sure), "{name}, case {at}");
        }
    }
}

#[test]
fn names_priorities_and_room_decide_what_is_said_of_a_thread_and_what_to_do() {
    let (medium, high, low) = (Confidence::Medium, Confidence::High, Confidence::Low);
    let (task, weigh) = (StepId::MoveHostTask, StepId::WeighVms);
    // Its own VMM's threads are named so, and nothing shows whose they are.
    let cases = [
        ("IO iothread1", CauseId::HostTask, medium, task),
        ("qemu-system-x86", CauseId::HostTask, medium, task),
        ("cc1", CauseId::HostTask, high, task),
        ("<...>", CauseId::Untold, low, StepId::RecordScheduler),
        ("ktimers/0", CauseId::HostTask, high, StepId::FindKernelWork),
        (
            "napi/eth0-12",
            CauseId::Interrupts,
            high,
            StepId::MoveInterrupts,
        ),
    ];
    for (name, cause, sure, first) in cases {
        let mut lines = Lines::default();
        turns(&mut lines, 10_000, vec![vec![(name, 900, 15_000)]; 30]);
        let diagnosis = lines.diagnosis(None);
        let steal = the(&diagnosis, FindingId::Steal);
        assert_eq!((steal.cause, steal.confidence), (cause, sure), "{name}");
        assert_eq!(steps(steal)[0], first, "{name}");
    }
    // With a pCPU that idles there is somewhere to go.
    let mut lines = Lines::default();
    lines.switch(900_000, 1, ("sh", 7), 'S', ("swapper/1", 0));
    lines.switch(1_000_100, 1, ("swapper/1", 0), 'R', ("sh", 7));
    turns(&mut lines, 10_000, vec![vec![("cc1", 900, 15_000)]; 30]);
    let diagnosis = lines.diagnosis(None);
    assert_eq!(steps(the(&diagnosis, FindingId::Steal)), [task, weigh]);
}

#[test]
fn of_many_threads_none_is_the_cause_alone() {
    let names: Vec<String> = (0..40).map(|at| format!("daemon-{at}")).collect();
    let mut lines = Lines::default();
    let one = |(at, tid): (usize, i32)| vec![(names[at % 40].as_str(), tid, 15_000)];
    turns(&mut lines, 10_000, (0..80).zip(2_000..).map(one));
    let diagnosis = lines.diagnosis(None);
    let steal = the(&diagnosis, FindingId::Steal);
    assert_eq!(steal.cause, CauseId::HostTask);
    let away = steal.next.iter().find(|of| of.id == StepId::MoveHostTask);
    assert_eq!(away.unwrap().name.as_deref(), Some("them"));
    // Half of it is not all of it.
    for (irqs_us, task_us, cause) in [
        (15_000, 17_000, CauseId::HostTask),
        (17_000, 15_000, CauseId::Interrupts),
    ] {
        let half = |at: usize| match at % 2 {
            0 => vec![("ksoftirqd/0", 15, irqs_us)],
            _ => vec![("nginx", 900, task_us)],
        };
        let mut lines = Lines::default();
        turns(&mut lines, 10_000, (0..40).map(half));
        let diagnosis = lines.diagnosis(None);
        let steal = the(&diagnosis, FindingId::Steal);
        let found = (steal.cause, steal.confidence);
        assert_eq!(found, (cause, Confidence::Medium));
    }
}

#[test]
fn what_lies_in_losses_makes_who_ran_less_sure_and_by_itself_shows_nothing() {
    for (off_us, cause, sure) in [
        (15_000, CauseId::HostTask, Confidence::Medium),
        (50, CauseId::Untold, Confidence::Low),
    ] {
        let mut lines = Lines::default();
        turns(&mut lines, 10_000, vec![vec![("cc1", 900, off_us)]; 30]);
        let us = 1_000_000 + 30 * (10_002 + off_us);
        lines.exit(us + 2, 0, 0, BY_INTERRUPT);
        lines.switch(us + 4, 0, VCPU, 'R', ("cc1", 900));
        lines.text.push_str("CPU:0 [LOST 1 EVENTS]\n");
        lines.enter(us + 200_000, 0, 0);
        let diagnosis = lines.diagnosis(None);
        let steal = the(&diagnosis, FindingId::Steal);
        assert_eq!((steal.cause, steal.confidence), (cause, sure), "{off_us}");
    }
}

#[test]
fn a_real_time_vcpu_behind_a_lesser_thread_was_stopped_by_the_kernel() {
    for (priority, rival, cause) in [
        (98, (("cc1", 900), 120), CauseId::RealTimeTasks),
        (98, (IDLE, 120), CauseId::RealTimeTasks),
        (98, (("cc1", 900), 97), CauseId::HostTask),
        (120, (("cc1", 900), 120), CauseId::HostTask),
    ] {
        let mut lines = Lines::default();
        turns_with(&mut lines, (950_000, 50_000), priority, rival, 'R');
        let diagnosis = lines.diagnosis(None);
        let steal = the(&diagnosis, FindingId::Steal);
        assert_eq!(steal.cause, cause, "{priority} {rival:?}");
        assert_eq!(steal.confidence, Confidence::Medium);
    }
}

#[test]
fn an_interrupt_whose_end_is_not_recorded_took_no_time_that_is_known() {
    let irq = "irq_handler_entry: irq=31 name=mlx5";
    let end = "irq_handler_exit: irq=31 ret=handled";
    for (ends, cause) in [(false, CauseId::HostTask), (true, CauseId::Interrupts)] {
        let (mut lines, mut us) = (Lines::default(), 1_000_000);
        for _ in 0..30 {
            lines.enter(us, 0, 0);
            us += 6_000;
            lines.exit(us - 2, 0, 0, BY_INTERRUPT);
            lines.switch(us, 0, VCPU, 'R', ("cc1", 900));
            lines.line(us + 50, ("cc1", 900), 0, irq);
            us += 5_000;
            if ends {
                lines.line(us - 50, ("cc1", 900), 0, end);
            }
            lines.switch(us, 0, ("cc1", 900), 'S', VCPU);
        }
        lines.enter(us, 0, 0);
        let diagnosis = lines.diagnosis(None);
        assert_eq!(the(&diagnosis, FindingId::Steal).cause, cause);
    }
}

#[test]
fn the_hosts_interrupts_are_surely_the_cause_where_they_took_the_time() {
    for (took_us, sure) in [(2, Confidence::Medium), (280, Confidence::High)] {
        let (mut lines, mut us) = (Lines::default(), 1_000_000);
        lines.switch(us - 9, 3, ("b", 10), 'S', ("a", 9));
        for _ in 0..2_000 {
            lines.enter(us, 0, 0);
            lines.exit(us + 500, 0, 0, BY_INTERRUPT);
            lines.of(us + 501, 0, "irq_handler_entry: irq=31 name=mlx5");
            lines.of(
                us + 501 + took_us,
                0,
                "irq_handler_exit: irq=31 ret=handled",
            );
            us += 800;
        }
        lines.enter(us, 0, 0);
        let diagnosis = lines.diagnosis(None);
        let slow = the(&diagnosis, FindingId::SlowExits);
        assert_eq!(
            (slow.cause, slow.confidence),
            (CauseId::HostInterrupts, sure)
        );
        let again = |of: &&Finding| of.id == FindingId::SlowExits;
        assert_eq!(diagnosis.findings.iter().filter(again).count(), 1);
    }
}

#[test]
fn one_exit_of_seconds_for_an_interrupt_is_not_the_interrupts_time() {
    let (mut lines, mut us) = (Lines::default(), 1_000_000);
    lines.switch(us - 9, 3, ("b", 10), 'S', ("a", 9));
    for turn in 0..2_000 {
        lines.enter(us, 0, 0);
        lines.exit(us + 5_000, 0, 0, BY_INTERRUPT);
        us += match turn {
            1_000 => {
                // The host goes on elsewhere.
                for at in (us + 9_000..us + 2_500_000).step_by(50_000) {
                    lines.switch(at, 3, ("a", 9), 'S', ("b", 10));
                    lines.switch(at + 9, 3, ("b", 10), 'S', ("a", 9));
                }
                2_500_000
            }
            _ => 5_003,
        };
    }
    lines.enter(us, 0, 0);
    let diagnosis = lines.diagnosis(None);
    assert!(
        diagnosis
            .findings
            .iter()
            .all(|of| of.id != FindingId::SlowExits)
    );
    let stall = the(&diagnosis, FindingId::LongStall);
    assert_eq!(
        (stall.cause, stall.confidence),
        (CauseId::KernelWork, Confidence::Low)
    );
}

#[test]
fn what_kvm_answers_without_a_record_may_be_a_doorbell() {
    let mut lines = Lines::default();
    lines.of(999_000, 0, "kvm_userspace_exit: reason KVM_EXIT_IO (2)");
    super::exits(&mut lines, "EPT_MISCONFIG", |_| Vec::new());
    let diagnosis = lines.diagnosis(None);
    let slow = the(&diagnosis, FindingId::SlowExits);
    assert_eq!(
        (slow.cause, slow.confidence),
        (CauseId::KernelDevice, Confidence::Medium)
    );
    assert!(!steps(slow).contains(&StepId::Virtio));
}

#[test]
fn a_vcpu_that_left_unseen_did_not_spend_its_exit_there() {
    let (mut lines, mut us) = (Lines::default(), 1_000_000);
    for _ in 0..100 {
        lines.enter(us, 0, 0);
        lines.exit(us + 10_000, 0, 0, BY_INTERRUPT);
        // Switches to a vCPU alone were recorded.
        us += 17_000;
        lines.switch(us, 0, ("cc1", 900), 'S', VCPU);
    }
    lines.enter(us, 0, 0);
    let diagnosis = lines.diagnosis(None);
    assert!(
        diagnosis
            .findings
            .iter()
            .all(|of| of.id != FindingId::SlowExits)
    );
    let steal = the(&diagnosis, FindingId::Steal);
    assert_eq!(
        (steal.cause, steal.confidence),
        (CauseId::Untold, Confidence::Low)
    );
    assert!(steal.at_most_ns.unwrap() > 600_000_000);
}

#[test]
fn silence_before_a_vcpu_is_known_or_while_the_vmm_has_it_is_not_the_hosts() {
    let stands = |lines: &Lines| {
        let diagnosis = lines.diagnosis(None);
        let mut found = diagnosis.findings.iter();
        found.any(|of| of.id == FindingId::HostStoodStill)
    };
    let run = |lines: &mut Lines, from_us: u64| {
        for us in (from_us..from_us + 400_000).step_by(1_000) {
            lines.enter(us, 0, 0);
            lines.exit(us + 900, 0, 0, BY_INTERRUPT);
        }
    };
    let mut before = Lines::default();
    before.switch(1_000_000, 1, ("sh", 7), 'S', ("a", 9));
    run(&mut before, 3_000_000);
    assert!(!stands(&before));
    for vmm in [false, true] {
        let mut within = Lines::default();
        within.switch(1_000_000, 1, ("sh", 7), 'S', ("a", 9));
        run(&mut within, 1_000_100);
        if vmm {
            within.enter(1_400_200, 0, 0);
            within.exit(1_400_300, 0, 0, "IO_INSTRUCTION");
            within.of(1_400_301, 0, "kvm_userspace_exit: reason KVM_EXIT_IO (2)");
        }
        run(&mut within, 3_400_000);
        assert_eq!(stands(&within), !vmm, "{}", comm(0));
    }
}
