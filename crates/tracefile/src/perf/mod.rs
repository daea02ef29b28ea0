// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `perf.data`: the samples of tracepoints, from a file or from a pipe.
//!
//! Left out: samples of other events, memory maps, call chains, hardware traces. They are stepped
//! over; other samples are counted in [`Loss::other_records`].

mod attr;
mod header;
mod queue;
mod records;

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use self::attr::{Attr, SampleId, word};
use self::header::{FEATURE_MAX, numbers};
use self::queue::{Kind, Queue};
use self::records::{Head, Records, Step, Unpacker};
use crate::about::{About, Format};
use crate::describe::{Described, EventTable};
use crate::error::{Error, Fault, Place};
use crate::input::Input;
use crate::loss::Loss;
use crate::record::{Payload, Record};
use crate::source::Source;
use crate::words::Block;

/// What `perf.data` begins with, when the least significant byte comes first.
pub(crate) const MAGIC: &[u8] = b"PERFILE2";
/// The same, from a machine of the other byte order.
pub(crate) const MAGIC_BIG: &[u8] = b"2ELIFREP";
/// The size of the header in pipe mode.
const PIPE_HEADER: u64 = 16;
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

/// An open `perf.data`.
#[derive(Debug)]
pub(crate) struct PerfSource {
    name: String,
    records: Records,
    unpacker: Option<Unpacker>,
    ended: bool,
    state: State,
}

/// Everything but where the records come from.
#[derive(Debug)]
struct State {
    about: About,
    loss: Loss,
    described: Described,
    table: EventTable,
    attrs: Vec<Attr>,
    attr_by_id: HashMap<u64, usize>,
    /// Where samples keep their number, if all attributes agree.
    id_at: Option<usize>,
    queue: Queue,
    comms: HashMap<i32, [u8; 16]>,
    latest: u64,
}

/// What a record asks for.
enum Then {
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

impl PerfSource {
    /// Opens a file of either mode.
    pub fn open(input: Input) -> Result<Self, Error> {
        let name = input.name().to_owned();
        let mut size = [0; 8];
        let got = input.read_exact_at(&mut size, 8);
        got.map_err(|_| {
            Fault::new(Place::Byte(8), "the file ends inside its header").named(&name)
        })?;
        let input = Arc::new(input);
        if u64::from_le_bytes(size) == PIPE_HEADER {
            let reader = Section {
                at: PIPE_HEADER,
                end: input.len(),
                input,
            };
            return Self::pipe(Box::new(reader), &name);
        }
        let mut state = State::new(false);
        let mut faults = Vec::new();
        let head = header::read(&input, &mut state.about, &mut state.described, &mut faults);
        let head = head.map_err(|fault| fault.named(&name))?;
        for fault in faults {
            state.loss.damaged(fault);
        }
        for (attr, ids) in head.attrs {
            state.add_attr(attr, &ids);
        }
        state.settle();
        if head.unfinished || head.missing.is_some() {
            state.loss.cut(Place::Byte(input.len()), head.missing);
            state.loss.damaged(Fault::new(
                Place::Byte(input.len()),
                "the end of the file, where perf describes the events, is missing: was perf killed? \
                 No event can be read without",
            ));
        }
        let reader = Section {
            at: head.data.start,
            end: head.data.end,
            input,
        };
        Self::start(Records::new(Box::new(reader), head.data.start), name, state)
    }

    /// Opens pipe mode behind its header of 16 bytes.
    pub fn pipe(reader: Box<dyn Read + Send>, name: &str) -> Result<Self, Error> {
        Self::start(
            Records::new(reader, PIPE_HEADER),
            name.to_owned(),
            State::new(true),
        )
    }

    /// Reads up to the first records that are due, so that what comes before them is known.
    fn start(records: Records, name: String, state: State) -> Result<Self, Error> {
        let mut source = Self {
            name,
            records,
            unpacker: None,
            ended: false,
            state,
        };
        source.read_on()?;
        Ok(source)
    }

