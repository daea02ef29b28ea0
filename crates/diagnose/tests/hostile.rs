// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any events in any order, at any times: no panic, and what must add up does.

use proptest::prelude::*;
use steady_decode::TraceEvents;
use steady_diagnose::{Analysis, DiagnoseError, Diagnoser, Outcome, Perfetto, Picture};
use steady_events::{Event, ExitReason, Isa, Kind, RemedyEvent, RemedyStep, Task, TaskState};

fn remedy() -> impl Strategy<Value = Kind<'static>> {
    (0..3_u64, 0..4_u32).prop_map(|(call, step)| {
        Kind::Remedy(RemedyEvent {
            remedy: "nap",
            call: Some(call),
            step: match step {
                0 => RemedyStep::Begun { targets: None },
                1 => RemedyStep::Done {
                    left: Some(u32::MAX),
                },
                _ => RemedyStep::Other {
                    event: "kvm_nap_wake",
                },
            },
        })
    })
}

/// What happens inside exits, and interrupts of the host.
fn of_exits() -> impl Strategy<Value = Kind<'static>> {
    prop_oneof![
        (any::<bool>(), any::<bool>()).prop_map(|(begins, soft)| Kind::HostIrq { begins, soft }),
        any::<u16>().prop_map(|port| Kind::Port { port }),
        any::<u64>().prop_map(|address| Kind::Mmio { address }),
        any::<u64>().prop_map(|address| Kind::PageFault { address }),
        any::<u32>().prop_map(|reason| Kind::UserExit { reason }),
    ]
}

