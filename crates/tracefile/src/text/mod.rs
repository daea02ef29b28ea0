// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces as text: ftrace's `trace` and `trace_pipe` files, `trace-cmd report`, `perf script`.
//!
//! Lines are read in their order; each is one record. Lines that are not events (call chains,
//! output of tracers, remarks) are counted in [`Loss::other_records`].

pub(crate) mod body;
mod head;
mod layouts;
mod lines;
mod mail;
pub(crate) mod perf_trace;
mod transfer;
mod words;

use std::cell::RefCell;
use std::collections::HashMap;
use std::io::Read;

use self::body::Shape;
use self::head::{Head, NO_CPU, Style};
use self::lines::{Line, Lines};
use crate::about::{About, Format};
use crate::error::{Error, Fault, Place};
use crate::event::EventDef;
use crate::loss::{Gaps, Loss};
use crate::record::{Parsed, Payload, Record, TextBody};
use crate::source::Source;

/// Lines in which the first event must be found; longer heads are not known.
const HEAD_LINES: u64 = 20_000;
/// The most different events; a kernel has about 2500.
const EVENTS_MAX: usize = 1 << 14;
/// Why lines without threads are refused.
const NO_THREAD: &str = "its lines name no thread, so nothing can be said of any; print it with \
                         the thread: perf script -F comm,tid,cpu,time,event,trace";
/// Why the function graph is.
const GRAPH: &str = "the output of the function-graph tracer, which holds no events; record events \
                     instead: trace-cmd record -e kvm -e sched";

/// An open text trace.
#[derive(Debug)]
pub(crate) struct TextSource {
    name: String,
    lines: Lines,
    style: Style,
    about: About,
    loss: Loss,
    by_name: HashMap<Vec<u8>, usize>,
    /// Names as they stand in lines, by event, and the events seen last by [`slot`]: most lines are
    /// of few events, and comparing a name costs less than hashing it.
    full_names: Vec<Box<[u8]>>,
    recent: [usize; SLOTS],
    shapes: Vec<Shape>,
    fields: RefCell<Parsed>,
    /// The first record, read to recognise the format.
    waiting: Option<Found>,
    latest: u64,
    gaps: Gaps,
    /// Whether something else stood behind the last event, and whether call chains do, which end
    /// with an empty line.
    interrupted: bool,
    has_frames: bool,
}

/// A record's line.
#[derive(Debug)]
struct Found {
    line: std::ops::Range<usize>,
    head: Head,
    event: usize,
}

impl TextSource {
    /// Opens text, reading up to its first event. Text that came by mail is made whole first.
    pub fn open(reader: Box<dyn Read + Send>, name: &str) -> Result<Self, Error> {
        let whole = transfer::plain(reader).and_then(mail::whole);
        let reader = whole.map_err(|source| Error::Io {
            name: name.to_owned(),
            source,
        })?;
        let mut source = Self {
            name: name.to_owned(),
            lines: Lines::new(reader),
            style: Style::Ftrace,
            about: About::new(Format::FtraceText),
            loss: Loss::default(),
            by_name: HashMap::new(),
            full_names: Vec::new(),
            recent: [0; SLOTS],
            shapes: Vec::new(),
            fields: RefCell::default(),
            waiting: None,
            latest: 0,
            gaps: Gaps::default(),
            interrupted: false,
            has_frames: false,
        };
        source.first()?;
        Ok(source)
    }

