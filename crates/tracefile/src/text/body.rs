// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields of an event, from its printed text.
//!
//! Most events print `key=value`. KVM's print words (`vcpu 0 reason HLT rip 0x…`), and
//! libtraceevent prints some events of the scheduler in a form of its own. Fields have the names
//! that they have in binary traces, as far as the text shows them.

use super::{perf_trace, words};
use crate::event::hash;

/// One printed field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextField {
    pub name: u64,
    pub value: TextValue,
}

/// Its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextValue {
    /// These bytes of the text.
    Span { start: usize, end: usize, hex: bool },
    /// What a word in the text means.
    Number(u64),
}

/// How an event's text is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `key=value key=value`.
    Pairs,
    /// `comm:pid [prio] S ==> comm:pid [prio]`, or pairs.
    SchedSwitch,
    /// `comm:pid [prio] CPU:000`, or pairs.
    SchedWakeup,
    /// `vcpu 0 reason HLT rip 0x0 …`.
    KvmExit,
    /// Words with numbers behind them.
    Words(&'static [words::Alias]),
    /// `key: value, key: "text"` of `perf trace`, and the fields that it leaves out if they are 0.
    PerfTrace(&'static [&'static str]),
}

impl Shape {
    /// The shape of the event of this name.
    pub fn of(name: &str) -> Self {
        match name {
            "sched_switch" => Self::SchedSwitch,
            "sched_wakeup" | "sched_wakeup_new" | "sched_waking" => Self::SchedWakeup,
            "kvm_exit" | "kvm_nested_vmexit" => Self::KvmExit,
            _ if name.starts_with("kvm_") => Self::Words(words::aliases(name)),
            _ => Self::Pairs,
        }
    }
}

/// Finds the fields of `body`.
pub(crate) fn parse(shape: Shape, body: &[u8], out: &mut Vec<TextField>) {
    out.clear();
    match shape {
        Shape::SchedSwitch if !body.starts_with(b"prev_comm=") => sched_switch(body, out),
        Shape::SchedWakeup if !body.starts_with(b"comm=") => sched_wakeup(body, out),
        Shape::SchedSwitch | Shape::SchedWakeup | Shape::Pairs => pairs(body, out),
        // `trace-cmd report -R` prints the bare fields.
        Shape::KvmExit if body.starts_with(b"exit_reason=") => pairs(body, out),
        Shape::KvmExit => words::kvm_exit(body, out),
        Shape::PerfTrace(defaults) => perf_trace::parse(body, defaults, out),
        Shape::Words(aliases) => {
            words::parse(body, 0, aliases, out);
            pairs(body, out);
        }
    }
}

pub(super) fn push(out: &mut Vec<TextField>, name: &[u8], start: usize, end: usize, hex: bool) {
    out.push(TextField {
        name: hash(name),
        value: TextValue::Span { start, end, hex },
    });
}

pub(super) fn constant(out: &mut Vec<TextField>, name: &[u8], value: u64) {
    out.push(TextField {
        name: hash(name),
        value: TextValue::Number(value),
    });
}

/// `key=value`; a value reaches to the next key, as names of tasks and files have blanks.
fn pairs(body: &[u8], out: &mut Vec<TextField>) {
    // The key whose value is being looked for, and where that value begins.
    let mut open: Option<(usize, usize, usize)> = None;
    let mut from = 0;
    while let Some(found) = memchr::memchr(b'=', body.get(from..).unwrap_or_default()) {
        let equals = from + found;
        from = equals + 1;
        if body.get(from) == Some(&b'=') {
            // `==>` between the two tasks of a switch.
            from += 1;
            continue;
        }
        let key = key_start(body, equals);
        let first = open.is_none_or(|(_, _, value)| key > value);
        if key == equals
            || !first
            || (key > 0 && !matches!(body[key - 1], b' ' | b',' | b'(' | b'{'))
        {
            continue;
        }
        if let Some((start, end, value)) = open {
            push(
                out,
                &body[start..end],
                value,
                value_end(body, value, key),
                false,
            );
        }
        open = Some((key, equals, from));
        if body[..equals].ends_with(b"comm") {
            from = comm_end(body, key, equals).unwrap_or(from);
        }
    }
    if let Some((start, end, value)) = open {
        push(
            out,
            &body[start..end],
            value,
            value_end(body, value, body.len()),
            false,
        );
    }
}

/// Where the name that ends at `end` begins.
fn key_start(body: &[u8], end: usize) -> usize {
    let ident = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_';
    end - body[..end].iter().rev().take_while(ident).count()
}

/// A value's end before the next key: without blanks, commas, and the arrow of a switch.
fn value_end(body: &[u8], start: usize, next: usize) -> usize {
    let value = body[start..next.max(start)].trim_ascii_end();
    let value = value.strip_suffix(b" ==>").unwrap_or(value);
    let value = value.strip_suffix(b",").unwrap_or(value);
    start + value.trim_ascii_end().len()
}

