// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `vmstat` (procps): the head names the columns, `st` is steal and `gu`, of procps 4, guests. The
//! first row is of the time since boot and does not count if there are others. Rows that mail broke
//! are joined.

use steady_diagnose::{CauseId, Evidence, EvidenceId, Finding};

use super::{Sample, Samples};
use crate::clean::WORDS;
use crate::draft::{Draft, at_least_major, pressure};
use crate::kind::Kind;
use crate::number::percent;
use crate::table::{Line, Reader, Table};

/// From this many KiB a second on, in and out, swapping is a finding.
const SWAPS: u64 = 1024;

/// Words that a time before a row has at most, such as `Nov 20 10:11:02`.
const BEFORE: usize = 3;

/// Reads the table.
#[derive(Debug, Default)]
pub(crate) struct Vmstat {
    columns: Vec<String>,
    /// Words before the first column: a time that another program put there.
    before: usize,
    rows: u64,
    first: Option<(Sample, Swaps)>,
    samples: Samples,
    /// KiB in a second, in and out, of all rows.
    swaps: Swaps,
    counted: u64,
    /// The beginning of a row that mail broke.
    broken: Vec<String>,
}

type Swaps = [u64; 2];

/// The columns of CPUs, behind which is the time.
const OF_CPUS: [&str; 6] = ["us", "sy", "id", "wa", "st", "gu"];

impl Vmstat {
    /// Takes a line that may be a row, or the part of one.
    fn cells(&mut self, words: &[&str]) {
        let is_of_cpus = |name: &String| OF_CPUS.contains(&name.as_str());
        let columns = self.columns.iter().rposition(is_of_cpus);
        let columns = columns.map_or(0, |last| last + 1);
        let numbers = words.iter().all(|word| word.parse::<u64>().is_ok());
        let broken = std::mem::take(&mut self.broken);
        if columns == 0 || words.is_empty() {
            return;
        }
        let words: Vec<&str> = match numbers && !broken.is_empty() {
            true => broken
                .iter()
                .map(String::as_str)
                .chain(words.iter().copied())
                .collect(),
            false => words.to_vec(),
        };
        if words.len() >= columns {
            self.row(&words, columns);
        } else if numbers && words.len() > columns / 2 {
            self.broken = words.iter().map(|&word| word.to_owned()).collect();
        }
    }

    fn row(&mut self, words: &[&str], columns: usize) {
        let of = |name: &str| {
            let at = self.columns.iter().position(|known| known == name)?;
            words.get(at).and_then(|word| word.parse::<u64>().ok())
        };
        if (0..columns).any(|at| words[at].parse::<u64>().is_err()) {
            return;
        }
        let share = |name: &str| of(name).and_then(|share| percent(&share.to_string()));
        let sample = Sample {
            steal: share("st"),
            idle: share("id"),
            iowait: share("wa"),
            interrupts: None,
            guest: share("gu"),
            ready: of("r"),
        };
        let swaps = [of("si").unwrap_or(0), of("so").unwrap_or(0)];
        self.rows += 1;
        match self.rows {
            1 => self.first = Some((sample, swaps)),
            _ => self.add(sample, swaps),
        }
    }

    fn add(&mut self, sample: Sample, swaps: Swaps) {
        self.samples.add(sample);
        self.counted += 1;
        for (sum, swapped) in self.swaps.iter_mut().zip(swaps) {
            *sum = sum.saturating_add(swapped);
        }
    }
}

impl Reader for Vmstat {
    fn line(&mut self, line: &Line<'_>) {
        let words = line.words;
        let heads = |at: &usize| {
            words
                .get(*at..)
                .is_some_and(|of| of.starts_with(&["r", "b"]))
        };
        let head = (0..=BEFORE).find(heads);
        if let Some(before) = head
            && words.contains(&"id")
            && words.contains(&"us")
        {
            self.before = before;
            self.columns = words[before..]
                .iter()
                .map(|&word| word.to_owned())
                .collect();
            return;
        }
        // The end of a head that mail broke.
        if !words.is_empty() && words.iter().all(|word| OF_CPUS.contains(word)) {
            let more = words.iter().map(|&word| word.to_owned());
            if !self.columns.is_empty() && self.columns.len() < WORDS {
                self.columns.extend(more.take(OF_CPUS.len()));
            }
            return;
        }
        self.cells(words.get(self.before..).unwrap_or_default());
    }

    fn finish(mut self: Box<Self>) -> Option<Table> {
        if let Some((sample, swaps)) = self.first.take_if(|_| self.counted == 0) {
            self.add(sample, swaps);
        }
        let [swapped_in, out] = self.swaps.map(|sum| sum / self.counted.max(1));
        let mut table = self.samples.table(Kind::Vmstat, self.rows, false)?;
        if swapped_in.saturating_add(out) >= SWAPS {
            let evidence = Evidence::new(EvidenceId::TableSwap)
                .count("in", swapped_in)
                .count("out", out);
            // What waits for it shows as waits for I/O too.
            let is_io = |found: &Finding| found.cause == CauseId::IoPressure;
            let at = table.findings.iter().position(is_io);
            let waits = at.map(|at| table.findings.remove(at));
            let share = waits.as_ref().map_or(0, |waits| waits.lost_permille);
            let waits = waits.into_iter().flat_map(|waits| waits.evidence);
            let memory = pressure("memory", CauseId::MemoryPressure)
                .lost(share, 0)
                .with(evidence)
                .all(waits);
            table.findings.push(at_least_major(memory));
        }
        Some(table)
    }
}
