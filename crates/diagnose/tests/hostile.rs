// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any events in any order: no panic, and what must add up does.

use proptest::prelude::*;
use steady_diagnose::{Analysis, Outcome, Perfetto};
use steady_events::{Event, ExitReason, Isa, Kind, Task, TaskState};

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
        Just(Kind::HostTimer),
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
        let (mut exits, mut spins) = (0, 0);
        for &(time_ns, cpu, tid, kind) in &events {
            exits += u64::from(matches!(kind, Kind::Exit { .. }));
            spins += u64::from(matches!(kind, Kind::SpinBegin { .. }));
            let event = Event { time_ns, cpu, tid, comm: b"x", kind };
            let effect = analysis.event(&event);
            drawing.event(&event, effect, &analysis).unwrap();
        }
        analysis.finish();
        let counted: u64 = analysis.vcpus.iter().map(|vcpu| {
            vcpu.exits.by_reason.iter().map(|(_, times)| times.count()).sum::<u64>() + vcpu.exits.uncounted
        }).sum();
        prop_assert_eq!(counted, exits);
        let outcomes: u64 = analysis.boosts.tallies.iter().map(|tally| {
            Outcome::ALL.iter().map(|&outcome| tally.of(outcome)).sum::<u64>()
        }).sum();
        prop_assert!(outcomes <= spins + analysis.seen.boost);
    }
}
