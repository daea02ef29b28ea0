// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Each kind of damage gives one error that says where and what.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod common;

use std::path::PathBuf;

use steady_memtrace::{
    FileWriter, Header, MAX_INSTRUCTIONS, MapKind, Prot, Reader, Record, TraceError, Writer, check,
    check_stream,
};

use common::{Counts, assemble, payload};

const RW: Prot = Prot {
    read: true,
    write: true,
    exec: false,
};

fn sample() -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), "sample", &Header::new("sample")).unwrap();
    let map = Record::Map {
        thread: 0,
        start: 0x1000,
        len: 0x4000,
        prot: RW,
        kind: MapKind::Mmap,
    };
    writer.push(&map).unwrap();
    for at in 0..40u16 {
        let access = Record::Access {
            thread: at % 3,
            vaddr: 0x1000 + u64::from(at) * 16,
            size: 8,
            write: at % 2 == 0,
            instructions: u32::from(at),
        };
        writer.push(&access).unwrap();
    }
    writer.set_maps_complete(true);
    writer.finish().unwrap().0
}

/// The error both ways of reading give, as file and as stream; they must agree that there is one.
fn errors(bytes: &[u8]) -> (TraceError, TraceError) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    (
        check(file.path()).unwrap_err(),
        check_stream(bytes, "s").unwrap_err(),
    )
}

#[test]
fn the_sample_is_sound() {
    let report = check_stream(sample().as_slice(), "s").unwrap();
    assert_eq!((report.totals.records, report.totals.threads), (41, 3));
    assert_eq!(report.footprint_pages, 1);
}

#[test]
fn an_empty_file_is_called_empty() {
    let (file, stream) = errors(b"");
    assert!(matches!(file, TraceError::Empty { .. }), "{file}");
    assert!(matches!(stream, TraceError::Empty { .. }), "{stream}");
}

#[test]
fn a_foreign_file_is_called_foreign_and_shows_its_first_bytes() {
    for bytes in [
        &b"PERFILE2 and more than a header's worth of bytes"[..],
        b"x",
    ] {
        let (file, _) = errors(bytes);
        assert!(matches!(file, TraceError::Foreign { .. }), "{file}");
    }
    let (file, _) = errors(b"PERFILE2");
    assert!(file.to_string().contains("PERFILE2"), "{file}");
}

#[test]
fn another_version_is_named_with_ours() {
    let mut bytes = sample();
    bytes[8] = 9;
    let message = errors(&bytes).0.to_string();
    assert!(
        message.contains("version 9") && message.contains("version 1"),
        "{message}"
    );
}

#[test]
fn every_truncation_is_an_error() {
    let whole = sample();
    for len in 0..whole.len() {
        let (file, stream) = errors(&whole[..len]);
        let cut = matches!(
            stream,
            TraceError::Truncated { .. } | TraceError::Empty { .. }
        );
        assert!(cut || len < 8, "{len}: {stream}");
        assert!(
            file.to_string().contains("byte") || len < 8 || len == 0,
            "{len}: {file}"
        );
    }
}

#[test]
fn every_flipped_bit_is_an_error() {
    let whole = sample();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        errors(&bytes);
    }
}

#[test]
fn bytes_after_the_end_are_an_error() {
    let mut bytes = sample();
    bytes.push(0);
    errors(&bytes);
}

#[test]
fn damage_in_a_chunk_names_file_chunk_and_byte() {
    let mut bytes = sample();
    bytes[54 + 30] ^= 0x10;
    let message = errors(&bytes).1.to_string();
    assert!(
        message.starts_with("s: chunk 0, byte 54: damaged: checksum"),
        "{message}"
    );
}

/// One chunk of one load of 4 bytes at 0x20 by thread 5, four instructions.
fn one_load() -> Vec<u8> {
    payload(&[5, 1], &[0b0000_0010], &[0b0001_0000], &[0x40], &[])
}

const ONE_LOAD: Counts = Counts {
    records: 1,
    loads: 1,
    stores: 0,
    maps: 0,
    markers: 0,
    instructions: 4,
    threads: 6,
};

#[test]
fn a_trace_built_by_hand_reads_as_the_format_says() {
    let bytes = assemble(&[(1, one_load())], &ONE_LOAD, 0);
    check_stream(bytes.as_slice(), "s").unwrap();
    let mut reader = Reader::from_stream(bytes.as_slice(), "s").unwrap();
    let mut block = Vec::new();
    assert!(reader.next_block(&mut block).unwrap());
    let load = Record::Access {
        thread: 5,
        vaddr: 0x20,
        size: 4,
        write: false,
        instructions: 4,
    };
    assert_eq!(block, [load]);
    assert!(!reader.next_block(&mut block).unwrap());
}

