// SPDX-License-Identifier: Apache-2.0 OR MIT
//! "How to add an event" of `docs/ARCHITECTURE.md`, done with made-up ones.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use steady_decode::{Decoder, Row, TraceEvents};
use steady_diagnose::{Diagnoser, TraceDiagnosis};
use steady_events::Kind;

/// The one place: a row of the table.
static NAP: [Row; 1] = [Row {
    name: "vcpu_nap",
    system: None,
    fields: &["vcpu|v", "long"],
    read: |f| {
        f.u32(0)?;
        Some(Kind::Counted {
            name: if f.flag(1)? { "long nap" } else { "short nap" },
        })
    },
}];

const TRACE: &str = "\
       CPU 0/KVM-10 [000] 1.000001: kvm_entry: vcpu 0, rip 0xffffffff81000000
       CPU 0/KVM-10 [000] 1.000002: vcpu_nap: v=0 long=1
       CPU 0/KVM-10 [000] 1.000003: vcpu_nap: vcpu=0 long=0
       CPU 0/KVM-10 [000] 1.000004: vcpu_nap: v=0 long=1
       CPU 0/KVM-10 [000] 1.000005: vcpu_nap: torn
       CPU 0/KVM-10 [000] 1.000006: kvm_nap_call: call=1 nr_targets=2
       CPU 0/KVM-10 [000] 1.000008: kvm_nap_done: call=1 left=0
       CPU 0/KVM-10 [000] 1.000009: kvm_hv_hypercall_done: result=0
";

/// Ticks of a made-up remedy: one in words, one in numbers, and two that were not put into the
/// vCPU.
const TICKS: &str = "\
       CPU 0/KVM-10 [000] 1.000001: kvm_entry: vcpu 0, rip 0xffffffff81000000
       CPU 0/KVM-10 [000] 1.000002: kvm_nap_tick: vm 9 vcpu 0 late 10 how=injected
       CPU 0/KVM-10 [000] 1.000003: kvm_nap_tick: vm=9 vcpu=0 late=10 how=1
       CPU 0/KVM-10 [000] 1.000004: kvm_nap_tick: vm 9 vcpu 0 late 10 how=taken
       CPU 0/KVM-10 [000] 1.000005: kvm_nap_tick: vm=9 vcpu=0 late=10 how=3
       CPU 0/KVM-10 [000] 1.000006: kvm_exit: vcpu 0 reason HLT rip 0xffffffff81000000
";

fn diagnosed(decoder: Decoder) -> TraceDiagnosis {
    diagnosed_text(TRACE, decoder)
}

fn diagnosed_text(text: &'static str, decoder: Decoder) -> TraceDiagnosis {
    let reader = std::io::Cursor::new(text.as_bytes());
    let mut source = steady_tracefile::open_stream(Box::new(reader), "trace").unwrap();
    let mut events = TraceEvents::decoded(source.as_mut(), decoder);
    let mut diagnoser = Diagnoser::new();
    diagnoser
        .trace("trace", &mut events, &mut |_, _, _| Ok(()))
        .unwrap();
    diagnoser.finish().traces.remove(0)
}

#[test]
fn one_row_brings_a_made_up_event_from_a_line_of_text_to_its_count() {
    let trace = diagnosed(Decoder::with(&NAP));
    let counts = trace
        .counted
        .iter()
        .map(|row| (row.name.as_str(), row.count));
    assert_eq!(
        counts.collect::<Vec<_>>(),
        [("long nap", 2), ("short nap", 1)]
    );
    assert_eq!(trace.loss.unreadable, 1, "the torn line is reported");
}

#[test]
fn without_the_row_it_is_an_event_of_no_use_and_nothing_else_changes() {
    let trace = diagnosed(Decoder::default());
    assert_eq!((trace.counted.len(), trace.loss.unreadable), (0, 0));
    assert_eq!(trace.events, 8);
}

#[test]
fn a_remedy_of_any_name_needs_no_row_and_kvms_own_events_are_no_remedys() {
    let remedies = diagnosed(Decoder::default()).remedies;
    let names: Vec<_> = remedies.iter().map(|row| row.remedy.as_str()).collect();
    assert_eq!(names, ["nap"]);
    assert_eq!((remedies[0].calls, remedies[0].call_ns.total), (1, 2_000));
}

#[test]
fn a_tick_of_a_remedy_of_any_name_is_one_that_was_injected_or_none() {
    let trace = diagnosed_text(TICKS, Decoder::default());
    let injected: Vec<_> = trace
        .vms
        .iter()
        .map(|vm| vm.timers.ticks_injected)
        .collect();
    assert_eq!(injected, [Some(2)]);
}
