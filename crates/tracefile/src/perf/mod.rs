// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `perf.data`: the samples of tracepoints, from a file or from a pipe.
//!
//! Left out: samples of other events, memory maps, call chains, hardware traces. They are stepped
//! over; other samples are counted in [`Loss::other_records`].

mod attr;
mod folder;
mod header;
mod queue;
mod records;
mod state;

use std::io::Read;
use std::sync::Arc;

pub(crate) use self::folder::FolderSource;
use self::header::FEATURE_MAX;
use self::queue::Kind;
use self::records::{Records, Step, Unpacker};
use self::state::{State, Then};
use crate::about::About;
use crate::error::{Error, Fault, Place};
use crate::input::Input;
use crate::loss::Loss;
use crate::record::{Payload, Record};
use crate::source::Source;

/// What `perf.data` begins with, when the least significant byte comes first.
pub(crate) const MAGIC: &[u8] = b"PERFILE2";
/// The same, from a machine of the other byte order.
pub(crate) const MAGIC_BIG: &[u8] = b"2ELIFREP";
/// The size of the header in pipe mode.
const PIPE_HEADER: u64 = 16;

/// An open `perf.data`.
#[derive(Debug)]
pub(crate) struct PerfSource {
    name: String,
    records: Records,
    unpacker: Option<Unpacker>,
    ended: bool,
    state: State,
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
                "the end of the file, where perf describes the events, is missing: was perf \
                 killed? No event can be read without",
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
                Ok(Some((kind, body))) => {
                    let place = Place::Byte(self.records.offset());
                    return Ok(self.state.record(kind, unpacker.bytes(body), place));
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
            Step::Record(kind, body) => {
                let then = self
                    .state
                    .record(kind, self.records.bytes(body.clone()), place);
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
                    Kind::Comm => state.comms.set(item.tid, state.queue.bytes(&item)),
                    Kind::Fork(parent) => state.comms.inherit(item.tid, parent),
                    Kind::Lost => state.gaps.note(item.cpu),
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
        let gap = state.gaps.before(item.cpu);
        let data = state.queue.bytes(&item);
        let comm = state.comms.name(item.tid);
        Ok(Some(Record {
            time_ns: item.time,
            cpu: item.cpu,
            pid: item.tid,
            comm,
            flags: state.table.flags(data),
            instance: 0,
            process: item.process,
            gap,
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
