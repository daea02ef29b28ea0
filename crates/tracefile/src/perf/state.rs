// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the records of a `perf.data` say, one after the other.

use super::attr::{Attr, SampleId, word};
use super::header::{self, numbers};
use super::queue::{Kind, Queue};
use crate::about::{About, Format};
use crate::describe::{Described, EventTable};
use crate::error::{Fault, Place};
use crate::loss::{Gaps, Loss};
use crate::recent::Recent;
use crate::words::Block;

/// The most names of threads that are kept.
const COMMS_MAX: usize = 1 << 21;

/// Types of records (`include/uapi/linux/perf_event.h`, `tools/lib/perf/include/perf/event.h`).
mod kind {
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const FORK: u32 = 7;
    pub const SAMPLE: u32 = 9;
    pub const LOST_SAMPLES: u32 = 13;
    pub const HEADER_ATTR: u32 = 64;
    pub const TRACING_DATA: u32 = 66;
    pub const FINISHED_ROUND: u32 = 68;
    pub const AUXTRACE: u32 = 71;
    pub const HEADER_FEATURE: u32 = 80;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

/// Everything but where the records come from.
#[derive(Debug)]
pub(super) struct State {
    pub about: About,
    pub loss: Loss,
    pub described: Described,
    pub table: EventTable,
    pub attrs: Vec<Attr>,
    pub attr_by_id: Recent<usize>,
    /// Where samples keep their number, if all attributes agree.
    pub id_at: Option<usize>,
    pub queue: Queue,
    pub comms: Comms,
    pub latest: u64,
    pub gaps: Gaps,
}

/// What a record asks for.
pub(super) enum Then {
    GoOn,
    /// Records are due.
    Due,
    /// Bytes that follow the record are descriptions of events.
    TracingData(u64),
    /// Bytes that follow the record are not wanted.
    Skip(u64),
    /// The rest of the body from this byte is compressed records.
    Unpack(std::ops::Range<usize>),
}

impl State {
    pub fn new(pipe: bool) -> Self {
        let mut about = About::new(Format::PerfData { pipe });
        about.clock = Some("perf".into());
        let described = Described::default();
        let table = EventTable::new(&[], described.common, false);
        Self {
            about,
            loss: Loss::default(),
            described,
            table,
            attrs: Vec::new(),
            attr_by_id: Recent::default(),
            id_at: None,
            queue: Queue::default(),
            comms: Comms::default(),
            latest: 0,
            gaps: Gaps::default(),
        }
    }

    /// For the records of another file of the same recording.
    pub fn beside(&self) -> Self {
        Self {
            about: self.about.clone(),
            loss: Loss::default(),
            described: Described::default(),
            table: EventTable::new(&self.about.events, self.described.common, false),
            attrs: self.attrs.clone(),
            attr_by_id: self.attr_by_id.clone(),
            id_at: self.id_at,
            queue: Queue::default(),
            comms: Comms::default(),
            latest: 0,
            gaps: Gaps::default(),
        }
    }

    pub fn add_attr(&mut self, attr: Attr, ids: &[u64]) {
        let index = self.attrs.len();
        self.id_at = match self.id_at {
            _ if index == 0 => attr.id_at_sample(),
            at if at == attr.id_at_sample() => at,
            _ => None,
        };
        self.about.clock = Some(attr.clock());
        self.about.has_cpus &= attr.has_cpu() || !attr.tracepoint;
        self.attrs.push(attr);
        for &id in ids {
            self.attr_by_id.set(id, index, usize::MAX);
        }
    }

    /// Takes the descriptions of events that came along.
    pub fn settle(&mut self) {
        for fault in std::mem::take(&mut self.described.faults) {
            self.loss.damaged(fault);
        }
        self.about.events = std::mem::take(&mut self.described.events);
        self.about.comms = std::mem::take(&mut self.described.comms);
        self.table = EventTable::new(&self.about.events, self.described.common, false);
    }

    pub fn describe(&mut self, block: &[u8], origin: u64) {
        // Records that wait know events by their index: a second description must not move them.
        if !self.about.events.is_empty() {
            return;
        }
        let mut words = Block::new(block, origin, false, false);
        if let Err(fault) = header::tracing_data(&mut words, &mut self.about, &mut self.described) {
            self.loss.damaged(fault);
        }
        self.settle();
    }

    /// Takes one record.
    pub fn record(&mut self, kind: u32, body: &[u8], place: Place) -> Then {
        match kind {
            kind::SAMPLE => self.sample(body, place),
            kind::COMM | kind::FORK | kind::LOST | kind::LOST_SAMPLES => self.side(kind, body),
            kind::FINISHED_ROUND => {
                self.queue.finish_round();
                return Then::Due;
            }
            kind::HEADER_ATTR => self.header_attr(body, place),
            kind::HEADER_FEATURE => {
                if let (Some(number), Some(block)) = (word(body, 0), body.get(8..)) {
                    let at = match place {
                        Place::Byte(at) => at.saturating_add(16),
                        _ => 0,
                    };
                    let number = if number == header::feature::TRACING_DATA {
                        0
                    } else {
                        number
                    };
                    let taken = header::take_feature(
                        number,
                        block,
                        at,
                        &mut self.about,
                        &mut self.described,
                    );
                    if let Err(fault) = taken {
                        self.loss.damaged(fault);
                    }
                }
            }
            kind::TRACING_DATA => {
                let size = body
                    .first_chunk::<4>()
                    .map_or(0, |b| u32::from_le_bytes(*b));
                return Then::TracingData(u64::from(size).next_multiple_of(8));
            }
            kind::AUXTRACE => return Then::Skip(word(body, 0).unwrap_or(0)),
            kind::COMPRESSED => return Then::Unpack(0..body.len()),
            kind::COMPRESSED2 => {
                let size = word(body, 0)
                    .and_then(|n| usize::try_from(n).ok())
                    .unwrap_or(0);
                return Then::Unpack(8.min(body.len())..size.saturating_add(8).min(body.len()));
            }
            _ => {}
        }
        Then::GoOn
    }

