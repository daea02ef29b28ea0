// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counts of KVM's events without their time: `kvm_stat` on the screen, with `-1` and with `-l`
//! (`tools/kvm/kvm_stat/kvm_stat`), and `perf stat -e 'kvm:*'` (`tools/perf/util/stat-display.c`).

use std::collections::BTreeMap;

use steady_diagnose::{CauseId, Evidence, EvidenceId, Finding, FindingId, Severity, StepId};

use crate::draft::{Draft, finding};
use crate::kind::{Kind, RECORD};
use crate::number::{decimal, integer, permille};
use crate::table::{Line, Reader, Side, Table};

/// Events that are kept.
const EVENTS: usize = 1024;
/// Events that a finding shows.
const SHOWN: usize = 8;
/// From this rate on exits are many, for a VM of a few vCPUs: each costs a microsecond and more.
const MANY_HZ: u64 = 50_000;
/// From this share of the exits on, in thousandths, pause-loop exits are a finding.
const PAUSES: u64 = 50;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Count {
    count: u64,
    rate: Option<u64>,
}

type Counts = BTreeMap<String, Count>;

fn keep(counts: &mut Counts, name: &str, count: Count) {
    if counts.len() < EVENTS || counts.contains_key(name) {
        counts.insert(name.to_owned(), count);
    }
}

/// Whether a name is one of KVM's: a tracepoint, with an exit reason or not, or a statistic.
fn is_kvm(name: &str) -> bool {
    const STATISTICS: [&str; 14] = [
        "exits",
        "halt_exits",
        "io_exits",
        "mmio_exits",
        "irq_exits",
        "irq_injections",
        "halt_wakeup",
        "fpu_reload",
        "host_state_reload",
        "pf_fixed",
        "insn_emulation",
        "irq_window",
        "request_irq",
        "hypercalls",
    ];
    name.starts_with("kvm_") || STATISTICS.contains(&name)
}

/// `kvm_stat`.
#[derive(Debug, Default)]
pub(crate) struct KvmStat {
    counts: Counts,
    /// Columns of `-l`: names of events, of which each line has a number.
    columns: Vec<String>,
    of_columns: u64,
    rows: u64,
    titled: bool,
    vm: Option<String>,
}

impl KvmStat {
    /// `kvm_entry 1133 20.5 80` of the screen, or `kvm_entry 1133 80` of `-1` and of older screens.
    fn row(&mut self, words: &[&str]) {
        let Some((name, rest)) = words.split_first().filter(|(name, _)| is_kvm(name)) else {
            return;
        };
        let number = |at: usize| rest.get(at).and_then(|word| integer(word));
        let Some(count) = number(0) else {
            return;
        };
        let rate = match rest.len() {
            1 => None,
            // With a share in it, as on newer screens, the second word is not an integer.
            2 => number(1),
            3 => number(2),
            _ => return,
        };
        self.rows += 1;
        keep(&mut self.counts, name, Count { count, rate });
    }
}

impl Reader for KvmStat {
    fn line(&mut self, line: &Line<'_>) {
        let words = line.words;
        if let Some(rest) = line.text.trim_start().strip_prefix("kvm statistics - ") {
            self.titled = true;
            let name = rest
                .split_once('(')
                .and_then(|(_, name)| name.split_once(')'));
            self.vm = name.map(|(name, _)| name.to_owned());
        } else if words.contains(&"CurAvg/s") || words == ["kvm", "statistics"] {
            self.titled = true;
        } else if words.len() >= 2 && words.iter().all(|word| is_kvm(word)) {
            self.columns = words.iter().map(|&word| word.to_owned()).collect();
        } else if words.len() == self.columns.len() && !words.is_empty() {
            let numbers: Option<Vec<u64>> = words.iter().map(|word| integer(word)).collect();
            if let Some(numbers) = numbers {
                self.of_columns += 1;
                self.rows += 1;
                for (name, number) in self.columns.clone().iter().zip(numbers) {
                    let sum = self.counts.get(name).map_or(0, |count| count.count);
                    let count = sum.saturating_add(number);
                    // Each line of the log is a second.
                    let rate = Some(count / self.of_columns);
                    keep(&mut self.counts, name, Count { count, rate });
                }
            }
        } else {
            self.row(words);
        }
    }

    fn finish(self: Box<Self>) -> Option<Table> {
        // Without a title two rows and more are asked for: one name and a number is anything.
        let known = self.titled || self.of_columns > 0 || self.rows >= 3;
        if !known || self.counts.is_empty() {
            return None;
        }
        let mut table = Table::new(Kind::KvmStat, Side::Host, self.rows);
        table.findings = findings(&self.counts, self.vm.as_deref());
        Some(table)
    }
}

