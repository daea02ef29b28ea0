// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DynamoRIO traces, built here entry by entry after its documentation; no DynamoRIO was at hand.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod common;

use steady_memtrace::foreign::convert;
use steady_memtrace::{MapKind, Prot, Record, check};

use common::foreign::{Member, access, converted, entries, gzip, records, zip};

const READ: u16 = 0;
const WRITE: u16 = 1;
const INSTR: u16 = 10;
const THREAD: u16 = 22;
const EXIT: u16 = 23;
const PID: u16 = 24;
const HEADER: u16 = 25;
const FOOTER: u16 = 26;
const MARKER: u16 = 28;

const TIMESTAMP: u16 = 2;
const FUNC_ID: u16 = 4;
const FUNC_ARG: u16 = 6;
const FUNC_RETVAL: u16 = 7;
const FILETYPE: u16 = 9;
const X86_64: u64 = 0x40;
const SYSCALL: u64 = 1 << 32;

type Entry = (u16, u16, u64);

/// What drmemtrace puts before and after a thread's entries.
fn file(version: u64, thread: u64, body: &[Entry]) -> Vec<u8> {
    let mut all = vec![
        (HEADER, 0, version),
        (MARKER, 12, version),
        (MARKER, FILETYPE, X86_64 | 0x200),
        (THREAD, 4, thread),
        (PID, 4, 77),
        (MARKER, 10, 64),
        (MARKER, 18, 4096),
    ];
    all.extend(body);
    all.extend([(EXIT, 4, thread), (FOOTER, 0, 0)]);
    entries(&all)
}

fn sample() -> Vec<u8> {
    file(
        5,
        900,
        &[
            (MARKER, TIMESTAMP, 1000),
            (MARKER, 3, 1),
            (47, 3, 0x00ff_ff90),
            (INSTR, 3, 0x400000),
            (INSTR, 4, 0x400003),
            (READ, 8, 0x6000),
            (WRITE, 4, 0x7000),
            // A bundle of three, a prefetch, a turn of a repeated string instruction.
            (17, 3, 0x0003_0405),
            (3, 1, 0x5000),
            (29, 2, 0x400010),
            (READ, 1, 0x8000),
        ],
    )
}

fn expected() -> Vec<Record> {
    vec![
        access(0, 0x6000, 8, false, 2),
        access(0, 0x7000, 4, true, 0),
        access(0, 0x8000, 1, false, 4),
    ]
}

fn message(file: &[u8]) -> String {
    converted(&[file]).unwrap_err().to_string()
}

#[test]
fn plain_gzip_and_zip_traces_read_alike() {
    let (first, second) = {
        let whole = sample();
        // Chunks end between entries: the ninth entry begins the second one.
        let (a, b) = whole.split_at(12 * 9);
        (a.to_vec(), b.to_vec())
    };
    let members = [
        Member {
            name: "chunk.0000",
            content: first,
            deflate: true,
        },
        Member {
            name: "chunk.0001",
            content: second,
            deflate: false,
        },
    ];
    for bytes in [sample(), gzip(&sample()), zip(&members)] {
        assert_eq!(records(&[&bytes]).unwrap(), expected());
    }
}

#[test]
fn threads_are_merged_by_their_timestamps() {
    let of = |thread, times: [u64; 2], at: u64| {
        file(
            6,
            thread,
            &[
                (MARKER, TIMESTAMP, times[0]),
                (INSTR, 1, 1),
                (READ, 8, at),
                (MARKER, TIMESTAMP, times[1]),
                (INSTR, 1, 1),
                (READ, 8, at + 8),
            ],
        )
    };
    let found = records(&[&of(5, [10, 40], 0x1000), &of(6, [20, 30], 0x2000)]).unwrap();
    let expected = [(0, 0x1000), (1, 0x2000), (1, 0x2008), (0, 0x1008)];
    assert_eq!(
        found,
        expected.map(|(thread, vaddr)| access(thread, vaddr, 8, false, 1))
    );
}

#[test]
fn a_file_per_core_keeps_its_threads_apart() {
    let bytes = file(
        6,
        5,
        &[
            (INSTR, 1, 1),
            (THREAD, 4, 6),
            (INSTR, 1, 1),
            (INSTR, 1, 1),
            (READ, 8, 0x2000),
            (THREAD, 4, 5),
            (READ, 8, 0x1000),
        ],
    );
    let found = records(&[&bytes]).unwrap();
    // Threads are numbered by their first accesses.
    assert_eq!(
        found,
        [
            access(0, 0x2000, 8, false, 2),
            access(1, 0x1000, 8, false, 1)
        ]
    );
}

fn call(number: u64, args: &[u64], returned: u64) -> Vec<Entry> {
    let mut all = vec![(MARKER, FUNC_ID, SYSCALL + number)];
    all.extend(args.iter().map(|&arg| (MARKER, FUNC_ARG, arg)));
    all.push((MARKER, FUNC_ID, SYSCALL + number));
    all.push((MARKER, FUNC_RETVAL, returned));
    all
}

#[test]
fn recorded_system_calls_change_mappings_and_failed_ones_do_not() {
    let body = [
        call(9, &[0, 8000, 3], 0x7000_0000),
        call(10, &[0x7000_0000, 4096, 1], 0),
        call(11, &[0x7000_0000, 8192], u64::MAX - 21),
        call(11, &[0x7000_0000, 8192], 0),
        // The arguments were not recorded, or the call does not map.
        call(11, &[0x7000_0000], 0),
        call(202, &[1, 2, 3], 0),
        vec![(READ, 8, 0x10)],
    ]
    .concat();
    let read = access(0, 0x10, 8, false, 0);
    let map = |len, bits, kind| Record::Map {
        thread: 0,
        start: 0x7000_0000,
        len,
        prot: Prot::from_bits(bits),
        kind,
    };
    let expected = [
        map(8192, 3, MapKind::Mmap),
        map(4096, 1, MapKind::Mprotect),
        map(8192, 0, MapKind::Munmap),
        read,
    ];
    assert_eq!(records(&[&file(6, 5, &body)]).unwrap(), expected);
    // Before version 6 the return value said only that the call succeeded.
    assert_eq!(records(&[&file(5, 5, &body)]).unwrap(), [read]);
}

