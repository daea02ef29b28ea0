// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The options of a `trace.dat`, which versions 6 and 7 share.

use super::meta::Meta;
use crate::about::{Guest, TimeShift, TscToNs};
use crate::error::Fault;
use crate::words::{Block, Words};

/// Options by their numbers in trace-cmd.dat.v7(5).
pub(super) mod id {
    pub const DONE: u16 = 0;
    pub const DATE: u16 = 1;
    pub const CPUSTAT: u16 = 2;
    pub const BUFFER: u16 = 3;
    pub const TRACECLOCK: u16 = 4;
    pub const UNAME: u16 = 5;
    pub const OFFSET: u16 = 7;
    pub const CPUCOUNT: u16 = 8;
    pub const VERSION: u16 = 9;
    pub const TRACEID: u16 = 11;
    pub const TIME_SHIFT: u16 = 12;
    pub const GUEST: u16 = 13;
    pub const TSC2NSEC: u16 = 14;
    pub const HEADER_INFO: u16 = 16;
    pub const FTRACE_EVENTS: u16 = 17;
    pub const EVENT_FORMATS: u16 = 18;
    pub const KALLSYMS: u16 = 19;
    pub const CMDLINES: u16 = 21;
    pub const BUFFER_TEXT: u16 = 22;
}

/// Takes what one option says into `meta`. Options that both versions do not share are not for
/// here.
pub(super) fn take(
    meta: &mut Meta,
    option: u16,
    data: &[u8],
    words: &mut Block<'_>,
) -> Result<(), Fault> {
    let about = &mut meta.about;
    match option {
        id::DATE => {
            // Microseconds, in hexadecimal.
            let offset = number(data).wrapping_mul(1000);
            about.time_offset_ns = about.time_offset_ns.wrapping_add(offset);
        }
        id::OFFSET => about.time_offset_ns = about.time_offset_ns.wrapping_add(number(data)),
        id::CPUSTAT => cpu_stat(meta, &text(data)),
        id::TRACECLOCK => {
            let clocks = text(data);
            let chosen = clocks
                .split_once('[')
                .and_then(|(_, rest)| rest.split_once(']'));
            about.clock = Some(chosen.map_or(clocks.trim(), |(clock, _)| clock).to_owned());
        }
        id::UNAME => {
            let uname = text(data).trim().to_owned();
            about.release = uname.split(' ').nth(2).map(str::to_owned);
            about.hostname = uname.split(' ').nth(1).map(str::to_owned);
            about.uname = Some(uname);
        }
        id::CPUCOUNT => about.cpus = words.u32("the count of CPUs")?,
        id::VERSION => about.tool = Some(format!("trace-cmd {}", text(data).trim())),
        id::TRACEID => about.trace_id = Some(words.u64("the number of the recording")?),
        id::TIME_SHIFT => about.time_shifts.push(time_shift(words)?),
        id::GUEST => about.guests.push(guest(words)?),
        id::TSC2NSEC => {
            let mult = words.u32("the clock's multiplier")?;
            let place = words.place();
            let shift = words.u32("the clock's shift")?;
            let offset = words.u64("the clock's offset")?;
            if shift > 63 {
                return Err(Fault::new(
                    place,
                    format!("the clock's shift is {shift}; expected at most 63"),
                ));
            }
            about.tsc = (mult != 0).then_some(TscToNs {
                mult,
                shift,
                offset,
            });
        }
        _ => {}
    }
    Ok(())
}

/// Text of an option, without the NULs at its end.
fn text(data: &[u8]) -> String {
    let end = data.iter().position(|&b| b == 0).unwrap_or(data.len());
    String::from_utf8_lossy(&data[..end]).into_owned()
}

/// A number as C's `strtoll(…, 0)` reads it; 0 if there is none.
fn number(data: &[u8]) -> i64 {
    let text = text(data);
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).unwrap_or(0),
        None => digits.parse().unwrap_or(0),
    };
    let value = value.cast_signed();
    if negative {
        value.wrapping_neg()
    } else {
        value
    }
}

/// The kernel's `per_cpu/cpuN/stats`, behind a line that names the CPU.
fn cpu_stat(meta: &mut Meta, stat: &str) {
    let value = |key: &str| {
        let line = stat
            .lines()
            .find_map(|l| l.trim().strip_prefix(key)?.strip_prefix(':'))?;
        line.trim().parse::<u64>().ok()
    };
    if let Some(cpu) = value("CPU").and_then(|cpu| u32::try_from(cpu).ok()) {
        let loss = meta.loss.cpus.entry(cpu).or_default();
        let dropped = value("dropped events").unwrap_or(0);
        let commit_overrun = value("commit overrun").unwrap_or(0);
        loss.overrun = loss.overrun.saturating_add(value("overrun").unwrap_or(0));
        loss.dropped = loss
            .dropped
            .saturating_add(dropped)
            .saturating_add(commit_overrun);
    }
    meta.about.cpu_stats.push(stat.to_owned());
}

fn time_shift(words: &mut Block<'_>) -> Result<TimeShift, Fault> {
    let peer = words.u64("the peer's number")?;
    words.u32("the flags of time shifts")?;
    let mut cpus = Vec::new();
    for _ in 0..words.u32("the count of CPUs")? {
        let count = words.u32("the count of time shifts")?;
        let place = words.place();
        if u64::from(count) * 24 > words.left() {
            return Err(Fault::new(
                place,
                format!("{count} time shifts need more bytes than follow"),
            ));
        }
        let mut columns = [Vec::new(), Vec::new(), Vec::new()];
        for column in &mut columns {
            for _ in 0..count {
                column.push(words.u64("a time shift")?);
            }
        }
        let [times, offsets, scales] = columns;
        let rows = times.into_iter().zip(offsets).zip(scales);
        cpus.push(
            rows.map(|((time, offset), scale)| (time, offset.cast_signed(), scale))
                .collect(),
        );
    }
    Ok(TimeShift { peer, cpus })
}

fn guest(words: &mut Block<'_>) -> Result<Guest, Fault> {
    let name = words.cstr("a guest's name")?;
    let trace_id = words.u64("the number of a guest's recording")?;
    let mut vcpus = Vec::new();
    for _ in 0..words.u32("the count of a guest's vCPUs")? {
        let vcpu = words.u32("a vCPU's number")?;
        vcpus.push((vcpu, words.u32("a vCPU's thread")?.cast_signed()));
    }
    Ok(Guest {
        name,
        trace_id,
        vcpus,
    })
}