/// Where the name of a task ends: it may hold what looks like further pairs, but it has at most
/// 15 bytes and its thread follows (`prev_comm=… prev_pid=…`).
fn comm_end(body: &[u8], key: usize, equals: usize) -> Option<usize> {
    let prefix = body[key..equals].strip_suffix(b"comm")?;
    let value = equals + 1;
    let last = body.len().min(value + 16);
    (value..last).rev().find(|&at| {
        let rest = body[at..]
            .strip_prefix(b" ")
            .and_then(|r| r.strip_prefix(prefix));
        rest.is_some_and(|r| r.starts_with(b"pid="))
    })
}

/// `comm:pid [prio] S ==> comm:pid [prio]`.
fn sched_switch(body: &[u8], out: &mut Vec<TextField>) {
    let arrow = memchr::memmem::find_iter(body, b" ==> ").find(|&at| {
        let left = body[..at].trim_ascii_end();
        // The state stands behind the priority.
        let state = memchr::memrchr(b' ', left).unwrap_or(0);
        task(body, 0, state).is_some() && task(body, at + 5, body.len()).is_some()
    });
    let Some(arrow) = arrow else { return };
    let left = body[..arrow].trim_ascii_end().len();
    let state = memchr::memrchr(b' ', &body[..left]).unwrap_or(0);
    for (prefix, parts) in [
        ("prev_", task(body, 0, state)),
        ("next_", task(body, arrow + 5, body.len())),
    ] {
        let names = if prefix == "prev_" {
            ["prev_comm", "prev_pid", "prev_prio"]
        } else {
            ["next_comm", "next_pid", "next_prio"]
        };
        for (name, (start, end)) in names.iter().zip(parts.unwrap_or_default()) {
            push(out, name.as_bytes(), start, end, false);
        }
    }
    push(out, b"prev_state", state + 1, left, false);
}

/// `comm:pid [prio] success=1 CPU:000`.
fn sched_wakeup(body: &[u8], out: &mut Vec<TextField>) {
    let Some(cpu) = memchr::memmem::rfind(body, b" CPU:") else {
        return;
    };
    let mut end = cpu;
    if let Some(at) = memchr::memmem::rfind(&body[..cpu], b" success=") {
        push(out, b"success", at + 9, cpu, false);
        end = at;
    }
    if let Some(parts) = task(body, 0, end) {
        for (name, (start, end)) in ["comm", "pid", "prio"].iter().zip(parts) {
            push(out, name.as_bytes(), start, end, false);
        }
        push(out, b"target_cpu", cpu + 5, body.len(), false);
    }
}

/// `comm:pid [prio]` between two places: each part's bytes.
fn task(body: &[u8], start: usize, end: usize) -> Option<[(usize, usize); 3]> {
    let part = body.get(start..end)?.trim_ascii_end();
    let inner = part.strip_suffix(b"]")?;
    let bracket = memchr::memrchr(b'[', inner)?;
    let before = part[..bracket].trim_ascii_end();
    let colon = memchr::memrchr(b':', before)?;
    let all_digits =
        |text: &[u8]| !text.is_empty() && text.iter().all(|b| b.is_ascii_digit() || *b == b'-');
    if !all_digits(&before[colon + 1..]) || !all_digits(&inner[bracket + 1..]) {
        return None;
    }
    Some([
        (start, start + colon),
        (start + colon + 1, start + before.len()),
        (start + bracket + 1, start + inner.len()),
    ])
}

/// A printed number: decimal, or hexadecimal with `0x` or by its field; also the number in
/// brackets behind a name, as in `UNKNOWN (96)`.
pub(crate) fn parse_number(text: &[u8], hex: bool) -> Option<u64> {
    let text = text.trim_ascii();
    if let Some(rest) = text.strip_prefix(b"-") {
        return Some(
            i64::try_from(leading(rest, 10)?)
                .ok()?
                .wrapping_neg()
                .cast_unsigned(),
        );
    }
    if let Some(rest) = text.strip_prefix(b"0x") {
        return leading(rest, 16);
    }
    if hex {
        return leading(text, 16);
    }
    if text.first().is_some_and(u8::is_ascii_digit) {
        return leading(text, 10);
    }
    let open = memchr::memrchr(b'(', text)?;
    let inner = text[open + 1..].strip_suffix(b")")?;
    match inner.strip_prefix(b"0x") {
        Some(hex) => leading(hex, 16),
        None => leading(inner, 10),
    }
}

/// The digits that a text begins with; what follows must not belong to them.
fn leading(text: &[u8], base: u32) -> Option<u64> {
    let mut value = 0_u64;
    let mut len = 0;
    for b in text {
        let Some(digit) = char::from(*b).to_digit(base) else {
            if b.is_ascii_alphanumeric() || *b == b'_' {
                return None;
            }
            break;
        };
        value = value
            .checked_mul(u64::from(base))?
            .checked_add(u64::from(digit))?;
        len += 1;
    }
    (len > 0).then_some(value)
}
