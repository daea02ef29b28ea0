// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Layouts of lines that are not the usual two: ftrace's latency layout, `perf trace`, and
//! `perf script` that leaves columns out (`-F`).

use std::ops::Range;

use super::head::{
    Head, NO_CPU, Style, Time, blanks, event, flags, ident, number, raw_flags, signed, time, trim,
};

/// Takes a line of one of these layouts apart; `None` if it is not of this style.
pub(super) fn parse(line: &[u8], style: Style) -> Option<Head> {
    match style {
        Style::Latency => latency(line),
        Style::PerfTrace => perf_trace(line),
        Style::PerfColumns => perf_columns(line).filter(|found| found.thread)?.head,
        Style::Ftrace | Style::Perf => None,
    }
}

/// True if it is a line of `perf script` that names no thread.
pub(super) fn lacks_thread(line: &[u8]) -> bool {
    perf_columns(line).is_some_and(|found| !found.thread)
}

/// `CPU 1/KV-50      1d..2.     5.985317183: event: text`: the name cut to 8 columns, the CPU and
/// the flags behind it without a blank between them.
fn latency(line: &[u8]) -> Option<Head> {
    let mut from = 0;
    loop {
        let dash = from + memchr::memchr(b'-', line.get(from..)?)?;
        let head = from_dash(line, dash);
        if head.is_some() {
            return head;
        }
        from = dash + 1;
    }
}

fn from_dash(line: &[u8], dash: usize) -> Option<Head> {
    let (pid, at) = number(line, dash + 1)?;
    let start = blanks(line, at);
    let (cpu, at) = number(line, start)?;
    if start == dash || line.get(start.checked_sub(1)?) != Some(&b' ') {
        return None;
    }
    let (mut bits, next) = raw_flags(line, at)?;
    let mut at = next;
    if line.get(at) != Some(&b' ') {
        let len = memchr::memchr(b' ', line.get(at..)?)?;
        bits = flags(&line[at..at + len])?;
        at += len;
    }
    let (time, next) = time(line, blanks(line, at))?;
    if line.get(next) != Some(&b':') {
        return None;
    }
    let (event, body) = event(line, blanks(line, next + 1), Style::Ftrace)?;
    Some(Head {
        comm: trim(line, 0..dash),
        pid: i32::try_from(pid).ok()?,
        process: 0,
        cpu: u32::try_from(cpu).ok()?,
        flags: bits,
        time,
        event,
        body,
    })
}

/// `     3.354 comm/tid system:event(key: value, …)`: milliseconds from the begin, and no CPU.
fn perf_trace(line: &[u8]) -> Option<Head> {
    let (millis, at) = time(line, blanks(line, 0))?;
    let time = Time {
        value: millis.value / 1000,
        digits: (millis.digits + 3).min(9),
    };
    if millis.digits == 0 || line.get(at) != Some(&b' ') {
        return None;
    }
    let at = blanks(line, at);
    // Names of tasks may hold blanks and slashes; the last slash before the event is the thread's.
    let open = at + memchr::memchr(b'(', line.get(at..)?)?;
    let name_at = at + memchr::memrchr(b' ', &line[at..open])? + 1;
    let event = name_at..open;
    let colon = memchr::memchr(b':', &line[event.clone()])?;
    let name = &line[event.clone()];
    if ident(name) != colon || ident(&name[colon + 1..]) != name.len() - colon - 1 {
        return None;
    }
    let slash = at + memchr::memrchr(b'/', &line[at..name_at])?;
    let (pid, end) = signed(line, slash + 1)?;
    if end + 1 != name_at {
        return None;
    }
    Some(Head {
        comm: at..slash,
        pid,
        process: 0,
        cpu: NO_CPU,
        flags: 0,
        time,
        event,
        body: open + 1,
    })
}

/// A line of `perf script` with some of its columns.
struct Columns {
    head: Option<Head>,
    /// Whether the thread is among them.
    thread: bool,
}

/// `[comm] [tid or pid/tid] [[cpu]] time: system:event: text`, each of the first three at will.
fn perf_columns(line: &[u8]) -> Option<Columns> {
    let mut from = 0;
    loop {
        let colon = from + memchr::memchr(b':', line.get(from..)?)?;
        let start = line[..colon]
            .iter()
            .rposition(|b| !(b.is_ascii_digit() || *b == b'.'))
            .map_or(0, |at| at + 1);
        let own = start == 0 || matches!(line[start - 1], b' ' | b'\t');
        let parsed = time(line, start).filter(|(time, end)| time.digits > 0 && *end == colon);
        if let (true, Some((time, _))) = (own, parsed) {
            let found = event(line, blanks(line, colon + 1), Style::Perf);
            if let Some((event, body)) = found {
                return Some(before_time(line, start, time, event, body));
            }
        }
        from = colon + 1;
    }
}

fn before_time(line: &[u8], start: usize, time: Time, event: Range<usize>, body: usize) -> Columns {
    let mut left = line[..start].trim_ascii_end();
    let mut cpu = NO_CPU;
    if let Some(inner) = left.strip_suffix(b"]")
        && let Some(open) = memchr::memrchr(b'[', inner)
    {
        let told = number(inner, open + 1).filter(|(_, end)| *end == inner.len());
        if let Some((number, _)) = told {
            cpu = u32::try_from(number).unwrap_or(NO_CPU);
            left = left[..open].trim_ascii_end();
        }
    }
    let word = memchr::memrchr(b' ', left).map_or(0, |at| at + 1);
    let tid_at = memchr::memrchr(b'/', &left[word..]).map_or(word, |at| word + at + 1);
    let process = match tid_at {
        at if at == word => 0,
        _ => signed(left, word).map_or(0, |(process, _)| process),
    };
    let tid = signed(left, tid_at).filter(|(_, end)| *end == left.len());
    let head = tid.map(|(pid, _)| Head {
        comm: trim(line, 0..left[..word].trim_ascii_end().len()),
        pid,
        process,
        cpu,
        flags: 0,
        time,
        event,
        body,
    });
    Columns {
        thread: head.is_some(),
        head,
    }
}
