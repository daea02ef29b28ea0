// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns the payload of a chunk back into records, a block at a time. Every length is checked
//! before it is believed; a payload that passes has used up each of its columns exactly.

use crate::encode::Histories;
use crate::layout::{
    BLOCK_RECORDS, ESCAPE_MAP, ESCAPE_MARKER, ESCAPE_ODD_SIZE, HISTORY, INSTR_ESCAPE,
    PAYLOAD_HEADER_LEN, SIZE_ESCAPE,
};
use crate::record::{MAX_INSTRUCTIONS, MapKind, Prot, Record};
use crate::varint;

/// What is wrong with a payload, to be put beside the chunk's place.
#[derive(Debug)]
pub(crate) struct Fault {
    /// True where the bytes are sound and what they say cannot have happened.
    pub(crate) impossible: bool,
    pub(crate) record: Option<u64>,
    pub(crate) what: &'static str,
    pub(crate) expected: String,
    pub(crate) found: String,
}

/// Bytes the address column is read past its end, so that each read is one eight-byte load.
const SLACK: usize = 8;
/// The bytes of an address difference, by the two bits that give its length.
const MASKS: [u64; 4] = [0xFF, 0xFFFF, 0xFFFF_FFFF, u64::MAX];
const FILLER: Record = Record::Marker { thread: 0, id: 0 };

/// Takes records one after the other, in the order of the trace.
pub trait Sink {
    /// What takes the records of one run.
    type Run<'a>: Run
    where
        Self: 'a;

    /// The next records are of `thread`, at most `count` of them.
    fn run(&mut self, thread: u16, count: usize) -> Self::Run<'_>;
}

/// Takes the records of one thread in a row.
pub trait Run {
    /// An access; the values are those of [`Record::Access`].
    fn access(&mut self, vaddr: u64, size: u8, write: bool, instructions: u32);
    /// A record that is not an access.
    fn other(&mut self, record: Record);
    /// There are no more. A run that is not ended may not count.
    fn end(self);
}

/// Overwrites records in order.
struct InPlace<'a> {
    slots: &'a mut [Record],
    used: usize,
}

/// A run of them.
struct InPlaceRun<'a> {
    thread: u16,
    slots: std::slice::IterMut<'a, Record>,
    used: &'a mut usize,
    count: usize,
}

impl Sink for InPlace<'_> {
    type Run<'a>
        = InPlaceRun<'a>
    where
        Self: 'a;

    fn run(&mut self, thread: u16, count: usize) -> InPlaceRun<'_> {
        InPlaceRun {
            thread,
            slots: self.slots[self.used..self.used + count].iter_mut(),
            used: &mut self.used,
            count,
        }
    }
}

impl Run for InPlaceRun<'_> {
    #[inline]
    fn access(&mut self, vaddr: u64, size: u8, write: bool, instructions: u32) {
        self.other(Record::Access {
            thread: self.thread,
            vaddr,
            size,
            write,
            instructions,
        });
    }

    #[inline]
    fn other(&mut self, record: Record) {
        if let Some(slot) = self.slots.next() {
            *slot = record;
        }
    }

    fn end(self) {
        *self.used += self.count - self.slots.len();
    }
}

/// One chunk's payload and how far it has been read.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    histories: Histories,
    payload: Vec<u8>,
    records: usize,
    done: usize,
    /// Thread of the open run and the records left in it.
    run: (u16, usize),
    cursor: Cursor,
    ends: Cursor,
    tags: usize,
}

/// Offsets into the three columns of variable length.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Cursor {
    runs: usize,
    addresses: usize,
    extras: usize,
}

impl Decoder {
    /// True when every record of the chunk has been handed out.
    pub(crate) fn is_drained(&self) -> bool {
        self.done == self.records
    }

    /// Records of the chunk handed out so far.
    pub(crate) fn done(&self) -> usize {
        self.done
    }

