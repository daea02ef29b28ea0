// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ChampSim traces, built here byte by byte.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod common;

use steady_memtrace::foreign::convert;
use steady_memtrace::{Record, TraceError, check};

use common::foreign::{access, converted, gzip, instruction, records, xz};

fn sample() -> Vec<u8> {
    [
        instruction(0x400000, [0; 2], [0; 4]),
        instruction(0x400004, [0x7000, 0], [0x6000, 0, 0x6008, 0]),
        instruction(0x400008, [0; 2], [0; 4]),
        instruction(0x40000c, [0; 2], [0x9000, 0, 0, 0]),
    ]
    .concat()
}

fn expected() -> [Record; 4] {
    [
        access(0, 0x6000, 8, false, 2),
        access(0, 0x6008, 8, false, 0),
        access(0, 0x7000, 8, true, 0),
        access(0, 0x9000, 8, false, 2),
    ]
}

fn message(file: &[u8]) -> String {
    converted(&[file]).unwrap_err().to_string()
}

#[test]
fn plain_gzip_xz_and_zstd_traces_read_alike() {
    let zstd = zstd::bulk::compress(&sample(), 1).unwrap();
    for bytes in [sample(), gzip(&sample()), xz(&sample()), zstd] {
        assert_eq!(records(&[&bytes]).unwrap(), expected());
    }
}

#[test]
fn a_cut_record_names_its_offset() {
    let message = message(&sample()[..100]);
    assert!(
        message.contains("byte 64") && message.contains("expected 64"),
        "{message}"
    );
}

#[test]
fn a_cut_archive_is_an_error_with_an_offset() {
    let zstd = zstd::bulk::compress(&sample(), 1).unwrap();
    for packed in [gzip(&sample()), xz(&sample()), zstd] {
        let message = message(&packed[..packed.len() / 2]);
        assert!(
            message.contains("byte ") && message.contains("packed data"),
            "{message}"
        );
    }
}

#[test]
fn another_format_is_refused_at_its_first_flags() {
    let message = message(&[0xee; 64]);
    assert!(message.contains("branch flags"), "{message}");
}

#[test]
fn an_empty_or_missing_file_is_an_error() {
    assert!(matches!(converted(&[b""]), Err(TraceError::Empty { .. })));
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    assert!(matches!(
        convert(&[missing], &folder.path().join("out.smt")),
        Err(TraceError::Io { .. })
    ));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_trace_of_ours_is_not_converted_again() {
    let ours = converted(&[&sample()]).unwrap();
    let message = message(&ours);
    assert!(message.contains("use it as it is"), "{message}");
}

#[test]
fn converted_threads_are_interleaved_by_instructions() {
    let folder = tempfile::tempdir().unwrap();
    let load = |address| instruction(0x400000, [0; 2], [address, 0, 0, 0]);
    let idle = instruction(0x400000, [0; 2], [0; 4]);
    // Thread 0 loads at its instructions 1 and 4, thread 1 at 1, 2 and 3.
    let slow = [load(0x10), idle.clone(), idle, load(0x20)].concat();
    let fast = [load(0x30), load(0x40), load(0x50)].concat();
    let paths = [folder.path().join("a"), folder.path().join("b")];
    std::fs::write(&paths[0], &slow).unwrap();
    std::fs::write(&paths[1], &fast).unwrap();
    let output = folder.path().join("out.smt");
    let (totals, _) = convert(&paths, &output).unwrap();
    assert_eq!((totals.threads, totals.instructions), (2, 7));
    assert_eq!(check(&output).unwrap().header.program, "a + b");
    let order: Vec<(u16, u64)> = records(&[&slow, &fast])
        .unwrap()
        .iter()
        .map(|record| match *record {
            Record::Access { thread, vaddr, .. } => (thread, vaddr),
            _ => panic!("only accesses"),
        })
        .collect();
    assert_eq!(
        order,
        [(0, 0x10), (1, 0x30), (1, 0x40), (1, 0x50), (0, 0x20)]
    );
}
