// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shipped trace against counts that another program made of it.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use steady_decode::{Decoder, TraceEvents};
use steady_diagnose::{
    Analysis, Answer, Cause, Confidence, Diagnoser, Diagnosis, FindingId, Slice, Symbols,
};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

fn diagnosis(symbols: Option<&Symbols>, slice: Slice) -> Diagnosis {
    let mut source =
        steady_tracefile::open(&fixture("stall.dat")).expect("the shipped trace opens");
    let mut diagnoser = Diagnoser::new();
    diagnoser.symbols = symbols.map(|symbols| (symbols, "stall.map".to_owned()));
    diagnoser.slice = slice;
    diagnoser
        .trace(
            "stall.dat",
            &mut TraceEvents::new(source.as_mut()),
            &mut |_, _, _| Ok(()),
        )
        .expect("a whole trace is read");
    diagnoser.finish()
}

/// Exits and nanoseconds by thread and code.
type Totals = BTreeMap<(i32, u64), (u64, u64)>;

fn counted(trace: &Path) -> Totals {
    let mut source = steady_tracefile::open(trace).expect("the shipped trace opens");
    let (mut decoder, mut analysis) = (Decoder::default(), Analysis::default());
    while let Some(record) = source.next().unwrap() {
        analysis.event(&decoder.event(&record));
    }
    analysis.finish();
    let mut found = BTreeMap::new();
    for (vcpu, of) in analysis.machine.vcpus.iter().zip(&analysis.vcpus) {
        for (reason, times) in &of.exits.by_reason {
            let spread = steady_diagnose::Spread::from(times);
            found.insert((vcpu.tid, reason.code), (spread.count, spread.total));
        }
    }
    found
}

fn totals(name: &str) -> Totals {
    let text = std::fs::read_to_string(fixture(name)).unwrap();
    let rows = text.lines().map(|line| {
        let words: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let thread = i32::try_from(words[0]).unwrap();
        ((thread, words[1]), (words[2], words[3]))
    });
    rows.collect()
}

#[test]
fn exits_and_their_time_equal_what_trace_cmd_report_adds_up_to() {
    let expected = totals("stall.totals");
    assert!(expected.len() > 40);
    assert_eq!(counted(&fixture("stall.dat")), expected);
}

#[test]
fn so_they_do_on_an_amd_host() {
    let amd = fixture("../../../tracefile/tests/fixtures/qemu-amd-v7-zstd.dat");
    let expected = totals("amd.totals");
    assert!(expected.len() > 6);
    assert_eq!(counted(&amd), expected);
}

#[test]
fn the_three_causes_of_the_study_are_named_with_their_places() {
    let symbols = Symbols::load(&fixture("stall.map")).unwrap();
    let diagnosis = diagnosis(Some(&symbols), Slice::default());
    let pauses = diagnosis.traces[0].vms[0].pauses.as_ref().unwrap();
    let function = |cause| {
        let row = pauses.by_place.iter().find(|row| row.cause == cause);
        row.and_then(|row| row.function.as_deref())
    };
    assert_eq!(
        function(Cause::IpiWait),
        Some("smp_call_function_many_cond")
    );
    assert_eq!(
        function(Cause::Spinlock),
        Some("__pv_queued_spin_lock_slowpath")
    );
    assert_eq!(function(Cause::TimedDelay), Some("delay_tsc"));
    let shares: u64 = pauses.by_cause.iter().map(|row| row.exits).sum();
    assert_eq!(shares, pauses.exits);
    // The place is shown, and whether IPIs' receivers ran; not who holds a lock.
    let (medium, high) = (Confidence::Medium, Confidence::High);
    for (id, most) in [
        ("pause-ipi-wait", high),
        ("pause-spinlock", medium),
        ("pause-timed-delay", high),
        ("pause-continuous", high),
    ] {
        let mut findings = diagnosis.findings.iter();
        let found = findings.find(|finding| finding.id.word() == id);
        let found = found.unwrap_or_else(|| panic!("{id}"));
        assert!(found.confidence <= most, "{id}: {:?}", found.confidence);
        let ipi = found.id == FindingId::PauseIpiWait && found.confidence == high;
        let shown = found
            .checks
            .iter()
            .all(|check| check.answer == Answer::Held);
        assert!(!ipi || shown, "{:?}", found.checks);
    }
}

#[test]
fn a_spinner_in_smp_call_function_nearly_always_has_an_ipi_under_way_and_others_do_not() {
    let symbols = Symbols::load(&fixture("stall.map")).unwrap();
    let diagnosis = diagnosis(Some(&symbols), Slice::default());
    // Two sources that know nothing of each other: the symbol, and the APIC's events.
    for row in &diagnosis.traces[0].vms[0].pauses.as_ref().unwrap().by_place {
        match row.cause {
            Cause::IpiWait => assert!(row.ipi_pending.unwrap() * 10 >= row.exits * 9, "{row:?}"),
            _ => assert!(row.ipi_pending.unwrap() * 10 <= row.exits, "{row:?}"),
        }
    }
}

#[test]
fn without_symbols_the_diagnosis_says_so_and_names_no_cause() {
    let diagnosis = diagnosis(None, Slice::default());
    let trace = &diagnosis.traces[0];
    assert!(
        trace
            .missing
            .iter()
            .any(|missing| missing.what.contains("--symbols"))
    );
    let pauses = trace.vms[0].pauses.as_ref().unwrap();
    assert!(
        pauses
            .by_cause
            .iter()
            .all(|row| row.cause == Cause::Unknown)
    );
}

