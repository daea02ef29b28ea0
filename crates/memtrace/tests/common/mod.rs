// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A second implementation of the format's outer layers, written from `docs/formats/memtrace.md`
//! and not from the crate: builds files the writer would not.

#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, reason = "a test's helpers fail the test")]

pub mod foreign;

use sha2::{Digest, Sha256};

/// Everything a footer counts, in its order, behind chunks.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    pub records: u64,
    pub loads: u64,
    pub stores: u64,
    pub maps: u64,
    pub markers: u64,
    pub instructions: u64,
    pub threads: u64,
}

pub fn header() -> Vec<u8> {
    let mut bytes = b"\x89SMT\r\n\x1a\n".to_vec();
    for word in [1u32, 48, 4096, 0, 0, 0, 0, 0, 0] {
        bytes.extend(word.to_le_bytes());
    }
    // Two empty texts take eight bytes: 36 fixed + 8 + 4 of checksum.
    assert_eq!(bytes.len(), 44);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

pub fn payload(runs: &[u8], low: &[u8], high: &[u8], addresses: &[u8], extras: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for column in [runs, addresses, extras] {
        bytes.extend(u32::try_from(column.len()).unwrap().to_le_bytes());
    }
    for column in [runs, low, high, addresses, extras] {
        bytes.extend(column);
    }
    bytes
}

/// A whole trace around the payloads, every checksum right.
pub fn assemble(chunks: &[(u32, Vec<u8>)], counts: &Counts, flags: u32) -> Vec<u8> {
    let mut file = header();
    let mut index = Vec::new();
    let mut content = Sha256::new();
    for (records, payload) in chunks {
        let stored = zstd::bulk::compress(payload, 1).unwrap();
        let mut head = b"CHNK".to_vec();
        head.extend(records.to_le_bytes());
        head.extend(u32::try_from(payload.len()).unwrap().to_le_bytes());
        head.extend(u32::try_from(stored.len()).unwrap().to_le_bytes());
        let sum = crc32fast::hash(&[head.as_slice(), &stored].concat());
        index.extend(u64::try_from(file.len()).unwrap().to_le_bytes());
        index.extend(records.to_le_bytes());
        index.extend(sum.to_le_bytes());
        file.extend(&head);
        file.extend(sum.to_le_bytes());
        file.extend(&stored);
        content.update(records.to_le_bytes());
        content.update(payload);
    }
    let start = file.len();
    let mut footer = b"INDX".to_vec();
    footer.extend(flags.to_le_bytes());
    for count in [
        chunks.len() as u64,
        counts.records,
        counts.loads,
        counts.stores,
        counts.maps,
        counts.markers,
        counts.instructions,
        counts.threads,
    ] {
        footer.extend(count.to_le_bytes());
    }
    footer.extend(content.finalize());
    footer.extend(index);
    footer.extend(crc32fast::hash(&footer).to_le_bytes());
    file.extend(&footer);
    let mut trailer = (start as u64).to_le_bytes().to_vec();
    trailer.extend((footer.len() as u64).to_le_bytes());
    trailer.extend(crc32fast::hash(&trailer).to_le_bytes());
    trailer.extend(b"SMTEND\r\n");
    file.extend(trailer);
    file
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }
}
