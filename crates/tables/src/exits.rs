// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `perf kvm stat report` and `perf kvm stat live`: exits by reason, with their number and time.
//!
//! A row is `NAME SAMPLES SHARE% TIME% MIN MAX AVERAGE ( +- ERROR% )`, times in microseconds with
//! `us` (`print_result` in `tools/perf/builtin-kvm.c`). With `--event=ioport`, `mmio` or `msr` the
//! name is an address. The screen of Linux 6.3 and later has other columns. A live screen repeats
//! the table; the screens are added up, and one that a pager shows again counts once. What a pager
//! or mail puts between or into rows is skipped. Reasons that perf does not know are all called
//! `UNKNOWN`; the line before a row has the code, unless the two streams were parted.

use std::collections::BTreeMap;

use steady_diagnose::{CauseId, Evidence, EvidenceId, Finding, FindingId, StepId};

use crate::draft::{Draft, finding};
use crate::kind::{Kind, RECORD};
use crate::number::{decimal, integer, percent, permille, time};
use crate::table::{Line, Reader, Side, Table};

/// Reasons that are kept; more are counted as rows alone.
const REASONS: usize = 512;
/// From this share of the time on, in thousandths, a reason is a finding.
const SHARE: u64 = 50;
/// From this length on a single exit is one, in nanoseconds.
const LONG_NS: u64 = 100_000_000;
/// Findings of one table.
const FINDINGS: usize = 4;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Row {
    samples: u64,
    /// Mean time multiplied by the samples.
    total_ns: u64,
    max_ns: u64,
}

impl Row {
    fn add(&mut self, other: &Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }
}

/// Reads the table.
#[derive(Debug, Default)]
pub(crate) struct Exits {
    heads: u64,
    rows: u64,
    /// The rows of the screen that is being read.
    screen: BTreeMap<String, Row>,
    last: BTreeMap<String, Row>,
    all: BTreeMap<String, Row>,
    /// The beginning of a row that mail broke.
    broken: String,
    /// The code of the reason whose row comes next.
    unknown: Option<String>,
}

impl Exits {
    fn row(&mut self, words: &[&str]) -> bool {
        let Some((name, row)) = row(words).or_else(|| row_of_screen(words)) else {
            return false;
        };
        self.rows += 1;
        let code = self.unknown.take().filter(|_| name == "UNKNOWN");
        let name = code.map_or(name.to_owned(), |code| format!("{name} ({code})"));
        if self.screen.len() < REASONS || self.screen.contains_key(&name) {
            let known = self.screen.entry(name).or_default();
            // A pager repeats a row; several of one name differ.
            if *known != row {
                known.add(&row);
            }
        }
        true
    }

    fn end_of_screen(&mut self) {
        let screen = std::mem::take(&mut self.screen);
        if screen.is_empty() || screen == self.last {
            return;
        }
        for (name, row) in &screen {
            if self.all.len() >= REASONS && !self.all.contains_key(name) {
                continue;
            }
            let sum = self.all.entry(name.clone()).or_default();
            sum.add(row);
        }
        self.last = screen;
    }
}

/// `NAME SAMPLES SHARE% TIME% MIN MAX AVERAGE …`; a name has no blanks, but `0x70:POUT` has.
fn row<'w>(words: &[&'w str]) -> Option<(&'w str, Row)> {
    let (&name, rest) = words.split_first()?;
    let [samples, share, of_time, _min, max, mean, ..] = rest else {
        return None;
    };
    let named = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_:-.".contains(&byte));
    if !named || !share.ends_with('%') || !of_time.ends_with('%') {
        return None;
    }
    percent(share)?;
    percent(of_time)?;
    let samples = integer(samples)?;
    let row = Row {
        samples,
        total_ns: time(mean)?.saturating_mul(samples),
        max_ns: time(max)?,
    };
    Some((name, row))
}

/// A row of the screen of newer versions: `NAME SAMPLES SHARE% TIME TIME% MAX MIN MEAN`, times in
/// nanoseconds without a unit.
fn row_of_screen<'w>(words: &[&'w str]) -> Option<(&'w str, Row)> {
    let [name, samples, share, total, of_time, max, _min, _mean] = words else {
        return None;
    };
    percent(share.strip_suffix('%')?)?;
    percent(of_time.strip_suffix('%')?)?;
    let row = Row {
        samples: integer(samples)?,
        total_ns: decimal(total, 1)?,
        max_ns: decimal(max, 1)?,
    };
    Some((name, row))
}

/// Whether the words begin a row whose end is in the next line.
fn begins_row(words: &[&str]) -> bool {
    (3..7).contains(&words.len()) && integer(words[1]).is_some() && words[2].ends_with('%')
}

