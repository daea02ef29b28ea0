// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Perfetto's traces: the kernel's events in them (`FtraceEventBundle`, compact scheduling too).
//!
//! Bundles of the CPUs lie behind one another, each in the order of time. They are copied to an
//! unnamed file in the folder for temporary files, with their places in memory, and then merged by
//! CPU. Source: `protos/perfetto/trace/{trace_packet,ftrace/ftrace_event_bundle}.proto`, 59.
//!
//! Left out: everything but the kernel's events, such as the slices and counters of programs (they
//! are counted in [`Loss::other_records`]), and the conversion of other clocks.

mod bundle;
mod table;
mod wire;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::FileExt;

use self::bundle::{Bundle, Messages, Running};
use self::wire::{Fields, Value};
use crate::about::{About, Format};
use crate::error::{Error, Fault, Place};
use crate::loss::{Gap, Loss};
use crate::merge::Merge;
use crate::record::{Payload, Record};
use crate::source::Source;

/// The largest packet; Perfetto writes some 100 KB at most.
const PACKET_MAX: u64 = 256 << 20;
/// The most that packed packets unpack to at once.
const UNPACKED_MAX: u64 = 256 << 20;
/// Packed packets in packed packets that are followed.
const DEPTH_MAX: u32 = 2;
/// CPUs, at most.
const CPUS_MAX: usize = 8192;
/// Names of threads that are kept.
const COMMS_MAX: usize = 1 << 21;

/// Fields of `TracePacket`.
mod packet {
    pub const FTRACE_EVENTS: u32 = 1;
    pub const PROCESS_TREE: u32 = 2;
    pub const TRACK_EVENT: u32 = 11;
    pub const SYSTEM_INFO: u32 = 45;
    pub const COMPRESSED: u32 = 50;
    pub const ZSTD_COMPRESSED: u32 = 133;
}

/// Whether a file begins as Perfetto's do: with a packet, which no text does.
pub(crate) fn is_trace(head: &[u8]) -> bool {
    let Some(mut rest) = head.strip_prefix(b"\x0a") else {
        return false;
    };
    let len = wire::varint(&mut rest);
    let tag = wire::varint(&mut rest);
    let field = tag.is_some_and(|tag| tag >> 3 > 0 && tag >> 3 < 1 << 13 && tag & 7 < 3);
    let control = |byte: &u8| matches!(byte, 0..=8 | 0x0e..=0x1a);
    len.is_some_and(|len| len > 0 && len <= PACKET_MAX)
        && field
        && head.iter().take(64).any(control)
}

/// A bundle in the copy.
#[derive(Debug, Clone, Copy)]
struct Stored {
    at: u64,
    len: u32,
    /// Events were lost before it.
    lost: bool,
}

/// The bundles of one CPU, and the one that is being given out.
#[derive(Debug)]
struct Cpu {
    number: u32,
    /// Events were lost before the next one.
    gap: bool,
    stored: Vec<Stored>,
    next: usize,
    bundle: Bundle,
    given: usize,
    running: Running,
}

/// An open trace of Perfetto's.
#[derive(Debug)]
pub(crate) struct PerfettoSource {
    name: String,
    copy: File,
    cpus: Vec<Cpu>,
    merge: Merge,
    messages: Messages,
    about: About,
    loss: Loss,
    buffer: Vec<u8>,
    latest: u64,
}

impl PerfettoSource {
    /// Reads all packets once, so that bundles can then be merged.
    pub fn open(reader: Box<dyn Read + Send>, name: &str) -> Result<Self, Error> {
        let io = |source| Error::Io {
            name: name.to_owned(),
            source,
        };
        let copy = crate::input::temporary().map_err(io)?;
        let mut about = About::new(Format::Perfetto);
        about.clock = Some("boot".to_owned());
        let mut reading = Reading {
            copy: BufWriter::new(copy),
            copied: 0,
            cpus: BTreeMap::new(),
            messages: Messages::new(),
            about,
            loss: Loss::default(),
        };
        reading.all(BufReader::new(reader)).map_err(io)?;
        let Reading {
            copy,
            cpus,
            messages,
            mut about,
            loss,
            ..
        } = reading;
        let copy = copy.into_inner().map_err(|error| io(error.into_error()))?;
        messages.describe_to(&mut about.events);
        about.cpus = about
            .cpus
            .max(cpus.keys().last().map_or(0, |last| last + 1));
        let cpus = cpus.into_iter().map(|(number, stored)| Cpu {
            number,
            stored,
            next: 0,
            bundle: Bundle::default(),
            given: 0,
            gap: false,
            running: Running::default(),
        });
        let mut source = Self {
            name: name.to_owned(),
            copy,
            cpus: cpus.collect(),
            merge: Merge::default(),
            messages,
            about,
            loss,
            buffer: Vec::new(),
            latest: 0,
        };
        for at in 0..source.cpus.len() {
            if let Some(time) = source.head(at)? {
                source.merge.add(time, at);
            }
        }
        Ok(source)
    }

