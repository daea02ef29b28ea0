// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What stands before an event's own text on its line: task, thread, CPU, flags, time, name.

use std::ops::Range;

use super::layouts;

/// Columns that the name of a task takes, right-aligned, in all the formats.
const COMM_WIDTH: usize = 16;

/// The tool that wrote the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `comm-pid [cpu] flags time: event: text`, of ftrace and `trace-cmd report`.
    Ftrace,
    /// `comm pid [cpu] time: system:event: text`, of `perf script`.
    Perf,
    /// Ftrace's latency layout, and `trace-cmd report -l`.
    Latency,
    /// `perf trace`.
    PerfTrace,
    /// `perf script -F` without the name or the CPU.
    PerfColumns,
}

impl Style {
    /// All of them, in the order in which they are tried.
    pub const ALL: [Self; 5] = [
        Self::Ftrace,
        Self::Perf,
        Self::Latency,
        Self::PerfTrace,
        Self::PerfColumns,
    ];

    /// Whether its lines name an event's system.
    pub fn has_systems(self) -> bool {
        !matches!(self, Self::Ftrace | Self::Latency)
    }
}

/// The CPU of lines that name none.
pub(super) const NO_CPU: u32 = u32::MAX;

/// A line taken apart; ranges are bytes of the line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    pub comm: Range<usize>,
    pub pid: i32,
    /// The thread's process; 0 if the line does not have it.
    pub process: i32,
    pub cpu: u32,
    pub flags: u8,
    pub time: Time,
    /// `event` or `system:event`.
    pub event: Range<usize>,
    pub body: usize,
}

/// A printed time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time {
    /// Nanoseconds; without a point in it, whatever the clock counts.
    pub value: u64,
    /// Digits behind the point, 0 if there is none.
    pub digits: usize,
}

/// Takes a line apart; `None` if it is not of this style.
pub(super) fn parse(line: &[u8], style: Style) -> Option<Head> {
    if !matches!(style, Style::Ftrace | Style::Perf) {
        return layouts::parse(line, style);
    }
    // Names may hold anything, also what looks like the rest of a line, but their width is fixed.
    if line.get(COMM_WIDTH) == Some(&separator(style)) {
        let head = from_pid(line, COMM_WIDTH, style);
        if head.is_some() {
            return head;
        }
    }
    // Lines whose blanks were changed, or with something before the name.
    let mut from = 0;
    while let Some(found) = memchr::memchr(b'[', line.get(from..)?) {
        let bracket = from + found;
        let head = comm_end(line, bracket, style).and_then(|end| from_pid(line, end, style));
        if let Some(head) = head {
            let comm = without_clock(line, head.comm.clone());
            return Some(Head { comm, ..head });
        }
        from = bracket + 1;
    }
    None
}

fn separator(style: Style) -> u8 {
    match style {
        Style::Ftrace => b'-',
        _ => b' ',
    }
}

/// Whether a line begins as a record does, whatever follows: it has a thread and a CPU.
pub(super) fn begins(line: &[u8]) -> bool {
    let mut from = 0;
    while let Some(found) = line.get(from..).and_then(|rest| memchr::memchr(b'[', rest)) {
        let bracket = from + found;
        let cpu = number(line, bracket + 1).filter(|(_, end)| line.get(*end) == Some(&b']'));
        let ends = [Style::Ftrace, Style::Perf].map(|style| comm_end(line, bracket, style));
        if cpu.is_some() && ends.iter().any(Option::is_some) {
            return true;
        }
        from = bracket + 1;
    }
    false
}

/// Where the name ends if `[cpu]` is at `bracket`.
fn comm_end(line: &[u8], bracket: usize, style: Style) -> Option<usize> {
    let before = line[..bracket].trim_ascii_end();
    let before = match before.strip_suffix(b")") {
        Some(_) => before[..memchr::memrchr(b'(', before)?].trim_ascii_end(),
        None if style == Style::Perf => without_flags(before),
        None => before,
    };
    let digits = before
        .iter()
        .rev()
        .take_while(|b| b.is_ascii_digit() || **b == b'/')
        .count();
    let mut start = before.len() - digits;
    if digits == 0 {
        return None;
    }
    match style {
        Style::Ftrace => before
            .get(start.checked_sub(1)?)
            .filter(|b| **b == b'-')
            .map(|_| start - 1),
        _ => {
            if start > 0 && before[start - 1] == b'-' {
                start -= 1;
            }
            before
                .get(start.checked_sub(1)?)
                .filter(|b| matches!(**b, b' ' | b'\t'))
                .map(|_| start - 1)
        }
    }
}