    /// Reads up to the first event, which shows the style.
    fn first(&mut self) -> Result<(), Error> {
        let mut is_trace = false;
        while let Some(line) = self.line()? {
            let text = self.lines.bytes(line.clone());
            if memchr::memchr(0, text).is_some() {
                return Err(self.foreign("it holds NUL bytes, so it is not text"));
            }
            let found = Style::ALL
                .into_iter()
                .find_map(|style| Some((style, head::parse(text, style)?)));
            if let Some((style, head)) = found {
                self.style = style;
                self.about.format = match style {
                    Style::Ftrace | Style::Latency => Format::FtraceText,
                    Style::Perf | Style::PerfColumns => Format::PerfScript,
                    Style::PerfTrace => Format::PerfTrace,
                };
                self.about.has_cpus = head.cpu != NO_CPU;
                self.about.resolution_ns =
                    10_u64.pow(9 - u32::try_from(head.time.digits.min(9)).unwrap_or(9));
                if head.time.digits == 0 {
                    self.about.clock_is_ns = false;
                    self.about.resolution_ns = 1;
                }
                self.waiting = self.found(line, head);
                return Ok(());
            }
            if layouts::lacks_thread(text) {
                return Err(self.unsupported(NO_THREAD));
            }
            if text.starts_with(b"#") && is_graph_head(text) {
                return Err(self.unsupported(GRAPH));
            }
            is_trace |=
                text.starts_with(b"# tracer:") || text.starts_with(b"cpus=") || is_loss(text);
            self.remark(line);
            if self.lines.number() > HEAD_LINES {
                break;
            }
        }
        // A trace without events is one, if its head says so.
        if is_trace {
            Ok(())
        } else {
            Err(self.foreign("no line of it is an event"))
        }
    }

    fn unsupported(&self, what: &str) -> Error {
        Error::Unsupported {
            name: self.name.clone(),
            place: Place::Line(self.lines.number()),
            what: what.to_owned(),
        }
    }

    fn foreign(&self, what: &str) -> Error {
        Error::Foreign {
            name: self.name.clone(),
            what: format!("line {}: {what}", self.lines.number()),
        }
    }

    /// The next line that is whole; notes others.
    fn line(&mut self) -> Result<Option<std::ops::Range<usize>>, Error> {
        loop {
            let line = self.lines.next();
            let line = line.map_err(|source| Error::Io {
                name: self.name.clone(),
                source,
            })?;
            let place = Place::Line(self.lines.number());
            match line {
                None => return Ok(None),
                Some(Line::Whole(line)) => return Ok(Some(line)),
                // What is there may be the half of a number.
                Some(Line::Cut(_)) => self.loss.cut(place, None),
                Some(Line::TooLong) => {
                    self.loss
                        .damaged(Fault::new(place, "a line longer than any event prints"));
                }
            }
        }
    }

    /// The record of a line; `None` if there are too many different events.
    fn found(&mut self, line: std::ops::Range<usize>, head: Head) -> Option<Found> {
        let full = &self.lines.bytes(line.clone())[head.event.clone()];
        let slot = slot(full);
        let recent = self.recent[slot];
        let known = if self
            .full_names
            .get(recent)
            .is_some_and(|name| **name == *full)
        {
            Some(recent)
        } else {
            self.by_name.get(full).copied()
        };
        let event = match known {
            Some(event) => event,
            None => {
                let event = self.about.events.len();
                if event >= EVENTS_MAX {
                    self.loss.other_records += 1;
                    return None;
                }
                let text = String::from_utf8_lossy(full);
                let (system, name) = if self.style.has_systems() {
                    text.split_once(':').unwrap_or(("", &text))
                } else {
                    ("", &*text)
                };
                self.shapes.push(if self.style == Style::PerfTrace {
                    Shape::PerfTrace(perf_trace::defaults(name))
                } else {
                    Shape::of(name)
                });
                self.about.events.push(EventDef {
                    system: system.to_owned(),
                    name: name.to_owned(),
                    id: 0,
                    index: event,
                    fields: Vec::new(),
                    print_fmt: String::new(),
                    is_text: true,
                });
                self.by_name.insert(full.to_vec(), event);
                self.full_names.push(full.into());
                event
            }
        };
        self.recent[slot] = event;
        Some(Found { line, head, event })
    }