fn kind() -> impl Strategy<Value = Kind<'static>> {
    let tid = || prop_oneof![0..4_i32, 10..16_i32, any::<i32>()];
    let task = move || {
        tid().prop_map(|tid| Task {
            tid,
            comm: b"CPU 1/KVM",
        })
    };
    let state = prop_oneof![
        Just(TaskState::Runnable),
        Just(TaskState::Blocked),
        Just(TaskState::Uninterruptible),
        Just(TaskState::Dead)
    ];
    let number = || {
        prop_oneof![
            Just(None),
            (0..4_u32).prop_map(Some),
            any::<u32>().prop_map(Some)
        ]
    };
    let address = || prop_oneof![0..6_u64, any::<u64>()];
    let code = prop_oneof![Just(40_u64), Just(12), Just(1), Just(52), any::<u64>()];
    let vector = || prop_oneof![Just(0xfc_u8), Just(0xec), any::<u8>()];
    prop_oneof![
        number().prop_map(|vcpu| Kind::Entry { vcpu }),
        (number(), code, address(), any::<bool>()).prop_map(|(vcpu, code, rip, svm)| Kind::Exit {
            vcpu,
            reason: ExitReason::new(if svm { Isa::Svm } else { Isa::Vmx }, code),
            rip,
            interrupt: 0,
        }),
        (task(), state, task()).prop_map(|(prev, state, next)| Kind::Switch { prev, state, next }),
        (tid(), any::<u32>()).prop_map(|(tid, cpu)| Kind::Wakeup { tid, cpu }),
        (tid(), 0..3_u32).prop_map(|(tid, to)| Kind::Migrate { tid, to }),
        (0..4_u32, vector()).prop_map(|(apic, vector)| Kind::IpiAccepted { apic, vector }),
        (address(), number()).prop_map(|(target, number)| Kind::BoostTry { target, number }),
        any::<i64>().prop_map(|value| Kind::BoostReturn { value }),
        (address(), address()).prop_map(|(vcpu, vm)| Kind::SpinBegin {
            vcpu: Some(vcpu),
            vm: Some(vm)
        }),
        Just(Kind::SpinEnd),
        (address(), address(), number()).prop_map(|(vcpu, vm, number)| Kind::VcpuLoad {
            vcpu,
            vm: Some(vm),
            number
        }),
        (address(), 0..9_u32).prop_map(|(work, target)| Kind::CallQueued {
            target,
            work,
            flush: None
        }),
        address().prop_map(|work| Kind::CallDone { work }),
        (0..5_u64).prop_map(|reason| Kind::TlbFlush { reason, pages: 1 }),
        Just(Kind::ShootdownBegin),
        Just(Kind::ShootdownEnd),
        (any::<u32>(), any::<u64>()).prop_map(|(index, value)| Kind::MsrWrite { index, value }),
        any::<u64>().prop_map(|value| Kind::TimerProgrammed { value }),
        Just(Kind::TickInjected),
        Just(Kind::TickTaken),
        remedy(),
        Just(Kind::Counted { name: "nap" }),
        Just(Kind::HostTimer),
        of_exits(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_order_of_events_panics_or_counts_twice(
        events in prop::collection::vec((any::<u64>(), 0..3_u32, 8..14_i32, kind()), 0..300),
        with_returns in any::<bool>(),
    ) {
        let mut analysis = Analysis::default();
        analysis.boosts.with_returns = with_returns;
        let mut drawing = Perfetto::new(Vec::new()).unwrap();
        let mut picture = Picture::default();
        let (mut exits, mut spins) = (0, 0);
        for &(time_ns, cpu, tid, kind) in &events {
            exits += u64::from(matches!(kind, Kind::Exit { .. }));
            spins += u64::from(matches!(kind, Kind::SpinBegin { .. }));
            let event = Event { time_ns, cpu, tid, comm: b"x", kind };
            let effect = analysis.event(&event);
            drawing.event(&event, effect, &analysis).unwrap();
            picture.event(&event, effect, &analysis);
        }
        analysis.finish();
        let picture = picture.finish();
        prop_assert!(picture.rows.iter().all(|row| row.pieces.len() <= 2 * 2048));
        for waits in &analysis.rivals.waits {
            let by = waits.by.values().fold(0, |sum: u64, ns| sum.saturating_add(*ns));
            prop_assert_eq!(by, waits.total_ns);
        }
        let counted: u64 = analysis.vcpus.iter().map(|vcpu| {
            let counts = vcpu.exits.by_reason.iter().map(|(_, times)| times.count());
            counts.sum::<u64>() + vcpu.exits.uncounted
        }).sum();
        prop_assert_eq!(counted, exits);
        let outcomes: u64 = analysis.boosts.tallies.iter().map(|tally| {
            Outcome::ALL.iter().map(|&outcome| tally.of(outcome)).sum::<u64>()
        }).sum();
        prop_assert!(outcomes <= spins + analysis.seen.boost);
    }

    #[test]
    fn no_times_of_a_trace_keep_it_from_a_diagnosis(
        lines in prop::collection::vec((any::<u64>(), 0..2_u32, 0..4_usize, 8..12_u32), 1..120),
    ) {
        let bodies = [
            "kvm_entry: vcpu 0, rip 0xffffffff81000000",
            "kvm_exit: vcpu 0 reason PAUSE_INSTRUCTION rip 0xffffffff81000000 info1 0x0 info2 0x0",
            "kvm_exit: vcpu 0 reason PREEMPTION_TIMER rip 0x401b98 info1 0x0 info2 0x0",
            "sched_switch: prev_comm=a prev_pid=9 prev_prio=120 prev_state=R ==> next_comm=b \
             next_pid=10 next_prio=120",
        ];
        let trace: String = lines.iter().map(|&(ns, cpu, body, tid)| {
            let (seconds, ns) = (ns / 1_000_000_000, ns % 1_000_000_000);
            format!("{:>16}-{tid} [{cpu:03}] {seconds}.{ns:09}: {}\n", "CPU 0/KVM", bodies[body])
        }).collect();
        let reader = std::io::Cursor::new(trace.into_bytes());
        let mut source = steady_tracefile::open_stream(Box::new(reader), "trace").unwrap();
        let mut diagnoser = Diagnoser::new();
        let read = diagnoser.trace(
            "trace",
            &mut TraceEvents::new(source.as_mut()),
            &mut |_, _, _| Ok(()),
        );
        let without_vcpus = lines.iter().all(|&(_, _, body, _)| body == 3);
        match read {
            Err(DiagnoseError::NothingToSay { .. }) => prop_assert!(without_vcpus),
            other => prop_assert!(other.is_ok() && !without_vcpus),
        }
        let diagnosis = diagnoser.finish();
        prop_assert_eq!(diagnosis.traces.len(), usize::from(!without_vcpus));
    }
}