/// A line up to its CPU without the flags that perf-prof prints there: `comm 7 d... [001]`.
fn without_flags(before: &[u8]) -> &[u8] {
    let Some(blank) = memchr::memrchr(b' ', before) else {
        return before;
    };
    let (left, word) = (before[..blank].trim_ascii_end(), &before[blank + 1..]);
    let is_flags = (4..=6).contains(&word.len()) && flags(word).is_some();
    if is_flags && left.last().is_some_and(u8::is_ascii_digit) {
        left
    } else {
        before
    }
}

/// The name of a task without a wall clock in front of it, as loggers and terminals put it there:
/// `2026-11-25 18:04:27.123 CPU 0/KVM`, `[Wed Nov 25 18:04:27 2026] …`, `… host kernel: …`.
fn without_clock(line: &[u8], comm: Range<usize>) -> Range<usize> {
    let text = &line[comm.clone()];
    let digits =
        |at: usize| matches!(text.get(at..at + 2), Some(two) if two.iter().all(u8::is_ascii_digit));
    let clock = |at: &usize| {
        let colons = text.get(at + 2) == Some(&b':') && text.get(at + 5) == Some(&b':');
        colons && digits(*at) && digits(at + 3) && digits(at + 6)
    };
    let Some(at) = (0..text.len().saturating_sub(7)).find(clock) else {
        return comm;
    };
    let rest = at + 8;
    let mut end = rest + text[rest..].iter().position(|b| *b == b' ').unwrap_or(0);
    if let Some(close) = text[end..].iter().position(|b| *b == b']') {
        end += close + 1;
    }
    if let Some(kernel) = memchr::memmem::find(&text[end..], b"kernel: ") {
        end += kernel + 8;
    }
    let name = trim(line, comm.start + end..comm.end);
    let kept = line[name.clone()].trim_ascii_end().len();
    name.start..name.start + kept
}

/// Reads everything from the sign behind the name on.
fn from_pid(line: &[u8], sep: usize, style: Style) -> Option<Head> {
    let mut at = sep + 1;
    if style == Style::Perf {
        at = blanks(line, at);
    }
    let (mut pid, next) = signed(line, at)?;
    let mut process = 0;
    at = next;
    if style == Style::Perf && line.get(at) == Some(&b'/') {
        process = pid;
        (pid, at) = signed(line, at + 1)?;
    }
    at = blanks(line, at);
    if style == Style::Perf && line.get(at) != Some(&b'[') {
        let bracket = at + memchr::memchr(b'[', line.get(at..)?)?;
        if without_flags(line[..bracket].trim_ascii_end()).len() <= at {
            at = bracket;
        }
    }
    if line.get(at) == Some(&b'(') {
        // The process, or dashes where it is not known.
        process = signed(line, blanks(line, at + 1)).map_or(0, |(process, _)| process);
        at = blanks(line, at + memchr::memchr(b')', line.get(at..at + 16)?)? + 1);
    }
    if line.get(at) != Some(&b'[') {
        return None;
    }
    let (cpu, next) = number(line, at + 1)?;
    if line.get(next) != Some(&b']') {
        return None;
    }
    let (mut flag_bits, next) = raw_flags(line, next + 1)?;
    at = blanks(line, next);
    if !line.get(at)?.is_ascii_digit() {
        let len = memchr::memchr(b' ', line.get(at..)?)?;
        flag_bits = flags(&line[at..at + len])?;
        at = blanks(line, at + len);
    }
    let (time, next) = time(line, at)?;
    if line.get(next) != Some(&b':') {
        return None;
    }
    at = blanks(line, next + 1);
    if line.get(at) == Some(&b'(') && line.get(at + 1) == Some(&b'+') {
        // `trace-cmd report --ts-diff`: the time since the record before.
        at = blanks(line, at + memchr::memchr(b')', line.get(at..at + 32)?)? + 1);
    }
    let (event, body) = event(line, at, style)?;
    let comm = trim(line, 0..sep);
    if style == Style::Perf && comm.is_empty() {
        // `perf script -F` without the name: thread numbers may begin the line there.
        return None;
    }
    Some(Head {
        comm,
        pid,
        process,
        cpu: u32::try_from(cpu).ok()?,
        flags: flag_bits,
        time,
        event,
        body,
    })
}