    /// Takes a line that is not an event.
    fn remark(&mut self, line: std::ops::Range<usize>) {
        let text = self.lines.bytes(line.clone()).trim_ascii();
        if text.is_empty() {
            self.interrupted |= !self.has_frames;
            return;
        }
        if let Some(comment) = text.strip_prefix(b"#") {
            let comment = String::from_utf8_lossy(comment).into_owned();
            self.comment(&comment);
            return;
        }
        let said = [b"cpus=".as_slice(), b"CPU:"]
            .iter()
            .any(|start| text.starts_with(start));
        if !said && memchr::memmem::find(text, b"PERF_RECORD_LOST").is_none() {
            let left_out = is_left_out(text);
            let line = self.lines.bytes(line);
            if left_out {
                self.parted();
            } else if is_frame(line) || is_remark(text) {
                self.has_frames |= is_frame(line);
                self.loss.other_records = self.loss.other_records.saturating_add(1);
            } else {
                self.interrupted = true;
                let place = Place::Line(self.lines.number());
                self.loss.unread_line(place, line);
            }
            return;
        }
        let text = String::from_utf8_lossy(text).into_owned();
        if let Some(cpus) = text.strip_prefix("cpus=").and_then(|n| n.parse().ok()) {
            self.about.cpus = cpus;
            self.another();
        } else if is_loss(text.as_bytes()) {
            let cpu = text
                .split(['[', ' ', ':'])
                .nth(1)
                .and_then(|n| n.parse().ok())
                .unwrap_or(NO_CPU);
            let inner = text.split_once('[').map_or("", |(_, rest)| rest);
            let count = inner.split([' ', ']']).find_map(|word| word.parse().ok());
            self.loss.gap(cpu, count);
            self.gaps.note(cpu);
        } else {
            let count = text.rsplit(' ').next().and_then(|n| n.parse().ok());
            self.loss.gap(NO_CPU, count);
            self.gaps.note(NO_CPU);
        }
    }

    /// The head of a capture: what went on between it and one before is not in the file.
    fn another(&mut self) {
        if self.latest > 0 {
            self.parted();
        }
    }

    /// Of all CPUs, what went on up to the next event is not there.
    fn parted(&mut self) {
        if !self.gaps.waits(NO_CPU) {
            self.gaps.note(NO_CPU);
            self.loss.gap(NO_CPU, None);
        }
    }

    /// Takes a line of the head: `# entries-in-buffer/entries-written: 12/34   #P:2`, or perf's.
    fn comment(&mut self, text: &str) {
        let text = text.trim();
        if let Some(rest) = text.strip_prefix("entries-in-buffer/entries-written:") {
            let mut words = rest.split_whitespace();
            let counts = words.next().and_then(|w| w.split_once('/'));
            let counts =
                counts.and_then(|(a, b)| Some((a.parse::<u64>().ok()?, b.parse::<u64>().ok()?)));
            if let Some((kept, written)) = counts.filter(|(kept, written)| written > kept) {
                self.loss.cpus.entry(NO_CPU).or_default().overrun = written - kept;
            }
            if let Some(cpus) = words
                .next()
                .and_then(|w| w.strip_prefix("#P:")?.parse().ok())
            {
                self.about.cpus = cpus;
            }
        } else if text.starts_with("tracer:") || text.starts_with("captured on") {
            self.another();
        } else if let Some(release) = text.strip_prefix("os release :") {
            self.about.release = Some(release.trim().to_owned());
        } else if let Some(name) = text.strip_prefix("hostname :") {
            self.about.hostname = Some(name.trim().to_owned());
        }
    }

    /// Reads on to the next event.
    fn step(&mut self) -> Result<Option<Found>, Error> {
        if let Some(first) = self.waiting.take() {
            return Ok(Some(first));
        }
        while let Some(line) = self.line()? {
            match head::parse(self.lines.bytes(line.clone()), self.style) {
                Some(head) => {
                    if let Some(found) = self.found(line, head) {
                        return Ok(Some(found));
                    }
                }
                None => self.remark(line),
            }
        }
        Ok(None)
    }
}

/// From this long a time between two events on, in the clock's units, what stands between their
/// lines parts two captures.
const PAUSE: u64 = 1_000_000_000;

/// Slots for events seen last.
const SLOTS: usize = 64;

/// A slot for a name: any will do that mostly distinguishes names of KVM and of the scheduler.
fn slot(name: &[u8]) -> usize {
    let of = |at: usize| name.get(at).map_or(0, |&byte| usize::from(byte));
    let (length, middle) = (name.len(), name.len() / 2);
    (length * 5 + of(length.wrapping_sub(1)) * 3 + of(middle) + of(length * 3 / 4) * 7) % SLOTS
}