    /// Reads until records are due or the trace has ended.
    fn read_on(&mut self) -> Result<(), Error> {
        while !self.ended {
            if matches!(self.one()?, Then::Due) {
                return Ok(());
            }
            if self.state.queue.is_full() {
                self.state.queue.halve();
                return Ok(());
            }
        }
        self.state.queue.finish();
        Ok(())
    }

    /// Reads one record, from the compressed ones first.
    fn one(&mut self) -> Result<Then, Error> {
        if let Some(unpacker) = &mut self.unpacker {
            match unpacker.step() {
                Ok(Some((head, body))) => {
                    let place = Place::Byte(self.records.offset());
                    return Ok(self.state.record(head, unpacker.bytes(body), place));
                }
                Ok(None) => {}
                Err(what) => {
                    self.state
                        .loss
                        .damaged(Fault::new(Place::Byte(self.records.offset()), what));
                }
            }
        }
        let place = Place::Byte(self.records.offset());
        let io = |source| Error::Io {
            name: self.name.clone(),
            source,
        };
        match self.records.step().map_err(io)? {
            Step::Record(head, body) => {
                let then = self
                    .state
                    .record(head, self.records.bytes(body.clone()), place);
                self.follow(then, &body, place)
            }
            Step::End => {
                self.ended = true;
                if self.unpacker.as_ref().is_some_and(|u| u.left() > 0) {
                    self.state.loss.cut(place, None);
                }
                Ok(Then::GoOn)
            }
            Step::Cut => {
                self.ended = true;
                if self.state.loss.truncated.is_none() {
                    self.state.loss.cut(place, None);
                }
                Ok(Then::GoOn)
            }
            Step::Lost(what) => {
                self.ended = true;
                self.state.loss.damaged(Fault::new(place, what));
                self.state.loss.cut(place, None);
                Ok(Then::GoOn)
            }
        }
    }

    /// Does what a record asks for beyond itself.
    fn follow(
        &mut self,
        then: Then,
        body: &std::ops::Range<usize>,
        place: Place,
    ) -> Result<Then, Error> {
        let io = |source| Error::Io {
            name: self.name.clone(),
            source,
        };
        match then {
            Then::TracingData(size) | Then::Skip(size) => {
                let keep = matches!(then, Then::TracingData(_));
                if keep && size > FEATURE_MAX {
                    let what =
                        format!("{size} bytes of descriptions; expected at most {FEATURE_MAX}");
                    self.state.loss.damaged(Fault::new(place, what));
                }
                let keep = keep && size <= FEATURE_MAX;
                let origin = self.records.offset();
                match self.records.blob(size, keep).map_err(io)? {
                    Some(block) if keep => self.state.describe(&block, origin),
                    Some(_) => {}
                    None => {
                        self.ended = true;
                        self.state
                            .loss
                            .cut(Place::Byte(self.records.offset()), None);
                    }
                }
                Ok(Then::GoOn)
            }
            Then::Unpack(part) => {
                if self.unpacker.is_none() {
                    self.unpacker = Some(Unpacker::new().map_err(io)?);
                }
                let packed = self
                    .records
                    .bytes(body.start + part.start..body.start + part.end);
                if let Some(Err(what)) = self.unpacker.as_mut().map(|u| u.push(packed)) {
                    // What follows continues the same stream and cannot be unpacked either.
                    self.state.loss.damaged(Fault::new(place, what));
                    self.state.loss.cut(place, None);
                    self.ended = true;
                }
                Ok(Then::GoOn)
            }
            other => Ok(other),
        }
    }
}

impl State {
    fn new(pipe: bool) -> Self {
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
            attr_by_id: HashMap::new(),
            id_at: None,
            queue: Queue::default(),
            comms: HashMap::new(),
            latest: 0,
        }
    }

    fn add_attr(&mut self, attr: Attr, ids: &[u64]) {
        let index = self.attrs.len();
        self.id_at = match self.id_at {
            _ if index == 0 => attr.id_at_sample(),
            at if at == attr.id_at_sample() => at,
            _ => None,
        };
        self.about.clock = Some(attr.clock());
        self.attrs.push(attr);
        self.attr_by_id.extend(ids.iter().map(|&id| (id, index)));
    }

