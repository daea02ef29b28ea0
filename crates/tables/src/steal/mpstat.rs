// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `mpstat`, `sar -u` and the CPU part of `iostat` (sysstat). The head names the columns; rows
//! have as many words from the right, behind one or two of the time. `Average:` rows count, where
//! there are any, in place of the samples. Rows of single CPUs stand for all of them where a table
//! has no `all`, as one cut by `grep` or `-P 0,1` has none.

use super::{Both, Sample};
use crate::kind::Kind;
use crate::number::percent;
use crate::table::{Line, Reader, Table};

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

impl Reader for Mpstat {
    fn line(&mut self, line: &Line<'_>) {
        let words = line.words;
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
        let (averages, samples) = (self.averages, self.samples);
        let chosen = match averages.is_empty() {
            true => samples,
            false => averages,
        };
        let mut chosen = chosen.chosen();
        chosen.cpus = self.cpus;
        chosen.table(Kind::Mpstat, self.rows, false)
    }
}
