// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Recordings of KVM hosts by perf, against what `perf kvm stat report` prints of them.
//!
//! The tables are printed here as perf prints them, and compared with its text letter by letter,
//! but for the relative deviation (`+-`), which a diagnosis does not have.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::path::{Path, PathBuf};

use steady_decode::{Decoder, TraceEvents};
use steady_diagnose::{Analysis, Diagnoser, Diagnosis, ExitRow, Spread};
use steady_events::Kind;
use steady_tracefile::Source;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// Count, sum, least and greatest, in nanoseconds.
#[derive(Clone, Copy)]
struct Times {
    count: u64,
    total: u64,
    min: u64,
    max: u64,
}

impl Times {
    fn add(&mut self, of: &Spread) {
        self.count += of.count;
        self.total += of.total;
        self.min = self.min.min(of.min);
        self.max = self.max.max(of.max);
    }
}

type Reasons = BTreeMap<String, Times>;

fn add(to: &mut Reasons, name: String, spread: &Spread) {
    let none = Times {
        count: 0,
        total: 0,
        min: u64::MAX,
        max: 0,
    };
    to.entry(name).or_insert(none).add(spread);
}

fn of_rows<'a>(rows: impl Iterator<Item = &'a ExitRow>) -> Reasons {
    let mut sum = Reasons::new();
    for row in rows {
        add(&mut sum, row.name.clone(), &row.time_ns);
    }
    sum
}

/// The rows as perf prints them, and its last line.
fn as_perf_prints(reasons: &Reasons) -> BTreeSet<String> {
    let us = |ns: f64| format!("{:.2}us", ns / 1000.0);
    let percent = |part: u64, all: u64| format!("{:.2}%", part as f64 / all as f64 * 100.0);
    let count: u64 = reasons.values().map(|times| times.count).sum();
    let total: u64 = reasons.values().map(|times| times.total).sum();
    let mut lines: BTreeSet<String> = reasons
        .iter()
        .map(|(name, times)| {
            let words = [
                name.clone(),
                times.count.to_string(),
                percent(times.count, count),
                percent(times.total, total),
                us(times.min as f64),
                us(times.max as f64),
                us(times.total as f64 / times.count as f64),
            ];
            words.join(" ")
        })
        .collect();
    let total = us(total as f64);
    lines.insert(format!(
        "Total Samples:{count}, Total events handled time:{total}."
    ));
    lines
}

/// The reports in a file of `perf-kvm-report`, by their options.
fn reports(name: &str) -> BTreeMap<String, BTreeSet<String>> {
    let text = std::fs::read_to_string(fixture(name)).unwrap();
    let mut found = BTreeMap::<String, BTreeSet<String>>::new();
    let mut options = "";
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix('#') {
            options = rest.trim();
        } else if line.contains("us (") || line.starts_with("Total") {
            let kept = line.split(" (").next().unwrap_or(line);
            let words: Vec<&str> = kept.split_whitespace().collect();
            found
                .entry(options.to_owned())
                .or_default()
                .insert(words.join(" "));
        }
    }
    found
}

fn diagnosis(source: &mut dyn Source) -> Diagnosis {
    let mut diagnoser = Diagnoser::new();
    diagnoser
        .trace(
            "perf.data",
            &mut TraceEvents::new(source),
            &mut |_, _, _| Ok(()),
        )
        .unwrap();
    diagnoser.finish()
}

fn opened(name: &str) -> Box<dyn Source> {
    steady_tracefile::open(&fixture(name)).expect("the shipped trace opens")
}

/// Exits by number of the vCPU, over all VMs.
fn by_number(source: &mut dyn Source) -> BTreeMap<u32, Reasons> {
    let (mut decoder, mut analysis) = (Decoder::default(), Analysis::default());
    while let Some(record) = source.next().unwrap() {
        analysis.event(&decoder.event(&record));
    }
    analysis.finish();
    let mut found = BTreeMap::<u32, Reasons>::new();
    for (vcpu, of) in analysis.machine.vcpus.iter().zip(&analysis.vcpus) {
        for (reason, times) in &of.exits.by_reason {
            let reasons = found.entry(vcpu.number).or_default();
            add(reasons, reason.to_string(), &Spread::from(times));
        }
    }
    found
}

