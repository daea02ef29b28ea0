// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trace of a host that is written by hand, byte by byte as the format says: which accesses agree
//! with its tables, and which do not.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use steady_memtrace::host::{Counts, HostTraceError};

/// A trace of one processor and 64 frames, whose window has begun, with four levels of tables in
/// frames 1 to 4: page 0 of the address space is in frame `leaf`.
struct Trace(Vec<u8>);

impl Trace {
    fn new(leaf: u64) -> Self {
        let mut trace = Self(b"SHTRACE1".to_vec());
        trace.numbers(&[1, 64]);
        trace.record(9, &[]);
        trace.record(1, &[0, 0x1000, 1 << 31, 1 << 10, 0, 0]);
        for (frame, entry) in [(1, 0x2003), (2, 0x3003), (3, 0x4003), (4, leaf << 12 | 3)] {
            trace.record(2, &[frame]);
            let mut page = vec![0; 4096];
            page[..8].copy_from_slice(&u64::to_le_bytes(entry));
            trace.0.extend(page);
        }
        trace
    }

    fn numbers(&mut self, numbers: &[u64]) {
        for &number in numbers {
            let mut rest = number;
            while rest >= 0x80 {
                self.0.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
                rest >>= 7;
            }
            self.0.push(u8::try_from(rest).unwrap());
        }
    }

    fn record(&mut self, kind: u8, numbers: &[u64]) -> &mut Self {
        self.0.extend([3, kind, 1]);
        self.numbers(numbers);
        self
    }

    /// A load of eight bytes at address 0, two instructions later.
    fn load(&mut self, frame: u64) -> &mut Self {
        self.0.push(4);
        self.numbers(&[2 << 3 | 3, 0, frame]);
        self
    }

    /// The entry of page 0 is written.
    fn remap(&mut self, leaf: u64) -> &mut Self {
        self.record(3, &[0x4000, 8]);
        self.0.extend((leaf << 12 | 3).to_le_bytes());
        self
    }

    fn counts(&mut self) -> Counts {
        self.record(10, &[]);
        Counts::read(&self.0[..]).unwrap()
    }
}

fn outcome(counts: &Counts) -> [u64; 3] {
    [counts.agreed, counts.stale, counts.mismatches]
}

#[test]
fn an_access_agrees_only_where_the_tables_lead() {
    let counts = Trace::new(7).load(7).load(8).counts();
    assert_eq!(outcome(&counts), [1, 0, 1]);
    assert!(counts.first_mismatches[0].contains("recorded frame 0x8, walk Frame(7)"));
    assert_eq!((counts.tables, counts.instructions), (4, 2));
}

#[test]
fn an_old_translation_is_stale_until_it_is_invalidated() {
    let invlpg = [15, 0, 0x123, 0];
    for (kind, numbers, after) in [
        (4, &invlpg[..], [1, 1, 1]),
        (7, &[48, 0, 1, 0], [1, 1, 1]),
        (8, &[1, 0, 0, 0], [1, 1, 1]),
        // INVLPG of another page, and a CR3 write, which spares global pages.
        (4, &[15, 0, 0x1000, 0], [1, 2, 0]),
        (4, &[11, 0, 0x1000, 0], [1, 2, 0]),
    ] {
        let mut trace = Trace::new(7);
        trace.load(7).remap(9).load(7);
        let counts = trace.record(kind, numbers).load(7).counts();
        assert_eq!(outcome(&counts), after, "record {kind} {numbers:?}");
        assert_eq!(counts.updates, 1);
    }
}

#[test]
fn a_guests_page_is_walked_through_its_own_tables_and_the_ept() {
    // The guest's frames are the host's here, by one EPT entry of 2 MiB in frame 12.
    let mut trace = Trace::new(7);
    for (frame, entry) in [(10, 0xb007u64), (11, 0xc007), (12, 0x87)] {
        trace.record(2, &[frame]);
        let mut page = vec![0; 4096];
        page[..8].copy_from_slice(&entry.to_le_bytes());
        trace.0.extend(page);
    }
    trace.record(1, &[1, 0x1000, 1 << 31, 1 << 10, 5, 0xa01e]);
    trace.load(7).load(8);
    // It now leads to the next 2 MiB, so that no table of the guest is known.
    trace.record(3, &[0xc000, 8]);
    trace.0.extend(0x20_0087u64.to_le_bytes());
    let counts = trace.load(0x207).counts();
    assert_eq!(outcome(&counts), [1, 0, 2]);
    assert_eq!(counts.accesses[&5], [3, 0]);
}

#[test]
fn a_trace_that_is_cut_off_or_is_another_file_is_refused() {
    let mut trace = Trace::new(7);
    trace.load(7).record(10, &[]);
    let whole = trace.0;
    for length in 0..whole.len() {
        let read = Counts::read(&whole[..length]);
        assert!(
            matches!(read, Err(HostTraceError::Truncated { .. })),
            "{length}"
        );
    }
    let other = Counts::read(&[0; 64][..]).unwrap_err().to_string();
    assert!(other.contains("expected the magic SHTRACE1"), "{other}");
}
