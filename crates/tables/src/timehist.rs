// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `perf sched timehist`: for each time that a task ran, how long it had waited and ran.
//!
//! A row is `TIME [CPU] NAME[TID/PID] WAIT DELAY RUN`, times in milliseconds, with more columns in
//! between or behind by options (`timehist_print_sample` in `tools/perf/builtin-sched.c`). What
//! counts is the delay from wake-up to run; the wait before it was of the task's own will, or not.

use crate::kind::Kind;
use crate::number::decimal;
use crate::table::{Line, Reader, Side, Table};
use crate::threads::{Threads, is_vcpu};

/// Reads the table.
#[derive(Debug, Default)]
pub(crate) struct Timehist {
    headed: bool,
    rows: u64,
    with_vcpus: bool,
    first_ns: Option<u64>,
    last_ns: u64,
    threads: Threads,
}

struct Row<'t> {
    at: &'t str,
    name: &'t str,
    delay_ns: u64,
    ran_ns: u64,
}

fn row<'t>(text: &'t str, words: &[&'t str]) -> Option<Row<'t>> {
    let at = words.first()?;
    decimal(at, 1_000_000_000)?;
    let cpu = words.get(1)?;
    if !cpu.starts_with('[') || !cpu.ends_with(']') {
        return None;
    }
    let behind = text.split_once(cpu)?.1;
    // The name ends with the number of its thread: `CPU 0/KVM[1234/1200]`, or `<idle>`.
    let (name, numbers) = match behind.find(']') {
        Some(end) => behind.split_at(end + 1),
        None => return None,
    };
    let mut numbers = numbers.split_whitespace();
    let mut next = || decimal(numbers.next()?, 1_000_000);
    next()?;
    let (delay_ns, ran_ns) = (next()?, next()?);
    // Before the name may stand what `-V` draws of each CPU.
    let name = match name.trim().split_once("  ") {
        Some((drawn, name)) if drawn.len() <= 2 => name.trim(),
        _ => name.trim(),
    };
    Some(Row {
        at,
        name,
        delay_ns,
        ran_ns,
    })
}

impl Reader for Timehist {
    fn line(&mut self, line: &Line<'_>) {
        if line.text.contains("wait time") && line.text.contains("sch delay") {
            self.headed = true;
            return;
        }
        if !self.headed {
            return;
        }
        let Some(row) = row(line.text, line.words) else {
            return;
        };
        self.rows += 1;
        self.with_vcpus |= is_vcpu(row.name);
        let now_ns = decimal(row.at, 1_000_000_000).unwrap_or(0);
        self.first_ns.get_or_insert(now_ns);
        self.last_ns = self.last_ns.max(now_ns);
        if let Some(waited) = self.threads.of(row.name) {
            waited.ran_ns = Some(waited.ran_ns.unwrap_or(0).saturating_add(row.ran_ns));
            if row.delay_ns > 0 {
                waited.waits += 1;
                waited.total_ns = waited.total_ns.saturating_add(row.delay_ns);
            }
            if row.delay_ns > waited.max_ns {
                waited.max_ns = row.delay_ns;
                waited.max_at = Some(format!("{} s", row.at));
            }
        }
    }

    fn finish(self: Box<Self>) -> Option<Table> {
        if self.rows == 0 {
            return None;
        }
        let side = if self.with_vcpus {
            Side::Host
        } else {
            Side::Unknown
        };
        let mut table = Table::new(Kind::SchedTimehist, side, self.rows);
        table.span_ns = self
            .first_ns
            .map(|first_ns| self.last_ns.saturating_sub(first_ns));
        (table.findings, table.facts) = self.threads.judge();
        Some(table)
    }
}