impl Reader for Exits {
    fn line(&mut self, line: &Line<'_>) {
        let words = line.words;
        let names = ["VM-EXIT", "Access"];
        if line.text.contains("Event name") && words.contains(&"Sample%") {
            self.heads += 1;
            self.end_of_screen();
            return;
        }
        if words.contains(&"Samples%") || words.iter().any(|word| names.contains(word)) {
            self.heads += u64::from(words.contains(&"Samples"));
            self.end_of_screen();
            return;
        }
        if self.heads == 0 {
            return;
        }
        if let Some((_, rest)) = line.text.split_once("unknown kvm exit code:") {
            let code: String = rest.chars().take_while(|c| !c.is_whitespace()).collect();
            self.unknown = Some(code.chars().take(16).collect());
            return;
        }
        if line.text.contains("Total Samples:") {
            self.end_of_screen();
        } else if self.row(words) {
            self.broken.clear();
        } else if !self.broken.is_empty() {
            let whole = format!("{} {}", self.broken, line.text);
            self.broken.clear();
            self.row(&whole.split_whitespace().collect::<Vec<_>>());
        } else if begins_row(words) {
            self.broken = words.join(" ");
        }
    }

    fn finish(mut self: Box<Self>) -> Option<Table> {
        self.end_of_screen();
        if self.heads == 0 || self.all.is_empty() {
            return None;
        }
        let mut table = Table::new(Kind::PerfKvmStat, Side::Host, self.rows);
        table.findings = findings(&self.all);
        Some(table)
    }
}

/// Whether the vCPU had nothing to do in an exit of this reason.
fn is_idle(reason: &str) -> bool {
    ["hlt", "mwait", "wfx", "wfi", "halt", "wait_state"]
        .iter()
        .any(|idle| reason.to_ascii_lowercase().starts_with(idle))
        || ["MWAIT_INSTRUCTION", "DIAG_0X44"].contains(&reason)
}

fn findings(rows: &BTreeMap<String, Row>) -> Vec<Finding> {
    let all = |of: fn(&Row) -> u64| rows.values().map(of).fold(0, u64::saturating_add);
    let (all_ns, all_samples) = (all(|row| row.total_ns), all(|row| row.samples));
    let mut found: Vec<(&String, &Row)> = rows
        .iter()
        .filter(|(name, row)| {
            let share = permille(row.total_ns, all_ns);
            !is_idle(name) && (share >= SHARE || row.max_ns >= LONG_NS)
        })
        .collect();
    found.sort_by(|a, b| b.1.total_ns.cmp(&a.1.total_ns).then(a.0.cmp(b.0)));
    let idle_ns = rows.iter().filter(|(name, _)| is_idle(name));
    let idle_ns = idle_ns
        .map(|(_, row)| row.total_ns)
        .fold(0, u64::saturating_add);
    found
        .into_iter()
        .take(FINDINGS)
        .map(|(name, row)| {
            let share = permille(row.total_ns, all_ns);
            let mut evidence = vec![
                Evidence::new(EvidenceId::TableExits)
                    .named("reason", name)
                    .count("exits", row.samples)
                    .permille("share", permille(row.samples, all_samples))
                    .permille("time_share", share)
                    .ns("mean", row.total_ns / row.samples.max(1))
                    .ns("max", row.max_ns),
            ];
            if idle_ns > 0 {
                let halts = rows.iter().filter(|(name, _)| is_idle(name));
                evidence.extend(halts.map(|(name, row)| {
                    Evidence::new(EvidenceId::TableExits)
                        .named("reason", name)
                        .count("exits", row.samples)
                        .permille("time_share", permille(row.total_ns, all_ns))
                        .ns("max", row.max_ns)
                }));
            }
            of_reason(name).lost(share, row.total_ns).all(evidence)
        })
        .collect()
}

/// What is known of a reason without its events.
fn of_reason(name: &str) -> Finding {
    let slow = |cause| finding(FindingId::SlowExits, cause).of(name);
    let upper = name.to_ascii_uppercase();
    let is = |names: &[&str]| names.iter().any(|known| upper == *known);
    if name.starts_with("0x") {
        let port = name.split(':').next().unwrap_or(name);
        return slow(CauseId::UserDevice)
            .then(StepId::GuestClock, port)
            .then(StepId::RecordWhile, RECORD);
    }
    if is(&["IO_INSTRUCTION", "IOIO", "IO"]) {
        slow(CauseId::UserDevice)
            .then(StepId::AskTool, "perf kvm stat live --event=ioport")
            .then(StepId::GuestClock, "the port")
    } else if is(&["EPT_MISCONFIG"]) {
        slow(CauseId::UserDevice).then(StepId::AskTool, "perf kvm stat live --event=mmio")
    } else if is(&["EPT_VIOLATION", "NPF", "EXIT_NPF", "DABT_LOW", "IABT_LOW"]) {
        slow(CauseId::MappingMemory).then(StepId::RecordWhile, RECORD)
    } else if is(&[
        "EXTERNAL_INTERRUPT",
        "INTR",
        "INTERRUPT",
        "IRQ",
        "NMI",
        "EXCEPTION_NMI",
    ]) {
        slow(CauseId::InterruptsOrWait).then(StepId::RecordWhile, RECORD)
    } else if is(&["PAUSE_INSTRUCTION", "PAUSE", "WFE"]) {
        finding(FindingId::PauseUnknown, CauseId::UnknownPlace).then(StepId::RecordWhile, RECORD)
    } else if is(&["MSR_WRITE", "MSR_READ", "MSR"]) {
        slow(CauseId::Handling)
            .then(StepId::AskTool, "perf kvm stat live --event=msr")
            .then(StepId::RecordWhile, RECORD)
    } else {
        slow(CauseId::Handling).then(StepId::RecordWhile, RECORD)
    }
}
