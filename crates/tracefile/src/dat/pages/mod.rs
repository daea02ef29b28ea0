// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pages of one CPU's ring buffer, and the records in them.
//!
//! Pages are read through a window of bounded size, or unpacked chunk by chunk. A page begins with
//! the time of its first record and the count of its bytes; each record carries the time since the
//! one before (`include/linux/ring_buffer.h`, `enum ring_buffer_type`).

mod chunks;

use std::sync::Arc;

use crate::error::{Error, Fault, Place};
use crate::format::PageLayout;
use crate::input::Input;
use crate::loss::Loss;

pub(super) use chunks::{Packing, unpack};

/// The commit word's flag: records were lost before this page.
const MISSED_EVENTS: u64 = 1 << 31;
/// The commit word's flag: how many, stands behind the page's last record.
const MISSED_STORED: u64 = 1 << 30;
/// The commit word's bits that count bytes.
const COMMIT_MASK: u64 = (1 << 27) - 1;
/// Record types above the short lengths.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of a time in a record's first word.
const DELTA_BITS: u32 = 27;
/// An absolute time stamp has 59 bits; the rest is the page's.
const STAMP_MSB: u64 = 0xf8 << 56;

/// Where a CPU's data are.
#[derive(Debug, Clone, Copy)]
pub(super) struct CpuData {
    pub cpu: u32,
    pub offset: u64,
    pub size: u64,
    pub packing: Packing,
}

/// The records of one CPU, one after the other.
#[derive(Debug)]
pub(super) struct CpuStream {
    input: Arc<Input>,
    cpu: u32,
    packing: Packing,
    layout: PageLayout,
    big: bool,
    page_size: usize,
    window: usize,
    /// The rest of the CPU's data in the file.
    at: u64,
    end: u64,
    /// Chunks still to come; known once the first was asked for.
    chunks: Option<u32>,
    /// Whole pages, and where in the file (or in the CPU's chunk) they come from.
    buffer: Vec<u8>,
    origin: u64,
    next_page: usize,
    /// The page being read: the next record and the end of the last.
    pos: usize,
    page_end: usize,
    time: u64,
    /// The current record's payload within `buffer`.
    head: (usize, usize),
    /// Records were lost before the current one.
    gap: bool,
}

impl CpuStream {
    pub fn new(
        input: &Arc<Input>,
        data: CpuData,
        page_size: usize,
        layout: PageLayout,
        big: bool,
        window: usize,
    ) -> Self {
        // A window of many pages, but not so many that hundreds of CPUs take much memory.
        let window = (window.min(256 << 10) / page_size).max(1) * page_size;
        Self {
            input: Arc::clone(input),
            cpu: data.cpu,
            packing: data.packing,
            layout,
            big,
            page_size,
            window,
            at: data.offset,
            // The size of packed data leaves out the heads of its chunks: their count ends it.
            end: match data.packing {
                Packing::None => data.offset.saturating_add(data.size),
                _ => u64::MAX,
            },
            chunks: None,
            buffer: Vec::new(),
            origin: data.offset,
            next_page: 0,
            pos: 0,
            page_end: 0,
            time: 0,
            head: (0, 0),
            gap: false,
        }
    }

    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// The current record's time, in the unit of the trace's clock.
    pub fn time(&self) -> u64 {
        self.time
    }

    /// The current record.
    pub fn data(&self) -> &[u8] {
        &self.buffer[self.head.0..self.head.1]
    }

    /// Whether records were lost before the current one; false when asked again.
    pub fn take_gap(&mut self) -> bool {
        std::mem::take(&mut self.gap)
    }

    /// A fault at the current record.
    pub fn fault(&self, what: &str) -> Fault {
        self.fault_at(self.head.0, what)
    }

    fn fault_at(&self, at: usize, what: &str) -> Fault {
        let at = u64::try_from(at).unwrap_or(0);
        let place = match self.packing {
            Packing::None => Place::Byte(self.origin.saturating_add(at)),
            _ => Place::Unpacked {
                section: self.origin,
                byte: at,
            },
        };
        Fault::new(place, format!("CPU {}: {what}", self.cpu))
    }

    /// Steps to the next record and gives its time; `None` at the end.
    pub fn advance(&mut self, loss: &mut Loss) -> Result<Option<u64>, Error> {
        loop {
            match self.record() {
                Ok(true) => return Ok(Some(self.time)),
                Ok(false) => {}
                Err(what) => {
                    self.gap = true;
                    loss.damaged(self.fault_at(self.pos, what));
                }
            }
            if !self.page(loss)? {
                return Ok(None);
            }
        }
    }

