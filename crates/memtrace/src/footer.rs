// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands after the last record: totals, the trace's digest, the index of chunks, and a
//! trailer of fixed length by which a reader finds the rest.

use std::fmt;

use crate::header::{long, word};
use crate::layout::{
    END_MAGIC, FLAG_MAPS_COMPLETE, FLAG_STOPPED_EARLY, FOOTER_FIXED_LEN, INDEX_MARK, TRAILER_LEN,
};
use crate::record::Record;

/// Counts over a whole trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Chunks in the file.
    pub chunks: u64,
    /// Records of all kinds.
    pub records: u64,
    /// Accesses that load.
    pub loads: u64,
    /// Accesses that store.
    pub stores: u64,
    /// Changes of the address space.
    pub maps: u64,
    /// Markers.
    pub markers: u64,
    /// Sum of the accesses' instruction counts.
    pub instructions: u64,
    /// Highest thread number plus one; 0 in a trace without records.
    pub threads: u32,
    /// True when every access lies in a range mapped by the records before it.
    pub maps_complete: bool,
    /// True when the program was stopped before its end.
    pub stopped_early: bool,
}

impl Totals {
    /// Loads and stores together.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.loads + self.stores
    }

    /// Counts one record in.
    pub(crate) fn count(&mut self, record: &Record) {
        self.records += 1;
        self.threads = self.threads.max(u32::from(record.thread()) + 1);
        match *record {
            Record::Access {
                write,
                instructions,
                ..
            } => {
                self.loads += u64::from(!write);
                self.stores += u64::from(write);
                self.instructions += u64::from(instructions);
            }
            Record::Map { .. } => self.maps += 1,
            Record::Marker { .. } => self.markers += 1,
        }
    }
}

/// Names a trace's content: SHA-256 of its chunks' decompressed payloads with their record counts.
/// Two captures of the same events have the same digest whenever and wherever they were made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Digest(pub [u8; 32]);

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Totals and digest as the file states them, and the checksum over its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) totals: Totals,
    pub(crate) digest: Digest,
}

impl Footer {
    /// The fixed part; the index and the footer's checksum follow it.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let totals = &self.totals;
        let mut bytes = INDEX_MARK.to_vec();
        let flags = if totals.maps_complete {
            FLAG_MAPS_COMPLETE
        } else {
            0
        } | if totals.stopped_early {
            FLAG_STOPPED_EARLY
        } else {
            0
        };
        bytes.extend_from_slice(&flags.to_le_bytes());
        for count in [
            totals.chunks,
            totals.records,
            totals.loads,
            totals.stores,
            totals.maps,
            totals.markers,
            totals.instructions,
            u64::from(totals.threads),
        ] {
            bytes.extend_from_slice(&count.to_le_bytes());
        }
        bytes.extend_from_slice(&self.digest.0);
        debug_assert_eq!(bytes.len(), FOOTER_FIXED_LEN);
        bytes
    }

    /// The fixed part read back; `None` for the wrong marker, unknown flags or too many threads.
    pub(crate) fn parse(bytes: &[u8; FOOTER_FIXED_LEN]) -> Option<Self> {
        let flags = word(bytes, 4);
        let known = FLAG_MAPS_COMPLETE | FLAG_STOPPED_EARLY;
        (bytes[..4] == INDEX_MARK && flags & !known == 0).then_some(())?;
        let mut digest = [0; 32];
        digest.copy_from_slice(&bytes[72..104]);
        Some(Self {
            totals: Totals {
                chunks: long(bytes, 8),
                records: long(bytes, 16),
                loads: long(bytes, 24),
                stores: long(bytes, 32),
                maps: long(bytes, 40),
                markers: long(bytes, 48),
                instructions: long(bytes, 56),
                threads: u32::try_from(long(bytes, 64))
                    .ok()
                    .filter(|count| *count <= 1 << 16)?,
                maps_complete: flags & FLAG_MAPS_COMPLETE != 0,
                stopped_early: flags & FLAG_STOPPED_EARLY != 0,
            },
            digest: Digest(digest),
        })
    }
}

/// Where the footer lies, as the last bytes of the file say.
pub(crate) fn trailer_to_bytes(footer_offset: u64, footer_len: u64) -> [u8; TRAILER_LEN] {
    let mut bytes = [0; TRAILER_LEN];
    bytes[..8].copy_from_slice(&footer_offset.to_le_bytes());
    bytes[8..16].copy_from_slice(&footer_len.to_le_bytes());
    let sum = crc32fast::hash(&bytes[..16]);
    bytes[16..20].copy_from_slice(&sum.to_le_bytes());
    bytes[20..].copy_from_slice(&END_MAGIC);
    bytes
}

/// Offset and length of the footer; `None` when the trailer is damaged.
pub(crate) fn parse_trailer(bytes: &[u8; TRAILER_LEN]) -> Option<(u64, u64)> {
    let sound = bytes[20..] == END_MAGIC && word(bytes, 16) == crc32fast::hash(&bytes[..16]);
    sound.then(|| (long(bytes, 0), long(bytes, 8)))
}