    /// The decompressed bytes, without the slack.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.payload[..self.payload.len().saturating_sub(SLACK)]
    }

    /// Starts a chunk of `records` records. `fill` gets an empty buffer to decompress into.
    pub(crate) fn start<E>(
        &mut self,
        records: usize,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Result<(), Fault>, E> {
        (self.records, self.done) = (0, 0);
        self.payload.clear();
        fill(&mut self.payload)?;
        let columns = self.split_columns(records);
        self.payload.extend_from_slice(&[0; SLACK]);
        self.histories.next_chunk();
        self.run = (0, 0);
        if columns.is_ok() {
            self.records = records;
        }
        Ok(columns)
    }

    fn split_columns(&mut self, records: usize) -> Result<(), Fault> {
        let mut lengths = [0usize; 3];
        let (head, _) = self
            .payload
            .split_at_checked(PAYLOAD_HEADER_LEN)
            .ok_or_else(|| {
                fault(
                    None,
                    "length of the payload",
                    "at least 12",
                    self.payload.len(),
                )
            })?;
        for (length, bytes) in lengths.iter_mut().zip(head.chunks_exact(4)) {
            *length = bytes
                .iter()
                .rev()
                .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        }
        let [runs, addresses, extras] = lengths;
        let sum = PAYLOAD_HEADER_LEN + runs + 2 * records + addresses + extras;
        if sum != self.payload.len() {
            return Err(fault(None, "sum of the columns", sum, self.payload.len()));
        }
        self.cursor.runs = PAYLOAD_HEADER_LEN;
        self.ends.runs = PAYLOAD_HEADER_LEN + runs;
        self.tags = self.ends.runs;
        self.cursor.addresses = self.tags + 2 * records;
        self.ends.addresses = self.cursor.addresses + addresses;
        self.cursor.extras = self.ends.addresses;
        self.ends.extras = self.cursor.extras + extras;
        Ok(())
    }

    /// Replaces `out` by the next records, at most [`BLOCK_RECORDS`].
    pub(crate) fn next_block(&mut self, out: &mut Vec<Record>) -> Result<(), Fault> {
        // Overwriting in place saves the check for space at every push.
        out.resize(self.next_count(), FILLER);
        self.next_into(&mut InPlace {
            slots: out,
            used: 0,
        })
    }

    /// Records in the next block.
    fn next_count(&self) -> usize {
        (self.records - self.done).min(BLOCK_RECORDS)
    }

    /// Gives the next records to `sink`, at most [`BLOCK_RECORDS`].
    pub(crate) fn next_into(&mut self, sink: &mut impl Sink) -> Result<(), Fault> {
        let count = self.next_count();
        let mut filled = 0;
        while filled < count {
            if self.run.1 == 0 {
                self.open_run()?;
            }
            let take = self.run.1.min(count - filled);
            let mut run = sink.run(self.run.0, take);
            self.decode_run(take, &mut run)?;
            run.end();
            self.run.1 -= take;
            self.done += take;
            filled += take;
        }
        if self.is_drained() && (self.cursor != self.ends || self.run.1 != 0) {
            let what = "bytes of the columns used";
            return Err(fault(
                None,
                what,
                format!("{:?}", self.ends),
                format!("{:?}", self.cursor),
            ));
        }
        Ok(())
    }

    fn open_run(&mut self) -> Result<(), Fault> {
        let record = u64::try_from(self.done).ok();
        let column = &self.payload[..self.ends.runs];
        let (Some(thread), Some(length)) = (
            varint::take(column, &mut self.cursor.runs),
            varint::take(column, &mut self.cursor.runs),
        ) else {
            return Err(fault(
                record,
                "run of one thread",
                "a thread and a length",
                "no more",
            ));
        };
        let left = self.records - self.done;
        let thread = u16::try_from(thread)
            .map_err(|_| fault(record, "thread of a run", "at most 65535", thread))?;
        let length = usize::try_from(length)
            .ok()
            .filter(|length| (1..=left).contains(length))
            .ok_or_else(|| fault(record, "length of a run", format!("1 to {left}"), length))?;
        self.run = (thread, length);
        Ok(())
    }

    /// Decodes the next `count` records, all of the open run.
    #[inline]
    fn decode_run(&mut self, count: usize, run: &mut impl Run) -> Result<(), Fault> {
        let thread = self.run.0;
        let first = self.tags + self.done;
        let low = &self.payload[first..first + count];
        let high = &self.payload[first + self.records..first + self.records + count];
        let column = &self.payload[..self.ends.addresses + SLACK];
        let extras = &self.payload[..self.ends.extras];
        // Each by itself: what is lent to a function lies in memory, and so does all that is in one
        // structure with it.
        let (mut difference_at, mut extra_at) = (self.cursor.addresses, self.cursor.extras);
        let history = self.histories.of(thread);
        let mut newest = history.newest;
        let addresses = &mut history.addresses;
        for (at, (&low, &high)) in low.iter().zip(high).enumerate() {
            let here = || u64::try_from(self.done + at).ok();
            let mut age = usize::from(low >> 4);
            let mut size = 1 << (low & 7);
            if low & 7 == SIZE_ESCAPE {
                if low >> 4 != ESCAPE_ODD_SIZE {
                    let record;
                    (record, extra_at) = taken(extras, extra_at, |extras, at| {
                        other(thread, low, high, extras, at)
                    })
                    .ok_or_else(|| bad_extra(here(), "mapping change or marker"))?;
                    run.other(record);
                    continue;
                }
                age = 0;
                (size, extra_at) = taken(extras, extra_at, odd_size)
                    .ok_or_else(|| bad_extra(here(), "size of an access"))?;
            }
            let Some(bytes) = column
                .get(difference_at..)
                .and_then(<[u8]>::first_chunk::<8>)
            else {
                return Err(fault(
                    here(),
                    "address difference",
                    "more bytes",
                    "none left",
                ));
            };
            let length = 1usize << (high & 3);
            let difference = u64::from_le_bytes(*bytes) & MASKS[usize::from(high & 3)];
            difference_at += length;
            let base = addresses[newest.wrapping_sub(age) % HISTORY];
            let signed = (difference >> 1) ^ 0u64.wrapping_sub(difference & 1);
            let vaddr = base.wrapping_add(signed);
            newest = (newest + 1) % HISTORY;
            addresses[newest] = vaddr;
            let mut instructions = u32::from(high >> 2);
            if high >> 2 == INSTR_ESCAPE {
                (instructions, extra_at) = taken(extras, extra_at, instruction_count)
                    .ok_or_else(|| bad_extra(here(), "instruction count"))?;
                if instructions > MAX_INSTRUCTIONS {
                    return Err(gap(here(), thread, instructions));
                }
            }
            run.access(vaddr, size, low & 8 != 0, instructions);
        }
        history.newest = newest;
        (self.cursor.addresses, self.cursor.extras) = (difference_at, extra_at);
        Ok(())
    }
}

