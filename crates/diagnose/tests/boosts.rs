// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boosts made by hand, with outcomes that are known.

use steady_diagnose::{Analysis, Outcome};
use steady_events::{Event, ExitReason, Gap, Isa, Kind, Task, TaskState};

/// VMs are at these addresses, vCPUs at `vm + tid`.
const VM: u64 = 0xffff_0000;
const RIP: u64 = 0xffff_ffff_8100_0010;
const CALL: u8 = 0xfc;

/// A host under construction; each event comes a microsecond after the one before.
struct Host {
    analysis: Analysis,
    now_ns: u64,
}

impl Host {
    /// A VM of three: thread 10 (vCPU 0) on pCPU 0, 11 (vCPU 1) and 12 (vCPU 2) wait on pCPU 1,
    /// where thread 99 runs, or on pCPU 0.
    fn new() -> Self {
        let mut analysis = Analysis::default();
        analysis.boosts.with_returns = true;
        let mut host = Self {
            analysis,
            now_ns: 0,
        };
        for (number, tid) in [(0, 10), (1, 11), (2, 12)] {
            let cpu = u32::from(tid != 10);
            host.at(
                cpu,
                tid,
                Kind::VcpuLoad {
                    vcpu: VM + u64::from(number),
                    vm: Some(VM),
                    number: Some(number),
                },
            );
            host.at(cpu, tid, Kind::Entry { vcpu: Some(number) });
            host.exit(cpu, tid, 1);
            if tid != 10 {
                host.switch(1, tid, 99, TaskState::Runnable);
            }
        }
        host
    }

    fn at(&mut self, cpu: u32, tid: i32, kind: Kind<'static>) {
        self.now_ns += 1000;
        self.analysis.event(&Event {
            time_ns: self.now_ns,
            cpu,
            tid,
            comm: b"CPU",
            process: 0,
            gap: Gap::None,
            kind,
        });
    }

    fn exit(&mut self, cpu: u32, tid: i32, code: u64) {
        let reason = ExitReason::new(Isa::Vmx, code);
        self.at(
            cpu,
            tid,
            Kind::Exit {
                vcpu: None,
                reason,
                rip: RIP,
                interrupt: 0,
                address: 0,
            },
        );
    }

    fn switch(&mut self, cpu: u32, from: i32, to: i32, state: TaskState) {
        let task = |tid| Task {
            tid,
            comm: b"CPU".as_slice(),
            prio: None,
        };
        self.at(
            cpu,
            from,
            Kind::Switch {
                prev: task(from),
                state,
                next: task(to),
            },
        );
    }

    /// vCPU 0 leaves by a pause-loop exit and KVM begins to look.
    fn spin(&mut self) {
        self.at(0, 10, Kind::Entry { vcpu: Some(0) });
        self.exit(0, 10, 40);
        self.at(
            0,
            10,
            Kind::SpinBegin {
                vcpu: Some(VM),
                vm: Some(VM),
            },
        );
    }

    fn boost(&mut self, number: u32) {
        let kind = Kind::BoostTry {
            target: VM + u64::from(number),
            number: Some(number),
        };
        self.at(0, 10, kind);
    }

    fn returned(&mut self, value: i64) {
        self.at(0, 10, Kind::BoostReturn { value });
    }

    fn end(&mut self) {
        self.at(0, 10, Kind::SpinEnd);
    }

    /// vCPU 0 sends a function call to the vCPU with this APIC id.
    fn call(&mut self, apic: u32) {
        let vector = CALL;
        self.at(0, 10, Kind::IpiAccepted { apic, vector });
    }

    /// vCPU 0 spins and vCPU 1 is boosted, whereupon its pCPU switches to this thread.
    fn boost_1_and_run(mut self, thread: i32) -> Vec<(Outcome, u64)> {
        self.spin();
        self.boost(1);
        self.switch(1, 99, thread, TaskState::Runnable);
        self.returned(1);
        self.end();
        self.outcomes()
    }

    fn outcomes(mut self) -> Vec<(Outcome, u64)> {
        self.analysis.finish();
        let tally = &self.analysis.boosts.tallies[0];
        let counts = Outcome::ALL.map(|outcome| (outcome, tally.of(outcome)));
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }
}

#[test]
fn a_boosted_vcpu_that_its_pcpu_switches_to_next_ran_next() {
    let outcomes = Host::new().boost_1_and_run(11);
    assert_eq!(outcomes, [(Outcome::RanNext, 1)]);
}

