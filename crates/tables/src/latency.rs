// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `perf sched latency`: for each task its run time, switches, and delays from wake-up to run.
//!
//! Cells stand between bars (`output_lat_thread` in `tools/perf/builtin-sched.c`): name, run time,
//! switches, `avg:`, `max:`, and when that was: `max at:` up to Linux 5.11, `max start:` and
//! `max end:` since.

use crate::kind::Kind;
use crate::number::{decimal, integer};
use crate::table::{Line, Reader, Side, Table};
use crate::threads::{Threads, is_vcpu};

/// Reads the table.
#[derive(Debug, Default)]
pub(crate) struct Latency {
    headed: bool,
    rows: u64,
    with_vcpus: bool,
    threads: Threads,
}

/// `69.482 ms`, with or without a word before it, in nanoseconds.
fn milliseconds(cell: &str) -> Option<u64> {
    let number = cell.trim().strip_suffix("ms")?.trim_end();
    let number = number.rsplit([':', ' ']).next()?;
    decimal(number, 1_000_000)
}

impl Reader for Latency {
    fn line(&mut self, line: &Line<'_>) {
        let text = line.text;
        if text.contains("Avg delay ms") || text.contains("Average delay ms") {
            self.headed = true;
            return;
        }
        if !self.headed {
            return;
        }
        let cells: Vec<&str> = text.split('|').map(str::trim).collect();
        let [name, ran, switches, delays @ ..] = cells.as_slice() else {
            return;
        };
        let (Some(ran_ns), Some(switches)) = (milliseconds(ran), integer(switches)) else {
            return;
        };
        if name.starts_with("TOTAL:") || name.is_empty() {
            return;
        }
        let keyed = |key: &str| {
            let cell = delays.iter().find(|cell| cell.starts_with(key));
            cell.and_then(|cell| milliseconds(cell))
        };
        let plain = |at: usize| delays.get(at).and_then(|cell| milliseconds(cell));
        let Some((mean_ns, max_ns)) = keyed("avg:").or(plain(0)).zip(keyed("max:").or(plain(1)))
        else {
            return;
        };
        let at = delays.iter().find_map(|cell| {
            let rest = cell
                .strip_prefix("max start:")
                .or(cell.strip_prefix("max at:"))?;
            Some(rest.trim().to_owned())
        });
        self.rows += 1;
        self.with_vcpus |= is_vcpu(name);
        if let Some(waited) = self.threads.of(name) {
            waited.waits = waited.waits.saturating_add(switches);
            waited.total_ns = waited
                .total_ns
                .saturating_add(mean_ns.saturating_mul(switches));
            waited.ran_ns = Some(waited.ran_ns.unwrap_or(0).saturating_add(ran_ns));
            if max_ns > waited.max_ns {
                waited.max_ns = max_ns;
                waited.max_at = at;
            }
        }
    }

    fn finish(self: Box<Self>) -> Option<Table> {
        if self.threads.is_empty() {
            return None;
        }
        let side = if self.with_vcpus {
            Side::Host
        } else {
            Side::Unknown
        };
        let mut table = Table::new(Kind::SchedLatency, side, self.rows);
        (table.findings, table.facts) = self.threads.judge();
        Some(table)
    }
}
