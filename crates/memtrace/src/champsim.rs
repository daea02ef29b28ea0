// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads ChampSim traces: one fixed-length record per instruction of one thread, packed with xz or
//! gzip or not at all, told apart by content.
//!
//! The record (ChampSim's `inc/trace_instruction.h`, `input_instr`), 64 bytes, little-endian:
//! instruction address (8), branch flag and outcome (1 + 1), 2 destination and 4 source register
//! numbers, 2 store addresses (8 each), 4 load addresses (8 each); an address of 0 means none.
//!
//! What such a trace does not say, and what is put in its place: sizes (8 bytes), order of an
//! instruction's accesses (loads first), mappings (none: the trace will not claim to know them).
//! The CloudSuite variant has longer records and is refused where its length shows it.

use crate::error::{Place, TraceError};
use crate::footer::{Digest, Totals};
use crate::header::{Header, Origin, long};
use crate::layout::BLOCK_RECORDS;
use crate::record::Record;
use crate::writer::{FileWriter, io_error};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

const INSTRUCTION_LEN: usize = 64;
const STORES: std::ops::Range<usize> = 16..32;
const LOADS: std::ops::Range<usize> = 32..64;
const SIZE: u8 = 8;
/// Most accesses of one instruction.
const MAX_ACCESSES: usize = 6;

/// A ChampSim trace being read as one thread's accesses.
pub struct ChampSimReader {
    from: Box<dyn Read>,
    name: String,
    thread: u16,
    /// Instructions read since the last access.
    gap: u32,
    offset: u64,
}

impl std::fmt::Debug for ChampSimReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("ChampSimReader");
        text.field("name", &self.name)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

impl ChampSimReader {
    /// Opens a trace; its accesses get the thread number given. Several single-thread traces make
    /// a multi-programmed one: that is the caller's interleaving.
    ///
    /// # Errors
    /// [`TraceError::Io`] for a file that cannot be read, [`TraceError::Empty`] for an empty one.
    pub fn open(path: &Path, thread: u16) -> Result<Self, TraceError> {
        let name = path.display().to_string();
        let file = File::open(path).map_err(io_error(&name, "open"))?;
        let mut file = BufReader::with_capacity(1 << 16, file);
        let head = file.fill_buf().map_err(io_error(&name, "read"))?;
        if head.is_empty() {
            return Err(TraceError::Empty { file: name });
        }
        let from: Box<dyn Read> = if head.starts_with(b"\xfd7zXZ\0") {
            Box::new(BufReader::new(
                liblzma::bufread::XzDecoder::new_multi_decoder(file),
            ))
        } else if head.starts_with(&[0x1f, 0x8b]) {
            Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(file)))
        } else {
            Box::new(file)
        };
        Ok(Self {
            from,
            name,
            thread,
            gap: 0,
            offset: 0,
        })
    }

    /// Replaces `out` by the next accesses, 1 to 4,096; at the end `out` is empty and the answer
    /// `false`. Instructions after the last access are not told.
    ///
    /// # Errors
    /// [`TraceError::Io`] for a file that does not unpack, [`TraceError::Truncated`] for one whose
    /// length is no multiple of 64 bytes, [`TraceError::Damaged`] for flags that are neither 0 nor
    /// 1. Offsets count unpacked bytes.
    pub fn next_block(&mut self, out: &mut Vec<Record>) -> Result<bool, TraceError> {
        out.clear();
        let mut bytes = [0; INSTRUCTION_LEN];
        while out.len() <= BLOCK_RECORDS - MAX_ACCESSES {
            if !self.read_instruction(&mut bytes)? {
                break;
            }
            self.gap = self.gap.saturating_add(1);
            for (range, write) in [(LOADS, false), (STORES, true)] {
                for address in bytes[range].chunks_exact(8) {
                    let address = long(address, 0);
                    if address != 0 {
                        out.push(Record::Access {
                            thread: self.thread,
                            vaddr: address,
                            size: SIZE,
                            write,
                            instructions: std::mem::take(&mut self.gap),
                        });
                    }
                }
            }
        }
        Ok(!out.is_empty())
    }

    fn read_instruction(&mut self, bytes: &mut [u8; INSTRUCTION_LEN]) -> Result<bool, TraceError> {
        let mut found = 0;
        while found < bytes.len() {
            match self.from.read(&mut bytes[found..]) {
                Ok(0) if found == 0 => return Ok(false),
                Ok(0) => {
                    return Err(TraceError::Truncated {
                        place: self.place(),
                        what: "record of one instruction",
                        expected: INSTRUCTION_LEN as u64,
                        found: found as u64,
                    });
                }
                Ok(count) => found += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io_error(&self.name, "unpack")(error)),
            }
        }
        if bytes[8] > 1 || bytes[9] > 1 {
            return Err(TraceError::Damaged {
                place: self.place(),
                what: "branch flags (is this a ChampSim trace of 64-byte records?)",
                expected: "0 or 1 each".to_owned(),
                found: format!("{} and {}", bytes[8], bytes[9]),
            });
        }
        self.offset += INSTRUCTION_LEN as u64;
        Ok(true)
    }

    fn place(&self) -> Box<Place> {
        Box::new(Place {
            file: self.name.clone(),
            chunk: None,
            record: None,
            offset: self.offset,
        })
    }
}

