// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Are counts of instructions right when signals come, threads come and go, blocks are left in
//! the middle; are children named? The oracle is arithmetic: `signals.c` runs loops of as many
//! instructions a turn, and says where its data lies.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::AtomicBool;

use steady_memtrace::capture::{self, Children, Ending, Summary};
use steady_memtrace::{Record, check};

use crate::support::Bench;

const SOURCE: &str = include_str!("signals.c");
const TURNS: u64 = 40_000;
const FAULTS: u64 = 100;
const PAGES: u64 = 400_000;
/// Loops of the program `signals`: three rounds of four threads and the first thread's own.
const LOOPS: usize = 15;
/// Markers from these on begin and end a measured loop.
const BEGIN: u32 = 100;
const END: u32 = 200;

fn captured(program: &str) -> (Bench, Summary) {
    let bench = Bench::new(SOURCE);
    let options = bench.options(&[program]);
    let summary = capture::run(&options, &AtomicBool::new(false)).unwrap();
    assert_eq!(summary.ending, Ending::Exited(0));
    assert_eq!(check(&options.output).unwrap().totals, summary.totals);
    (bench, summary)
}

/// What one measured loop did between its first and its last access to the data.
#[derive(Debug, Default, Clone, Copy)]
struct Span {
    started: bool,
    instructions: u64,
    turns: u64,
    hits: u64,
    /// Instructions and hits since the last access to the data: not the loop's if none follows.
    open: (u64, u64),
}

/// The loops between markers; `data` is what they access, `counter` what the handler adds to.
fn spans(records: &[Record], data: &Range<u64>, counter: u64) -> Vec<Span> {
    let (mut open, mut closed) = (BTreeMap::<u16, Span>::new(), Vec::new());
    for record in records {
        match *record {
            Record::Marker { thread, id } if (BEGIN..END).contains(&id) => {
                open.insert(thread, Span::default());
            }
            Record::Marker { thread, id } if (END..2 * END).contains(&id) => {
                closed.push(open.remove(&thread).unwrap());
            }
            Record::Access {
                thread,
                vaddr,
                write,
                instructions,
                ..
            } => {
                let Some(span) = open.get_mut(&thread) else {
                    continue;
                };
                span.open.0 += u64::from(instructions);
                span.open.1 += u64::from(write && vaddr == counter);
                if data.contains(&vaddr) {
                    if span.started {
                        span.instructions += span.open.0;
                        span.hits += span.open.1;
                    }
                    span.turns += u64::from(!write);
                    span.open = (0, 0);
                    span.started = true;
                }
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "every loop ends: {open:?}");
    closed
}

#[test]
fn signals_threads_and_vfork_leave_every_count_exact() {
    let (bench, summary) = captured("signals");
    let [data, counter, stack] = bench.said()[..] else {
        panic!("three addresses")
    };
    let records = bench.records();
    let spans = spans(&records, &(data..data + 512), counter);
    assert_eq!(spans.len(), LOOPS);
    for span in &spans {
        assert_eq!(span.turns, TURNS, "{span:?}");
        // The last turn's two instructions after the access are not in the span.
        assert_eq!(
            span.instructions,
            3 * (TURNS - 1) + 4 * span.hits,
            "{span:?}"
        );
    }
    let hits: u64 = spans.iter().map(|span| span.hits).sum();
    assert!(hits >= 20, "{hits} signals are too few to show anything");
    assert!(summary.totals.threads <= 5, "numbers are given again");
    assert_eq!(kernels(&records, stack), None);
}

/// The first access of the kernel to signal frames: stores of the FPU's control words.
fn kernels(records: &[Record], stack: u64) -> Option<&Record> {
    let frames = stack..stack + (1 << 16);
    records.iter().find(|record| {
        matches!(record, Record::Access { vaddr, size: 2, write: true, .. }
            if frames.contains(vaddr))
    })
}

#[test]
fn a_block_that_ends_with_its_page_counts_what_ran_and_lends_its_name_to_no_signal_frame() {
    let (bench, _) = captured("pages");
    let [data, counter, stack] = bench.said()[..] else {
        panic!("three addresses")
    };
    let records = bench.records();
    let spans = spans(&records, &(data..data + 512), counter);
    let [span] = spans[..] else {
        panic!("one loop: {spans:?}")
    };
    assert_eq!(span.turns, PAGES);
    // A turn is seven instructions, the handler's run four.
    assert_eq!(
        span.instructions,
        7 * (PAGES - 1) + 4 * span.hits,
        "{span:?}"
    );
    assert!(span.hits >= 20, "too few signals: {span:?}");
    assert_eq!(kernels(&records, stack), None);
}

#[test]
fn a_block_left_by_a_fault_counts_nothing_that_did_not_run() {
    let (bench, _) = captured("faults");
    let said = bench.said();
    let spans = spans(&bench.records(), &(said[0]..said[0] + 512), said[1]);
    let [span] = spans[..] else {
        panic!("one loop: {spans:?}")
    };
    assert_eq!(span.turns, FAULTS);
    // A turn runs ten instructions, the handler's four among them; the three between the last
    // access of the block and the fault may be lost.
    let turns = FAULTS - 1;
    assert!(
        (7 * turns..=10 * turns).contains(&span.instructions),
        "{span:?}"
    );
}

#[test]
fn children_are_counted_by_the_program_that_they_became() {
    let (_bench, summary) = captured("children");
    let of = |program: Option<&str>, count| Children {
        program: program.map(str::to_owned),
        count,
    };
    let expected = [
        of(None, 2),
        of(Some("/bin/echo"), 1),
        of(Some("/bin/false"), 1),
        of(Some("/bin/true"), 2),
    ];
    assert_eq!(summary.children, expected);
}
