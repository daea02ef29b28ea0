// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns records into the payload of a chunk: columns of runs, tags, address differences and
//! extras. An address is written as its difference from one of the thread's last sixteen, the one
//! that takes the fewest bytes, because a program walks several arrays and its stack at once.
//! Leaves compression to the chunk around it.

use crate::layout::{
    ESCAPE_MAP, ESCAPE_MARKER, ESCAPE_ODD_SIZE, HISTORY, INSTR_ESCAPE, MAX_CHUNK_RECORDS,
    SIZE_ESCAPE,
};
use crate::record::Record;
use crate::varint;

/// The last addresses of one thread, as reader and writer both keep them.
#[derive(Debug, Clone)]
pub(crate) struct History {
    pub(crate) addresses: [u64; HISTORY],
    /// Place of the newest address.
    pub(crate) newest: usize,
    /// Chunk the addresses belong to; a history of an earlier chunk counts as all zero.
    pub(crate) chunk: u64,
}

impl History {
    fn new(chunk: u64) -> Self {
        Self {
            addresses: [0; HISTORY],
            newest: 0,
            chunk,
        }
    }
}

/// One history per thread, zeroed lazily at the start of each chunk.
#[derive(Debug, Default)]
pub(crate) struct Histories {
    threads: Vec<Option<History>>,
    chunk: u64,
}

impl Histories {
    pub(crate) fn next_chunk(&mut self) {
        self.chunk += 1;
    }

    pub(crate) fn of(&mut self, thread: u16) -> &mut History {
        let at = usize::from(thread);
        if at >= self.threads.len() {
            self.threads.resize(at + 1, None);
        }
        let chunk = self.chunk;
        let history = self.threads[at].get_or_insert_with(|| History::new(chunk));
        if history.chunk != chunk {
            *history = History::new(chunk);
        }
        history
    }
}

/// Collects the records of one chunk.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    histories: Histories,
    runs: Vec<u8>,
    tags_low: Vec<u8>,
    tags_high: Vec<u8>,
    addresses: Vec<u8>,
    extras: Vec<u8>,
    run: Option<(u16, u64)>,
}

impl Encoder {
    /// Records collected since the last [`Self::take_payload`].
    pub(crate) fn len(&self) -> usize {
        self.tags_low.len()
    }

    /// Adds one record. The caller keeps the chunk within its limit.
    pub(crate) fn push(&mut self, record: &Record) {
        assert!(
            self.len() < MAX_CHUNK_RECORDS as usize,
            "chunk over its limit"
        );
        self.extend_run(record.thread());
        match *record {
            Record::Access {
                thread,
                vaddr,
                size,
                write,
                instructions,
            } => self.push_access(thread, vaddr, size, write, instructions),
            Record::Map {
                start,
                len,
                prot,
                kind,
                ..
            } => {
                self.push_tag(SIZE_ESCAPE | ESCAPE_MAP << 4, 0);
                self.extras.push(kind.code() << 3 | prot.bits());
                varint::put(&mut self.extras, start);
                varint::put(&mut self.extras, len);
            }
            Record::Marker { id, .. } => {
                self.push_tag(SIZE_ESCAPE | ESCAPE_MARKER << 4, 0);
                varint::put(&mut self.extras, u64::from(id));
            }
        }
    }

    fn extend_run(&mut self, thread: u16) {
        match &mut self.run {
            Some((current, length)) if *current == thread => *length += 1,
            _ => {
                self.close_run();
                self.run = Some((thread, 1));
            }
        }
    }

    fn close_run(&mut self) {
        if let Some((thread, length)) = self.run.take() {
            varint::put(&mut self.runs, u64::from(thread));
            varint::put(&mut self.runs, length);
        }
    }

    fn push_tag(&mut self, low: u8, high: u8) {
        self.tags_low.push(low);
        self.tags_high.push(high);
    }

    fn push_access(&mut self, thread: u16, vaddr: u64, size: u8, write: bool, instructions: u32) {
        let history = self.histories.of(thread);
        let (age, difference) = nearest(history, vaddr);
        history.newest = (history.newest + 1) % HISTORY;
        history.addresses[history.newest] = vaddr;

        let code = length_code(difference);
        let odd_size = !(size.is_power_of_two() && size <= 64);
        // An odd size needs the age's bits to say so, and then counts from the newest address.
        let (low, code, difference) = if odd_size {
            let previous = history.addresses[(history.newest + HISTORY - 1) % HISTORY];
            let difference = zigzag(vaddr.wrapping_sub(previous));
            let low = SIZE_ESCAPE | ESCAPE_ODD_SIZE << 4;
            (low, length_code(difference), difference)
        } else {
            let exponent = u8::try_from(size.trailing_zeros()).unwrap_or(SIZE_ESCAPE);
            (exponent | age << 4, code, difference)
        };
        let inline = u8::try_from(instructions)
            .unwrap_or(INSTR_ESCAPE)
            .min(INSTR_ESCAPE);
        self.push_tag(low | u8::from(write) << 3, code | inline << 2);
        let bytes = difference.to_le_bytes();
        self.addresses.extend_from_slice(&bytes[..1 << code]);
        if odd_size {
            self.extras.push(size);
        }
        if inline == INSTR_ESCAPE {
            varint::put(&mut self.extras, u64::from(instructions));
        }
    }

    /// Appends the payload to `out` and starts the next chunk.
    pub(crate) fn take_payload(&mut self, out: &mut Vec<u8>) {
        self.close_run();
        for column in [&self.runs, &self.addresses, &self.extras] {
            let len = u32::try_from(column.len()).expect("a chunk's columns are bounded");
            out.extend_from_slice(&len.to_le_bytes());
        }
        for column in [
            &mut self.runs,
            &mut self.tags_low,
            &mut self.tags_high,
            &mut self.addresses,
            &mut self.extras,
        ] {
            out.append(column);
        }
        self.histories.next_chunk();
    }
}

/// The remembered address whose difference is shortest, newest first: its age and the difference.
fn nearest(history: &History, vaddr: u64) -> (u8, u64) {
    let mut best = (0, u64::MAX, 4);
    for age in 0..HISTORY {
        let base = history.addresses[(history.newest + HISTORY - age) % HISTORY];
        let difference = zigzag(vaddr.wrapping_sub(base));
        let code = length_code(difference);
        if code < best.2 {
            best = (age, difference, code);
            if code == 0 {
                break;
            }
        }
    }
    (u8::try_from(best.0).unwrap_or(0), best.1)
}

/// Signed differences become small unsigned ones: 0, -1, 1, -2 to 0, 1, 2, 3.
fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ 0u64.wrapping_sub(difference >> 63)
}

/// Two bits for 1, 2, 4 or 8 bytes.
fn length_code(value: u64) -> u8 {
    match value {
        0..=0xff => 0,
        0x100..=0xffff => 1,
        0x1_0000..=0xffff_ffff => 2,
        _ => 3,
    }
}
