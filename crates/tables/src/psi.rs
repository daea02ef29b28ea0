// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pressure stall information: `some avg10=… avg60=… avg300=… total=…`, shares in percent and the
//! total in microseconds (`Documentation/accounting/psi.rst`). The files of CPU, memory and I/O
//! look alike; which one it is shows in a path before the line, or in the file's name.

use steady_diagnose::{CauseId, Confidence, Evidence, EvidenceId, FindingId, StepId};

use crate::draft::{Draft, finding};
use crate::kind::{Kind, RECORD};
use crate::number::percent;
use crate::table::{Fact, Line, Reader, Side, Table};

/// From this share of the time on, in thousandths, pressure is a finding: runnable tasks wait a
/// little on any busy machine.
const SHARE: u64 = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resource {
    Cpu,
    Other,
    Unknown,
}

#[derive(Debug, Clone)]
struct Row {
    resource: Resource,
    who: &'static str,
    averages: [u64; 3],
    total_ns: u64,
}

/// Reads the file, or several of them one behind the other.
#[derive(Debug)]
pub(crate) struct Pressure {
    of_file: Resource,
    now: Resource,
    rows: u64,
    /// The worst row of CPUs, or of a resource that is not known.
    worst: Option<Row>,
}

fn resource(text: &str) -> Option<Resource> {
    let text = text.to_ascii_lowercase();
    if text.contains("cpu") {
        return Some(Resource::Cpu);
    }
    let other = ["memory", "pressure/io", "io.pressure", "irq"];
    other
        .iter()
        .any(|name| text.contains(name))
        .then_some(Resource::Other)
}

impl Pressure {
    pub fn new(name: &str) -> Self {
        let file = name.rsplit('/').next().unwrap_or(name);
        let of_file = resource(file).unwrap_or(Resource::Unknown);
        Self {
            of_file,
            now: of_file,
            rows: 0,
            worst: None,
        }
    }
}

fn row(words: &[&str]) -> Option<(&'static str, [u64; 3], u64)> {
    let at = words.iter().position(|word| word.starts_with("avg10="))?;
    let who = match words.get(at.checked_sub(1)?)?.rsplit(':').next()? {
        "some" => "some",
        "full" => "full",
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
        if resource == Resource::Other {
            return;
        }
        let row = Row {
            resource,
            who,
            averages,
            total_ns,
        };
        // That some task waited is never less than that all did.
        let worse = |known: &Row| averages.iter().max() > known.averages.iter().max();
        if self.worst.as_ref().is_none_or(worse) {
            self.worst = Some(row);
        }
    }

    fn finish(self: Box<Self>) -> Option<Table> {
        if self.rows == 0 {
            return None;
        }
        let mut table = Table::new(Kind::Pressure, Side::Unknown, self.rows);
        let Some(row) = self.worst else {
            return Some(table);
        };
        let most = row.averages.iter().copied().max().unwrap_or(0);
        if most < SHARE {
            return Some(table);
        }
        let known = row.resource == Resource::Cpu || self.of_file == Resource::Cpu;
        if known {
            table.facts.push(Fact::HostFull);
        }
        let evidence = Evidence::new(EvidenceId::TablePressure)
            .named("who", row.who)
            .permille("avg10", row.averages[0])
            .permille("avg60", row.averages[1])
            .permille("avg300", row.averages[2])
            .ns("time", row.total_ns);
        let mut pressure = finding(FindingId::CpuPressure, CauseId::HostFull)
            .lost(most.min(1000), 0)
            .with(evidence)
            .sure(if known {
                Confidence::Medium
            } else {
                Confidence::Low
            });
        if !known {
            pressure = pressure.then(StepId::AskTool, "grep . /proc/pressure/*");
        }
        table
            .findings
            .push(pressure.then(StepId::RecordWhile, RECORD));
        Some(table)
    }
}
