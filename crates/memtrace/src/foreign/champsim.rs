// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads ChampSim traces: one fixed-length record per instruction of one thread.
//!
//! The record (ChampSim's `inc/trace_instruction.h`, `input_instr`), 64 bytes, little-endian:
//! instruction address (8), branch flag and outcome (1 + 1), 2 destination and 4 source register
//! numbers, 2 store addresses (8 each), 4 load addresses (8 each); an address of 0 means none.
//!
//! What such a trace does not say, and what is put in its place: sizes (8 bytes), order of an
//! instruction's accesses (loads first), mappings (none).
//! The CloudSuite variant has longer records and is refused where its flags or its length show it.

use super::unpack::Unpacked;
use super::{Event, What, place};
use crate::capture::RawAccess;
use crate::error::TraceError;
use crate::header::long;

const INSTRUCTION_LEN: usize = 64;
const STORES: std::ops::Range<usize> = 16..32;
const LOADS: std::ops::Range<usize> = 32..64;
const SIZE: u8 = 8;

/// One thread's trace.
pub(super) struct ChampSim {
    from: Unpacked,
    thread: u64,
    /// The instruction being taken apart; `part` counts its addresses, loads first.
    bytes: [u8; INSTRUCTION_LEN],
    part: usize,
    /// Instructions read since the last access, and in all.
    gap: u32,
    instructions: u64,
}

impl ChampSim {
    pub(super) fn open(from: Unpacked, thread: u64) -> Self {
        Self {
            from,
            thread,
            bytes: [0; INSTRUCTION_LEN],
            part: PARTS,
            gap: 0,
            instructions: 0,
        }
    }

    /// The next access; instructions after the last one are not recorded.
    pub(super) fn next(&mut self) -> Result<Option<Event>, TraceError> {
        loop {
            while self.part < PARTS {
                let (at, write) = address_of(self.part);
                self.part += 1;
                let vaddr = long(&self.bytes, at);
                if vaddr == 0 {
                    continue;
                }
                let access = RawAccess {
                    vaddr,
                    instructions: std::mem::take(&mut self.gap),
                    size: SIZE,
                    write,
                };
                return Ok(Some(Event {
                    when: self.instructions,
                    thread: self.thread,
                    what: What::Access(access),
                }));
            }
            let start = self.from.offset();
            if !self
                .from
                .read_record(&mut self.bytes, "record of one instruction")?
            {
                return Ok(None);
            }
            let (branch, taken) = (self.bytes[8], self.bytes[9]);
            if branch > 1 || taken > 1 {
                return Err(TraceError::Damaged {
                    place: place(self.from.name(), start),
                    what: "branch flags (is this a ChampSim trace of 64-byte records?)",
                    expected: "0 or 1 each".to_owned(),
                    found: format!("{branch} and {taken}"),
                });
            }
            self.gap = self.gap.saturating_add(1);
            self.instructions += 1;
            self.part = 0;
        }
    }
}

/// Addresses of one instruction.
const PARTS: usize = (LOADS.end - LOADS.start + STORES.end - STORES.start) / 8;

/// Where the address lies in the record, and whether it is stored to.
fn address_of(part: usize) -> (usize, bool) {
    let loads = (LOADS.end - LOADS.start) / 8;
    match part.checked_sub(loads) {
        None => (LOADS.start + part * 8, false),
        Some(store) => (STORES.start + store * 8, true),
    }
}
