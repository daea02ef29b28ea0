// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads DynamoRIO's memory traces (drmemtrace) in their final, post-processed form: a file per
//! thread, or per core, of 12-byte entries.
//!
//! An entry (`clients/drcachesim/common/trace_entry.h`, `trace_entry_t` of 64-bit programs) is a
//! type (2 bytes), a size or subtype (2) and an address or value (8), little-endian. Instructions
//! are counted, loads and stores become accesses; prefetches, flushes and encodings are passed
//! over, and so is what the kernel did where it was traced too. From format version 6, and for
//! x86-64, system calls whose arguments were recorded (`-record_syscall`) change the mappings.
//!
//! Refused: filtered traces (accesses are missing in them), traces without data, those of 32-bit
//! programs. An access of unknown size (0) counts as one byte; one of more than 64 bytes becomes
//! pieces of 64.

use std::collections::{BTreeMap, VecDeque};

use super::unpack::Unpacked;
use super::{Event, What, pieces, place};
use crate::capture::Syscall;
use crate::error::TraceError;
use crate::header::long;

const ENTRY_LEN: usize = 12;
const OLDEST: u64 = 2;
const NEWEST: u64 = 6;
/// From here on the return value of a recorded system call is what the call returned; before, it
/// only said whether the call succeeded.
const RAW_RETURN_VALUES: u64 = 6;
/// Threads of one file; more would not fit a trace of ours either.
const MAX_THREADS: usize = 1 << 16;

/// Types of entries (`trace_type_t`).
mod kind {
    pub(super) const READ: u16 = 0;
    pub(super) const WRITE: u16 = 1;
    pub(super) const BUNDLE: u16 = 17;
    pub(super) const THREAD: u16 = 22;
    pub(super) const PID: u16 = 24;
    pub(super) const HEADER: u16 = 25;
    pub(super) const FOOTER: u16 = 26;
    pub(super) const MARKER: u16 = 28;
    pub(super) const LAST: u16 = 49;

    /// Executed instructions: plain, jumps, calls, returns, those not fetched again (turns of a
    /// repeated string instruction), sysenter, jumps taken or not.
    pub(super) fn is_instruction(kind: u16) -> bool {
        matches!(kind, 10..=16 | 29..=31 | 48 | 49)
    }
}

/// Subtypes of markers (`trace_marker_type_t`).
mod marker {
    pub(super) const TIMESTAMP: u16 = 2;
    pub(super) const FUNC_ID: u16 = 4;
    pub(super) const FUNC_ARG: u16 = 6;
    pub(super) const FUNC_RETVAL: u16 = 7;
    pub(super) const FILETYPE: u16 = 9;
    pub(super) const PAGE_SIZE: u16 = 18;
    pub(super) const SYSCALL_TRACE_START: u16 = 27;
    pub(super) const SYSCALL_TRACE_END: u16 = 28;
    pub(super) const CONTEXT_SWITCH_START: u16 = 34;
    pub(super) const CONTEXT_SWITCH_END: u16 = 35;
}

/// Bits of the file type (`offline_file_type_t`).
const FILTERED: u64 = 0x01 | 0x80 | 0x100 | 0x2000;
const INSTRUCTIONS_ONLY: u64 = 0x04;
const OF_32_BITS: u64 = 0x10 | 0x20;
const OF_X86_64: u64 = 0x40;
/// Function numbers from here on are system calls.
const SYSCALL_BASE: u64 = 1 << 32;

/// Whether bytes begin as a final trace does: a header entry with a small version.
pub(super) fn begins_with_header(head: &[u8]) -> bool {
    head.len() >= 8 && head[..4] == [25, 0, 0, 0] && head[5..8] == [0; 3]
}

/// What is kept of a thread between its entries.
#[derive(Debug, Default)]
struct Thread {
    /// Instructions since its last access.
    gap: u32,
    /// The system call whose arguments come, and how many have come.
    call: Option<u64>,
    args: [u64; 6],
    args_known: usize,
}

