// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Histograms of waits: `runqlat` and `cpudist` of bcc and libbpf-tools (`0 -> 1 : 233 |**|` below
//! `usecs : count distribution`), of bpftrace (`[256, 512) 3 |@@|` below `@usecs:`), and of
//! SystemTap's `hist_log` (`16 |@@@@ 12` below `value |---- count`).
//!
//! Which of them counts waits shows in what stands before it. Time on the CPU (`cpudist`) is not
//! a wait, nor is the length of a queue.

use steady_diagnose::{CauseId, Confidence, Evidence, EvidenceId, FindingId, StepId};

use crate::draft::{Draft, MAJOR, finding};
use crate::kind::{Kind, RECORD};
use crate::number::{integer, permille};
use crate::table::{Fact, Line, Reader, Side, Table};
use crate::threads::is_vcpu;

/// From this length on a wait is late, in nanoseconds.
const LATE_NS: u64 = 8_000_000;
/// From this length on a single wait is a finding.
const LONG_NS: u64 = 65_000_000;
/// Histograms that are kept: the worst ones.
const KEPT: usize = 4;

/// What a histogram counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Of {
    Waits,
    Other,
    #[default]
    Unknown,
}

#[derive(Debug, Clone, Default)]
struct One {
    name: Option<String>,
    waits: u64,
    late: u64,
    /// Upper end of the longest bucket that has any.
    longest_ns: u64,
    /// Nothing says that these are waits.
    guessed: bool,
}

/// Reads the histograms.
#[derive(Debug, Default)]
pub(crate) struct Histograms {
    /// What the tool counts, as its title says.
    tool: Of,
    /// A unit that stood in the title.
    title_ns: Option<u64>,
    /// Of the histogram that is being read: what it counts, in which unit.
    of: Of,
    unit_ns: Option<u64>,
    name: Option<String>,
    now: One,
    found: Vec<One>,
    rows: u64,
}

/// What stands in the titles of tools that count waits, and of others.
const WAITS: [&str; 5] = [
    "run queue latency",
    "runqlat",
    "scheduler latency",
    "run_delay",
    "cpu scheduler",
];
const OTHERS: [&str; 10] = [
    "queue length",
    "on-cpu",
    "off-cpu",
    "cpudist",
    "runqlen",
    "biolatency",
    "block",
    "exit",
    "disk",
    "syscall",
];

/// Nanoseconds of a unit that is named in a title or in the name of a map.
fn unit(low: &str) -> Option<u64> {
    let units = [
        (["nsec", "_ns", "(ns)"], 1),
        (["usec", "_us", "(us)"], 1_000),
        (["msec", "_ms", "(ms)"], 1_000_000),
        (["secs", "seconds", "(s)"], 1_000_000_000),
    ];
    let named = |names: &[&str; 3]| names.iter().any(|name| low.contains(name));
    let found = units.iter().find(|(names, _)| named(names));
    found.map(|(_, ns)| *ns)
}

/// A bound of a bucket: `512`, `1K`, `2M`.
fn bound(text: &str) -> Option<u64> {
    let (number, scale) = match text.char_indices().last()? {
        (at, 'K') => (&text[..at], 1 << 10),
        (at, 'M') => (&text[..at], 1 << 20),
        (at, 'G') => (&text[..at], 1 << 30),
        _ => (text, 1),
    };
    integer(number)?.checked_mul(scale)
}

/// Low and high bound of a bucket, and its count.
fn row(words: &[&str]) -> Option<(u64, u64, u64)> {
    match words {
        [low, "->", high, ":", count, ..] => Some((bound(low)?, bound(high)?, integer(count)?)),
        [only, count, bar, ..]
            if only.starts_with('[') && only.ends_with(']') && bar.starts_with('|') =>
        {
            let value = bound(only.trim_matches(['[', ']']))?;
            Some((value, value, integer(count)?))
        }
        [low, high, count, bar, ..] if low.starts_with('[') && bar.starts_with('|') => {
            let low = low.trim_start_matches('[').trim_end_matches(',');
            let high = high.trim_end_matches([')', ']']);
            Some((bound(low)?, bound(high)?, integer(count)?))
        }
        [value, bar, .., count] if bar.starts_with('|') => {
            let low = bound(value)?;
            Some((
                low,
                low.saturating_mul(2).saturating_sub(1).max(low),
                integer(count)?,
            ))
        }
        [value, bar] if bar.starts_with('|') => {
            let (low, count) = (bound(value)?, bar.trim_start_matches(['|', '@']));
            Some((low, low.saturating_mul(2), integer(count)?))
        }
        _ => None,
    }
}

