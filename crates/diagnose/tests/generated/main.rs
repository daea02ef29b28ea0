// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces of a modelled host, over causes, sizes, recorders, losses and layouts: is the first
//! finding right, is its number the model's, and how often is `high` right? The last is recorded in
//! `evidence/results/calibration.toml`, and stands on the page of diagnoses.

mod binary;
mod causes;
mod clocks;
mod filters;
mod host;
mod kinds;
mod print;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use steady_decode::TraceEvents;
use steady_diagnose::{Confidence, Diagnoser, Diagnosis, Finding, Severity};

use self::causes::{Cause, OWN, Size};
use self::host::{Host, Recorder, kept};
use self::print::Layout;

/// One trace of the collection.
#[derive(Debug, Clone, Copy)]
struct Case {
    cause: Cause,
    size: Size,
    recorder: Recorder,
    layout: Layout,
}

/// A number that follows from its place, the same on every machine (SplitMix64).
fn draw(at: u64) -> u64 {
    let mut z = at.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The sizes of a host of this cause.
fn size(cause: Cause, at: u64) -> Size {
    let drawn = |of: u64, from: u64, to: u64| from + draw(at * 8 + of) % (to - from);
    let once = matches!(cause, Cause::OneStall | Cause::OneStuck);
    let vcpus = match cause {
        Cause::OwnVm | Cause::Imbalance => 2 * drawn(0, 1, 3),
        _ if once => drawn(0, 4, 9),
        _ => drawn(0, 1, 5),
    };
    let period_us = match once {
        _ if cause == Cause::StoodStill => drawn(1, 5_000, 20_000),
        _ if cause == Cause::Storm => drawn(1, 200, 500),
        true => drawn(1, 150_000, 400_000),
        // Not that of a limit, whose turns would look like others'.
        false => drawn(1, 7_000, 60_000),
    };
    Size {
        vcpus: u32::try_from(vcpus).expect("a few"),
        period_us,
        permille: match cause {
            Cause::OwnVm | Cause::Imbalance => 500,
            _ => drawn(2, 120, 850),
        },
        rounds: if once { 130 } else { drawn(3, 30, 60) },
        jitter: draw(at * 8 + 4),
    }
}

/// The collection: of each combination as many hosts, no two alike.
fn collection(each: u64) -> Vec<Case> {
    let mut cases = Vec::new();
    for cause in Cause::ALL {
        for recorder in Recorder::ALL {
            for layout in Layout::ALL {
                for at in 0..each {
                    let at = u64::try_from(cases.len()).expect("a few") * 100 + at;
                    cases.push(Case {
                        cause,
                        size: size(cause, at),
                        recorder,
                        layout,
                    });
                }
            }
        }
    }
    cases
}

/// The recording as a file has it.
fn bytes(host: &Host, recorder: Recorder, layout: Layout, own: i32) -> Vec<u8> {
    let kept = kept(host, recorder, own);
    match layout {
        Layout::TraceDat => binary::trace_dat(&kept),
        Layout::PerfData => binary::perf_data(&kept),
        _ => print::text(&kept, layout).into_bytes(),
    }
}

fn diagnosed(host: &Host, case: &Case) -> Diagnosis {
    let reader = std::io::Cursor::new(bytes(host, case.recorder, case.layout, OWN));
    let mut source = steady_tracefile::open_stream(Box::new(reader), "made")
        .unwrap_or_else(|error| panic!("{case:?}: {error}"));
    let mut diagnoser = Diagnoser::new();
    let mut events = TraceEvents::new(source.as_mut());
    let read = diagnoser.trace("made", &mut events, &mut |_, _, _| Ok(()));
    read.unwrap_or_else(|error| panic!("{case:?}: {error}"));
    diagnoser.finish()
}

fn word(of: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(of).expect("it is a word");
    value.as_str().unwrap_or_default().to_owned()
}

fn first(diagnosis: &Diagnosis) -> Option<&Finding> {
    let first = diagnosis.findings.first();
    first.filter(|finding| finding.severity >= Severity::Major)
}

/// Whether the first finding is one of the right ones.
fn is_right(case: &Case, found: Option<&Finding>) -> bool {
    let answers = case.cause.answers();
    match found {
        None => answers.is_empty() || case.cause.is_hidden_from(case.recorder),
        // A pCPU that idles is not one of the VM's threads.
        Some(finding)
            if case.cause == Cause::Imbalance && case.recorder == Recorder::OwnThreads =>
        {
            matches!(word(&finding.cause).as_str(), "own-vm" | "imbalance")
        }
        Some(finding) => {
            let pair = (word(&finding.id), word(&finding.cause));
            let known = |(id, cause): &(&str, &str)| *id == pair.0 && *cause == pair.1;
            answers.iter().any(known)
        }
    }
}

/// How often each confidence was right, and what was wrong.
#[derive(Debug, Default)]
struct Calibration {
    by: BTreeMap<Option<Confidence>, (u64, u64)>,
    wrong: Vec<String>,
    wrong_with_high: Vec<String>,
}

impl Calibration {
    fn add(&mut self, case: &Case, diagnosis: &Diagnosis) {
        let found = first(diagnosis);
        let right = is_right(case, found);
        let row = self.by.entry(found.map(|finding| finding.confidence));
        let (all, good) = row.or_default();
        *all += 1;
        *good += u64::from(right);
        if right {
            return;
        }
        let said = found.map(|of| (word(&of.id), word(&of.cause), of.confidence));
        let text = format!("{case:?}: {said:?}");
        if found.is_some_and(|finding| finding.confidence == Confidence::High) {
            self.wrong_with_high.push(text.clone());
        }
        self.wrong.push(text);
    }

    fn join(mut self, other: Self) -> Self {
        for (confidence, (all, right)) in other.by {
            let row = self.by.entry(confidence).or_default();
            (row.0, row.1) = (row.0 + all, row.1 + right);
        }
        self.wrong.extend(other.wrong);
        self.wrong_with_high.extend(other.wrong_with_high);
        self
    }

    /// The table, as the evidence has it under this name.
    fn record(&self, name: &str) -> String {
        let mut out = String::new();
        for (confidence, (all, right)) in self.by.iter().rev() {
            let said = confidence.map_or("none".to_owned(), |of| word(&of));
            let _ = writeln!(
                out,
                "[[row]]\nof = \"{name}\"\nsays = \"{said}\"\nall = {all}\nright = {right}\n"
            );
        }
        out
    }
}

/// Diagnoses the cases, on as many threads as there are processors.
fn calibrated(cases: &[Case]) -> Calibration {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut calibration = Calibration::default();
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let host = causes::make(case.cause, case.size);
            calibration.add(case, &diagnosed(&host, case));
        }
        calibration
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let all = all.into_iter().map(|one| one.join().expect("it ends"));
        all.fold(Calibration::default(), Calibration::join)
    })
}