/// A file being read.
pub(super) struct DynamoRio {
    from: Unpacked,
    version: u64,
    file_type: u64,
    pid: Option<u64>,
    page_size: Option<u32>,
    threads: BTreeMap<u64, Thread>,
    current: u64,
    /// The newest timestamp, microseconds.
    now: u64,
    /// Inside what the kernel did.
    in_kernel: bool,
    /// Made and not yet handed out.
    ready: VecDeque<Event>,
    ended: bool,
}

impl DynamoRio {
    /// Reads up to the first event, so that what the file says of itself is known.
    pub(super) fn open(mut from: Unpacked) -> Result<Self, TraceError> {
        let mut entry = [0; ENTRY_LEN];
        from.read_record(&mut entry, "entry of the header")?;
        let mut file = Self {
            from,
            version: long(&entry, 4),
            file_type: 0,
            pid: None,
            page_size: None,
            threads: BTreeMap::new(),
            current: 0,
            now: 0,
            in_kernel: false,
            ready: VecDeque::new(),
            ended: false,
        };
        if file.version >> 32 != 0 {
            return Err(file.unsupported("it is of a 32-bit program; only 64-bit ones are read"));
        }
        if !(OLDEST..=NEWEST).contains(&file.version) {
            let what = format!(
                "its format version is {}, expected {OLDEST} to {NEWEST}",
                file.version
            );
            return Err(file.unsupported(&what));
        }
        file.read_ahead()?;
        Ok(file)
    }

    /// Process and page size.
    pub(super) fn process(&self) -> (Option<u64>, Option<u32>) {
        (self.pid, self.page_size)
    }

    /// The next access or mapping call.
    pub(super) fn next(&mut self) -> Result<Option<Event>, TraceError> {
        self.read_ahead()?;
        Ok(self.ready.pop_front())
    }

    /// Reads until there is an event or the file has ended.
    fn read_ahead(&mut self) -> Result<(), TraceError> {
        let mut entry = [0; ENTRY_LEN];
        while self.ready.is_empty() && !self.ended {
            let at = self.from.offset();
            if !self.from.read_record(&mut entry, "entry")? {
                return Err(TraceError::Truncated {
                    place: place(self.from.name(), at),
                    what: "entries (the footer is missing)",
                    expected: ENTRY_LEN as u64,
                    found: 0,
                });
            }
            let kind = u16::from_le_bytes([entry[0], entry[1]]);
            let size = u16::from_le_bytes([entry[2], entry[3]]);
            self.entry(at, kind, size, long(&entry, 4))?;
        }
        Ok(())
    }

    fn entry(&mut self, at: u64, kind: u16, size: u16, value: u64) -> Result<(), TraceError> {
        match kind {
            kind::READ | kind::WRITE if !self.in_kernel => {
                self.access(value, size, kind == kind::WRITE);
            }
            kind::BUNDLE if !self.in_kernel => self.retire(u32::from(size)),
            _ if kind::is_instruction(kind) && !self.in_kernel => self.retire(1),
            kind::THREAD => {
                self.current = value;
                self.threads.entry(value).or_default();
                if self.threads.len() > MAX_THREADS {
                    return Err(self.damaged(
                        at,
                        "threads",
                        &format!("at most {MAX_THREADS}"),
                        "more",
                    ));
                }
            }
            kind::PID => match self.pid.replace(value) {
                Some(before) if before != value => {
                    let (expected, found) = (before.to_string(), value.to_string());
                    return Err(self.damaged(at, "process (expected one)", &expected, &found));
                }
                _ => {}
            },
            kind::HEADER => return Err(self.damaged(at, "entry", "no second header", "one")),
            kind::FOOTER => {
                self.ended = true;
                if self.from.read_record(&mut [0], "end")? {
                    return Err(self.damaged(at, "end", "nothing after the footer", "more bytes"));
                }
            }
            kind::MARKER => self.marker(at, size, value)?,
            0..=kind::LAST => {}
            _ => {
                let expected = format!("a type up to {}", kind::LAST);
                return Err(self.damaged(at, "type of an entry", &expected, &kind.to_string()));
            }
        }
        Ok(())
    }