impl Histograms {
    fn end(&mut self) {
        let one = std::mem::take(&mut self.now);
        let long = one.longest_ns >= LONG_NS;
        if one.waits == 0 || !(long || permille(one.late, one.waits) >= MAJOR) {
            return;
        }
        self.found.push(one);
        self.found
            .sort_by_key(|one| std::cmp::Reverse((one.longest_ns, one.late)));
        self.found.truncate(KEPT);
    }

    /// What a line before a histogram says of it.
    fn title(&mut self, text: &str) {
        let low = text.to_ascii_lowercase();
        let has = |names: &[&str]| names.iter().any(|name| low.contains(name));
        if has(&WAITS) {
            self.tool = Of::Waits;
        } else if has(&OTHERS) {
            self.tool = Of::Other;
        }
        self.title_ns = unit(&low).or(self.title_ns);
        let words: Vec<&str> = text.split_whitespace().collect();
        if let [key, "=", rest @ ..] = words.as_slice()
            && ["pid", "tid", "pidns", "comm"].contains(key)
            && !rest.is_empty()
        {
            self.name = Some(rest.join(" ").trim_matches('\'').to_owned());
        }
    }

    /// The line above the rows: of bcc, of SystemTap, or the name of a map of bpftrace.
    fn head(&mut self, text: &str) -> bool {
        let low = text.trim().to_ascii_lowercase();
        let bcc = low.contains(": count") && low.contains("distribution");
        let tap = low.contains("value |---") && low.ends_with("count");
        let map = low.starts_with('@') && low.ends_with(':');
        if !(bcc || tap || map) {
            return false;
        }
        self.end();
        self.unit_ns = unit(&low).or(self.title_ns.filter(|_| tap));
        let keys = low.split(['[', ':']).next().unwrap_or_default();
        let other = map && OTHERS.iter().any(|name| keys.contains(name));
        // Without a unit it counts lengths, or what is not known here.
        self.of = match self.unit_ns {
            Some(_) if !other => self.tool,
            _ => Of::Other,
        };
        if map {
            let inner = text
                .split_once('[')
                .and_then(|(_, rest)| rest.rsplit_once(']'));
            self.name = inner.map(|(inner, _)| inner.to_owned());
        }
        self.now.name = self.name.take();
        self.now.guessed = self.of == Of::Unknown;
        true
    }
}

impl Reader for Histograms {
    fn line(&mut self, line: &Line<'_>) {
        if self.head(line.text) {
            return;
        }
        let Some((low, high, count)) = row(line.words) else {
            if line.words.len() > 1 {
                self.title(line.text);
            }
            return;
        };
        self.rows += 1;
        let unit_ns = self.unit_ns.unwrap_or(0);
        if self.of == Of::Other || count == 0 {
            return;
        }
        self.now.waits = self.now.waits.saturating_add(count);
        if low.saturating_mul(unit_ns) >= LATE_NS {
            self.now.late = self.now.late.saturating_add(count);
        }
        self.now.longest_ns = self.now.longest_ns.max(high.saturating_mul(unit_ns));
    }

    fn finish(mut self: Box<Self>) -> Option<Table> {
        self.end();
        if self.rows < 2 || self.unit_ns.is_none() && self.tool == Of::Unknown {
            return None;
        }
        let mut table = Table::new(Kind::Histogram, Side::Unknown, self.rows);
        for one in &self.found {
            let vcpu = one.name.as_deref().is_some_and(is_vcpu);
            let (id, cause) = if vcpu {
                (FindingId::Steal, CauseId::NotShown)
            } else {
                (FindingId::CpuPressure, CauseId::NotShown)
            };
            table.facts.extend(vcpu.then_some(Fact::Waits));
            let evidence = Evidence::new(EvidenceId::TableHistogram)
                .maybe_named("name", one.name.as_deref())
                .count("waits", one.waits)
                .count("late", one.late)
                .ns("bound", LATE_NS)
                .ns("longest", one.longest_ns);
            let found = finding(id, cause);
            let found = if one.guessed {
                found.of("if the histogram is of waits, as runqlat's is")
            } else {
                found
            };
            table.findings.push(
                found
                    .with(evidence)
                    .sure(Confidence::Low)
                    .then(StepId::AskTool, "runqslower -P 10000")
                    .then(StepId::RecordWhile, RECORD),
            );
        }
        Some(table)
    }
}
