// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The descriptions of a kernel's events as trace-cmd and perf store them, which is alike.

use std::collections::BTreeMap;

use crate::error::Fault;
use crate::event::EventDef;
use crate::format::{Common, PageLayout, parse_event};
use crate::words::Words;

/// The most events that are accepted: their numbers have 16 bits.
const EVENTS_MAX: usize = 1 << 16;

/// What the descriptions say.
#[derive(Debug)]
pub(crate) struct Described {
    /// How pages of the ring buffer are laid out, or why that is not known.
    pub layout: Result<PageLayout, Fault>,
    pub events: Vec<EventDef>,
    pub comms: BTreeMap<i32, Vec<u8>>,
    pub common: Common,
    common_known: bool,
    /// Descriptions that make no sense; their events stay unknown.
    pub faults: Vec<Fault>,
}

impl Default for Described {
    fn default() -> Self {
        Self {
            layout: Ok(PageLayout {
                commit_size: 8,
                data: 16,
            }),
            events: Vec::new(),
            comms: BTreeMap::new(),
            common: Common::USUAL,
            common_known: false,
            faults: Vec::new(),
        }
    }
}

impl Described {
    /// `header_page` and `header_event`.
    pub fn headers(&mut self, words: &mut impl Words) -> Result<(), Fault> {
        words.expect(b"header_page\0", "the description of pages")?;
        let size = words.u64("the description of pages")?;
        let place = words.place();
        let text = words.block(size, "the description of pages")?;
        self.layout = PageLayout::parse(&text).map_err(|what| Fault::new(place, what));
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
                Ok((mut event, common)) if self.events.len() < EVENTS_MAX => {
                    if !self.common_known {
                        self.common_known = true;
                        self.common = Common::from_fields(&common).unwrap_or(self.common);
                    }
                    event.index = self.events.len();
                    self.events.push(event);
                }
                Ok(_) => return Err(Fault::new(place, format!("more than {EVENTS_MAX} events"))),
                Err(what) => self.faults.push(Fault::new(place, what)),
            }
        }
        Ok(())
    }

    /// A copy of `/proc/kallsyms`, or of `printk_formats`, behind its size.
    pub fn sized_text(words: &mut impl Words, what: &str) -> Result<Vec<u8>, Fault> {
        let size = words.u32(what)?;
        words.block(u64::from(size), what)
    }

    /// Names of tasks behind their size: lines of a pid, a blank, a name.
    pub fn cmdlines(&mut self, words: &mut impl Words) -> Result<(), Fault> {
        let size = words.u64("the names of tasks")?;
        let text = words.block(size, "the names of tasks")?;
        for line in text.split(|&b| b == b'\n' || b == 0) {
            let Some(blank) = memchr::memchr(b' ', line) else {
                continue;
            };
            let pid = std::str::from_utf8(&line[..blank])
                .ok()
                .and_then(|p| p.parse().ok());
            if let Some(pid) = pid {
                self.comms.insert(pid, line[blank + 1..].to_vec());
            }
        }
        Ok(())
    }
}

/// Finds an event by the number that begins its records.
#[derive(Debug)]
pub(crate) struct EventTable {
    by_id: Vec<u32>,
    pub common: Common,
    pub big: bool,
}

impl EventTable {
    pub fn new(events: &[EventDef], common: Common, big: bool) -> Self {
        // Numbers of events have 16 bits; larger ones cannot occur in records.
        let last = events.iter().map(|e| e.id).filter(|&id| id < 1 << 16).max();
        let len = last
            .and_then(|id| usize::try_from(id).ok())
            .map_or(0, |id| id + 1);
        let mut by_id = vec![u32::MAX; len];
        for event in events {
            let slot = usize::try_from(event.id)
                .ok()
                .and_then(|id| by_id.get_mut(id));
            if let (Some(slot), Ok(index)) = (slot, u32::try_from(event.index)) {
                *slot = index;
            }
        }
        Self { by_id, common, big }
    }

    /// The number of a record's event; `None` if the record is too short to have one.
    pub fn id(&self, data: &[u8]) -> Option<u16> {
        let data = data.get(..self.common.end)?;
        let bytes = data[self.common.type_at..][..2].try_into().ok()?;
        Some(if self.big {
            u16::from_be_bytes(bytes)
        } else {
            u16::from_le_bytes(bytes)
        })
    }

    /// The index of the event with this number.
    pub fn index(&self, id: u16) -> Option<usize> {
        let index = *self.by_id.get(usize::from(id))?;
        if index == u32::MAX {
            None
        } else {
            usize::try_from(index).ok()
        }
    }

    /// The thread of a record that [`Self::id`] accepted.
    pub fn pid(&self, data: &[u8]) -> i32 {
        let bytes = data
            .get(self.common.pid_at..)
            .and_then(|d| d.first_chunk::<4>());
        let bytes = bytes.copied().unwrap_or_default();
        if self.big {
            i32::from_be_bytes(bytes)
        } else {
            i32::from_le_bytes(bytes)
        }
    }

    /// The flags of a record that [`Self::id`] accepted.
    pub fn flags(&self, data: &[u8]) -> u8 {
        data.get(self.common.flags_at).copied().unwrap_or(0)
    }
}
