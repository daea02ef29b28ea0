// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The numbers of the format, shared by reader and writer. `docs/formats/memtrace.md` describes
//! each; a change of meaning here needs a new [`VERSION`].

/// First bytes of a trace. The high bit, the line ends and the control-Z show at once a file that
/// went through a text-mode copy.
pub const MAGIC: [u8; 8] = *b"\x89SMT\r\n\x1a\n";
/// Last bytes of a complete trace.
pub const END_MAGIC: [u8; 8] = *b"SMTEND\r\n";
/// Version of the format written and read.
pub const VERSION: u32 = 1;
/// Longest header, in bytes: a bound on what a reader allocates before any checksum is known good.
pub const MAX_HEADER_LEN: u32 = 1 << 20;
/// Most records in one chunk.
pub const MAX_CHUNK_RECORDS: u32 = 1 << 16;
/// Most records [`crate::Reader::next_block`] hands out at once: about 100 KB decoded, so a block
/// stays in a second-level cache.
pub const BLOCK_RECORDS: usize = 4096;

pub(crate) const FIXED_HEADER_LEN: usize = 36;
pub(crate) const CHUNK_MARK: [u8; 4] = *b"CHNK";
pub(crate) const INDEX_MARK: [u8; 4] = *b"INDX";
/// Marker, records, raw length, stored length, checksum.
pub(crate) const CHUNK_HEADER_LEN: usize = 20;
/// Marker, chunks, totals, flags, digest.
pub(crate) const FOOTER_FIXED_LEN: usize = 104;
/// Offset, records, checksum.
pub(crate) const INDEX_ENTRY_LEN: usize = 16;
/// Footer's offset and length, checksum, end magic.
pub(crate) const TRAILER_LEN: usize = 28;

/// Lengths of the run, address and extra columns.
pub(crate) const PAYLOAD_HEADER_LEN: usize = 12;
/// Upper bound of one record's bytes in a payload: six of runs, two of tags, and then a mapping's
/// twenty-one; an access needs at most fifteen.
pub(crate) const MAX_RECORD_LEN: u32 = 29;
/// Upper bound of a payload: the column lengths and the records.
pub(crate) const MAX_PAYLOAD_LEN: u32 = 12 + MAX_CHUNK_RECORDS * MAX_RECORD_LEN;
/// Zstandard's worst case for [`MAX_PAYLOAD_LEN`] bytes is under 1 % more.
pub(crate) const MAX_STORED_LEN: u32 = MAX_PAYLOAD_LEN + MAX_PAYLOAD_LEN / 64;

/// Addresses a thread remembers.
pub(crate) const HISTORY: usize = 16;
/// Size code of everything that is not an access of 1, 2, 4, ... 64 bytes.
pub(crate) const SIZE_ESCAPE: u8 = 7;
/// Instruction code of counts that do not fit the tag.
pub(crate) const INSTR_ESCAPE: u8 = 63;
/// Escape kinds, in the tag's history field.
pub(crate) const ESCAPE_ODD_SIZE: u8 = 0;
pub(crate) const ESCAPE_MAP: u8 = 1;
pub(crate) const ESCAPE_MARKER: u8 = 2;

/// Footer flag: every access lies in a range that the trace's own records map.
pub(crate) const FLAG_MAPS_COMPLETE: u32 = 1;
/// Footer flag: the program was stopped before its end (a limit, an interrupt).
pub(crate) const FLAG_STOPPED_EARLY: u32 = 2;