    fn thread(&mut self) -> &mut Thread {
        self.threads.entry(self.current).or_default()
    }

    fn retire(&mut self, instructions: u32) {
        let thread = self.thread();
        thread.gap = thread.gap.saturating_add(instructions);
    }

    fn access(&mut self, vaddr: u64, size: u16, write: bool) {
        let instructions = std::mem::take(&mut self.thread().gap);
        let (when, thread) = (self.now, self.current);
        let all = pieces(vaddr, u64::from(size).max(1), write, instructions);
        self.ready.extend(all.map(|access| Event {
            when,
            thread,
            what: What::Access(access),
        }));
    }

    fn marker(&mut self, at: u64, subtype: u16, value: u64) -> Result<(), TraceError> {
        match subtype {
            marker::TIMESTAMP => self.now = self.now.max(value),
            marker::FILETYPE => self.set_file_type(value)?,
            marker::PAGE_SIZE => match u32::try_from(value) {
                Ok(size) if size.is_power_of_two() && (512..=1 << 30).contains(&size) => {
                    self.page_size = Some(size);
                }
                _ => {
                    let expected = "a power of two from 512 to 2^30";
                    return Err(self.damaged(at, "page size", expected, &value.to_string()));
                }
            },
            marker::SYSCALL_TRACE_START | marker::CONTEXT_SWITCH_START => self.in_kernel = true,
            marker::SYSCALL_TRACE_END | marker::CONTEXT_SWITCH_END => self.in_kernel = false,
            marker::FUNC_ID => {
                let call = value.checked_sub(SYSCALL_BASE);
                let thread = self.thread();
                // The same number comes again before the return value.
                if thread.call != call {
                    (thread.call, thread.args_known) = (call, 0);
                }
            }
            marker::FUNC_ARG => {
                let thread = self.thread();
                if let Some(arg) = thread.args.get_mut(thread.args_known) {
                    *arg = value;
                    thread.args_known += 1;
                }
            }
            marker::FUNC_RETVAL => self.end_call(value),
            _ => {}
        }
        Ok(())
    }

    /// Hands over a mapping call of which enough is known.
    fn end_call(&mut self, returned: u64) {
        let usable = self.version >= RAW_RETURN_VALUES && self.file_type & OF_X86_64 != 0;
        let thread = self.thread();
        let known = std::mem::take(&mut thread.args_known);
        let (call, args) = (thread.call.take(), thread.args);
        let Some(number) = call.filter(|_| usable) else {
            return;
        };
        // mmap, mprotect, munmap, brk, mremap, madvise, pkey_mprotect of x86-64.
        let needed = match number {
            9 | 10 | 28 | 329 => 3,
            11 => 2,
            12 => 0,
            25 => 4,
            _ => return,
        };
        if known < needed {
            return;
        }
        let call = Syscall {
            num: i64::try_from(number).unwrap_or(i64::MAX),
            ret: i64::from_le_bytes(returned.to_le_bytes()),
            args,
        };
        self.ready.push_back(Event {
            when: self.now,
            thread: self.current,
            what: What::Call(call),
        });
    }

    fn set_file_type(&mut self, bits: u64) -> Result<(), TraceError> {
        self.file_type = bits;
        let what = if bits & FILTERED != 0 {
            "it is filtered, so accesses are missing; record it without a filter"
        } else if bits & INSTRUCTIONS_ONLY != 0 {
            "it holds instructions only; record it with data accesses"
        } else if bits & OF_32_BITS != 0 {
            "it is of a 32-bit program; only 64-bit ones are read"
        } else {
            return Ok(());
        };
        Err(self.unsupported(what))
    }

    fn unsupported(&self, what: &str) -> TraceError {
        TraceError::Unsupported {
            file: self.from.name().to_owned(),
            what: format!("a DynamoRIO trace, but {what}"),
        }
    }

    fn damaged(&self, at: u64, what: &'static str, expected: &str, found: &str) -> TraceError {
        TraceError::Damaged {
            place: place(self.from.name(), at),
            what,
            expected: expected.to_owned(),
            found: found.to_owned(),
        }
    }
}