#[test]
fn every_look_for_a_vcpu_to_boost_has_one_outcome() {
    let diagnosis = diagnosis(None, Slice::default());
    let vm = &diagnosis.traces[0].vms[0];
    let boosts = vm.boosts.as_ref().unwrap();
    let outcomes: u64 = boosts.outcomes.iter().map(|row| row.count).sum();
    assert_eq!(outcomes + boosts.unresolved, boosts.spins);
    assert_eq!(boosts.spins, vm.pauses.as_ref().unwrap().exits);
}

#[test]
fn a_slice_of_time_has_fewer_exits_and_nothing_outside_it() {
    let slice = Slice {
        from_ns: Some(400_000_000),
        to_ns: Some(600_000_000),
        ..Slice::default()
    };
    let part = diagnosis(None, slice);
    assert!(part.traces[0].span_ns <= 200_000_000);
    let exits = |diagnosis: &Diagnosis| {
        diagnosis.traces[0].vms[0]
            .exits
            .iter()
            .map(|row| row.time_ns.count)
            .sum::<u64>()
    };
    assert!(exits(&part) < exits(&diagnosis(None, Slice::default())));
}

#[test]
fn the_text_that_trace_cmd_prints_of_a_trace_gives_the_same_tables() {
    let text = std::fs::read(fixture("stall.report.txt.zst")).unwrap();
    let reader = std::io::Cursor::new(text);
    let mut source = steady_tracefile::open_stream(Box::new(reader), "report").unwrap();
    let mut diagnoser = Diagnoser::new();
    diagnoser
        .trace(
            "report",
            &mut TraceEvents::new(source.as_mut()),
            &mut |_, _, _| Ok(()),
        )
        .unwrap();
    let from_text = diagnoser.finish();
    let binary = diagnosis(None, Slice::default());
    assert_eq!(from_text.traces[0].vms, binary.traces[0].vms);
}

#[test]
fn shootdowns_in_a_guests_trace_equal_what_perf_script_adds_up_to() {
    let mut source = steady_tracefile::open(&fixture("guest.data.zst")).unwrap();
    let mut diagnoser = Diagnoser::new();
    diagnoser
        .trace(
            "guest",
            &mut TraceEvents::new(source.as_mut()),
            &mut |_, _, _| Ok(()),
        )
        .unwrap();
    let diagnosis = diagnoser.finish();
    let table = diagnosis.traces[0].shootdowns.as_ref().unwrap();
    let latency = &table.latency_ns;
    let found = format!("{} {} {}\n", latency.count, latency.total, latency.max);
    let expected = std::fs::read_to_string(fixture("guest.totals")).unwrap();
    assert_eq!((found, table.unfinished), (expected, 0));
    assert!(
        diagnosis
            .findings
            .iter()
            .any(|f| f.id.word() == "shootdown")
    );
}

#[test]
fn the_same_trace_gives_the_same_bytes() {
    let bytes = || serde_json::to_vec(&diagnosis(None, Slice::default())).unwrap();
    assert_eq!(bytes(), bytes());
}

#[test]
fn what_is_written_as_json_reads_back_as_the_same() {
    let diagnosis = diagnosis(None, Slice::default());
    let text = serde_json::to_string(&diagnosis).unwrap();
    assert_eq!(serde_json::from_str::<Diagnosis>(&text).unwrap(), diagnosis);
}

#[test]
fn the_document_of_the_format_names_every_key() {
    fn keys(value: &serde_json::Value, into: &mut std::collections::BTreeSet<String>) {
        match value {
            serde_json::Value::Object(object) => {
                for (key, value) in object {
                    into.insert(key.clone());
                    keys(value, into);
                }
            }
            serde_json::Value::Array(values) => values.iter().for_each(|value| keys(value, into)),
            _ => {}
        }
    }
    let symbols = Symbols::load(&fixture("stall.map")).unwrap();
    let diagnosis = diagnosis(Some(&symbols), Slice::default());
    let mut found = std::collections::BTreeSet::new();
    keys(&serde_json::to_value(&diagnosis).unwrap(), &mut found);
    assert!(found.len() > 100);
    let document = include_str!("../../../docs/formats/diagnosis.md");
    let findings = diagnosis.findings.iter().map(|finding| finding.id.word());
    for name in found.into_iter().chain(findings) {
        assert!(document.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn the_amd_trace_whose_three_vcpus_share_two_pcpus_is_found_overcommitted() {
    let amd = fixture("../../../tracefile/tests/fixtures/qemu-amd-v7-zstd.dat");
    let mut source = steady_tracefile::open(&amd).unwrap();
    let mut diagnoser = Diagnoser::new();
    let mut events = TraceEvents::new(source.as_mut());
    diagnoser
        .trace("amd", &mut events, &mut |_, _, _| Ok(()))
        .unwrap();
    let diagnosis = diagnoser.finish();
    let steal = diagnosis
        .findings
        .iter()
        .find(|finding| finding.id.word() == "host-overcommitted");
    assert!(steal.is_some(), "{:?}", diagnosis.findings);
    // 54.5 ms of the three vCPUs' 156 ms; the host has two pCPUs, which never idle.
    assert_eq!(steal.map(|finding| finding.lost_permille), Some(350));
}