/// `processes` are the VMMs', in the order of the diagnosis' VMs.
fn the_tables_are_those_of_perf(trace: &str, text: &str, processes: [u32; 2]) {
    let expected = reports(text);
    assert_eq!(expected.len(), 5);
    let found = diagnosis(opened(trace).as_mut());
    let vms = &found.traces[0].vms;
    assert_eq!(vms.len(), processes.len());
    let all = of_rows(vms.iter().flat_map(|vm| &vm.exits));
    assert_eq!(as_perf_prints(&all), expected[""]);
    for (vm, process) in vms.iter().zip(processes) {
        let rows = as_perf_prints(&of_rows(vm.exits.iter()));
        assert_eq!(rows, expected[&format!("-p {process}")]);
    }
    for (number, mut reasons) in by_number(opened(trace).as_mut()) {
        // perf begins the least time of a single vCPU at 0 (`kvm_event_expand`), so it stays there.
        for times in reasons.values_mut() {
            assert!(times.min > 0);
            times.min = 0;
        }
        let report = &expected[&format!("--vcpu {number}")];
        assert_eq!(&as_perf_prints(&reasons), report);
        let vcpus = vms.iter().flat_map(|vm| &vm.vcpus);
        let (count, total) =
            vcpus
                .filter(|vcpu| vcpu.number == number)
                .fold((0, 0), |(count, total), vcpu| {
                    (
                        count + vcpu.exits - vcpu.untimed,
                        total + vcpu.exit_ns.unwrap(),
                    )
                });
        let total = format!("{:.2}", total as f64 / 1000.0);
        assert!(report.contains(&format!(
            "Total Samples:{count}, Total events handled time:{total}us."
        )));
    }
}

#[test]
fn exits_of_an_intel_host_are_those_that_perf_kvm_stat_prints() {
    the_tables_are_those_of_perf("perf-kvm-intel.data.zst", "perf-kvm-intel.txt", [45, 36]);
}

#[test]
fn exits_of_an_amd_host_are_those_that_perf_kvm_stat_prints() {
    the_tables_are_those_of_perf("perf-kvm-amd.data.zst", "perf-kvm-amd.txt", [46, 37]);
}

/// The Intel recording, in which the first record of each thread is that of another thread.
fn without_first_entries() -> Vec<u8> {
    const SAMPLE: u32 = 9;
    let packed = std::fs::read(fixture("perf-kvm-intel.data.zst")).unwrap();
    let mut bytes = zstd::decode_all(packed.as_slice()).unwrap();
    let long = |bytes: &[u8], at: usize| {
        let word = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        usize::try_from(word).unwrap()
    };
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let mut at = long(&bytes, 40);
    let end = at + long(&bytes, 48);
    let mut seen = BTreeSet::new();
    while at < end {
        // After the head: identifier, instruction pointer, process, thread.
        let thread = at + 8 + 8 + 8 + 4;
        if word(&bytes, at) == SAMPLE && seen.insert(word(&bytes, thread)) {
            let other = word(&bytes, thread) + 1000;
            bytes[thread..thread + 4].copy_from_slice(&other.to_le_bytes());
        }
        at += usize::try_from(word(&bytes, at + 4) >> 16).unwrap();
    }
    assert_eq!(seen.len(), 4);
    bytes
}

#[test]
fn an_exit_before_the_first_entry_of_its_thread_counts_here_and_not_in_perf() {
    let bytes = without_first_entries();
    let open = || steady_tracefile::open_stream(Box::new(Cursor::new(bytes.clone())), "late");
    let mut source = open().unwrap();
    let (mut decoder, mut analysis) = (Decoder::default(), Analysis::default());
    let (mut entered, mut left_out) = (BTreeSet::new(), 0);
    while let Some(record) = source.next().unwrap() {
        let event = decoder.event(&record);
        match event.kind {
            Kind::Entry { .. } => _ = entered.insert(event.tid),
            Kind::Exit { .. } if !entered.contains(&event.tid) => {
                left_out += 1;
                continue;
            }
            _ => {}
        }
        analysis.event(&event);
    }
    analysis.finish();
    let mut found = Reasons::new();
    for of in &analysis.vcpus {
        for (reason, times) in &of.exits.by_reason {
            add(&mut found, reason.to_string(), &Spread::from(times));
        }
    }
    let printed = reports("perf-kvm-late.txt");
    assert_eq!((as_perf_prints(&found), left_out), (printed[""].clone(), 4));

    // With them, nothing is missing.
    let whole = diagnosis(open().unwrap().as_mut());
    let all = of_rows(whole.traces[0].vms.iter().flat_map(|vm| &vm.exits));
    assert_eq!(as_perf_prints(&all), reports("perf-kvm-intel.txt")[""]);
}
