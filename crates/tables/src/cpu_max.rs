// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cgroup's limit itself: `cpu.max` of version 2, `QUOTA PERIOD` in microseconds or `max PERIOD`,
//! and version 1's `cpu.cfs_quota_us` with `cpu.cfs_period_us`. Whether it is reached is in
//! `cpu.stat`.

use std::collections::BTreeMap;

use steady_diagnose::{Evidence, EvidenceId};

use crate::draft::{Draft, not_measured, quoted};
use crate::kind::Kind;
use crate::table::{Fact, Line, Reader, Side, Table};

/// Groups that are kept.
const GROUPS: usize = 4096;
/// A limit: the quota, if there is one, and the period, in microseconds.
type Limit = (Option<u64>, u64);

/// Periods that the kernel takes, in microseconds.
const PERIODS: std::ops::RangeInclusive<u64> = 1_000..=1_000_000;

/// Reads `cpu.max`, alone, or of several groups one behind the other.
#[derive(Debug, Default)]
pub(crate) struct CpuMax {
    limits: BTreeMap<String, Limit>,
    file: Option<String>,
    /// Version 1 has each in a file of its own.
    quota: Option<Option<u64>>,
    period: Option<u64>,
    rows: u64,
    others: u64,
}

impl CpuMax {
    fn keep(&mut self, name: &str, limit: Limit) {
        self.rows += 1;
        let name = name.rsplit_once('/').map_or("", |(group, _)| group);
        if self.limits.len() < GROUPS {
            self.limits.insert(name.to_owned(), limit);
        }
    }

    /// `max 100000` or `50000 100000`, or a number of version 1.
    fn value(&mut self, name: &str, words: &[&str]) -> bool {
        let number = |word: &str| word.parse::<u64>().ok();
        match words {
            [quota, period] if !name.contains("cfs") => {
                let period = number(period).filter(|period| PERIODS.contains(period));
                let quota = match *quota {
                    "max" => Some(None),
                    quota => number(quota).filter(|&quota| quota >= 1_000).map(Some),
                };
                let Some(limit) = quota.zip(period) else {
                    return false;
                };
                self.keep(name, limit);
            }
            [quota] if name.contains("cpu.cfs_quota_us") => self.quota = Some(number(quota)),
            [period] if name.contains("cpu.cfs_period_us") => {
                self.period = number(period).filter(|period| PERIODS.contains(period));
            }
            _ => return false,
        }
        if let (Some(quota), Some(period)) = (self.quota, self.period) {
            (self.quota, self.period) = (None, None);
            self.keep(name, (quota, period));
        }
        true
    }
}

impl Reader for CpuMax {
    fn line(&mut self, line: &Line<'_>) {
        let names = |word: &&str| word.contains("cpu.max") || word.contains("cpu.cfs_");
        let named = line.words.iter().copied().find(names);
        // `PATH:50000 100000` of grep: the first word has the path and a number.
        let by_grep = named.and_then(|word| word.rsplit_once(':'));
        let is_value = match (by_grep, line.words) {
            (Some((path, first)), [_, rest @ ..]) if !first.is_empty() => {
                let words: Vec<&str> = [first].into_iter().chain(rest.iter().copied()).collect();
                self.value(path, &words)
            }
            _ if named.is_none() && self.file.is_some() => {
                let file = self.file.clone().unwrap_or_default();
                self.value(&file, line.words)
            }
            _ => named.is_none() && self.value("", line.words),
        };
        if is_value || line.words.is_empty() {
            return;
        }
        // A prompt with the command, or what `tail` prints, names the file.
        self.file = named.filter(|_| line.words.len() <= 4).map(str::to_owned);
        self.others += u64::from(self.file.is_none());
    }

    fn finish(self: Box<Self>) -> Option<Table> {
        // Two numbers are anything: without a name the file has to have them alone.
        let named = self.limits.keys().any(|name| !name.is_empty());
        if self.rows == 0 || !(named || self.others == 0) {
            return None;
        }
        let mut table = Table::new(Kind::CpuMax, Side::Host, self.rows);
        let limited = self.limits.iter();
        let mut limited =
            limited.filter_map(|(name, (quota, period))| Some((name, (*quota)?, period)));
        let Some((name, quota, period)) = limited.next() else {
            table.facts.push(Fact::NoLimit);
            let names = self.limits.into_keys();
            table.groups = names.filter(|name| !name.is_empty()).collect();
            return Some(table);
        };
        let us = |us: u64| us.saturating_mul(1_000);
        let evidence = |name: &str, quota: u64, period: u64| {
            Evidence::new(EvidenceId::TableLimit)
                .maybe_named("name", (!name.is_empty()).then_some(name))
                .ns("quota", us(quota))
                .ns("period", us(period))
        };
        let group = if name.is_empty() { "." } else { name };
        let group = quoted(group);
        let ask = format!("cat {group}/cpu.stat; sleep 10; cat {group}/cpu.stat");
        let mut found = not_measured("whether its limit is reached", self.rows, &ask);
        found.evidence = vec![evidence(name, quota, *period)];
        let others = limited.map(|(name, quota, period)| evidence(name, quota, *period));
        table.findings.push(found.all(others));
        Some(table)
    }
}
