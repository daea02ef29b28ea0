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
const FILLER: Record = Record::Marker { thread: 0, id: 0 };

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
        let count = (self.records - self.done).min(BLOCK_RECORDS);
        // Overwriting in place saves the check for space at every push.
        out.resize(count, FILLER);
        let mut filled = 0;
        while filled < count {
            if self.run.1 == 0 {
                self.open_run()?;
            }
            let take = self.run.1.min(count - filled);
            self.decode_run(&mut out[filled..filled + take])?;
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

    /// Decodes the next `out.len()` records, all of the open run.
    fn decode_run(&mut self, out: &mut [Record]) -> Result<(), Fault> {
        let thread = self.run.0;
        let first = self.tags + self.done;
        let low = &self.payload[first..first + out.len()];
        let high = &self.payload[first + self.records..first + self.records + out.len()];
        let column = &self.payload[..self.ends.addresses + SLACK];
        let extras = &self.payload[..self.ends.extras];
        let mut cursor = self.cursor;
        let history = self.histories.of(thread);
        let mut newest = history.newest;
        let addresses = &mut history.addresses;
        for (at, (slot, (&low, &high))) in out.iter_mut().zip(low.iter().zip(high)).enumerate() {
            let here = || u64::try_from(self.done + at).ok();
            let mut age = usize::from(low >> 4);
            let mut size = 1 << (low & 7);
            if low & 7 == SIZE_ESCAPE {
                if low >> 4 != ESCAPE_ODD_SIZE {
                    *slot = other(thread, low, high, extras, &mut cursor.extras)
                        .ok_or_else(|| bad_extra(here(), "mapping change or marker"))?;
                    continue;
                }
                age = 0;
                size = odd_size(extras, &mut cursor.extras)
                    .ok_or_else(|| bad_extra(here(), "size of an access"))?;
            }
            let Some(bytes) = column
                .get(cursor.addresses..)
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
            let difference = u64::from_le_bytes(*bytes) & (u64::MAX >> (64 - 8 * length));
            cursor.addresses += length;
            let base = addresses[newest.wrapping_sub(age) % HISTORY];
            let signed = (difference >> 1) ^ 0u64.wrapping_sub(difference & 1);
            let vaddr = base.wrapping_add(signed);
            newest = (newest + 1) % HISTORY;
            addresses[newest] = vaddr;
            let mut instructions = u32::from(high >> 2);
            if high >> 2 == INSTR_ESCAPE {
                instructions = varint::take(extras, &mut cursor.extras)
                    .and_then(|count| u32::try_from(count).ok())
                    .ok_or_else(|| bad_extra(here(), "instruction count"))?;
                if instructions > MAX_INSTRUCTIONS {
                    return Err(gap(here(), thread, instructions));
                }
            }
            *slot = Record::Access {
                thread,
                vaddr,
                size,
                write: low & 8 != 0,
                instructions,
            };
        }
        history.newest = newest;
        self.cursor = cursor;
        Ok(())
    }
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

/// A record that is no access: its tag says nothing but which.
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
