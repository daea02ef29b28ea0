// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cgroup's `cpu.stat`: of how many periods it had used up its limit, and how long it then stood
//! still. Version 2 has `throttled_usec` (microseconds), version 1 `throttled_time` (nanoseconds);
//! see `cpu.stat` in `Documentation/admin-guide/cgroup-v2.rst`. If a group comes again, the
//! difference counts.

use std::collections::BTreeMap;

use steady_diagnose::{CauseId, Confidence, Evidence, EvidenceId, FindingId, StepId};

use crate::draft::{Draft, MAJOR, finding, step};
use crate::kind::Kind;
use crate::number::permille;
use crate::table::{Fact, Line, Reader, Side, Table};

/// Groups that are kept.
const GROUPS: usize = 4096;
/// Groups that are findings.
const FOUND: usize = 8;

#[derive(Debug, Clone, Copy, Default)]
struct Stat {
    periods: Option<u64>,
    throttled: Option<u64>,
    time_ns: Option<u64>,
}

/// Reads the file, or several of them one behind the other.
#[derive(Debug, Default)]
pub(crate) struct CpuStat {
    /// First and last reading of each group.
    groups: BTreeMap<String, (Stat, Option<Stat>)>,
    file: String,
    rows: u64,
}

impl CpuStat {
    fn stat(&mut self, name: &str, key: &str) -> Option<&mut Stat> {
        let room = self.groups.len() < GROUPS || self.groups.contains_key(name);
        if !room {
            return None;
        }
        let (first, last) = self.groups.entry(name.to_owned()).or_default();
        // The first key again: it is read again.
        let known = last.as_ref().unwrap_or(first);
        if key == "nr_periods" && known.periods.is_some() {
            *last = Some(Stat::default());
        }
        Some(last.as_mut().unwrap_or(first))
    }
}

impl Reader for CpuStat {
    fn line(&mut self, line: &Line<'_>) {
        let text = line.text.trim();
        if let Some(path) = text
            .strip_prefix("==> ")
            .and_then(|t| t.strip_suffix(" <=="))
        {
            self.file = path.trim_end_matches("/cpu.stat").to_owned();
            return;
        }
        let [key, value] = line.words else {
            return;
        };
        let (name, key) = match key.rsplit_once(':') {
            Some((path, key)) => (path.trim_end_matches("/cpu.stat").to_owned(), key),
            None => (self.file.clone(), *key),
        };
        let Ok(value) = value.parse::<u64>() else {
            return;
        };
        let known = [
            "nr_periods",
            "nr_throttled",
            "throttled_usec",
            "throttled_time",
        ];
        if !known.contains(&key) {
            return;
        }
        self.rows += 1;
        let Some(stat) = self.stat(&name, key) else {
            return;
        };
        match key {
            "nr_periods" => stat.periods = Some(value),
            "nr_throttled" => stat.throttled = Some(value),
            "throttled_usec" => stat.time_ns = Some(value.saturating_mul(1_000)),
            _ => stat.time_ns = Some(value),
        }
    }

    fn finish(self: Box<Self>) -> Option<Table> {
        if self.rows < 2 {
            return None;
        }
        let mut table = Table::new(Kind::CpuStat, Side::Unknown, self.rows);
        let mut found: Vec<(u64, u64, &str, Stat)> = Vec::new();
        for (name, (first, last)) in &self.groups {
            let less = |now: Option<u64>, then: Option<u64>| match last {
                Some(_) => now.map(|now| now.checked_sub(then.unwrap_or(0)).unwrap_or(now)),
                None => now,
            };
            let now = last.as_ref().unwrap_or(first);
            let stat = Stat {
                periods: less(now.periods, first.periods),
                throttled: less(now.throttled, first.throttled),
                time_ns: less(now.time_ns, first.time_ns),
            };
            let share = permille(stat.throttled.unwrap_or(0), stat.periods.unwrap_or(0));
            if share.min(1000) >= MAJOR {
                found.push((share.min(1000), stat.time_ns.unwrap_or(0), name, stat));
            }
        }
        found.sort_by(|a, b| (b.0, b.1).cmp(&(a.0, a.1)).then(a.2.cmp(b.2)));
        if !found.is_empty() {
            table.facts.push(Fact::Limit);
        }
        for (share, time_ns, name, stat) in found.into_iter().take(FOUND) {
            let group = (!name.is_empty()).then_some(name);
            let evidence = Evidence::new(EvidenceId::TableThrottle)
                .maybe_named("name", group)
                .maybe_count("throttled", stat.throttled)
                .maybe_count("periods", stat.periods)
                .permille("share", share)
                .maybe_ns("time", stat.time_ns);
            let mut throttled = finding(FindingId::Throttled, CauseId::Quota)
                .lost(share, time_ns)
                .with(evidence)
                .sure(Confidence::Medium);
            throttled.next.push(step(StepId::RaiseCpuMax, None));
            let look = group.map_or("cat cpu.max".to_owned(), |group| {
                format!("cat {group}/cpu.max")
            });
            table.findings.push(throttled.then(StepId::AskTool, &look));
        }
        Some(table)
    }
}