    /// Steps to the next record of the page; false at its end.
    fn record(&mut self) -> Result<bool, &'static str> {
        while let Some(word) = self.word(self.pos) {
            let (kind, delta) = if self.big {
                (
                    word >> DELTA_BITS,
                    u64::from(word & ((1 << DELTA_BITS) - 1)),
                )
            } else {
                (word & 31, u64::from(word >> 5))
            };
            let (start, len) = match kind {
                PADDING if delta == 0 => break,
                TIME_EXTEND | TIME_STAMP | PADDING | 0 => {
                    let second = self
                        .word(self.pos + 4)
                        .ok_or("a record is cut off by its page's end")?;
                    match kind {
                        TIME_EXTEND => {
                            let more = (u64::from(second) << DELTA_BITS) + delta;
                            self.time = self.time.wrapping_add(more);
                            self.pos += 8;
                            continue;
                        }
                        TIME_STAMP => {
                            let stamp = (u64::from(second) << DELTA_BITS) + delta;
                            self.time = stamp | (self.time & STAMP_MSB);
                            self.pos += 8;
                            continue;
                        }
                        PADDING => {
                            self.time = self.time.wrapping_add(delta);
                            let len = usize::try_from(second).unwrap_or(usize::MAX);
                            self.pos = self.pos.saturating_add(4).saturating_add(len);
                            continue;
                        }
                        _ => {
                            let len = second
                                .checked_sub(4)
                                .ok_or("a record is shorter than its length")?;
                            let len = usize::try_from(len).unwrap_or(usize::MAX);
                            (self.pos + 8, len.saturating_add(3) & !3)
                        }
                    }
                }
                _ => (self.pos + 4, usize::try_from(kind).unwrap_or(0) * 4),
            };
            let end = start.saturating_add(len);
            if end > self.page_end {
                return Err("a record is longer than the rest of its page");
            }
            self.time = self.time.wrapping_add(delta);
            self.head = (start, end);
            self.pos = end;
            debug_assert!(
                start <= end && end <= self.page_end,
                "a record lies in its page"
            );
            return Ok(true);
        }
        Ok(false)
    }

    fn word(&self, at: usize) -> Option<u32> {
        if at.checked_add(4)? > self.page_end {
            return None;
        }
        let bytes = self.buffer.get(at..at + 4)?.try_into().ok()?;
        Some(if self.big {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        })
    }

    /// Goes to the next page; false after the last.
    fn page(&mut self, loss: &mut Loss) -> Result<bool, Error> {
        self.pos = 0;
        self.page_end = 0;
        loop {
            if self.next_page >= self.buffer.len() && !self.fill(loss)? {
                return Ok(false);
            }
            let start = self.next_page;
            let avail = (self.buffer.len() - start).min(self.page_size);
            self.next_page = start + avail;
            let page = &self.buffer[start..start + avail];
            let Some(time) = self.long(page, 0, 8) else {
                continue;
            };
            let Some(commit) = self.long(page, 8, self.layout.commit_size) else {
                continue;
            };
            let size = usize::try_from(commit & COMMIT_MASK).unwrap_or(usize::MAX);
            let end = self.layout.data.saturating_add(size);
            if end > self.page_size {
                let what = format!(
                    "a page says that it holds {size} bytes, more than the {} it has room for",
                    self.page_size - self.layout.data.min(self.page_size)
                );
                loss.damaged(self.fault_at(start + 8, &what));
                self.gap = true;
                continue;
            }
            if commit & MISSED_EVENTS != 0 {
                let stored = if commit & MISSED_STORED == 0 {
                    None
                } else {
                    self.long(page, end, self.layout.commit_size)
                };
                loss.gap(self.cpu, stored.filter(|&n| n > 0));
                self.gap = true;
            }
            self.time = time;
            self.pos = start + self.layout.data;
            // A page that the file's end cuts off still has its first records.
            self.page_end = start + end.min(avail);
            assert!(
                self.page_end <= self.next_page,
                "a page ends before the next begins"
            );
            assert!(
                self.next_page <= self.buffer.len(),
                "pages lie in what was read"
            );
            return Ok(true);
        }
    }

    fn long(&self, page: &[u8], at: usize, size: usize) -> Option<u64> {
        let bytes = page.get(at..at.checked_add(size)?)?;
        match size {
            4 => {
                let b = bytes.try_into().ok()?;
                Some(u64::from(if self.big {
                    u32::from_be_bytes(b)
                } else {
                    u32::from_le_bytes(b)
                }))
            }
            _ => {
                let b = bytes.try_into().ok()?;
                Some(if self.big {
                    u64::from_be_bytes(b)
                } else {
                    u64::from_le_bytes(b)
                })
            }
        }
    }
}
