// SPDX-License-Identifier: Apache-2.0 OR MIT
//! VM exits by reason and by guest RIP, and what timers cost, counted by the kernel's histogram
//! triggers (Documentation/trace/histogram.rst, Linux 6.12): no event is recorded, so the cost for
//! each is small and the same in all variants.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;

use crate::system::{Doing, Failure};

const EVENTS: &str = "/sys/kernel/tracing/events";
const EXITS: &str = "kvm/kvm_exit";
const REASONS: &str = "hist:name=reasons:keys=common_pid,exit_reason:size=2048";
/// What the guest writes to its registers, by register: `MSR_IA32_TSC_DEADLINE` among them.
const WRITES: (&str, &str) = (
    "kvm/kvm_msr",
    "hist:name=writes:keys=common_pid,ecx:size=2048 if write==1",
);
/// Interrupts of a vCPU's own timer, by Linux's `LOCAL_TIMER_VECTOR`.
const DELIVERED: (&str, &str) = (
    "kvm/kvm_apic_accept_irq",
    "hist:name=delivered:keys=common_pid,vec:size=2048 if vec==236",
);
/// Interrupts of the host's timer, by the thread that was current.
const HOST: (&str, &str) = (
    "irq_vectors/local_timer_entry",
    "hist:name=host:keys=common_pid,vector:size=2048",
);
/// The distinct RIPs of a few seconds of timer ticks fit; what does not is counted as dropped.
const RIPS: &str = "hist:name=rips:keys=common_pid,guest_rip.hex:size=16384";

/// Counts by thread and key.
pub type Counts = BTreeMap<(u32, u64), u64>;

/// Switches the histograms on; `timer_tick` is the filter that keeps exits by host timer ticks.
pub fn enable(exits: bool, rips: bool, timer_tick: &str) -> Result<(), Failure> {
    // Appended: the kernel takes an opening with truncation as the end of all earlier triggers.
    let write = |event: &str, text: &str| {
        let trigger = format!("{EVENTS}/{event}/trigger");
        let file = OpenOptions::new().append(true).open(&trigger);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .doing(|| format!("write `{text}` to {trigger}"))
    };
    if exits {
        write(EXITS, REASONS)?;
        for (event, text) in [WRITES, DELIVERED, HOST] {
            write(event, text)?;
        }
    }
    if rips {
        write(EXITS, &format!("{RIPS} if {timer_tick}"))?;
    }
    Ok(())
}

/// The histograms as they stand, and the entries that had no room.
#[derive(Debug, Default, Clone)]
pub struct Histograms {
    /// Exits by thread and reason.
    pub reasons: Counts,
    /// Host interrupts by thread and guest RIP.
    pub rips: Counts,
    /// Writes to registers by thread and register.
    pub writes: Counts,
    /// Interrupts of vCPUs' own timers by the thread that delivered them, the vCPU's as a rule.
    pub delivered: Counts,
    /// Interrupts of the host's timer by the thread that was current.
    pub host: Counts,
    /// Entries without room.
    pub dropped: u64,
}

/// Reads the histograms.
pub fn read() -> Result<Histograms, Failure> {
    let mut histograms = Histograms::default();
    for event in [EXITS, WRITES.0, DELIVERED.0, HOST.0] {
        let path = format!("{EVENTS}/{event}/hist");
        let text = fs::read_to_string(&path).doing(|| format!("read {path}"))?;
        parse(&text, &mut histograms)?;
    }
    Ok(histograms)
}

fn parse(text: &str, histograms: &mut Histograms) -> Result<(), Failure> {
    for line in text.lines() {
        if let Some(count) = line.trim().strip_prefix("Dropped: ") {
            histograms.dropped += count
                .parse::<u64>()
                .doing(|| format!("histogram line `{line}`"))?;
        } else if line.starts_with('{') {
            let entry = Entry::parse(line).ok_or_else(|| {
                Failure::new(format!("histogram line `{line}` is not understood"))
            })?;
            let counts = match entry.kind {
                Kind::Reason => &mut histograms.reasons,
                Kind::Rip => &mut histograms.rips,
                Kind::Write => &mut histograms.writes,
                Kind::Delivered => &mut histograms.delivered,
                Kind::Host => &mut histograms.host,
            };
            *counts.entry((entry.pid, entry.key)).or_default() += entry.count;
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum Kind {
    Reason,
    Rip,
    Write,
    Delivered,
    Host,
}

impl Kind {
    /// By the name of a histogram's second key.
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "exit_reason" => Self::Reason,
            "guest_rip" => Self::Rip,
            "ecx" => Self::Write,
            "vec" => Self::Delivered,
            "vector" => Self::Host,
            _ => return None,
        })
    }
}

struct Entry {
    pid: u32,
    key: u64,
    kind: Kind,
    count: u64,
}

impl Entry {
    /// `{ common_pid:  71, exit_reason:  12 } hitcount:  5`, or `guest_rip: ffffffff81000000`.
    fn parse(line: &str) -> Option<Self> {
        let (keys, values) = line.strip_prefix('{')?.split_once('}')?;
        let count = values
            .split_once("hitcount:")?
            .1
            .split_whitespace()
            .next()?
            .parse()
            .ok()?;
        let (mut pid, mut key) = (None, None);
        for part in keys.split(',') {
            let (name, value) = part.split_once(':')?;
            match name.trim() {
                "common_pid" => pid = Some(value.trim().parse().ok()?),
                name => {
                    let kind = Kind::of(name)?;
                    let value = value.trim();
                    let number = match kind {
                        Kind::Rip => u64::from_str_radix(value.trim_start_matches("0x"), 16),
                        _ => value.parse(),
                    };
                    key = Some((number.ok()?, kind));
                }
            }
        }
        let (key, kind) = key?;
        Some(Self {
            pid: pid?,
            key,
            kind,
            count,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_told_apart_by_their_keys() {
        let text = "# event histogram\n#\n# trigger info: hist:keys=common_pid,exit_reason\n\n\
            { common_pid:        123, exit_reason:         12 } hitcount:          5\n\
            { common_pid:        123, exit_reason:         40 } hitcount:        578\n\n\
            Totals:\n    Hits: 583\n    Entries: 2\n    Dropped: 0\n\n\
            { common_pid:        124, guest_rip: ffffffff8110c0de } hitcount:          7\n\n\
            Totals:\n    Hits: 7\n    Entries: 1\n    Dropped: 3\n\
            { common_pid:        125, ecx:       1760 } hitcount:          9\n\
            { common_pid:        126, vec:        236 } hitcount:          4\n\
            { common_pid:        127, vector:     236 } hitcount:          6\n";
        let mut read = Histograms::default();
        parse(text, &mut read).unwrap();
        assert_eq!(read.writes, Counts::from([((125, 0x6e0), 9)]));
        assert_eq!(read.delivered, Counts::from([((126, 236), 4)]));
        assert_eq!(read.host, Counts::from([((127, 236), 6)]));
        assert_eq!(
            read.reasons,
            Counts::from([((123, 12), 5), ((123, 40), 578)])
        );
        assert_eq!(read.rips, Counts::from([((124, 0xffff_ffff_8110_c0de), 7)]));
        assert_eq!(read.dropped, 3);
    }

    #[test]
    fn an_unknown_line_is_an_error_that_quotes_it() {
        let text = "{ common_pid: 1, exit_code: 2 } hitcount: 3\n";
        let failure = parse(text, &mut Histograms::default()).unwrap_err();
        assert!(failure.to_string().contains("exit_code"), "{failure}");
    }
}
