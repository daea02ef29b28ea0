// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Mutated traces: reading never panics, never allocates more than a bound, and what it accepts it
//! can write and read again. Half the inputs have their checksums repaired, so that the mutation
//! reaches the decoder behind them. Traces of other tools the same way: plain, and packed again
//! after the mutation or before it. The ignored tests take a million inputs each.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use steady_memtrace::{Header, MapKind, Prot, Reader, Record, TraceError, Writer, check_stream};

use common::foreign::{self, Member};
use common::{Counts, Random, assemble};

/// Inputs in the usual run and in the long one.
const INPUTS: u64 = 40_000;
const FOREIGN_INPUTS: u64 = 8_000;
const MANY_INPUTS: u64 = 1_000_000;
/// Buffers of one chunk take under 6 MB, the histories of 65,536 threads 11 MB, and a vector that
/// grows holds its old and new place for a moment.
const BOUND: usize = 40 << 20;

struct Counting;
static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
/// Tests that look at the peak run one after the other.
static ALONE: Mutex<()> = Mutex::new(());

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

/// What a call held at most, beyond what was held before it.
fn peak_of<T>(call: impl FnOnce() -> T) -> (T, usize) {
    PEAK.store(LIVE.load(Ordering::Relaxed), Ordering::Relaxed);
    let before = LIVE.load(Ordering::Relaxed);
    let result = call();
    (result, PEAK.load(Ordering::Relaxed).saturating_sub(before))
}

fn fuzz_own(inputs: u64) {
    let _alone = ALONE.lock();
    let mut random = Random(5);
    let (mut accepted, mut refused, mut worst) = (0u64, 0u64, 0);
    for input in 0..inputs {
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
        let (result, peak) = peak_of(|| read(&bytes));
        worst = worst.max(peak);
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
        accepted > inputs / 50 && refused > inputs / 2,
        "{accepted} {refused}"
    );
}

#[test]
fn mutated_traces_never_panic_and_never_allocate_beyond_the_bound() {
    fuzz_own(INPUTS);
}

#[test]
#[ignore = "takes minutes; run with --release"]
fn a_million_mutated_traces_never_panic() {
    fuzz_own(MANY_INPUTS);
}

/// A ChampSim trace of a few instructions.
fn seed_champsim(random: &mut Random) -> Vec<u8> {
    let mut address = || {
        if random.below(3) == 0 {
            random.next() >> 16
        } else {
            0
        }
    };
    let mut one = || {
        foreign::instruction(
            0x40_0000,
            [address(), address()],
            [address(), 0, address(), 0],
        )
    };
    let whole = [one(), one(), one()].concat();
    whole.repeat(1 + random.below(3))
}

/// A DynamoRIO trace of a few entries, most of them of known types.
fn seed_dynamorio(random: &mut Random) -> Vec<u8> {
    let mut all = vec![
        (25, 0, 4 + random.next() % 3),
        (28, 9, 0x40),
        (22, 4, 100 + random.next() % 3),
        (24, 4, 7),
    ];
    for _ in 0..random.below(24) {
        all.push(match random.below(8) {
            0 | 1 => (10, 3, random.next() >> 16),
            2 => (0, 8, random.next() >> 16),
            3 => (1, 1 << random.below(9), random.next() >> 16),
            4 => (28, 2, random.next() >> 40),
            5 => (
                28,
                4,
                (1 << 32) + [9, 10, 11, 12, 25, 28, 202][random.below(7)],
            ),
            6 => (
                28,
                [6, 6, 7][random.below(3)],
                random.next() >> random.below(64),
            ),
            _ => (
                u16::try_from(random.below(50)).unwrap(),
                4,
                random.next() >> 32,
            ),
        });
    }
    all.push((26, 0, 0));
    foreign::entries(&all)
}

/// Packs bytes one way or another.
fn packed(content: Vec<u8>, random: &mut Random) -> Vec<u8> {
    match random.below(7) {
        0 => foreign::gzip(&content),
        6 => zstd::bulk::compress(&content, 1).unwrap(),
        // Making an xz stream takes long.
        1 if random.below(8) == 0 => foreign::xz(&content),
        1 | 2 => {
            let (first, second) = content.split_at(random.below(content.len() + 1));
            let member = |name, content: &[u8], deflate| Member {
                name,
                content: content.to_vec(),
                deflate,
            };
            foreign::zip(&[
                member("chunk.0000", first, true),
                member("chunk.0001", second, false),
            ])
        }
        _ => content,
    }
}

fn fuzz_foreign(inputs: u64, seed: fn(&mut Random) -> Vec<u8>) {
    let _alone = ALONE.lock();
    let mut random = Random(11);
    let (mut accepted, mut refused, mut worst) = (0u64, 0u64, 0);
    for input in 0..inputs {
        let mut content = seed(&mut random);
        let inside = random.below(2) == 0;
        if inside && random.below(4) > 0 {
            mutate(&mut content, &mut random);
        }
        let mut bytes = packed(content, &mut random);
        if !inside {
            mutate(&mut bytes, &mut random);
        }
        let (result, peak) = peak_of(|| foreign::converted(&[&bytes]));
        worst = worst.max(peak);
        assert!(
            worst < BOUND,
            "input {input} made the reader hold {worst} bytes"
        );
        match result {
            Ok(trace) => {
                check_stream(trace.as_slice(), "fuzz").unwrap();
                accepted += 1;
            }
            Err(error) => {
                let said = error.to_string();
                assert!(
                    said.starts_with("file0: ") && !said.contains('\n'),
                    "input {input}: {said}"
                );
                refused += 1;
            }
        }
    }
    assert!(
        accepted > inputs / 50 && refused > inputs / 4,
        "{accepted} {refused}"
    );
}

#[test]
fn mutated_champsim_traces_are_converted_or_refused() {
    fuzz_foreign(FOREIGN_INPUTS, seed_champsim);
}

#[test]
fn mutated_dynamorio_traces_are_converted_or_refused() {
    fuzz_foreign(FOREIGN_INPUTS, seed_dynamorio);
}

#[test]
#[ignore = "takes minutes; run with --release"]
fn a_million_mutated_champsim_traces_are_converted_or_refused() {
    fuzz_foreign(MANY_INPUTS, seed_champsim);
}

#[test]
#[ignore = "takes minutes; run with --release"]
fn a_million_mutated_dynamorio_traces_are_converted_or_refused() {
    fuzz_foreign(MANY_INPUTS, seed_dynamorio);
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