/// The event's name and where its text begins.
pub(super) fn event(line: &[u8], at: usize, style: Style) -> Option<(Range<usize>, usize)> {
    let mut at = at;
    if style == Style::Perf && line.get(at)?.is_ascii_digit() {
        // The count of events that the sample stands for.
        at = blanks(line, number(line, at)?.1);
    }
    let mut end = at + ident(line.get(at..)?);
    if end == at || line.get(end) != Some(&b':') {
        return None;
    }
    if style == Style::Perf {
        let name = ident(line.get(end + 1..)?);
        if name == 0 || line.get(end + 1 + name) != Some(&b':') {
            return None;
        }
        end += 1 + name;
    } else if line.get(end + 1).is_some_and(|b| *b != b' ') {
        return None;
    }
    Some((at..end, blanks(line, end + 1)))
}

/// The length of a name of letters, digits, underscores and dashes.
pub(super) fn ident(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take(128)
        .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
        .count()
}

pub(super) fn blanks(line: &[u8], at: usize) -> usize {
    let rest = line.get(at..).unwrap_or_default();
    at + rest
        .iter()
        .take_while(|b| matches!(b, b' ' | b'\t'))
        .count()
}

pub(super) fn trim(line: &[u8], range: Range<usize>) -> Range<usize> {
    let part = &line[range.clone()];
    let start = range.start + (part.len() - part.trim_ascii_start().len());
    start..range.end
}

/// An unsigned decimal number of at most 19 digits, and where it ends.
pub(super) fn number(line: &[u8], at: usize) -> Option<(u64, usize)> {
    let rest = line.get(at..)?;
    let mut value = 0_u64;
    let mut len = 0;
    for b in rest.iter().take_while(|b| b.is_ascii_digit()) {
        value = value.checked_mul(10)?.checked_add(u64::from(b - b'0'))?;
        len += 1;
    }
    (len > 0).then_some((value, at + len))
}

pub(super) fn signed(line: &[u8], at: usize) -> Option<(i32, usize)> {
    let negative = line.get(at) == Some(&b'-');
    let (value, end) = number(line, at + usize::from(negative))?;
    let value = i32::try_from(value).ok()?;
    Some((if negative { -value } else { value }, end))
}

/// A time in seconds with digits behind a point, or a plain count.
pub(super) fn time(line: &[u8], at: usize) -> Option<(Time, usize)> {
    let (seconds, end) = number(line, at)?;
    if line.get(end) != Some(&b'.') {
        return Some((
            Time {
                value: seconds,
                digits: 0,
            },
            end,
        ));
    }
    let (fraction, stop) = number(line, end + 1)?;
    let digits = stop - end - 1;
    let scale = 10_u64.pow(9_u32.checked_sub(u32::try_from(digits).ok()?)?);
    let value = seconds
        .checked_mul(1_000_000_000)?
        .checked_add(fraction * scale)?;
    Some((Time { value, digits }, stop))
}

/// `common_flags` as a number, `-0x2d` right behind the CPU: what `trace-cmd report -R` of
/// version 3.3 prints. Without it 0, and the place stays.
pub(super) fn raw_flags(line: &[u8], at: usize) -> Option<(u8, usize)> {
    let Some(digits) = line.get(at..)?.strip_prefix(b"-0x") else {
        return Some((0, at));
    };
    let length = memchr::memchr(b' ', digits)?;
    let text = std::str::from_utf8(&digits[..length]).ok()?;
    let bits = u8::from_str_radix(text, 16).ok()?;
    Some((bits, at + b"-0x".len() + length))
}

/// The kernel's `common_flags` from the letters that it prints (`trace_print_lat_fmt`).
pub(super) fn flags(text: &[u8]) -> Option<u8> {
    let [irqs, resched, context, ..] = text else {
        return None;
    };
    if text.len() > 8 {
        return None;
    }
    let irqs = match irqs {
        b'd' => 0x01,
        b'D' => 0x81,
        b'b' => 0x80,
        b'X' | b'.' => 0,
        _ => return None,
    };
    let resched = match resched {
        b'N' | b'B' => 0x24,
        b'n' | b'L' => 0x04,
        b'p' | b'b' => 0x20,
        _ => 0,
    };
    let context = match context {
        b'Z' => 0x48,
        b'z' => 0x40,
        b'H' => 0x18,
        b'h' => 0x08,
        b's' => 0x10,
        _ => 0,
    };
    Some(irqs | resched | context)
}
