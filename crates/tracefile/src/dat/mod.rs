// SPDX-License-Identifier: Apache-2.0 OR MIT
//! trace-cmd's `trace.dat`, versions 6 and 7.
//!
//! The file holds the descriptions of the recorded kernel's events and, for each CPU, pages as the
//! kernel's ring buffer had them. Sources: trace-cmd.dat.v6(5), trace-cmd.dat.v7(5),
//! `include/linux/ring_buffer.h` and `kernel/trace/ring_buffer.c`.

mod meta;
mod options;
mod pages;
mod v6;
mod v7;

use std::sync::Arc;

use self::meta::Meta;
use self::pages::CpuStream;
use crate::about::{About, Endian};
use crate::describe::EventTable;
use crate::error::Error;
use crate::input::Input;
use crate::loss::{Gap, Loss};
use crate::merge::Merge;
use crate::record::{Payload, Record};
use crate::source::Source;

/// What every version begins with.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Memory for all windows onto the CPUs' data together.
const WINDOWS_BYTES: usize = 32 << 20;

/// An open `trace.dat`.
#[derive(Debug)]
pub(crate) struct DatSource {
    about: About,
    loss: Loss,
    table: EventTable,
    comms: Vec<(i32, Vec<u8>)>,
    streams: Vec<Stream>,
    merge: Merge,
    latest: u64,
}

/// One CPU of one instance.
#[derive(Debug)]
struct Stream {
    pages: CpuStream,
    instance: u16,
    /// The thread looked up last, and its place in `comms`.
    last_comm: (i32, usize),
}

impl DatSource {
    pub fn open(input: Input) -> Result<Self, Error> {
        let input = Arc::new(input);
        let meta = meta::read(&input)?;
        let Meta {
            mut about,
            mut loss,
            described,
            buffers,
            ..
        } = meta;
        let layout = described
            .layout
            .map_err(|fault| fault.named(input.name()))?;
        for fault in described.faults {
            loss.damaged(fault);
        }
        let big = about.endian == Endian::Big;
        let table = EventTable::new(&described.events, described.common, big);
        about.clock_is_ns = about.tsc.is_some()
            || !matches!(
                about.clock.as_deref(),
                Some("counter" | "uptime" | "x86-tsc" | "ppc-tb")
            );
        about.events = described.events;
        about.comms = described.comms;
        let comms = about
            .comms
            .iter()
            .map(|(pid, comm)| (*pid, comm.clone()))
            .collect();
        let mut source = Self {
            about,
            loss,
            table,
            comms,
            streams: Vec::new(),
            merge: Merge::default(),
            latest: 0,
        };
        let count: usize = buffers.iter().map(|b| b.cpus.len()).sum();
        let window = WINDOWS_BYTES / count.max(1);
        source.about.instances = buffers.iter().map(|b| b.name.clone()).collect();
        for (instance, buffer) in buffers.into_iter().enumerate() {
            for cpu in buffer.cpus {
                let pages = CpuStream::new(&input, cpu, buffer.page_size, layout, big, window);
                let instance = u16::try_from(instance).unwrap_or(u16::MAX);
                source.streams.push(Stream {
                    pages,
                    instance,
                    last_comm: (0, usize::MAX),
                });
            }
        }
        for (index, stream) in source.streams.iter_mut().enumerate() {
            if let Some(time) = stream.pages.advance(&mut source.loss)? {
                source.merge.add(time, index);
            }
        }
        Ok(source)
    }

    /// Steps to the next record whose event is known; gives its stream and its event.
    fn step(&mut self) -> Result<Option<(usize, usize)>, Error> {
        loop {
            let next = match self.merge.current() {
                Some(current) => self.streams[current].pages.advance(&mut self.loss)?,
                None => None,
            };
            let Some(picked) = self.merge.pick(next) else {
                return Ok(None);
            };
            let pages = &self.streams[picked].pages;
            let data = pages.data();
            let Some(id) = self.table.id(data) else {
                self.loss
                    .damaged(pages.fault("a record too short for an event's common fields"));
                continue;
            };
            match self.table.index(id) {
                Some(event) => return Ok(Some((picked, event))),
                None => self.loss.unknown(u64::from(id)),
            }
        }
    }

    /// Nanoseconds from what the kernel's clock counted.
    fn nanoseconds(&self, ticks: u64) -> u64 {
        let time = match self.about.tsc {
            // Wraps as the 64 bits of trace-cmd do.
            #[expect(
                clippy::cast_possible_truncation,
                reason = "the low 64 bits are wanted"
            )]
            Some(tsc) => ((u128::from(ticks) * u128::from(tsc.mult)) >> tsc.shift) as u64,
            None => ticks,
        };
        time.wrapping_add_signed(self.about.time_offset_ns)
    }
}

impl Source for DatSource {
    fn about(&self) -> &About {
        &self.about
    }

    fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        let Some((picked, event)) = self.step()? else {
            return Ok(None);
        };
        let time_ns = self.nanoseconds(self.streams[picked].pages.time());
        if time_ns < self.latest {
            self.loss.out_of_order += 1;
        }
        self.latest = self.latest.max(time_ns);

        let stream = &mut self.streams[picked];
        let gap = match stream.pages.take_gap() {
            true => Gap::Cpu,
            false => Gap::None,
        };
        let pid = self.table.pid(stream.pages.data());
        if stream.last_comm.0 != pid || stream.last_comm.1 == usize::MAX {
            let found = self.comms.binary_search_by_key(&pid, |c| c.0);
            stream.last_comm = (pid, found.unwrap_or(usize::MAX - 1));
        }
        let comm = match self.comms.get(stream.last_comm.1) {
            Some((_, comm)) => comm.as_slice(),
            None if pid == 0 => b"<idle>",
            None => b"<...>",
        };
        let stream = &self.streams[picked];
        let data = stream.pages.data();
        Ok(Some(Record {
            time_ns,
            cpu: stream.pages.cpu(),
            pid,
            comm,
            flags: self.table.flags(data),
            instance: stream.instance,
            process: 0,
            gap,
            event: &self.about.events[event],
            payload: Payload::Binary {
                data,
                big: self.table.big,
            },
        }))
    }

    fn loss(&self) -> &Loss {
        &self.loss
    }
}