    /// The time of a CPU's next record; reads its next bundle if need be.
    fn head(&mut self, at: usize) -> Result<Option<u64>, Error> {
        loop {
            let cpu = &mut self.cpus[at];
            if let Some(item) = cpu.bundle.items.get(cpu.given) {
                return Ok(Some(item.time));
            }
            let Some(stored) = cpu.stored.get(cpu.next).copied() else {
                return Ok(None);
            };
            cpu.next += 1;
            cpu.given = 0;
            cpu.gap |= stored.lost;
            self.buffer
                .resize(usize::try_from(stored.len).unwrap_or(0), 0);
            let read = self.copy.read_exact_at(&mut self.buffer, stored.at);
            read.map_err(|source| Error::Io {
                name: self.name.clone(),
                source,
            })?;
            let (damaged, others) = (cpu.bundle.damaged, cpu.bundle.others);
            let Cpu {
                bundle, running, ..
            } = cpu;
            bundle.read(&self.buffer, &mut self.messages, running);
            for _ in damaged..bundle.damaged {
                let what = "a bundle of events ends inside a field";
                self.loss.damaged(Fault::new(Place::Byte(stored.at), what));
            }
            self.loss.other_records += bundle.others - others;
            self.messages.describe_to(&mut self.about.events);
        }
    }
}

impl Source for PerfettoSource {
    fn about(&self) -> &About {
        &self.about
    }

    fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        let head = match self.merge.current() {
            Some(at) => self.head(at)?,
            None => None,
        };
        let Some(at) = self.merge.pick(head) else {
            return Ok(None);
        };
        let cpu = &mut self.cpus[at];
        let Some(item) = cpu.bundle.items.get(cpu.given).copied() else {
            return Ok(None);
        };
        cpu.given += 1;
        self.loss.out_of_order += u64::from(item.time < self.latest);
        self.latest = self.latest.max(item.time);
        let gap = match std::mem::take(&mut cpu.gap) {
            true => Gap::Cpu,
            false => Gap::None,
        };
        let cpu = &self.cpus[at];
        let comm: &[u8] = match self.about.comms.get(&item.pid) {
            _ if item.pid == 0 => b"swapper",
            _ if cpu.running.pid == Some(item.pid) && !cpu.running.comm.is_empty() => {
                &cpu.running.comm
            }
            Some(comm) => comm,
            None => b"<...>",
        };
        Ok(Some(Record {
            time_ns: item.time,
            cpu: cpu.number,
            pid: item.pid,
            comm,
            flags: item.flags,
            instance: 0,
            process: 0,
            gap,
            event: &self.about.events[item.message],
            payload: Payload::Binary {
                data: &cpu.bundle.data[item.start..item.end],
                big: false,
            },
        }))
    }

    fn loss(&self) -> &Loss {
        &self.loss
    }
}

/// The first pass.
struct Reading {
    copy: BufWriter<File>,
    copied: u64,
    cpus: BTreeMap<u32, Vec<Stored>>,
    messages: Messages,
    about: About,
    loss: Loss,
}

impl Reading {
    /// Reads packet by packet: field 1 of `Trace`.
    fn all(&mut self, mut reader: impl Read) -> io::Result<()> {
        let (mut at, mut block) = (0_u64, Vec::new());
        loop {
            let Some((tag, taken)) = read_varint(&mut reader)? else {
                return Ok(());
            };
            let place = Place::Byte(at);
            let Some((len, len_taken)) = read_varint(&mut reader)? else {
                self.loss.cut(place, None);
                return Ok(());
            };
            if tag != 0x0a || len > PACKET_MAX {
                let what = "no packet begins here; what follows is not read";
                self.loss.damaged(Fault::new(place, what));
                self.loss.cut(place, None);
                return Ok(());
            }
            block.clear();
            let got = (&mut reader).take(len).read_to_end(&mut block)?;
            let got = u64::try_from(got).unwrap_or(0);
            if got < len {
                self.loss.cut(place, Some(len - got));
                return Ok(());
            }
            self.packet(&block, place, 0)?;
            at = at.saturating_add(taken + len_taken + len);
        }
    }

    fn packet(&mut self, packet: &[u8], place: Place, depth: u32) -> io::Result<()> {
        let mut fields = Fields::of(packet);
        for (field, value) in fields.by_ref() {
            let Value::Bytes(bytes) = value else { continue };
            match field {
                packet::FTRACE_EVENTS => self.bundle(bytes)?,
                packet::PROCESS_TREE => self.names(bytes),
                packet::SYSTEM_INFO => self.system(bytes),
                packet::TRACK_EVENT => self.loss.other_records += 1,
                packet::COMPRESSED | packet::ZSTD_COMPRESSED if depth < DEPTH_MAX => {
                    self.packed(field, bytes, place, depth)?;
                }
                _ => {}
            }
        }
        if fields.damaged {
            let what = format!(
                "a packet ends inside a field, {} bytes early",
                fields.left()
            );
            self.loss.damaged(Fault::new(place, what));
        }
        Ok(())
    }