#[test]
fn what_the_kernel_did_is_passed_over() {
    let kernel = 0xffff_8000_0000_0000;
    let body = [
        (INSTR, 2, 1),
        (MARKER, 27, 0),
        (INSTR, 2, kernel),
        (READ, 8, kernel),
        (MARKER, 28, 0),
        (READ, 8, 0x1000),
    ];
    assert_eq!(
        records(&[&file(6, 5, &body)]).unwrap(),
        [access(0, 0x1000, 8, false, 1)]
    );
}

#[test]
fn a_long_access_becomes_pieces_and_one_of_unknown_size_a_byte() {
    let body = [(INSTR, 2, 1), (WRITE, 160, 0x1000), (READ, 0, 0x2000)];
    assert_eq!(
        records(&[&file(6, 5, &body)]).unwrap(),
        [
            access(0, 0x1000, 64, true, 1),
            access(0, 0x1040, 64, true, 0),
            access(0, 0x1080, 32, true, 0),
            access(0, 0x2000, 1, false, 0),
        ]
    );
}

#[test]
fn what_lacks_accesses_is_refused_with_what_to_do() {
    for (bits, text) in [
        (X86_64 | 0x100, "record it without a filter"),
        (X86_64 | 0x4, "record it with data accesses"),
        (0x20, "only 64-bit ones are read"),
    ] {
        let bytes = entries(&[(HEADER, 0, 5), (MARKER, FILETYPE, bits), (FOOTER, 0, 0)]);
        let message = message(&bytes);
        assert!(message.contains(text), "{message}");
    }
}

#[test]
fn a_later_version_and_another_word_size_are_refused() {
    let message_of = |bytes: &[u8]| message(bytes);
    let later = message_of(&entries(&[(HEADER, 0, 7)]));
    assert!(later.contains("version is 7, expected 2 to 6"), "{later}");
    // Entries of a 32-bit program take 8 bytes: header, then the version marker.
    let narrow = [25, 0, 0, 0, 5, 0, 0, 0, 28, 0, 12, 0, 5, 0, 0, 0];
    let narrow = message_of(&narrow);
    assert!(narrow.contains("32-bit"), "{narrow}");
}

#[test]
fn a_raw_trace_is_refused_with_the_command_that_mends_it() {
    // Type 6 in the top bits, subtype 4 or, before version 5, 0; then version and file type.
    for first in [0xc407_0000_0000_0040_u64, 0xc040_0000_0000_0004] {
        let mut raw = first.to_le_bytes().to_vec();
        raw.extend([0; 56]);
        let message = message(&raw);
        assert!(message.contains("drrun -t drmemtrace -indir"), "{message}");
    }
}

#[test]
fn a_cut_file_an_unknown_entry_and_a_second_process_name_their_offset() {
    let whole = sample();
    let cut = message(&whole[..whole.len() - 12]);
    assert!(cut.contains("the footer is missing"), "{cut}");
    let half = message(&whole[..whole.len() - 5]);
    assert!(half.contains("expected 12 bytes, found 7"), "{half}");
    let unknown = message(&file(5, 1, &[(50, 0, 0)]));
    assert!(
        unknown.contains("byte 84: damaged: type of an entry"),
        "{unknown}"
    );
    let two = message(&file(5, 1, &[(PID, 4, 78)]));
    assert!(
        two.contains("byte 84") && two.contains("77, found 78"),
        "{two}"
    );
}

#[test]
fn a_member_with_a_wrong_checksum_is_refused() {
    let member = Member {
        name: "chunk.0000",
        content: sample(),
        deflate: false,
    };
    let mut bytes = zip(&[member]);
    // A byte of an address in the stored data, behind the member's head of 40 bytes.
    bytes[40 + 12 * 12 + 6] ^= 1;
    let message = message(&bytes);
    assert!(message.contains("checksum"), "{message}");
}

#[test]
fn a_folder_stands_for_the_trace_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("drmemtrace.app.1.dir/trace");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::write(inner.join("drmemtrace.app.900.trace.gz"), gzip(&sample())).unwrap();
    std::fs::write(inner.join("cpu_schedule.bin.zip"), b"PK").unwrap();
    let output = folder.path().join("out.smt");
    let given = inner.parent().unwrap().to_owned();
    let (totals, _) = convert(&[given], &output).unwrap();
    assert_eq!(
        (totals.loads, totals.stores, totals.instructions),
        (2, 1, 6)
    );
    let header = check(&output).unwrap().header;
    assert_eq!(header.recorder, "converted from DynamoRIO");
    let raw = folder.path().join("raw-only");
    std::fs::create_dir(&raw).unwrap();
    let message = convert(&[raw], &output).unwrap_err().to_string();
    assert!(message.contains("no files named *.trace"), "{message}");
}

#[test]
fn files_of_two_tools_do_not_go_together() {
    let other = common::foreign::instruction(1, [0; 2], [0x10, 0, 0, 0]);
    let message = converted(&[&sample(), &other]).unwrap_err().to_string();
    assert!(
        message.contains("file1") && message.contains("does not go with the first"),
        "{message}"
    );
}
