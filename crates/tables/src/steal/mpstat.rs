// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `mpstat`, `sar -u` and the CPU part of `iostat` (sysstat). The head names the columns; rows
//! have as many words from the right, behind one or two of the time. `Average:` rows count, where
//! there are any, in place of the samples. Rows of single CPUs stand for all of them where a table
//! has no `all`, as one cut by `grep` or `-P 0,1` has none.
//!
//! Of the devices of `iostat -x`, how long requests took: `r_await`, `w_await`, older ones `await`.

use steady_diagnose::{CauseId, Evidence, EvidenceId, Finding};

use super::{Both, Sample};
use crate::draft::{Draft, at_least_major, pressure};
use crate::kind::Kind;
use crate::number::{decimal, percent};
use crate::table::{Fact, Line, Reader, Side, Table};

/// From this mean on requests of a device are slow, in nanoseconds.
const SLOW_NS: u64 = 200_000_000;
/// Columns of a head.
const COLUMNS: usize = 32;

/// Reads the table.
#[derive(Debug, Default)]
pub(crate) struct Mpstat {
    /// From `CPU` on.
    columns: Vec<String>,
    /// Of `iostat`: the next line has the numbers alone.
    bare: bool,
    rows: u64,
    /// CPUs of the machine: `(8 CPU)` of the first line.
    cpus: Option<u64>,
    samples: Both,
    averages: Both,
    /// Columns of devices, from their names on, and the slowest requests: their mean, and of which.
    of_devices: Vec<String>,
    slowest: Option<(u64, String)>,
}

impl Mpstat {
    fn row(&mut self, words: &[&str]) {
        let first = usize::from(!self.bare);
        let Some(from) = words.len().checked_sub(self.columns.len()) else {
            return;
        };
        let cells = &words[from..];
        if self.bare && from > 0 {
            return;
        }
        let shares: Option<Vec<u64>> = cells[first..].iter().map(|cell| percent(cell)).collect();
        let Some(shares) = shares else {
            return;
        };
        let of = |names: &[&str]| {
            let at = self.columns[first..]
                .iter()
                .position(|name| names.contains(&name.as_str()));
            at.map(|at| shares[at])
        };
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b.unwrap_or(0));
        let sample = Sample {
            steal: of(&["%steal"]),
            idle: of(&["%idle"]),
            iowait: of(&["%iowait"]),
            interrupts: sum(of(&["%soft"]), of(&["%irq"])),
            guest: of(&["%guest"]),
            ready: None,
        };
        if sample.idle.is_none() {
            return;
        }
        self.rows += 1;
        let average = words.first() == Some(&"Average:");
        let into = if average {
            &mut self.averages
        } else {
            &mut self.samples
        };
        match cells[0] {
            "all" | "-1" => into.add(None, sample),
            _ if self.bare => into.add(None, sample),
            cpu => into.add(Some(cpu), sample),
        }
    }
}

impl Mpstat {
    /// Takes a row of a device.
    fn device(&mut self, words: &[&str]) {
        for (cell, column) in words.iter().zip(&self.of_devices) {
            let ms = column.ends_with("await").then(|| decimal(cell, 1_000_000));
            let Some(ns) = ms.flatten().filter(|&ns| ns >= SLOW_NS) else {
                continue;
            };
            if self.slowest.as_ref().is_none_or(|(known, _)| ns > *known) {
                self.slowest = Some((ns, format!("{} ({column})", words[0])));
            }
        }
        self.rows += 1;
    }

    /// Requests that took long.
    fn slow(&self) -> Option<Finding> {
        let (ns, of) = self.slowest.as_ref()?;
        let evidence = Evidence::new(EvidenceId::TableThread)
            .named("name", of)
            .ns("mean", *ns);
        Some(at_least_major(
            pressure("I/O", CauseId::IoPressure).with(evidence),
        ))
    }
}

impl Reader for Mpstat {
    fn line(&mut self, line: &Line<'_>) {
        let words = line.words;
        if words
            .first()
            .is_some_and(|first| first.starts_with("Device"))
        {
            let columns = words.iter().take(COLUMNS).map(|&word| word.to_owned());
            self.of_devices = columns.collect();
            return;
        }
        let named = self.of_devices.iter().any(|name| name.ends_with("await"));
        if named && words.len() == self.of_devices.len() && words[0] != "avg-cpu:" {
            return self.device(words);
        }
        let named = |name: &str| words.contains(&name);
        if named("%idle") && (named("CPU") || named("avg-cpu:")) {
            let bare = named("avg-cpu:");
            let head = if bare { "avg-cpu:" } else { "CPU" };
            let at = words.iter().position(|word| *word == head).unwrap_or(0);
            let columns = &words[at + usize::from(bare)..];
            self.columns = columns
                .iter()
                .take(COLUMNS)
                .map(|&word| word.to_owned())
                .collect();
            self.bare = bare;
            return;
        }
        if let Some(at) = words.iter().position(|word| *word == "CPU)") {
            let number = at.checked_sub(1).and_then(|at| words[at].strip_prefix('('));
            self.cpus = number.and_then(|number| number.parse().ok());
        }
        if self.columns.is_empty() || words.is_empty() {
            return;
        }
        self.row(words);
        if self.bare {
            self.columns.clear();
        }
    }

    fn finish(self: Box<Self>) -> Option<Table> {
        let slow = self.slow();
        let (averages, samples) = (self.averages, self.samples);
        let chosen = match averages.is_empty() {
            true => samples,
            false => averages,
        };
        let mut chosen = chosen.chosen();
        chosen.cpus = self.cpus;
        let table = chosen.table(Kind::Mpstat, self.rows, false);
        let devices = self.of_devices.iter().any(|name| name.ends_with("await"));
        let bare = || devices.then(|| Table::new(Kind::Mpstat, Side::Unknown, self.rows));
        let mut table = table.or_else(bare)?;
        if let Some(slow) = slow {
            table.facts.push(Fact::IoWaits);
            table.findings.push(slow);
        }
        Some(table)
    }
}