#[test]
fn false_totals_are_an_invariant_broken() {
    for change in [
        |counts: &mut Counts| counts.instructions += 1,
        |counts: &mut Counts| (counts.loads, counts.stores) = (0, 1),
        |counts: &mut Counts| counts.threads = 5,
    ] {
        let mut counts = ONE_LOAD;
        change(&mut counts);
        let (file, _) = errors(&assemble(&[(1, one_load())], &counts, 0));
        assert!(matches!(file, TraceError::Invariant { .. }), "{file}");
    }
}

#[test]
fn a_stray_access_is_an_error_only_where_all_mappings_are_claimed() {
    check_stream(assemble(&[(1, one_load())], &ONE_LOAD, 0).as_slice(), "s").unwrap();
    let (file, stream) = errors(&assemble(&[(1, one_load())], &ONE_LOAD, 1));
    for error in [file, stream] {
        let message = error.to_string();
        assert!(message.contains("chunk 0, record 0, byte 48"), "{message}");
        assert!(message.contains("mapped range"), "{message}");
    }
}

#[test]
fn columns_that_do_not_fit_their_records_are_damage() {
    for bad in [
        payload(&[5, 2], &[2], &[16], &[0x40], &[]),
        payload(&[5], &[2], &[16], &[0x40], &[]),
        payload(&[5, 1, 0], &[2], &[16], &[0x40], &[]),
        payload(&[5, 1], &[2], &[16], &[0x40, 0], &[]),
        payload(&[5, 1], &[2], &[19], &[0x40], &[]),
        payload(&[5, 1], &[2], &[16], &[0x40], &[0]),
        payload(&[5, 1], &[0x37], &[0], &[], &[]),
        payload(&[0xff, 0xff, 0x7f, 1], &[2], &[16], &[0x40], &[]),
        payload(&[5, 1], &[2], &[63 << 2], &[0x40], &[0xff]),
        vec![0; 3],
    ] {
        let (file, _) = errors(&assemble(&[(1, bad)], &ONE_LOAD, 0));
        assert!(matches!(file, TraceError::Damaged { .. }), "{file}");
    }
}

/// [`one_load`] after more instructions than its tag holds, with counts to match.
fn one_late_load(instructions: u64) -> Vec<u8> {
    // Seven bits a byte, low ones first; the high bit says that more follow.
    let bytes = instructions.max(1).ilog2() / 7;
    let extras: Vec<u8> = (0..=bytes)
        .map(|at| {
            let bits = u8::try_from(instructions >> (7 * at) & 127).unwrap();
            bits | if at < bytes { 128 } else { 0 }
        })
        .collect();
    let load = payload(&[5, 1], &[0b0000_0010], &[0b1111_1100], &[0x40], &extras);
    let counts = Counts {
        instructions,
        ..ONE_LOAD
    };
    assemble(&[(1, load)], &counts, 0)
}

#[test]
fn more_instructions_than_a_thread_can_run_without_an_access_are_refused() {
    check_stream(one_late_load(1 << 31).as_slice(), "s").unwrap();
    for instructions in [(1 << 31) + 1, (1 << 32) - 1] {
        let (file, stream) = errors(&one_late_load(instructions));
        for error in [file, stream] {
            assert!(matches!(error, TraceError::Invariant { .. }), "{error}");
            let message = error.to_string();
            for part in ["chunk 0, record 0, byte 48", "thread 5", "Capture"] {
                assert!(message.contains(part), "{part}: {message}");
            }
            assert!(message.contains(&instructions.to_string()), "{message}");
        }
    }
}

#[test]
fn impossible_records_are_refused_by_the_writer() {
    let mut writer = Writer::new(Vec::new(), "w", &Header::new("w")).unwrap();
    for (size, instructions) in [(0, 0), (1, MAX_INSTRUCTIONS + 1)] {
        let access = Record::Access {
            thread: 0,
            vaddr: 0,
            size,
            write: false,
            instructions,
        };
        assert!(matches!(
            writer.push(&access),
            Err(TraceError::Unwritable { .. })
        ));
    }
    for (start, len) in [(1, u64::MAX), (0, 0)] {
        let map = Record::Map {
            thread: 0,
            start,
            len,
            prot: RW,
            kind: MapKind::Mmap,
        };
        assert!(matches!(
            writer.push(&map),
            Err(TraceError::Unwritable { .. })
        ));
    }
}

#[test]
fn a_file_appears_only_when_finished() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.smt");
    let names = || -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder.path()).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    };
    drop(FileWriter::create(&path, &Header::new("t")).unwrap());
    assert_eq!(names(), Vec::<PathBuf>::new());
    FileWriter::create(&path, &Header::new("t"))
        .unwrap()
        .finish()
        .unwrap();
    assert_eq!(names(), std::slice::from_ref(&path));
    check(&path).unwrap();
}
