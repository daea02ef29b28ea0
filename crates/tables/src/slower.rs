// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `runqslower` of bcc and libbpf-tools: each wait above a bound, in microseconds, and with `-P`
//! which thread had the pCPU before.
//!
//! A row is `TIME COMM TID LAT(us)`, then `PREV COMM` and `PREV TID`.

use std::collections::BTreeMap;

use steady_diagnose::{Culprit, FindingId};

use crate::kind::Kind;
use crate::number::{integer, permille};
use crate::table::{Line, Reader, Side, Table};
use crate::threads::{Threads, is_vcpu};

/// Names that are kept of those that ran before.
const BEFORE: usize = 1024;
/// Of these, how many a finding names.
const NAMED: usize = 4;

/// Reads the table.
#[derive(Debug, Default)]
pub(crate) struct Slower {
    headed: bool,
    rows: u64,
    with_vcpus: bool,
    threads: Threads,
    /// Waits of vCPUs by the name of what had run before.
    before: BTreeMap<String, u64>,
}

/// Whether a word is the time of a row: `13:11:43`.
fn is_clock(word: &str) -> bool {
    let parts: Vec<&str> = word.split(':').collect();
    parts.len() == 3
        && parts
            .iter()
            .all(|part| integer(part).is_some_and(|part| part < 61))
}

fn plain(name: &str) -> String {
    name.trim_start_matches("b'")
        .trim_end_matches('\'')
        .to_owned()
}

impl Reader for Slower {
    fn line(&mut self, line: &Line<'_>) {
        let words = line.words;
        if line.text.contains("LAT(us)") || line.text.contains("run queue latency higher than") {
            self.headed = true;
            return;
        }
        if !self.headed || !words.first().is_some_and(|word| is_clock(word)) {
            return;
        }
        let is_number = |at: usize| words.get(at).is_some_and(|word| integer(word).is_some());
        let Some(tid) = (2..words.len()).find(|&at| is_number(at) && is_number(at + 1)) else {
            return;
        };
        let name = plain(&words[1..tid].join(" "));
        let ns = integer(words[tid + 1]).unwrap_or(0).saturating_mul(1_000);
        self.rows += 1;
        if is_vcpu(&name) {
            self.with_vcpus = true;
            let before = words
                .get(tid + 2..words.len().saturating_sub(1))
                .unwrap_or_default();
            let before = plain(&before.join(" "));
            let room = self.before.len() < BEFORE || self.before.contains_key(&before);
            if !before.is_empty() && room {
                let sum = self.before.entry(before).or_default();
                *sum = sum.saturating_add(ns);
            }
        }
        if let Some(waited) = self.threads.of(&format!("{name}:{}", words[tid])) {
            waited.waits += 1;
            waited.total_ns = waited.total_ns.saturating_add(ns);
            if ns > waited.max_ns {
                waited.max_ns = ns;
                waited.max_at = Some(words[0].to_owned());
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
        let mut table = Table::new(Kind::Runqslower, side, self.rows);
        (table.findings, table.facts) = self.threads.judge();
        let all_ns = self.before.values().copied().fold(0, u64::saturating_add);
        let mut before: Vec<(&String, &u64)> = self.before.iter().collect();
        before.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        for steal in table
            .findings
            .iter_mut()
            .filter(|of| of.id == FindingId::Steal)
        {
            // It ran right before, which says little of the whole wait.
            steal.culprits = before
                .iter()
                .take(NAMED)
                .map(|(name, ns)| Culprit {
                    kind: "before".to_owned(),
                    name: Some((*name).clone()),
                    ns: **ns,
                    permille: permille(**ns, all_ns),
                })
                .collect();
        }
        Some(table)
    }
}