    fn packed(&mut self, field: u32, bytes: &[u8], place: Place, depth: u32) -> io::Result<()> {
        let mut plain = Vec::new();
        let unpacked = if field == packet::COMPRESSED {
            let decoder = flate2::read::ZlibDecoder::new(bytes);
            decoder.take(UNPACKED_MAX).read_to_end(&mut plain)
        } else {
            zstd::stream::read::Decoder::new(bytes)
                .and_then(|decoder| decoder.take(UNPACKED_MAX).read_to_end(&mut plain))
        };
        if let Err(error) = unpacked {
            let what = format!("packed packets do not unpack: {error}");
            self.loss.damaged(Fault::new(place, what));
        }
        let mut fields = Fields::of(&plain);
        for (field, value) in fields.by_ref() {
            if let (1, Value::Bytes(packet)) = (field, value) {
                self.packet(packet, place, depth + 1)?;
            }
        }
        Ok(())
    }

    /// Copies a bundle: CPU 1, whether events were lost 3, descriptions of events 11.
    fn bundle(&mut self, bundle: &[u8]) -> io::Result<()> {
        let (mut cpu, mut lost) = (0, false);
        for (field, value) in Fields::of(bundle) {
            match (field, value) {
                (1, Value::Number(number)) => cpu = u32::try_from(number).unwrap_or(0),
                (3, Value::Number(flag)) => lost = flag != 0,
                (11, Value::Bytes(descriptor)) => self.messages.describe(descriptor),
                _ => {}
            }
        }
        if lost {
            self.loss.gap(cpu, None);
        }
        if self.cpus.len() >= CPUS_MAX && !self.cpus.contains_key(&cpu) {
            self.loss.other_records += 1;
            return Ok(());
        }
        let Ok(len) = u32::try_from(bundle.len()) else {
            return Ok(());
        };
        self.copy.write_all(bundle)?;
        self.cpus.entry(cpu).or_default().push(Stored {
            at: self.copied,
            len,
            lost,
        });
        self.copied += u64::from(len);
        Ok(())
    }

    /// `ProcessTree`: processes 1 of thread 1 and words 3, threads 2 of thread 1 and name 2.
    fn names(&mut self, tree: &[u8]) {
        for (field, value) in Fields::of(tree) {
            let Some(bytes) = value.bytes() else { continue };
            let wanted = if field == 2 { 2 } else { 3 };
            let (mut tid, mut name) = (None, None);
            for (number, value) in Fields::of(bytes) {
                match (number, value) {
                    (1, Value::Number(id)) => tid = i32::try_from(id).ok(),
                    (_, Value::Bytes(text)) if number == wanted && name.is_none() => {
                        name = Some(text);
                    }
                    _ => {}
                }
            }
            if let (Some(tid), Some(name), true) = (tid, name, matches!(field, 1 | 2)) {
                // A process has its program's path there; its thread's name is the last part.
                let last = memchr::memrchr(b'/', name).filter(|_| field == 1);
                let name = &name[last.map_or(0, |at| at + 1)..];
                let name = name[..name.len().min(15)].to_vec();
                if self.about.comms.len() < COMMS_MAX {
                    self.about.comms.entry(tid).or_insert(name);
                }
            }
        }
    }

    /// `SystemInfo`: `Utsname` 1 with the release in 3, CPUs 8.
    fn system(&mut self, info: &[u8]) {
        for (field, value) in Fields::of(info) {
            match (field, value) {
                (1, Value::Bytes(names)) => {
                    let release = Fields::of(names).find(|(field, _)| *field == 3);
                    let release = release.and_then(|(_, value)| value.bytes());
                    let text = release.map(|text| String::from_utf8_lossy(text).into_owned());
                    self.about.release = text;
                }
                (8, Value::Number(cpus)) => self.about.cpus = u32::try_from(cpus).unwrap_or(0),
                _ => {}
            }
        }
    }
}

/// A varint and its bytes; `None` at the end.
fn read_varint(reader: &mut impl Read) -> io::Result<Option<(u64, u64)>> {
    let (mut value, mut taken) = (0_u64, 0_u64);
    loop {
        let mut byte = [0];
        match reader.read(&mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        }
        value |= u64::from(byte[0] & 0x7f) << (7 * taken).min(63);
        taken += 1;
        if byte[0] & 0x80 == 0 || taken == 10 {
            return Ok(Some((value, taken)));
        }
    }
}
