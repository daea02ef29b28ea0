// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `vmstat` (procps): the head names the columns, `st` is steal and `gu`, of procps 4, guests. The
//! first row is of the time since boot and does not count if there are others.

use super::{Sample, Samples};
use crate::kind::Kind;
use crate::number::percent;
use crate::table::{Line, Reader, Table};

/// Reads the table.
#[derive(Debug, Default)]
pub(crate) struct Vmstat {
    columns: Vec<String>,
    rows: u64,
    first: Option<Sample>,
    samples: Samples,
}

impl Reader for Vmstat {
    fn line(&mut self, line: &Line<'_>) {
        let words = line.words;
        if words.starts_with(&["r", "b"]) && words.contains(&"id") && words.contains(&"us") {
            self.columns = words.iter().map(|&word| word.to_owned()).collect();
            return;
        }
        // What stands behind the CPUs' columns is the time.
        let of_cpus = ["us", "sy", "id", "wa", "st", "gu"];
        let last = self
            .columns
            .iter()
            .rposition(|name| of_cpus.contains(&name.as_str()));
        let columns = last.map_or(0, |last| last + 1);
        if columns == 0 || words.len() < columns {
            return;
        }
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
            guest: share("gu"),
            ready: of("r"),
        };
        self.rows += 1;
        if self.rows == 1 {
            self.first = Some(sample);
        } else {
            self.samples.add(sample);
        }
    }

    fn finish(mut self: Box<Self>) -> Option<Table> {
        if let Some(first) = self.first.filter(|_| self.samples.count == 0) {
            self.samples.add(first);
        }
        self.samples.table(Kind::Vmstat, self.rows, false)
    }
}