#[test]
fn another_vcpu_in_its_place_is_a_scheduler_mismatch() {
    let outcomes = Host::new().boost_1_and_run(12);
    assert_eq!(outcomes, [(Outcome::SchedulerMismatch, 1)]);
}

#[test]
fn a_yielder_that_goes_on_while_its_choice_shares_the_pcpu_is_a_scheduler_mismatch() {
    let mut host = Host::new();
    host.at(1, 99, Kind::Migrate { tid: 11, to: 0 });
    host.spin();
    host.boost(1);
    host.returned(1);
    host.end();
    assert_eq!(host.outcomes(), [(Outcome::SchedulerMismatch, 1)]);
}

#[test]
fn a_choice_that_has_not_run_when_the_yielder_chooses_again_failed() {
    let mut host = Host::new();
    for _ in 0..2 {
        host.spin();
        host.boost(1);
        host.returned(1);
        host.end();
    }
    host.switch(1, 99, 11, TaskState::Runnable);
    let expected = [(Outcome::RanNext, 1), (Outcome::SchedulerMismatch, 1)];
    assert_eq!(host.outcomes(), expected);
}

#[test]
fn a_yielder_that_keeps_its_pcpu_may_have_several_choices_under_way() {
    let mut host = Host::new();
    host.at(2, 99, Kind::Migrate { tid: 12, to: 2 });
    host.spin();
    for number in [1, 2] {
        host.boost(number);
        host.returned(2);
    }
    host.end();
    // It looks again before either ran, which proves nothing against them.
    host.spin();
    host.end();
    host.switch(1, 99, 11, TaskState::Runnable);
    host.switch(2, 0, 98, TaskState::Runnable);
    let expected = [
        (Outcome::RanNext, 1),
        (Outcome::SchedulerMismatch, 1),
        (Outcome::LostOpportunity, 1),
    ];
    assert_eq!(host.outcomes(), expected);
}

#[test]
fn boosting_one_that_has_no_ipi_while_another_has_is_an_overboost() {
    let mut host = Host::new();
    host.call(2);
    assert_eq!(host.boost_1_and_run(11), [(Outcome::Overboost, 1)]);
}

#[test]
fn boosting_the_receiver_of_the_ipi_is_right() {
    let mut host = Host::new();
    host.call(1);
    assert_eq!(host.boost_1_and_run(11), [(Outcome::RanNext, 1)]);
}

#[test]
fn an_ipi_that_was_taken_is_waited_for_no_longer() {
    let mut host = Host::new();
    host.call(2);
    host.switch(1, 99, 12, TaskState::Runnable);
    host.at(1, 12, Kind::Entry { vcpu: Some(2) });
    host.exit(1, 12, 1);
    host.switch(1, 12, 99, TaskState::Runnable);
    assert_eq!(host.boost_1_and_run(11), [(Outcome::RanNext, 1)]);
}

#[test]
fn boosting_one_woken_from_a_halt_for_a_spinner_without_ipis_is_an_overboost() {
    let mut host = Host::new();
    host.switch(1, 99, 11, TaskState::Runnable);
    host.switch(1, 11, 99, TaskState::Blocked);
    host.at(1, 99, Kind::Wakeup { tid: 11, cpu: 1 });
    assert_eq!(host.boost_1_and_run(11), [(Outcome::Overboost, 1)]);
}

#[test]
fn finding_nobody_while_one_stands_ready_is_a_lost_opportunity() {
    let mut host = Host::new();
    host.spin();
    host.end();
    assert_eq!(host.outcomes(), [(Outcome::LostOpportunity, 1)]);
}

#[test]
fn finding_nobody_when_nobody_stands_ready_is_no_failure() {
    let mut host = Host::new();
    host.switch(1, 99, 11, TaskState::Blocked);
    host.switch(1, 11, 12, TaskState::Blocked);
    host.spin();
    host.end();
    assert_eq!(host.outcomes(), [(Outcome::NobodyReady, 1)]);
}

#[test]
fn a_choice_that_the_scheduler_refuses_is_refused() {
    let mut host = Host::new();
    host.spin();
    host.boost(1);
    host.returned(0);
    host.boost(2);
    host.returned(-3);
    host.end();
    assert_eq!(host.outcomes(), [(Outcome::Refused, 1)]);
}
