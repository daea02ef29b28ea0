// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What several tests need: fixtures, and the comparison of two traces record by record.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "helpers of tests, of which each file uses a part"
)]

pub mod build;
pub mod dat_file;
pub mod perf_file;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Cursor;
use std::path::PathBuf;

use steady_tracefile::{Error, Loss, Record, Source, open, open_stream};

/// The path of a fixture.
pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// An open fixture.
pub fn fixture_source(name: &str) -> Box<dyn Source> {
    open(&fixture(name)).unwrap_or_else(|e| panic!("{e}"))
}

/// The bytes of a fixture.
pub fn fixture_bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}

/// Opens bytes as a stream.
pub fn open_bytes(bytes: Vec<u8>) -> Result<Box<dyn Source>, Error> {
    open_stream(Box::new(Cursor::new(bytes)), "trace")
}

/// Reads everything; how many records there are.
pub fn drain(source: &mut dyn Source) -> (u64, Loss) {
    let mut count = 0;
    while source.next().unwrap().is_some() {
        count += 1;
    }
    (count, source.loss().clone())
}

/// A text with all of a binary trace: to see whether two are the same.
pub fn digest(source: &mut dyn Source) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(r) = source.next().unwrap() {
        let fields: Vec<_> = r
            .event
            .fields
            .iter()
            .map(|f| r.bytes(r.event.field(&f.name).unwrap()))
            .collect();
        let comm = r.comm.escape_ascii();
        lines.push(format!(
            "{} {} {} {comm} {} {fields:x?}",
            r.time_ns, r.cpu, r.pid, r.event.name
        ));
    }
    lines
}

/// How two traces are compared.
pub struct Rules {
    /// The text's step of time in nanoseconds.
    pub step_ns: u64,
    /// Fields whose numbers are printed in hexadecimal without saying so.
    pub hexadecimal: &'static [(&'static str, &'static str)],
    /// Fields of which only the low 32 bits are printed.
    pub low_half: &'static [(&'static str, &'static str)],
    /// Whether the tool may have forgotten the name of a thread that has ended.
    pub forgets_ended: bool,
}

/// Goes through a binary trace and the text that the kernel's own tools printed of it, and panics
/// where they differ. Gives how often each field was there in both.
pub fn compare(
    binary: &mut dyn Source,
    text: &mut dyn Source,
    rules: &Rules,
) -> BTreeMap<(String, String), u64> {
    let mut compared = BTreeMap::new();
    let mut ended = BTreeSet::new();
    let mut number = 0;
    loop {
        number += 1;
        let (ours, theirs) = match (binary.next().unwrap(), text.next().unwrap()) {
            (None, None) => return compared,
            (Some(ours), Some(theirs)) => (ours, theirs),
            (ours, theirs) => panic!("record {number}: ours {ours:?}, the tool's {theirs:?}"),
        };
        let head = |r: &Record<'_>| (r.time_ns / rules.step_ns, r.cpu, r.event.name.clone());
        assert_eq!(head(&ours), head(&theirs), "record {number}");
        // perf knows nothing of a thread past its exit, and calls threads by their number that it
        // has no name for: before 6.12 those that never had one, since then ended ones too.
        if theirs.pid != -1 {
            assert_eq!(ours.pid, theirs.pid, "record {number}");
            let unnamed = theirs.comm == format!(":{}", theirs.pid).as_bytes();
            let forgotten = rules.forgets_ended && unnamed && ours.comm != b"<...>";
            if forgotten {
                ended.insert(ours.pid);
            }
            // A name is forgotten once and for all.
            assert!(forgotten || !ended.contains(&ours.pid), "record {number}");
            let expected = if unnamed { b"<...>" } else { theirs.comm };
            assert!(
                forgotten || ours.comm == expected,
                "record {number}: ours {}, the tool's {}",
                ours.comm.escape_ascii(),
                theirs.comm.escape_ascii()
            );
        }
        for field in &ours.event.fields {
            if same_field(&ours, &theirs, &field.name, rules) {
                *compared
                    .entry((ours.event.name.clone(), field.name.clone()))
                    .or_default() += 1;
            }
        }
    }
}

/// Compares one field; false if the text does not show it in a form that can be compared.
fn same_field(ours: &Record<'_>, theirs: &Record<'_>, name: &str, rules: &Rules) -> bool {
    let event = ours.event.name.as_str();
    if let Some(value) = ours.str_named(name) {
        let Some(printed) = theirs.str_named(name) else {
            return false;
        };
        assert_eq!(
            value.escape_ascii().to_string(),
            printed.escape_ascii().to_string(),
            "{event}.{name}"
        );
        return true;
    }
    let printed = if rules.hexadecimal.contains(&(event, name)) {
        let digits = theirs
            .str_named(name)
            .map(|d| String::from_utf8_lossy(d).into_owned());
        digits.and_then(|d| u64::from_str_radix(d.trim_start_matches("0x"), 16).ok())
    } else {
        theirs.u64_named(name)
    };
    let (Some(value), Some(printed)) = (ours.u64_named(name), printed) else {
        return false;
    };
    let value = if rules.low_half.contains(&(event, name)) {
        value & 0xffff_ffff
    } else {
        value
    };
    assert_eq!(value, printed, "{event}.{name}");
    true
}