    fn header_attr(&mut self, body: &[u8], place: Place) {
        let size = body
            .get(4..)
            .and_then(|b| b.first_chunk::<4>())
            .map_or(0, |b| u32::from_le_bytes(*b));
        let size = usize::try_from(size).unwrap_or(0);
        let origin = match place {
            Place::Byte(at) => at.saturating_add(8),
            _ => 0,
        };
        let (Some(attr), Some(ids)) = (body.get(..size), body.get(size..)) else {
            self.loss
                .damaged(Fault::new(place, "an attribute is longer than its record"));
            return;
        };
        match Attr::parse(&mut Block::new(attr, origin, false, false)) {
            Ok(attr) => self.add_attr(attr, &numbers(ids)),
            Err(fault) => self.loss.damaged(fault),
        }
    }

    fn sample(&mut self, body: &[u8], place: Place) {
        let by_id = self
            .id_at
            .and_then(|at| word(body, at * 8))
            .and_then(|id| self.attr_by_id.get(id));
        let attr = match by_id {
            Some(&index) => self.attrs.get(index),
            None => self.attrs.first(),
        };
        let Some((attr, (id, raw))) = attr.and_then(|a| Some((a, a.sample(body)?))) else {
            self.loss.damaged(Fault::new(
                place,
                "a sample is shorter than its attribute says",
            ));
            return;
        };
        if !attr.tracepoint {
            self.loss.other_records = self.loss.other_records.saturating_add(1);
            return;
        }
        let Some(number) = self.table.id(raw) else {
            self.loss.damaged(Fault::new(
                place,
                "a sample of a tracepoint without its data",
            ));
            return;
        };
        let Some(event) = self
            .table
            .index(number)
            .and_then(|index| u32::try_from(index).ok())
        else {
            self.loss.unknown(u64::from(number));
            return;
        };
        // perf gives -1 for a thread that is past its exit; the kernel's own field still knows it.
        let tid = id
            .tid
            .filter(|&tid| tid >= 0)
            .unwrap_or_else(|| self.table.pid(raw));
        let time = id.time.unwrap_or_else(|| self.queue.latest());
        self.queue.push(
            time,
            Kind::Sample(event),
            (id.process.filter(|&process| process > 0).unwrap_or(0), tid),
            id.cpu.unwrap_or(u32::MAX),
            raw,
        );
    }

    /// A record beside the samples: names of threads, losses.
    fn side(&mut self, kind: u32, body: &[u8]) {
        let id = self
            .attrs
            .first()
            .map_or(SampleId::default(), |a| a.trailer(body));
        let int = |at: usize| {
            let b = body
                .get(at..)
                .and_then(|b| b.first_chunk::<4>())
                .copied()
                .unwrap_or_default();
            i32::from_le_bytes(b)
        };
        let cpu = id.cpu.unwrap_or(u32::MAX);
        // Records that perf made itself have no time: they hold from the start.
        let time = id.time.filter(|&t| t != 0 && t != u64::MAX);
        match kind {
            kind::LOST => {
                self.loss.gap(cpu, word(body, 8));
                let at = time.unwrap_or_else(|| self.queue.latest());
                self.queue.push(at, Kind::Lost, (0, 0), cpu, &[]);
            }
            kind::LOST_SAMPLES => {
                let lost = word(body, 0).unwrap_or(0);
                let overrun = &mut self.loss.cpus.entry(cpu).or_default().overrun;
                *overrun = overrun.saturating_add(lost);
            }
            kind::COMM => {
                let name = body.get(8..).unwrap_or_default();
                let end = memchr::memchr(0, name).unwrap_or(name.len());
                match time {
                    Some(time) => {
                        self.queue
                            .push(time, Kind::Comm, (0, int(4)), cpu, &name[..end.min(16)])
                    }
                    None => self.comms.set(int(4), &name[..end.min(16)]),
                }
            }
            _ => match time {
                Some(time) => self
                    .queue
                    .push(time, Kind::Fork(int(12)), (0, int(8)), cpu, &[]),
                None => self.comms.inherit(int(8), int(12)),
            },
        }
    }
}

/// Names of threads.
#[derive(Debug, Default)]
pub(super) struct Comms(Recent<[u8; 16]>);

fn number(tid: i32) -> u64 {
    u64::from(tid.cast_unsigned())
}

impl Comms {
    pub fn set(&mut self, tid: i32, name: &[u8]) {
        let mut comm = [0; 16];
        comm[..name.len().min(16)].copy_from_slice(&name[..name.len().min(16)]);
        self.0.set(number(tid), comm, COMMS_MAX);
    }

    /// A new thread has the name of the one that made it.
    pub fn inherit(&mut self, tid: i32, parent: i32) {
        if let Some(comm) = self.0.get(number(parent)).copied() {
            self.0.set(number(tid), comm, COMMS_MAX);
        }
    }

    pub fn name(&mut self, tid: i32) -> &[u8] {
        match self.0.get(number(tid)) {
            Some(comm) => &comm[..memchr::memchr(0, comm).unwrap_or(16)],
            None if tid == 0 => b"swapper",
            None => b"<...>",
        }
    }
}
