// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What was written is what is read, from a file and from a stream.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use proptest::prelude::*;
use steady_memtrace::{
    Header, MAX_INSTRUCTIONS, MapKind, Prot, Reader, Record, Writer, check_stream,
};

fn any_record() -> impl Strategy<Value = Record> {
    let thread = prop_oneof![8 => 0u16..4, 1 => any::<u16>()];
    let near = (0u64..4, 0u64..0x4000).prop_map(|(base, at)| base << 44 | at);
    let vaddr = prop_oneof![8 => near, 1 => any::<u64>()];
    let size = prop_oneof![8 => (0u32..7).prop_map(|bits| 1 << bits), 1 => 1u8..=255];
    let instructions = prop_oneof![8 => 0u32..9, 1 => 0..=MAX_INSTRUCTIONS];
    let access = (thread.clone(), vaddr, size, any::<bool>(), instructions).prop_map(
        |(thread, vaddr, size, write, instructions)| Record::Access {
            thread,
            vaddr,
            size,
            write,
            instructions,
        },
    );
    let kind = prop::sample::select(vec![
        MapKind::Mmap,
        MapKind::Munmap,
        MapKind::Mprotect,
        MapKind::Madvise,
        MapKind::Brk,
    ]);
    let map = (thread.clone(), any::<u64>(), any::<u64>(), 0u64..8, kind).prop_map(
        |(thread, start, len, bits, kind)| Record::Map {
            thread,
            start,
            len: (len % (u64::MAX - start).max(1))
                .max(u64::from(start < u64::MAX))
                .max(1),
            prot: Prot::from_bits(bits),
            kind,
        },
    );
    let marker = (thread, any::<u32>()).prop_map(|(thread, id)| Record::Marker { thread, id });
    prop_oneof![12 => access, 1 => map, 1 => marker]
}

fn written(records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), "test", &Header::new("test")).unwrap();
    for record in records {
        writer.push(record).unwrap();
    }
    writer.finish().unwrap().0
}

fn read(bytes: &[u8]) -> Vec<Record> {
    let mut reader = Reader::from_stream(bytes, "test").unwrap();
    let (mut all, mut block) = (Vec::new(), Vec::new());
    while reader.next_block(&mut block).unwrap() {
        assert!(!block.is_empty());
        all.extend_from_slice(&block);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn any_records_come_back_in_order(records in prop::collection::vec(any_record(), 0..600)) {
        let bytes = written(&records);
        prop_assert_eq!(read(&bytes), records.clone());
        let report = check_stream(bytes.as_slice(), "test").unwrap();
        prop_assert_eq!(report.totals.records, records.len() as u64);
    }
}

#[test]
fn records_survive_the_borders_of_blocks_and_chunks() {
    let records: Vec<Record> = (0..200_000u64)
        .map(|at| Record::Access {
            thread: (at / 1000 % 3) as u16,
            vaddr: 0x10_0000 + at * 8 % 50_000 + (at % 2) * (1 << 46),
            size: 8,
            write: at % 3 == 0,
            instructions: (at % 70) as u32,
        })
        .collect();
    assert_eq!(read(&written(&records)), records);
}

#[test]
fn the_same_records_give_the_same_bytes_and_digest() {
    let records = [Record::Marker { thread: 0, id: 7 }];
    assert_eq!(written(&records), written(&records));
    let digest_at = |captured_unix_s| {
        let header = Header {
            captured_unix_s,
            ..Header::new("test")
        };
        let mut writer = Writer::new(Vec::new(), "test", &header).unwrap();
        writer.push(&records[0]).unwrap();
        writer.finish().unwrap().2
    };
    assert_eq!(digest_at(0), digest_at(1_700_000_000));
}

#[test]
fn the_header_comes_back_whole() {
    let header = Header {
        page_size: 16384,
        command: vec!["a b".to_owned(), String::new(), "ü".to_owned()],
        recorder: "tool 1".to_owned(),
        captured_unix_s: u64::MAX,
        ..Header::new("prog")
    };
    let bytes = Writer::new(Vec::new(), "test", &header)
        .unwrap()
        .finish()
        .unwrap()
        .0;
    assert_eq!(
        Reader::from_stream(bytes.as_slice(), "test")
            .unwrap()
            .header(),
        &header
    );
}
