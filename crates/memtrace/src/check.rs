// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The invariant checker: reads a whole trace and stops at the first thing that is damaged or
//! cannot have happened. What it holds a trace to: checksums, the index, the digest; totals equal
//! to the records'; accesses inside the ranges that the trace's own records map, where the trace
//! claims to know them all; no mapping change that wraps. It does not judge rights: a fault that
//! a program handles is legal.

use std::io::Read;
use std::path::Path;

use crate::error::{Place, TraceError};
use crate::footer::{Digest, Totals};
use crate::header::Header;
use crate::reader::Reader;
use crate::record::Record;
use crate::space::AddressSpace;

/// What a sound trace holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The trace's header.
    pub header: Header,
    /// Totals, counted and equal to those stated.
    pub totals: Totals,
    /// Digest, computed and equal to that stated.
    pub digest: Digest,
    /// Distinct pages accessed, of the header's page size.
    pub footprint_pages: u64,
}

/// Checks a trace file.
///
/// # Errors
/// The first [`TraceError`] met.
pub fn check(path: &Path) -> Result<Report, TraceError> {
    check_reader(Reader::open(path)?)
}

/// Checks a trace from a stream, as [`check`] does a file.
///
/// # Errors
/// The first [`TraceError`] met.
pub fn check_stream(from: impl Read, name: &str) -> Result<Report, TraceError> {
    check_reader(Reader::from_stream(from, name)?)
}

fn check_reader<R: Read>(mut reader: Reader<R>) -> Result<Report, TraceError> {
    reader.verify_digest();
    let mut checker = Checker::new(reader.header().page_size);
    // A file states its totals first. A stream states them last, so whether its mappings are
    // complete is known too late to name the place: the first stray access is kept.
    let mut block = Vec::new();
    while reader.next_block(&mut block)? {
        let first = reader.done_in_chunk() - block.len() as u64;
        let claimed = reader.totals().is_none_or(|totals| totals.maps_complete);
        for (record, at) in block.iter().zip(first..) {
            if !checker.record(record) && claimed && checker.stray.is_none() {
                checker.stray = Some(stray(record, reader.place(Some(at))));
            }
        }
        if reader.totals().is_some()
            && let Some(stray) = checker.stray.take()
        {
            return Err(stray);
        }
    }
    let (Some(stated), Some(digest)) = (reader.totals().copied(), reader.digest()) else {
        unreachable!("a reader at its end knows the totals");
    };
    match checker.stray.take() {
        Some(stray) if stated.maps_complete => return Err(stray),
        _ => {}
    }
    checker.totals.chunks = stated.chunks;
    checker.totals.maps_complete = stated.maps_complete;
    checker.totals.stopped_early = stated.stopped_early;
    if checker.totals != stated {
        return Err(TraceError::Invariant {
            place: reader.place(None),
            what: "totals in the footer",
            expected: format!("{:?}", checker.totals),
            found: format!("{stated:?}"),
        });
    }
    Ok(Report {
        header: reader.header().clone(),
        totals: stated,
        digest,
        footprint_pages: checker.footprint.pages(),
    })
}

fn stray(record: &Record, place: Box<Place>) -> TraceError {
    TraceError::Invariant {
        place,
        what: "access inside a mapped range",
        expected: "a range mapped by an earlier record".to_owned(),
        found: format!("{record:x?}"),
    }
}

struct Checker {
    totals: Totals,
    space: AddressSpace,
    footprint: Footprint,
    stray: Option<TraceError>,
}

impl Checker {
    fn new(page_size: u32) -> Self {
        Self {
            totals: Totals::default(),
            space: AddressSpace::default(),
            footprint: Footprint::new(page_size.trailing_zeros()),
            stray: None,
        }
    }

    /// Takes one record in; `false` for an access outside what is mapped.
    fn record(&mut self, record: &Record) -> bool {
        self.totals.count(record);
        match *record {
            Record::Access { vaddr, size, .. } => {
                self.footprint.touch(vaddr);
                let end = vaddr.checked_add(u64::from(size));
                return end.is_some_and(|end| self.space.covers(vaddr, end));
            }
            Record::Map {
                start,
                len,
                prot,
                kind,
                ..
            } => self.space.apply(start, len, prot, kind),
            Record::Marker { .. } => {}
        }
        true
    }
}

/// Distinct pages, one bit each, in groups of 64 neighbours.
struct Footprint {
    page_shift: u32,
    groups: std::collections::BTreeMap<u64, u64>,
    last_page: Option<u64>,
}

impl Footprint {
    fn new(page_shift: u32) -> Self {
        Self {
            page_shift,
            groups: std::collections::BTreeMap::new(),
            last_page: None,
        }
    }

    fn touch(&mut self, vaddr: u64) {
        let page = vaddr >> self.page_shift;
        if self.last_page.replace(page) != Some(page) {
            *self.groups.entry(page / 64).or_insert(0) |= 1 << (page % 64);
        }
    }

    fn pages(&self) -> u64 {
        self.groups
            .values()
            .map(|bits| u64::from(bits.count_ones()))
            .sum()
    }
}