/// A frame of a call chain: `ffffffff8112 schedule+0x1 ([kernel.kallsyms])` set in, or ftrace's
/// ` => schedule`.
fn is_frame(line: &[u8]) -> bool {
    let text = line.trim_ascii_start();
    if text.len() == line.len() {
        return false;
    }
    let digits = text.iter().take_while(|b| b.is_ascii_hexdigit()).count();
    let address = digits >= 4 && matches!(text.get(digits), Some(b' ') | None);
    address || text.starts_with(b"=> ")
}

/// What tools say between events: versions, buffers, stack traces, records of perf that are not
/// samples.
fn is_remark(text: &[u8]) -> bool {
    const BEGINNINGS: [&[u8]; 8] = [
        b"version =",
        b"cpus=",
        b"CPU ",
        b"##### CPU",
        b"trace.dat",
        b"<stack trace",
        b"no user_stack",
        b"[ perf record:",
    ];
    BEGINNINGS.iter().any(|start| text.starts_with(start))
        || memchr::memmem::find(text, b"PERF_RECORD_").is_some()
        || memchr::memmem::find(text, b"<stack trace>").is_some()
}

/// Words that such a line has at most.
const LEFT_OUT_WORDS: usize = 6;

/// What people put where they left lines out of a paste: `[...]`, `…`, `[snip]`, `--- cut ---`,
/// `(many lines skipped)`.
fn is_left_out(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let inner = text.trim_matches(|letter: char| !letter.is_alphanumeric());
    let dots = inner.is_empty() && (text.contains("...") || text.contains('…'));
    let words = [
        "snip",
        "snipped",
        "cut",
        "omitted",
        "skipped",
        "truncated",
        "removed",
        "trimmed",
        "elided",
    ];
    let is_known = |word: &str| words.iter().any(|known| word.eq_ignore_ascii_case(known));
    let mut parts = inner.split(|letter: char| !letter.is_alphanumeric());
    let short = parts.clone().count() <= LEFT_OUT_WORDS;
    dots || short && parts.any(is_known)
}

/// The head of the function-graph tracer: `# CPU  DURATION                  FUNCTION CALLS`.
fn is_graph_head(text: &[u8]) -> bool {
    memchr::memmem::find(text, b"FUNCTION CALLS").is_some()
}

/// `CPU:1 [LOST 12 EVENTS]`, or trace-cmd's `CPU:1 [12 EVENTS DROPPED]`.
fn is_loss(text: &[u8]) -> bool {
    text.starts_with(b"CPU:") && (text.ends_with(b"EVENTS]") || text.ends_with(b"DROPPED]"))
}

impl Source for TextSource {
    fn about(&self) -> &About {
        &self.about
    }

    fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        let Some(Found { line, head, event }) = self.step()? else {
            return Ok(None);
        };
        let time_ns = head.time.value;
        if time_ns < self.latest {
            self.loss.out_of_order += 1;
        }
        // Where something else stands between events that are far apart, the paste may be of two
        // captures, or of parts of one.
        let paused = self.latest > 0 && time_ns.saturating_sub(self.latest) >= PAUSE;
        if std::mem::take(&mut self.interrupted) && paused {
            self.parted();
        }
        self.latest = self.latest.max(time_ns);
        self.fields.get_mut().done = false;
        let line = self.lines.bytes(line);
        Ok(Some(Record {
            time_ns,
            cpu: head.cpu,
            pid: head.pid,
            comm: match &line[head.comm] {
                b"" => b"<...>",
                comm => comm,
            },
            flags: head.flags,
            instance: 0,
            process: head.process,
            gap: self.gaps.before(head.cpu),
            event: &self.about.events[event],
            payload: Payload::Text(TextBody::new(
                &line[head.body..],
                self.shapes[event],
                &self.fields,
            )),
        }))
    }

    fn loss(&self) -> &Loss {
        &self.loss
    }
}