    /// Takes the descriptions of events that came along.
    fn settle(&mut self) {
        for fault in std::mem::take(&mut self.described.faults) {
            self.loss.damaged(fault);
        }
        self.about.events = std::mem::take(&mut self.described.events);
        self.about.comms = std::mem::take(&mut self.described.comms);
        self.table = EventTable::new(&self.about.events, self.described.common, false);
    }

    fn describe(&mut self, block: &[u8], origin: u64) {
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
    fn record(&mut self, head: Head, body: &[u8], place: Place) -> Then {
        match head.kind {
            kind::SAMPLE => self.sample(body, place),
            kind::COMM | kind::FORK | kind::LOST | kind::LOST_SAMPLES => self.side(head, body),
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
            .and_then(|id| self.attr_by_id.get(&id));
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
            tid,
            id.cpu.unwrap_or(u32::MAX),
            raw,
        );
    }

    /// A record beside the samples: names of threads, losses.
    fn side(&mut self, head: Head, body: &[u8]) {
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
        match head.kind {
            kind::LOST => self.loss.gap(cpu, word(body, 8)),
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
                            .push(time, Kind::Comm, int(4), cpu, &name[..end.min(16)])
                    }
                    None => set_comm(&mut self.comms, int(4), &name[..end.min(16)]),
                }
            }
            _ => match time {
                Some(time) => self.queue.push(time, Kind::Fork(int(12)), int(8), cpu, &[]),
                None => inherit_comm(&mut self.comms, int(8), int(12)),
            },
        }
    }
}

fn set_comm(comms: &mut HashMap<i32, [u8; 16]>, tid: i32, name: &[u8]) {
    if comms.len() < COMMS_MAX || comms.contains_key(&tid) {
        let mut comm = [0; 16];
        comm[..name.len().min(16)].copy_from_slice(&name[..name.len().min(16)]);
        comms.insert(tid, comm);
    }
}

/// A new thread has the name of the one that made it.
fn inherit_comm(comms: &mut HashMap<i32, [u8; 16]>, tid: i32, parent: i32) {
    if let Some(name) = comms.get(&parent).copied() {
        set_comm(comms, tid, &name);
    }
}

impl Source for PerfSource {
    fn about(&self) -> &About {
        &self.state.about
    }

    fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        let (item, event) = loop {
            let state = &mut self.state;
            match state.queue.pop() {
                Some(item) => match item.kind {
                    Kind::Sample(event) => break (item, event),
                    Kind::Comm => set_comm(&mut state.comms, item.tid, state.queue.bytes(&item)),
                    Kind::Fork(parent) => inherit_comm(&mut state.comms, item.tid, parent),
                },
                None if self.ended => {
                    state.queue.finish();
                    return Ok(None);
                }
                None => self.read_on()?,
            }
        };
        let state = &mut self.state;
        if item.time < state.latest {
            state.loss.out_of_order += 1;
        }
        state.latest = state.latest.max(item.time);
        let data = state.queue.bytes(&item);
        let comm: &[u8] = match state.comms.get(&item.tid) {
            Some(comm) => &comm[..memchr::memchr(0, comm).unwrap_or(16)],
            None if item.tid == 0 => b"swapper",
            None => b"<...>",
        };
        Ok(Some(Record {
            time_ns: item.time,
            cpu: item.cpu,
            pid: item.tid,
            comm,
            flags: state.table.flags(data),
            instance: 0,
            event: &state.about.events[usize::try_from(event).unwrap_or(0)],
            payload: Payload::Binary { data, big: false },
        }))
    }

    fn loss(&self) -> &Loss {
        &self.state.loss
    }
}

/// A part of a file, read from its start to its end.
struct Section {
    input: Arc<Input>,
    at: u64,
    end: u64,
}

impl Read for Section {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let len = left.min(out.len());
        self.input.read_exact_at(&mut out[..len], self.at)?;
        self.at += u64::try_from(len).unwrap_or(0);
        Ok(len)
    }
}
