// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Everything of a `trace.dat` but its records: the parts that both versions share.

use std::sync::Arc;

use super::pages::{CpuData, Packing};
use super::{v6, v7};
use crate::about::{About, Endian, Format};
use crate::error::{Error, Fault, Place};
use crate::format::{Common, PageLayout, parse_event};
use crate::input::Input;
use crate::loss::Loss;
use crate::words::{FileWords, Words};

/// The largest page of a ring buffer that is accepted; `buffer_subbuf_size_kb` allows 128 pages.
pub(super) const PAGE_MAX: u32 = 16 << 20;
/// The most events and CPUs that are accepted.
pub(super) const EVENTS_MAX: usize = 1 << 16;
pub(super) const CPUS_MAX: u32 = 1 << 16;

/// One instance's buffer.
#[derive(Debug)]
pub(super) struct Buffer {
    pub name: String,
    pub page_size: usize,
    pub cpus: Vec<CpuData>,
}

/// What the file says before its records.
#[derive(Debug)]
pub(super) struct Meta {
    pub about: About,
    pub loss: Loss,
    pub layout: PageLayout,
    pub common: Common,
    pub common_known: bool,
    pub buffers: Vec<Buffer>,
    /// Page size of the recorded machine.
    pub page_size: u32,
}

/// Reads all that stands before the records.
pub(super) fn read(input: &Arc<Input>) -> Result<Meta, Error> {
    let name = input.name();
    let mut words = FileWords {
        input,
        at: 0,
        big: false,
    };
    let (version, meta) = start(&mut words).map_err(|f| f.named(name))?;
    match version {
        6 => v6::read(&mut words, meta).map_err(|f| f.named(name)),
        7 => v7::read(&mut words, meta).map_err(|f| f.named(name)),
        _ => Err(Error::Unsupported {
            name: name.to_owned(),
            place: Place::Byte(10),
            what: format!(
                "trace.dat of version {version}; versions 6 and 7 are read, to which \
                 `trace-cmd convert` turns it"
            ),
        }),
    }
}

/// The first bytes: magic, version, byte order, sizes.
fn start(words: &mut FileWords<'_>) -> Result<(u32, Meta), Fault> {
    words.expect(super::MAGIC, "the start of a trace.dat")?;
    let place = words.place();
    let version = words.cstr("the file's version")?;
    let version = version.parse().map_err(|_| {
        Fault::new(
            place,
            format!(
                "the file's version is `{}`, no number",
                version.escape_default()
            ),
        )
    })?;
    let place = words.place();
    words.big = match words.u8("the byte order")? {
        0 => false,
        1 => true,
        other => {
            return Err(Fault::new(
                place,
                format!("the byte order is {other}, neither 0 nor 1"),
            ));
        }
    };
    let place = words.place();
    let long = words.u8("the size of a long")?;
    if long != 4 && long != 8 {
        return Err(Fault::new(
            place,
            format!("a long has {long} bytes, neither 4 nor 8"),
        ));
    }
    let page_size = page_size(words)?;
    let mut about = About::new(Format::TraceDat { version });
    about.endian = if words.big {
        Endian::Big
    } else {
        Endian::Little
    };
    let meta = Meta {
        about,
        loss: Loss::default(),
        layout: PageLayout {
            commit_size: 8,
            data: 16,
        },
        common: Common::USUAL,
        common_known: false,
        buffers: Vec::new(),
        page_size,
    };
    Ok((version, meta))
}

/// A page size, checked: everything that follows is laid out by it.
pub(super) fn page_size(words: &mut impl Words) -> Result<u32, Fault> {
    let place = words.place();
    let size = words.u32("the page size")?;
    if !(512..=PAGE_MAX).contains(&size) {
        return Err(Fault::new(
            place,
            format!("a page has {size} bytes; expected 512 to {PAGE_MAX}"),
        ));
    }
    Ok(size)
}

impl Meta {
    /// `header_page` and `header_event`.
    pub fn headers(&mut self, words: &mut impl Words) -> Result<(), Fault> {
        words.expect(b"header_page\0", "the description of pages")?;
        let size = words.u64("the description of pages")?;
        let place = words.place();
        let text = words.block(size, "the description of pages")?;
        self.layout = PageLayout::parse(&text).map_err(|what| Fault::new(place, what))?;
        words.expect(b"header_event\0", "the description of records")?;
        let size = words.u64("the description of records")?;
        words.block(size, "the description of records")?;
        Ok(())
    }

    /// The events of ftrace itself.
    pub fn ftrace_events(&mut self, words: &mut impl Words) -> Result<(), Fault> {
        let count = words.u32("the count of ftrace's events")?;
        self.events_of(words, "ftrace", count)
    }

    /// The events of all other systems.
    pub fn event_systems(&mut self, words: &mut impl Words) -> Result<(), Fault> {
        for _ in 0..words.u32("the count of event systems")? {
            let system = words.cstr("the name of an event system")?;
            let count = words.u32("the count of a system's events")?;
            self.events_of(words, &system, count)?;
        }
        Ok(())
    }

    fn events_of(&mut self, words: &mut impl Words, system: &str, count: u32) -> Result<(), Fault> {
        for _ in 0..count {
            let size = words.u64("the description of an event")?;
            let place = words.place();
            let text = words.block(size, "the description of an event")?;
            match parse_event(system, &text) {
                Ok((event, common)) if self.about.events.len() < EVENTS_MAX => {
                    if !self.common_known
                        && let Some(common) = Common::from_fields(&common)
                    {
                        self.common = common;
                        self.common_known = true;
                    }
                    self.about.events.push(event);
                }
                Ok(_) => return Err(Fault::new(place, format!("more than {EVENTS_MAX} events"))),
                Err(what) => self.loss.damaged(Fault::new(place, what)),
            }
        }
        Ok(())
    }

    /// Names of tasks: lines of a pid, a blank, a name.
    pub fn cmdlines(&mut self, text: &[u8]) {
        for line in text.split(|&b| b == b'\n' || b == 0) {
            let Some(blank) = memchr::memchr(b' ', line) else {
                continue;
            };
            let pid = std::str::from_utf8(&line[..blank])
                .ok()
                .and_then(|p| p.parse().ok());
            if let Some(pid) = pid {
                self.about.comms.insert(pid, line[blank + 1..].to_vec());
            }
        }
    }

    /// Adds an instance, cutting the data of its CPUs to what the file holds.
    pub fn buffer(&mut self, input: &Input, name: String, page_size: u32, cpus: Vec<CpuData>) {
        for cpu in &cpus {
            let end = cpu.offset.saturating_add(cpu.size);
            if cpu.packing == Packing::None && end > input.len() {
                let missing = end - input.len().max(cpu.offset).min(end);
                self.loss.cut(Place::Byte(input.len()), Some(missing));
            }
        }
        let page_size = usize::try_from(page_size).unwrap_or(4096);
        self.buffers.push(Buffer {
            name,
            page_size,
            cpus,
        });
    }
}
