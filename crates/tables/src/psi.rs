// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pressure stall information: `some avg10=… avg60=… avg300=… total=…`, shares in percent and the
//! total in microseconds (`Documentation/accounting/psi.rst`). The files of CPU, memory and I/O
//! look alike; which one it is shows in a path before the line, or in the file's name. That of
//! interrupts alone has no `some`.

use std::collections::BTreeMap;

use steady_diagnose::{CauseId, Confidence, Evidence, EvidenceId, Finding, FindingId, StepId};

use crate::draft::{Draft, finding, pressure, quoted};
use crate::kind::{Kind, RECORD};
use crate::number::percent;
use crate::table::{Fact, Line, Reader, Side, Table};

/// From this share of the time on, in thousandths, pressure is a finding: runnable tasks wait a
/// little on any busy machine.
const SHARE: u64 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Resource {
    Cpu,
    Memory,
    Io,
    Interrupts,
    Unknown,
}

#[derive(Debug, Clone)]
struct Row {
    who: &'static str,
    averages: [u64; 3],
    total_ns: u64,
}

/// Reads the file, or several of them one behind the other.
#[derive(Debug)]
pub(crate) struct Pressure {
    now: Resource,
    rows: u64,
    /// Whether a row of what is not named says `some`.
    some: bool,
    /// The worst row of each.
    worst: BTreeMap<Resource, Row>,
    /// The cgroup of the worst row of CPUs, and the share in which all its tasks waited. Of the
    /// whole machine the kernel has 0 for that (`kernel/sched/psi.c`).
    group: Option<String>,
    all: u64,
}

fn resource(text: &str) -> Option<Resource> {
    let text = text.to_ascii_lowercase();
    let names = [
        ("cpu", Resource::Cpu),
        ("memory", Resource::Memory),
        ("pressure/io", Resource::Io),
        ("io.pressure", Resource::Io),
        ("irq", Resource::Interrupts),
    ];
    let found = names.iter().find(|(name, _)| text.contains(name));
    found.map(|(_, resource)| *resource)
}

impl Pressure {
    pub fn new(name: &str) -> Self {
        let file = name.rsplit('/').next().unwrap_or(name);
        Self {
            now: resource(file).unwrap_or(Resource::Unknown),
            rows: 0,
            some: false,
            worst: BTreeMap::new(),
            group: None,
            all: 0,
        }
    }
}

/// What a row of too much pressure is, if it is of a CPU or may be.
fn of_cpus(row: &Row, known: bool) -> Finding {
    let most = row.averages.iter().copied().max().unwrap_or(0);
    let made = finding(FindingId::CpuPressure, CauseId::HostFull)
        .lost(most.min(1000), 0)
        .with(evidence(row));
    if known {
        return made
            .sure(Confidence::Medium)
            .then(StepId::RecordWhile, RECORD);
    }
    made.sure(Confidence::Low)
        .then(StepId::AskTool, "grep . /proc/pressure/*")
        .then(StepId::RecordWhile, RECORD)
}

/// What a cgroup's tasks wait for is its own limit, or others: the host need not be full.
fn of_group(row: &Row, group: Option<&str>, all: u64) -> Finding {
    let most = row.averages.iter().copied().max().unwrap_or(0);
    let (cause, of) = match all >= SHARE {
        true => (CauseId::Quota, "pressure"),
        false => (CauseId::NotShown, "a cgroup"),
    };
    let ask = format!("cat {}/cpu.stat", quoted(group.unwrap_or("CGROUP")));
    finding(FindingId::CpuPressure, cause)
        .lost(most.min(1000), 0)
        .of(of)
        .with(evidence(row))
        .sure(Confidence::Low)
        .then(StepId::AskTool, &ask)
        .then(StepId::RecordWhile, RECORD)
}

fn of_other(row: &Row, of: &str, cause: CauseId) -> Finding {
    let most = row.averages.iter().copied().max().unwrap_or(0);
    pressure(of, cause)
        .lost(most.min(1000), 0)
        .with(evidence(row))
        .sure(Confidence::Medium)
}

fn evidence(row: &Row) -> Evidence {
    Evidence::new(EvidenceId::TablePressure)
        .named("who", row.who)
        .permille("avg10", row.averages[0])
        .permille("avg60", row.averages[1])
        .permille("avg300", row.averages[2])
        .ns("time", row.total_ns)
}

fn row(words: &[&str]) -> Option<(&'static str, [u64; 3], u64)> {
    let at = words.iter().position(|word| word.starts_with("avg10="))?;
    let who = match words.get(at.checked_sub(1)?)?.rsplit(':').next()? {
        "some" => "some",
        "full" => "all",
        _ => return None,
    };
    let of = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
    let averages = [
        percent(of("avg10=")?)?,
        percent(of("avg60=")?)?,
        percent(of("avg300=")?)?,
    ];
    let total: u64 = of("total=")?.parse().ok()?;
    Some((who, averages, total.saturating_mul(1_000)))
}

impl Reader for Pressure {
    fn line(&mut self, line: &Line<'_>) {
        let Some((who, averages, total_ns)) = row(line.words) else {
            let titled = line.text.contains("pressure") && line.words.len() <= 4;
            if let Some(resource) = resource(line.text).filter(|_| titled) {
                self.now = resource;
            }
            return;
        };
        self.rows += 1;
        let before = line.text.split("avg10=").next().unwrap_or_default();
        let resource = resource(before).unwrap_or(self.now);
        self.some |= resource == Resource::Unknown && who == "some";
        if resource == Resource::Cpu {
            let path = before.split_once("/cpu.pressure").map(|(group, _)| group);
            self.group = self
                .group
                .take()
                .or(path.map(|path| path.trim().to_owned()));
            if who == "all" {
                self.all = self.all.max(averages.into_iter().max().unwrap_or(0));
            }
        }
        let row = Row {
            who,
            averages,
            total_ns,
        };
        // That some task waited is never less than that all did.
        let worse = |known: &Row| averages.iter().max() > known.averages.iter().max();
        if self.worst.get(&resource).is_none_or(worse) {
            self.worst.insert(resource, row);
        }
    }

    fn finish(self: Box<Self>) -> Option<Table> {
        if self.rows == 0 {
            return None;
        }
        let mut table = Table::new(Kind::Pressure, Side::Unknown, self.rows);
        for (resource, row) in &self.worst {
            if row.averages.iter().all(|&share| share < SHARE) {
                continue;
            }
            let resource = match resource {
                Resource::Unknown if !self.some => Resource::Interrupts,
                resource => *resource,
            };
            let (found, fact) = match resource {
                Resource::Cpu if self.group.is_some() || self.all >= SHARE => {
                    (of_group(row, self.group.as_deref(), self.all), None)
                }
                Resource::Cpu => (of_cpus(row, true), Some(Fact::HostFull)),
                Resource::Unknown => (of_cpus(row, false), None),
                Resource::Memory => (of_other(row, "memory", CauseId::MemoryPressure), None),
                Resource::Io => (
                    of_other(row, "I/O", CauseId::IoPressure),
                    Some(Fact::IoWaits),
                ),
                Resource::Interrupts => (of_other(row, "interrupts", CauseId::InterruptLoad), None),
            };
            table.findings.push(found);
            table.facts.extend(fact);
        }
        Some(table)
    }
}
