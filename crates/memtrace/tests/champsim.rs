// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ChampSim traces, built here byte by byte.
#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::io::Write;
use std::path::Path;
use steady_memtrace::champsim::ChampSimReader;
use steady_memtrace::{Record, TraceError};

fn instruction(ip: u64, stores: [u64; 2], loads: [u64; 4]) -> Vec<u8> {
    let mut bytes = ip.to_le_bytes().to_vec();
    bytes.extend([1, 0, 6, 25, 6, 26, 0, 0]);
    for address in stores.into_iter().chain(loads) {
        bytes.extend(address.to_le_bytes());
    }
    bytes
}

fn sample() -> Vec<u8> {
    [
        instruction(0x400000, [0; 2], [0; 4]),
        instruction(0x400004, [0x7000, 0], [0x6000, 0, 0x6008, 0]),
        instruction(0x400008, [0; 2], [0; 4]),
        instruction(0x40000c, [0; 2], [0x9000, 0, 0, 0]),
    ]
    .concat()
}

fn access(vaddr: u64, write: bool, instructions: u32) -> Record {
    Record::Access {
        thread: 3,
        vaddr,
        size: 8,
        write,
        instructions,
    }
}

fn read(bytes: &[u8]) -> Result<Vec<Record>, TraceError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let mut reader = ChampSimReader::open(file.path(), 3)?;
    let (mut all, mut block) = (Vec::new(), Vec::new());
    while reader.next_block(&mut block)? {
        all.append(&mut block);
    }
    Ok(all)
}

fn expected() -> [Record; 4] {
    [
        access(0x6000, false, 2),
        access(0x6008, false, 0),
        access(0x7000, true, 0),
        access(0x9000, false, 2),
    ]
}

#[test]
fn plain_gzip_and_xz_traces_read_alike() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&sample()).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(&sample()).unwrap();
    for bytes in [sample(), gzip.finish().unwrap(), xz.finish().unwrap()] {
        assert_eq!(read(&bytes).unwrap(), expected());
    }
}

#[test]
fn a_cut_record_names_its_offset() {
    let message = read(&sample()[..100]).unwrap_err().to_string();
    assert!(
        message.contains("byte 64") && message.contains("expected 64"),
        "{message}"
    );
}

#[test]
fn a_cut_archive_is_an_error() {
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(&sample()).unwrap();
    let bytes = xz.finish().unwrap();
    assert!(matches!(
        read(&bytes[..bytes.len() / 2]),
        Err(TraceError::Io { .. })
    ));
}

#[test]
fn another_format_is_refused_at_its_first_flags() {
    let message = read(&[b'x'; 64]).unwrap_err().to_string();
    assert!(message.contains("branch flags"), "{message}");
}

#[test]
fn an_empty_or_missing_file_is_an_error() {
    assert!(matches!(read(b""), Err(TraceError::Empty { .. })));
    assert!(matches!(
        ChampSimReader::open(Path::new("no/such/trace"), 0),
        Err(TraceError::Io { .. })
    ));
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
    std::fs::write(&paths[0], slow).unwrap();
    std::fs::write(&paths[1], fast).unwrap();
    let output = folder.path().join("out.smt");
    let (totals, _) = steady_memtrace::champsim::convert(&paths, &output).unwrap();
    assert_eq!((totals.threads, totals.instructions), (2, 7));
    assert_eq!(
        steady_memtrace::check(&output).unwrap().header.program,
        "a + b"
    );

    let mut reader = steady_memtrace::Reader::open(&output).unwrap();
    let mut block = Vec::new();
    reader.next_block(&mut block).unwrap();
    let order: Vec<(u16, u64)> = block
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
