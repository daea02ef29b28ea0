// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes a file and finds the tables in it: every reader sees every line, and each that finds its
//! table gives one. So one file may hold several, and what a pager prints between rows is skipped.

use std::io::Read;

use crate::clean::{Lines, WORDS};
use crate::shapes::Shapes;
use crate::table::{Line, Reader, Table};
use crate::{
    cgroup, counts, cpu_max, domstats, exits, histogram, latency, log, proc_sched, psi, slower,
    steal, timehist,
};

/// Lines in which tables are looked for; in what follows only those of logs are.
pub(crate) const TABLE_LINES: u64 = 1_000_000;

/// Why a file gives no table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system refused.
    #[error("{name}: cannot read the file")]
    Io {
        /// The file.
        name: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// It has tables where a trace has to be.
    #[error("{name}: a table or a log; only traces can be compared (--before, --after)")]
    NotATrace {
        /// The file.
        name: String,
    },
    /// It has none that is known here.
    #[error(
        "{name}: not a trace, a table or a log that is read here: {what}; record what happens \
         with `sudo steady record` on the host while it stalls, and diagnose that"
    )]
    Foreign {
        /// The file.
        name: String,
        /// What it seems to be, and what to do if that is known.
        what: String,
    },
}

/// The tables of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    pub(crate) name: String,
    pub(crate) tables: Vec<Table>,
}

impl Tables {
    /// Only the tables in which something is wrong.
    #[must_use]
    pub fn with_findings(mut self) -> Self {
        self.tables.retain(|table| !table.findings.is_empty());
        self
    }

    /// Which kinds the file has, in a fixed order.
    #[must_use]
    pub fn kinds(&self) -> Vec<crate::Kind> {
        self.tables.iter().map(|table| table.kind).collect()
    }
}

fn readers(name: &str) -> Vec<Box<dyn Reader>> {
    vec![
        Box::new(exits::Exits::default()),
        Box::new(counts::KvmStat::default()),
        Box::new(counts::PerfStat::default()),
        Box::new(latency::Latency::default()),
        Box::new(timehist::Timehist::default()),
        Box::new(domstats::Domstats::default()),
        Box::new(histogram::Histograms::default()),
        Box::new(slower::Slower::default()),
        Box::new(proc_sched::Sched::default()),
        Box::new(proc_sched::Schedstat::default()),
        Box::new(cgroup::CpuStat::default()),
        Box::new(cpu_max::CpuMax::default()),
        Box::new(psi::Pressure::new(name)),
        Box::new(steal::Mpstat::default()),
        Box::new(steal::Vmstat::default()),
        Box::new(steal::Top::default()),
        Box::new(log::Log::default()),
    ]
}

/// Whether a file that begins like this may be text, so that [`read`] is worth its time.
#[must_use]
pub fn looks_like_text(head: &[u8]) -> bool {
    let wide = head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]);
    let plain =
        |byte: &&u8| **byte >= 0x20 || matches!(**byte, b'\n' | b'\r' | b'\t' | 8 | 27 | 12);
    let printed = head.iter().filter(plain).count();
    wide || printed * 20 >= head.len() * 19 || head.get(1) == Some(&0) && head.get(3) == Some(&0)
}

/// Whether a kernel's log complains of a stall.
#[must_use]
pub fn complains(log: &mut dyn Read) -> bool {
    let of_log = |table: &Table| table.kind == crate::Kind::KernelLog && !table.findings.is_empty();
    read(log, "log").is_ok_and(|tables| tables.tables.iter().any(of_log))
}

/// Reads a file to its end. `name` is what errors and findings call it.
///
/// # Errors
/// [`ReadError::Io`] if it cannot be read, [`ReadError::Foreign`] if no table is in it.
pub fn read(reader: &mut dyn Read, name: &str) -> Result<Tables, ReadError> {
    let mut readers = readers(name);
    let mut shapes = Shapes::default();
    let mut lines = Lines::new(reader);
    let mut text = String::new();
    while lines.next(&mut text).map_err(|source| ReadError::Io {
        name: name.to_owned(),
        source,
    })? {
        let words: Vec<&str> = text.split_whitespace().take(WORDS).collect();
        let line = Line {
            number: lines.number,
            text: &text,
            words: &words,
        };
        let early = lines.number <= TABLE_LINES;
        for reader in &mut readers {
            if early || reader.is_endless() {
                reader.line(&line);
            }
        }
        shapes.line(&line);
    }
    let tables: Vec<Table> = readers
        .into_iter()
        .filter_map(|reader| reader.finish())
        .collect();
    if tables.is_empty() {
        let name = name.to_owned();
        let what = shapes.what();
        return Err(ReadError::Foreign { name, what });
    }
    let name = name.to_owned();
    Ok(Tables { name, tables })
}
