// SPDX-License-Identifier: Apache-2.0 OR MIT
//! VM exits by reason and by guest RIP, counted by the kernel's histogram triggers on `kvm_exit`
//! (Documentation/trace/histogram.rst, Linux 6.12): no event is recorded, so the cost for each
//! exit is small and the same in all variants.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;

use crate::system::{Doing, Failure};

const EVENT: &str = "/sys/kernel/tracing/events/kvm/kvm_exit";
const REASONS: &str = "hist:name=reasons:keys=common_pid,exit_reason:size=2048";
/// The distinct RIPs of a few seconds of timer ticks fit; what does not is counted as dropped.
const RIPS: &str = "hist:name=rips:keys=common_pid,guest_rip.hex:size=16384";

/// Counts by thread and key.
pub type Counts = BTreeMap<(u32, u64), u64>;

/// Switches the histograms on; `timer_tick` is the filter that keeps exits by host timer ticks.
pub fn enable(exits: bool, rips: bool, timer_tick: &str) -> Result<(), Failure> {
    let trigger = format!("{EVENT}/trigger");
    // Appended: the kernel takes an opening with truncation as the end of all earlier triggers.
    let write = |text: &str| {
        let file = OpenOptions::new().append(true).open(&trigger);
        file.and_then(|mut file| file.write_all(text.as_bytes())).doing(|| format!("write `{text}` to {trigger}"))
    };
    if exits {
        write(REASONS)?;
    }
    if rips {
        write(&format!("{RIPS} if {timer_tick}"))?;
    }
    Ok(())
}

/// Both histograms as they stand, and the entries that had no room.
#[derive(Debug, Default, Clone)]
pub struct Histograms {
    /// Exits by thread and reason.
    pub reasons: Counts,
    /// Host interrupts by thread and guest RIP.
    pub rips: Counts,
    /// Entries without room.
    pub dropped: u64,
}

/// Reads the histograms.
pub fn read() -> Result<Histograms, Failure> {
    let path = format!("{EVENT}/hist");
    let text = fs::read_to_string(&path).doing(|| format!("read {path}"))?;
    parse(&text)
}

fn parse(text: &str) -> Result<Histograms, Failure> {
    let mut histograms = Histograms::default();
    for line in text.lines() {
        if let Some(count) = line.trim().strip_prefix("Dropped: ") {
            histograms.dropped += count.parse::<u64>().doing(|| format!("histogram line `{line}`"))?;
        } else if line.starts_with('{') {
            let entry = Entry::parse(line).ok_or_else(|| Failure::new(format!("histogram line `{line}` is not understood")))?;
            let counts = if entry.is_rip { &mut histograms.rips } else { &mut histograms.reasons };
            *counts.entry((entry.pid, entry.key)).or_default() += entry.count;
        }
    }
    Ok(histograms)
}

struct Entry {
    pid: u32,
    key: u64,
    is_rip: bool,
    count: u64,
}

impl Entry {
    /// `{ common_pid:  71, exit_reason:  12 } hitcount:  5`, or `guest_rip: ffffffff81000000`.
    fn parse(line: &str) -> Option<Self> {
        let (keys, values) = line.strip_prefix('{')?.split_once('}')?;
        let count = values.split_once("hitcount:")?.1.split_whitespace().next()?.parse().ok()?;
        let (mut pid, mut key) = (None, None);
        for part in keys.split(',') {
            let (name, value) = part.split_once(':')?;
            match name.trim() {
                "common_pid" => pid = Some(value.trim().parse().ok()?),
                "exit_reason" => key = Some((value.trim().parse().ok()?, false)),
                "guest_rip" => key = Some((u64::from_str_radix(value.trim().trim_start_matches("0x"), 16).ok()?, true)),
                _ => return None,
            }
        }
        let (key, is_rip) = key?;
        Some(Self { pid: pid?, key, is_rip, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_histograms_of_one_file_are_told_apart_by_their_keys() {
        let text = "# event histogram\n#\n# trigger info: hist:keys=common_pid,exit_reason\n\n\
            { common_pid:        123, exit_reason:         12 } hitcount:          5\n\
            { common_pid:        123, exit_reason:         40 } hitcount:        578\n\n\
            Totals:\n    Hits: 583\n    Entries: 2\n    Dropped: 0\n\n\
            { common_pid:        124, guest_rip: ffffffff8110c0de } hitcount:          7\n\n\
            Totals:\n    Hits: 7\n    Entries: 1\n    Dropped: 3\n";
        let read = parse(text).unwrap();
        assert_eq!(read.reasons, Counts::from([((123, 12), 5), ((123, 40), 578)]));
        assert_eq!(read.rips, Counts::from([((124, 0xffff_ffff_8110_c0de), 7)]));
        assert_eq!(read.dropped, 3);
    }

    #[test]
    fn an_unknown_line_is_an_error_that_quotes_it() {
        let failure = parse("{ common_pid: 1, exit_code: 2 } hitcount: 3\n").unwrap_err();
        assert!(failure.to_string().contains("exit_code"), "{failure}");
    }
}
