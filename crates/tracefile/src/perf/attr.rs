// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `struct perf_event_attr`, and the layout that it gives to samples (`perf_event_open(2)`).

use crate::error::Fault;
use crate::words::{Block, Words};

/// Bits of `sample_type`.
mod sample {
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const IDENTIFIER: u64 = 1 << 16;
}

/// Bits of `read_format`: times, identifiers, groups, losses.
mod read {
    pub const TIMES: [u64; 2] = [1 << 0, 1 << 1];
    pub const ID: u64 = 1 << 2;
    pub const GROUP: u64 = 1 << 3;
    pub const LOST: u64 = 1 << 4;
}

/// The type of events that are tracepoints.
const TYPE_TRACEPOINT: u32 = 2;
/// Flag bits of the attribute.
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;

/// What of an attribute is needed to read its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attr {
    pub tracepoint: bool,
    /// The number of the event, for a tracepoint.
    pub config: u64,
    sample_type: u64,
    read_format: u64,
    sample_id_all: bool,
    clockid: Option<u32>,
}

/// What every record may say about itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SampleId {
    pub process: Option<i32>,
    pub tid: Option<i32>,
    pub time: Option<u64>,
    pub cpu: Option<u32>,
    pub id: Option<u64>,
}

/// `PERF_SAMPLE_CPU`.
const SAMPLE_CPU: u64 = 1 << 7;

impl Attr {
    /// Whether its samples name their CPU: those of single threads mostly do not.
    pub fn has_cpu(self) -> bool {
        self.sample_type & SAMPLE_CPU != 0
    }

    /// Reads an attribute of `size` bytes.
    pub fn parse(words: &mut Block<'_>) -> Result<Self, Fault> {
        let what = "the description of a recorded event";
        let kind = words.u32(what)?;
        words.u32(what)?;
        let config = words.u64(what)?;
        words.u64(what)?;
        let sample_type = words.u64(what)?;
        let read_format = words.u64(what)?;
        let flags = words.u64(what)?;
        // Wake-up, breakpoint, branches, user registers and stack stand before the clock, which
        // short attributes of old kernels do not have.
        let clock = words
            .block(44, what)
            .and_then(|_| words.u32(what))
            .unwrap_or(0);
        Ok(Self {
            tracepoint: kind == TYPE_TRACEPOINT,
            config,
            sample_type,
            read_format,
            sample_id_all: flags & SAMPLE_ID_ALL != 0,
            clockid: (flags & USE_CLOCKID != 0).then_some(clock),
        })
    }

    /// The clock's name as ftrace would call it.
    pub fn clock(&self) -> String {
        match self.clockid {
            None => "perf".to_owned(),
            Some(0) => "realtime".to_owned(),
            Some(1) => "mono".to_owned(),
            Some(4) => "mono_raw".to_owned(),
            Some(7) => "boot".to_owned(),
            Some(11) => "tai".to_owned(),
            Some(other) => format!("clock {other}"),
        }
    }

    /// Where a sample keeps the number of its event: words from the record's body's start.
    pub fn id_at_sample(&self) -> Option<usize> {
        let st = self.sample_type;
        if st & sample::IDENTIFIER != 0 {
            return Some(0);
        }
        let before = sample::IP | sample::TID | sample::TIME | sample::ADDR;
        let words = usize::try_from((st & before).count_ones()).unwrap_or(0);
        (st & sample::ID != 0).then_some(words)
    }

    /// The trailer of records that are not samples.
    pub fn trailer(&self, body: &[u8]) -> SampleId {
        let mut id = SampleId::default();
        if !self.sample_id_all {
            return id;
        }
        let mut at = body.len();
        // From the last word to the first.
        for bit in [
            sample::IDENTIFIER,
            sample::CPU,
            sample::STREAM_ID,
            sample::ID,
            sample::TIME,
            sample::TID,
        ] {
            if self.sample_type & bit == 0 {
                continue;
            }
            let Some(start) = at.checked_sub(8) else {
                return SampleId::default();
            };
            let value = word(body, start).unwrap_or(0);
            at = start;
            match bit {
                sample::TIME => id.time = Some(value),
                sample::TID => id.tid = Some(high(value)),
                sample::CPU => id.cpu = Some(low(value)),
                sample::IDENTIFIER | sample::ID => id.id = Some(value),
                _ => {}
            }
        }
        id
    }

    /// A sample's head and its raw data; `None` if it is shorter than its layout.
    pub fn sample<'a>(&self, body: &'a [u8]) -> Option<(SampleId, &'a [u8])> {
        let st = self.sample_type;
        let mut id = SampleId::default();
        let mut at = 0;
        let mut take = |bit: u64| -> Option<Option<u64>> {
            if st & bit == 0 {
                return Some(None);
            }
            let value = word(body, at)?;
            at += 8;
            Some(Some(value))
        };
        id.id = take(sample::IDENTIFIER)?;
        take(sample::IP)?;
        let thread = take(sample::TID)?;
        id.process = thread.map(|word| low(word).cast_signed());
        id.tid = thread.map(high);
        id.time = take(sample::TIME)?;
        take(sample::ADDR)?;
        id.id = take(sample::ID)?.or(id.id);
        take(sample::STREAM_ID)?;
        id.cpu = take(sample::CPU)?.map(low);
        take(sample::PERIOD)?;
        if st & sample::READ != 0 {
            at = at.checked_add(self.read_size(body, at)?)?;
        }
        if st & sample::CALLCHAIN != 0 {
            let count = usize::try_from(word(body, at)?).ok()?;
            at = at.checked_add(8)?.checked_add(count.checked_mul(8)?)?;
        }
        if st & sample::RAW == 0 {
            return Some((id, &[]));
        }
        let size = u32::from_le_bytes(*body.get(at..)?.first_chunk::<4>()?);
        let start = at.checked_add(4)?;
        let raw = body.get(start..start.checked_add(usize::try_from(size).ok()?)?)?;
        Some((id, raw))
    }

    /// Bytes of the counters in a sample.
    fn read_size(&self, body: &[u8], at: usize) -> Option<usize> {
        let has = |bit: u64| usize::from(self.read_format & bit != 0);
        let times = read::TIMES.iter().map(|&bit| has(bit)).sum::<usize>();
        let each = 1 + has(read::ID) + has(read::LOST);
        if has(read::GROUP) == 0 {
            return Some((times + each) * 8);
        }
        let count = usize::try_from(word(body, at)?).ok()?;
        count
            .checked_mul(each)?
            .checked_add(1 + times)?
            .checked_mul(8)
    }
}

/// The 8 bytes at `at` as a number.
pub(super) fn word(body: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*body.get(at..)?.first_chunk::<8>()?))
}

fn low(value: u64) -> u32 {
    u32::try_from(value & 0xffff_ffff).unwrap_or(0)
}

fn high(value: u64) -> i32 {
    low(value >> 32).cast_signed()
}
