// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mutated traces, 120,000 of them: reading never panics, never allocates more than a bound, and
//! what it accepts it can write and read again. Half the inputs have their checksums repaired, so
//! that the mutation reaches the decoder behind them.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod common;

use common::{Counts, Random, assemble};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use steady_memtrace::{Header, MapKind, Prot, Reader, Record, TraceError, Writer, check_stream};

const INPUTS: u64 = 120_000;
/// Buffers of one chunk take under 6 MB, the histories of 65,536 threads 11 MB, and a vector that
/// grows holds its old and new place for a moment.
const BOUND: usize = 40 << 20;

struct Counting;
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged; only sizes are counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller's obligations are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: `at` came from `alloc` above with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn seed_records(random: &mut Random) -> Vec<Record> {
    let count = random.below(60);
    let mut records = Vec::with_capacity(count);
    for _ in 0..count {
        let thread = u16::try_from(random.below(4)).unwrap();
        records.push(match random.below(8) {
            0 => Record::Map {
                thread,
                start: random.next() >> 16,
                len: (random.next() >> 40) + 1,
                prot: Prot::from_bits(random.next()),
                kind: MapKind::Mprotect,
            },
            1 => Record::Marker {
                thread,
                id: u32::try_from(random.next() >> 32).unwrap(),
            },
            _ => Record::Access {
                thread,
                vaddr: 0x7f00_0000_0000 + random.next() % 100_000,
                size: u8::try_from(random.below(16) + 1).unwrap(),
                write: random.below(2) == 0,
                instructions: u32::try_from(random.below(90)).unwrap(),
            },
        });
    }
    records
}

fn write(records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), "fuzz", &Header::new("fuzz")).unwrap();
    for record in records {
        writer.push(record).unwrap();
    }
    writer.finish().unwrap().0
}

fn read(bytes: &[u8]) -> Result<Vec<Record>, TraceError> {
    let mut reader = Reader::from_stream(bytes, "fuzz")?;
    let (mut all, mut block) = (Vec::new(), Vec::new());
    while reader.next_block(&mut block)? {
        all.extend_from_slice(&block);
    }
    Ok(all)
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(7) {
            0 => bytes.truncate(at),
            1 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
            2 if !bytes.is_empty() => bytes[at] = 0xff,
            3 if !bytes.is_empty() => bytes[at] = random.next().to_le_bytes()[0],
            4 if !bytes.is_empty() => drop(bytes.remove(at)),
            5 => bytes.insert(at, random.next().to_le_bytes()[0]),
            _ => {
                let end = (at + random.below(16)).min(bytes.len());
                let copied = bytes[at..end].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, copied);
            }
        }
    }
}

/// The first chunk's record count and its decompressed payload.
fn first_payload(file: &[u8]) -> Option<(u32, Vec<u8>)> {
    let at = file.windows(4).position(|mark| mark == b"CHNK")?;
    let word = |from: usize| u32::from_le_bytes(file[from..from + 4].try_into().unwrap());
    let stored = &file[at + 20..at + 20 + word(at + 12) as usize];
    let payload = zstd::bulk::decompress(stored, word(at + 8) as usize).unwrap();
    Some((word(at + 4), payload))
}

#[test]
fn mutated_traces_never_panic_and_never_allocate_beyond_the_bound() {
    let mut random = Random(5);
    let (mut accepted, mut refused, mut worst) = (0u64, 0u64, 0);
    for input in 0..INPUTS {
        let records = seed_records(&mut random);
        let mut bytes = write(&records);
        if input % 2 == 0 {
            mutate(&mut bytes, &mut random);
        } else if let Some((count, mut payload)) = first_payload(&bytes) {
            mutate(&mut payload, &mut random);
            let count = if random.below(8) == 0 {
                count + 1
            } else {
                count
            };
            let counts = Counts {
                records: u64::from(count),
                ..Counts::default()
            };
            bytes = assemble(&[(count, payload)], &counts, 0);
        }
        PEAK.store(LIVE.load(Ordering::Relaxed), Ordering::Relaxed);
        let before = LIVE.load(Ordering::Relaxed);
        let result = read(&bytes);
        worst = worst.max(PEAK.load(Ordering::Relaxed).saturating_sub(before));
        assert!(
            worst < BOUND,
            "input {input} made the reader hold {worst} bytes"
        );
        // The checker must survive the same input, whatever it finds.
        let checked = check_stream(bytes.as_slice(), "fuzz");
        match result {
            Ok(found) => {
                assert_eq!(read(&write(&found)).unwrap(), found, "input {input}");
                accepted += 1;
            }
            Err(_) => {
                assert!(
                    checked.is_err(),
                    "input {input}: the checker saw less than the reader"
                );
                refused += 1;
            }
        }
    }
    // Both outcomes must be exercised, or the mutations test nothing.
    assert!(
        accepted > INPUTS / 50 && refused > INPUTS / 2,
        "{accepted} {refused}"
    );
}

#[test]
fn a_chunk_that_claims_everything_is_refused_without_allocating_it() {
    let mut file = common::header();
    file.extend(b"CHNK");
    for word in [65_536u32, u32::MAX, u32::MAX, 0] {
        file.extend(word.to_le_bytes());
    }
    let message = read(&file).unwrap_err().to_string();
    assert!(message.contains("raw length of a chunk"), "{message}");
}