/// One input of a conversion: its records not yet written and its clock.
struct Input {
    reader: ChampSimReader,
    block: Vec<Record>,
    next: usize,
    instructions: u64,
}

impl Input {
    /// The next record and the instruction it belongs to; `None` at the end.
    fn peek(&mut self) -> Result<Option<(u64, Record)>, TraceError> {
        if self.next == self.block.len() {
            self.next = 0;
            if !self.reader.next_block(&mut self.block)? {
                return Ok(None);
            }
        }
        let record = self.block[self.next];
        let gap = match record {
            Record::Access { instructions, .. } => instructions,
            _ => 0,
        };
        Ok(Some((self.instructions + u64::from(gap), record)))
    }
}

/// Converts traces into one, the first as thread 0 and so on, interleaved as if every thread
/// retired one instruction a cycle; at a tie the lower thread goes first.
///
/// # Errors
/// As [`ChampSimReader`] and [`FileWriter`]; [`TraceError::Unwritable`] for more than 65,536 inputs.
pub fn convert(inputs: &[PathBuf], output: &Path) -> Result<(Totals, Digest), TraceError> {
    let mut readers = Vec::new();
    for (thread, path) in inputs.iter().enumerate() {
        let thread = u16::try_from(thread).map_err(|_| TraceError::Unwritable {
            file: output.display().to_string(),
            what: format!("{} inputs, at most 65536 threads fit", inputs.len()),
        })?;
        readers.push(Input {
            reader: ChampSimReader::open(path, thread)?,
            block: Vec::new(),
            next: 0,
            instructions: 0,
        });
    }
    let names = inputs.iter().filter_map(|path| path.file_name());
    let names: Vec<_> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    let header = Header {
        origin: Origin::ChampSim,
        recorder: "converted from ChampSim".to_owned(),
        ..Header::new(&names.join(" + "))
    };
    let mut file = FileWriter::create(output, &header)?;
    loop {
        let mut earliest: Option<(u64, usize, Record)> = None;
        for (at, input) in readers.iter_mut().enumerate() {
            if let Some((when, record)) = input.peek()? {
                if earliest.is_none_or(|(soonest, ..)| when < soonest) {
                    earliest = Some((when, at, record));
                }
            }
        }
        let Some((when, at, record)) = earliest else {
            return file.finish();
        };
        readers[at].instructions = when;
        readers[at].next += 1;
        file.writer().push(&record)?;
    }
}