/// What `take` takes from `extras` at `at`, and where it ends: apart from the loop of records.
#[cold]
#[inline(never)]
fn taken<T>(
    extras: &[u8],
    mut at: usize,
    take: impl FnOnce(&[u8], &mut usize) -> Option<T>,
) -> Option<(T, usize)> {
    let value = take(extras, &mut at)?;
    Some((value, at))
}

fn instruction_count(extras: &[u8], at: &mut usize) -> Option<u32> {
    varint::take(extras, at).and_then(|count| u32::try_from(count).ok())
}

fn fault(
    record: Option<u64>,
    what: &'static str,
    expected: impl ToString,
    found: impl ToString,
) -> Fault {
    Fault {
        impossible: false,
        record,
        what,
        expected: expected.to_string(),
        found: found.to_string(),
    }
}

/// A count of instructions that no thread can have come to.
fn gap(record: Option<u64>, thread: u16, instructions: u32) -> Fault {
    let found = format!(
        "{instructions} by thread {thread}: its recorder miscounted, as earlier ones did at \
         signals. Capture the program again"
    );
    Fault {
        impossible: true,
        ..fault(
            record,
            "instructions since the thread's previous access",
            format!("at most {MAX_INSTRUCTIONS}"),
            found,
        )
    }
}

fn bad_extra(record: Option<u64>, what: &'static str) -> Fault {
    fault(
        record,
        what,
        "a value in range",
        "none, or one out of range",
    )
}

fn odd_size(extras: &[u8], at: &mut usize) -> Option<u8> {
    let size = *extras.get(*at)?;
    *at += 1;
    (size > 64 || size > 0 && !size.is_power_of_two()).then_some(size)
}

/// A record that is not an access: its tag says nothing but which.
fn other(thread: u16, low: u8, high: u8, extras: &[u8], at: &mut usize) -> Option<Record> {
    match (low >> 3, high) {
        (kind, 0) if kind == ESCAPE_MAP << 1 => map(thread, extras, at),
        (kind, 0) if kind == ESCAPE_MARKER << 1 => marker(thread, extras, at),
        _ => None,
    }
}

fn map(thread: u16, extras: &[u8], at: &mut usize) -> Option<Record> {
    let head = *extras.get(*at)?;
    *at += 1;
    let start = varint::take(extras, at)?;
    let len = varint::take(extras, at).filter(|len| *len > 0)?;
    start.checked_add(len)?;
    Some(Record::Map {
        thread,
        start,
        len,
        prot: Prot::from_bits(u64::from(head & 7)),
        kind: MapKind::from_code(head >> 3)?,
    })
}

fn marker(thread: u16, extras: &[u8], at: &mut usize) -> Option<Record> {
    let id = u32::try_from(varint::take(extras, at)?).ok()?;
    Some(Record::Marker { thread, id })
}
