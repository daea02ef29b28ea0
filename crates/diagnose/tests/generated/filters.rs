// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The collection's text as other recordings would have it: events left out by a filter, lines that
//! are gone without a mark or stand twice, a pCPU without records. No wrong answer may be sure.

use steady_decode::TraceEvents;
use steady_diagnose::Diagnoser;

use super::causes::{self, OWN};
use super::{Calibration, Layout, bytes, collection, draw};

/// For each change one in this many traces of the collection is read, others for each.
const EVERY: usize = 29;

/// What a recording makes of a line; nothing if it is not in the file.
type Change = fn(&str, u64) -> Option<String>;

fn without(line: &str, part: &str) -> Option<String> {
    (!line.contains(part)).then(|| line.to_owned())
}

const CHANGES: [(&str, Change); 12] = [
    ("no entries", |line, _| without(line, "kvm_entry")),
    ("no exits", |line, _| without(line, "kvm_exit")),
    ("no wake-ups", |line, _| without(line, "sched_wak")),
    ("no migrations", |line, _| without(line, "sched_migrate")),
    ("no switches", |line, _| without(line, "sched_switch")),
    ("no ways to the VMM", |line, _| {
        without(line, "kvm_userspace_exit")
    }),
    ("no interrupts", |line, _| without(line, "irq_")),
    // `prev_state == 0` as a filter.
    ("switches of ready threads alone", |line, _| {
        let sleeps = line.contains("sched_switch")
            && !line.contains("prev_state=R")
            && !line.contains(" R ==>");
        (!sleeps).then(|| line.to_owned())
    }),
    ("a tenth is gone", |line, at| {
        (draw(at) % 10 < 9).then(|| line.to_owned())
    }),
    ("half is gone", |line, at| {
        (draw(at) % 4 < 2).then(|| line.to_owned())
    }),
    ("twice", |line, _| Some(format!("{line}\n{line}"))),
    ("no records of one pCPU", |line, _| without(line, "[000]")),
];

#[test]
fn what_a_filter_leaves_out_makes_no_wrong_answer_sure() {
    let mut all = Calibration::default();
    for (of, (what, change)) in CHANGES.iter().enumerate() {
        for case in collection(2).iter().skip(of).step_by(EVERY) {
            // Binary layouts have no lines, and mail breaks them.
            let layouts = [Layout::TraceDat, Layout::PerfData, Layout::Mail];
            if layouts.contains(&case.layout) {
                continue;
            }
            let host = causes::make(case.cause, case.size);
            let text = bytes(&host, case.recorder, case.layout, OWN);
            let text = String::from_utf8(text).expect("text");
            let lines = text.lines().zip(0..);
            let kept: Vec<String> = lines.filter_map(|(line, at)| change(line, at)).collect();
            let text = kept.join("\n") + "\n";
            let reader = Box::new(std::io::Cursor::new(text.into_bytes()));
            let Ok(mut source) = steady_tracefile::open_stream(reader, "made") else {
                continue;
            };
            let mut diagnoser = Diagnoser::new();
            let mut events = TraceEvents::new(source.as_mut());
            if diagnoser
                .trace("made", &mut events, &mut |_, _, _| Ok(()))
                .is_err()
            {
                continue;
            }
            let mut one = Calibration::default();
            one.add(case, &diagnoser.finish());
            let named = |text: &String| format!("{what}: {text}");
            one.wrong_with_high = one.wrong_with_high.iter().map(named).collect();
            all = all.join(one);
        }
    }
    println!("{}", all.record("filtered"));
    let wrong = &all.wrong_with_high;
    assert!(
        wrong.is_empty(),
        "{} wrong with high confidence: {wrong:#?}",
        wrong.len()
    );
}