/// Holds what the collection must hold.
fn hold(calibration: &Calibration) {
    println!("{}", calibration.record("collection"));
    let all: u64 = calibration.by.values().map(|(all, _)| all).sum();
    let right: u64 = calibration.by.values().map(|(_, right)| right).sum();
    let mut wrong = calibration.wrong.clone();
    wrong.sort();
    println!("{right} of {all} are right; wrong: {wrong:#?}");
    let none = &calibration.wrong_with_high;
    assert!(none.is_empty(), "wrong with high confidence: {none:#?}");
    assert!(right * 100 >= all * 95, "{right} of {all} are right");
}

/// Of each combination, how many hosts the whole collection has.
const EACH: u64 = 2;
/// Which of its traces the tests diagnose that always run.
const EVERY: usize = 7;

fn slice() -> Vec<Case> {
    collection(EACH).into_iter().step_by(EVERY).collect()
}

/// What the evidence has recorded.
fn recorded() -> String {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = own.join("../../evidence/results/calibration.toml");
    std::fs::read_to_string(path).unwrap_or_default()
}

#[test]
fn of_a_seventh_of_the_collection_the_findings_are_those_of_the_record() {
    let calibration = calibrated(&slice());
    hold(&calibration);
    let found = calibration.record("slice");
    assert!(
        recorded().contains(&found),
        "the record is another's: run the collection again, as CONTRIBUTING.md says; now:\n{found}"
    );
}

#[test]
#[ignore = "1,440 traces: a minute with optimization"]
fn of_the_whole_collection_nineteen_in_twenty_are_right_and_none_wrong_with_high_confidence() {
    let calibration = calibrated(&collection(EACH));
    hold(&calibration);
    let found = calibration.record("collection") + &calibrated(&slice()).record("slice");
    assert!(
        recorded().ends_with(&found),
        "evidence/results/calibration.toml must end with these rows; take its seal away, and seal \
         it again: steady evidence seal\n{found}"
    );
}

#[test]
fn of_a_whole_recording_the_waits_are_the_models_to_a_microsecond_each() {
    let causes = [
        Cause::HostTask,
        Cause::OtherVm,
        Cause::Limit,
        Cause::OneStall,
    ];
    for (at, cause) in causes.into_iter().cycle().take(60).enumerate() {
        let at = u64::try_from(at).expect("a few");
        let case = Case {
            cause,
            size: size(cause, 7_000 + at),
            recorder: Recorder::Whole,
            layout: Layout::ALL[usize::try_from(at % 8).expect("a few")],
        };
        let host = causes::make(cause, case.size);
        let diagnosis = diagnosed(&host, &case);
        let own = diagnosis.traces[0].vms.iter().find(|vm| {
            let mut vcpus = vm.vcpus.iter();
            vcpus.any(|vcpu| vcpu.tid == OWN + 1)
        });
        let waits = own.and_then(|vm| vm.waits.as_ref()).expect("it waited");
        let truth: u64 = host.truth.waited.values().sum();
        // Text has microseconds: each wait has two ends.
        let waits_made = u64::from(case.size.vcpus) * case.size.rounds;
        let apart = waits.waited_ns.abs_diff(truth);
        assert!(apart <= 2_000 * waits_made, "{case:?}: {apart} ns");
        assert_eq!(waits.unknown_ns, 0, "{case:?}");
    }
}

#[test]
fn what_a_loss_hides_is_never_counted_as_waiting() {
    for at in 0..40 {
        let case = Case {
            cause: Cause::HostTask,
            size: size(Cause::HostTask, 9_000 + at),
            recorder: Recorder::Loses,
            layout: Layout::Ftrace,
        };
        let host = causes::make(case.cause, case.size);
        let diagnosis = diagnosed(&host, &case);
        let waits = diagnosis.traces[0].vms[0].waits.as_ref();
        let waits = waits.expect("it waited");
        let truth: u64 = host.truth.waited.values().sum();
        let rounding = 2_000 * u64::from(case.size.vcpus) * case.size.rounds;
        assert!(waits.waited_ns <= truth + rounding, "{case:?}");
    }
}