/// `perf stat -e 'kvm:*'`.
#[derive(Debug, Default)]
pub(crate) struct PerfStat {
    counts: Counts,
    rows: u64,
    elapsed_ns: Option<u64>,
}

impl Reader for PerfStat {
    fn line(&mut self, line: &Line<'_>) {
        let words = line.words;
        if let [seconds, "seconds", "time", "elapsed", ..] = words {
            self.elapsed_ns = decimal(seconds, 1_000_000_000);
            return;
        }
        // With `-x,` or `-x ';'` a row is one word: the count, a unit, the event.
        let cells: Vec<&str>;
        let between = |row: &&str| {
            let marks = [(',', ",kvm:"), (';', ";kvm:")].into_iter();
            marks.into_iter().find(|(_, mark)| row.contains(mark))
        };
        let words = match words.first().and_then(between) {
            Some((mark, _)) => {
                cells = words[0]
                    .split(mark)
                    .filter(|cell| !cell.is_empty())
                    .collect();
                &cells[..]
            }
            None => words,
        };
        // Behind the time of `-I`, or at the begin.
        for at in 0..words.len().min(2) {
            let [count, name, ..] = &words[at..] else {
                return;
            };
            let Some(name) = name.strip_prefix("kvm:") else {
                continue;
            };
            // Some languages have points between the thousands.
            let Some(count) = integer(count).or_else(|| integer(&count.replace('.', ","))) else {
                continue;
            };
            let name = name.split('/').next().unwrap_or(name);
            let sum = self.counts.get(name).map_or(0, |known| known.count);
            let count = sum.saturating_add(count);
            self.rows += 1;
            if at == 1 {
                // Of an interval: the first word is the time since the begin.
                self.elapsed_ns = decimal(words[0], 1_000_000_000).or(self.elapsed_ns);
            }
            keep(&mut self.counts, name, Count { count, rate: None });
            return;
        }
    }

    fn finish(mut self: Box<Self>) -> Option<Table> {
        if self.counts.is_empty() {
            return None;
        }
        if let Some(elapsed_ns) = self.elapsed_ns.filter(|&ns| ns > 0) {
            for count in self.counts.values_mut() {
                let rate = u128::from(count.count) * 1_000_000_000 / u128::from(elapsed_ns);
                count.rate = u64::try_from(rate).ok();
            }
        }
        let mut table = Table::new(Kind::PerfStat, Side::Host, self.rows);
        table.span_ns = self.elapsed_ns;
        table.findings = findings(&self.counts, None);
        Some(table)
    }
}

fn findings(counts: &Counts, vm: Option<&str>) -> Vec<Finding> {
    let of = |name: &str| counts.get(name).copied().unwrap_or_default();
    let exits = match of("kvm_exit") {
        Count { count: 0, .. } => of("exits"),
        exits => exits,
    };
    let mut most: Vec<(&String, &Count)> = counts.iter().filter(|(_, of)| of.count > 0).collect();
    most.sort_by(|a, b| b.1.count.cmp(&a.1.count).then(a.0.cmp(b.0)));
    let evidence = |(name, of): &(&String, &Count)| {
        Evidence::new(EvidenceId::TableEvents)
            .named("name", name)
            .count("count", of.count)
            .maybe_count("rate", of.rate)
    };
    let many = exits
        .rate
        .or(of("kvm_entry").rate)
        .is_some_and(|rate| rate >= MANY_HZ);
    let counted = finding(FindingId::ExitCounts, CauseId::CountsOnly)
        .vm(vm)
        .severity(if many {
            Severity::Major
        } else {
            Severity::Note
        })
        .all(most.iter().take(SHOWN).map(evidence))
        .then(StepId::AskTool, "perf kvm stat live")
        .then(StepId::RecordWhile, RECORD);
    let mut found = vec![counted];
    let spins = [
        "kvm_exit(PAUSE_INSTRUCTION)",
        "kvm_exit(PAUSE)",
        "pause_exits",
    ];
    let spins: Vec<(&String, &Count)> = counts
        .iter()
        .filter(|(name, _)| spins.contains(&name.as_str()))
        .collect();
    let spun = spins
        .iter()
        .map(|(_, of)| of.count)
        .fold(0, u64::saturating_add);
    let share = permille(spun, exits.count);
    if share >= PAUSES {
        found.push(
            finding(FindingId::PauseUnknown, CauseId::UnknownPlace)
                .vm(vm)
                .all(spins.iter().map(evidence))
                .then(StepId::RecordWhile, RECORD),
        );
    }
    found
}
