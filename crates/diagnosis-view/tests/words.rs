// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the text say what a reader needs first, where numbers alone mislead? The traces are those
//! of `crates/diagnose/tests/cases`, whose answers are known.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::path::Path;

use steady_decode::TraceEvents;
use steady_diagnose::{Diagnoser, VmNotes};
use steady_diagnosis_view::terminal::{Options, text};

/// The text on a trace, in one line.
fn of(name: &str) -> String {
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../diagnose/tests/cases/inputs");
    let mut source = steady_tracefile::open(&inputs.join(format!("{name}.txt.zst"))).unwrap();
    let mut diagnoser = Diagnoser::new();
    let notes = std::fs::read(inputs.join(format!("{name}.txt.vms")));
    diagnoser.notes = notes.ok().map(|notes| VmNotes::parse(&notes).unwrap());
    let mut events = TraceEvents::new(source.as_mut());
    let read = diagnoser.trace(name, &mut events, &mut |_, _, _| Ok(()));
    read.unwrap();
    let text = text(&diagnoser.finish(), Options::default());
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_trace_that_lost_its_events_says_so_first() {
    let said = of("02-lost-while-out");
    let first = "vm1: vCPUs may have been ready and not run; fault: not known, as events were \
                 lost; low confidence. Why: the trace lost the events that would show whether \
                 they did, and what ran instead. VM: vm1 (thread 1001). Lost: up to 100 ms in \
                 losses of events, and 0.0 % of vm1's time";
    assert!(said.starts_with(first), "{said}");
}

#[test]
fn what_ran_while_a_limit_held_is_not_a_second_culprit() {
    let said = of("07-limit-beside-neighbour");
    let who = "who: a limit (cpu.max) 100.0 %; meanwhile ran db 100.0 % ";
    assert!(said.contains(who), "{said}");
}
