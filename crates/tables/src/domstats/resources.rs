// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `virsh domstats` has beside vCPUs: requests of disks with their times in nanoseconds
//! (`block.N.rd.times`, from QEMU's `query-blockstats`), and what the guest's balloon driver says,
//! in KiB (`balloon.*`, of virtio-balloon).
//!
//! Left out: networks and counts of exits, which have no times.

use std::collections::BTreeMap;

use steady_diagnose::{CauseId, Confidence, Evidence, EvidenceId, Finding, StepId};

use crate::draft::{Draft, pressure, quoted, step};

/// Keys that are kept of a domain.
const KEYS: usize = 4096;
/// Requests that take this long on average are slow, in nanoseconds: a disk that turns takes 10 ms.
const SLOW_NS: u64 = 100_000_000;
/// Fewer requests than this have no average.
const REQUESTS: u64 = 10;

/// Requests: their key, and what they are.
const REQUEST: [(&str, &str); 3] = [("rd", "reads"), ("wr", "writes"), ("fl", "flushes")];

/// The last two dumps of a domain.
#[derive(Debug, Default)]
pub(super) struct Resources {
    before: BTreeMap<String, u64>,
    now: BTreeMap<String, u64>,
    /// Names of disks, by their numbers.
    disks: BTreeMap<String, String>,
}

impl Resources {
    /// Another dump of the domain begins.
    pub fn again(&mut self) {
        let last = std::mem::take(&mut self.now);
        if self.before.is_empty() {
            self.before = last;
        }
    }

    pub fn value(&mut self, key: &str, value: &str) {
        let disk = key
            .strip_prefix("block.")
            .and_then(|rest| rest.strip_suffix(".name"));
        if let Some(number) = disk
            && self.disks.len() < KEYS
        {
            self.disks.insert(number.to_owned(), value.to_owned());
        }
        let room = self.now.len() < KEYS || self.now.contains_key(key);
        if let Some(value) = value.parse().ok().filter(|_| room) {
            self.now.insert(key.to_owned(), value);
        }
    }

    /// What a counter grew by between the dumps, or since the domain began.
    fn since(&self, key: &str) -> u64 {
        let now = self.now.get(key).copied().unwrap_or(0);
        let before = self.before.get(key).copied().unwrap_or(0);
        now.checked_sub(before).unwrap_or(now)
    }

    pub fn findings(&self, domain: &str) -> Vec<Finding> {
        // Swapping of one dump may be as old as the domain.
        let swapped = match self.before.is_empty() {
            true => Confidence::Low,
            false => Confidence::Medium,
        };
        let found = [
            (self.slow_disks(), Confidence::Medium),
            (self.short_of_memory(domain), swapped),
        ];
        let sure = |(found, sure): (Option<Finding>, _)| found.map(|found| found.sure(sure));
        let found = found.into_iter().filter_map(sure);
        found.map(|found| found.vm(Some(domain))).collect()
    }

    fn slow_disks(&self) -> Option<Finding> {
        let mut slow: Vec<(u64, Evidence)> = Vec::new();
        for (number, disk) in &self.disks {
            for (key, what) in REQUEST {
                let of = |part: &str| self.since(&format!("block.{number}.{key}.{part}"));
                let (requests, time_ns) = (of("reqs"), of("times"));
                let mean_ns = time_ns / requests.max(1);
                if requests >= REQUESTS && mean_ns >= SLOW_NS {
                    let row = Evidence::new(EvidenceId::TableThread)
                        .named("name", &format!("{disk}, {what}"))
                        .count("waits", requests)
                        .ns("mean", mean_ns);
                    slow.push((mean_ns, row));
                }
            }
        }
        slow.sort_by_key(|(mean_ns, _)| std::cmp::Reverse(*mean_ns));
        let rows = slow.iter().map(|(_, row)| row.clone());
        (!slow.is_empty()).then(|| pressure("I/O", CauseId::IoPressure).all(rows))
    }

    /// A guest that swapped a quarter of its memory and more.
    fn short_of_memory(&self, domain: &str) -> Option<Finding> {
        let has = |what: &str| self.now.get(&format!("balloon.{what}")).copied();
        let (current, most) = (has("current")?, has("maximum")?);
        let swapped = [("in", "balloon.swap_in"), ("out", "balloon.swap_out")];
        let swapped = swapped.map(|(way, key)| (way, self.since(key)));
        if swapped[0].1 == 0 || swapped[0].1 < current / 4 {
            return None;
        }
        let of = match current < most {
            true => "memory that its balloon took",
            false => "memory",
        };
        let row = |name: &str, count: u64| {
            Evidence::new(EvidenceId::TableEvents)
                .named("name", name)
                .count("count", count)
        };
        let rows = swapped.map(|(way, kib)| row(&format!("KiB that the guest swapped {way}"), kib));
        let memory = [
            row("KiB of memory that it has now", current),
            row("KiB of memory that it may have", most),
        ];
        let mut found = pressure(of, CauseId::MemoryPressure);
        let now = format!("virsh dommemstat {}", quoted(domain));
        found.next.insert(0, step(StepId::AskTool, Some(&now)));
        Some(found.all(rows).all(memory))
    }
}
