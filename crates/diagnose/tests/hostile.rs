// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any events in any order, at any times: no panic, and what must add up does.

use proptest::prelude::*;
use steady_decode::TraceEvents;
use steady_diagnose::{Analysis, DiagnoseError, Diagnoser, Outcome};
use steady_events::Kind;

mod any_events;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_order_of_events_panics_or_counts_twice(
        events in any_events::events(),
        with_returns in any::<bool>(),
    ) {
        let mut analysis = Analysis::default();
        analysis.boosts.with_returns = with_returns;
        let (mut exits, mut spins) = (0, 0);
        for event in &events {
            exits += u64::from(matches!(event.kind, Kind::Exit { .. }));
            spins += u64::from(matches!(event.kind, Kind::SpinBegin { .. }));
            analysis.event(event);
        }
        analysis.finish();
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
