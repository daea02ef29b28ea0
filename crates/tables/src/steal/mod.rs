// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Steal time and idle time in tables of whole CPUs: `mpstat`, `sar -u`, `iostat`, `vmstat`, `top`.

use steady_diagnose::{CauseId, Confidence, Evidence, EvidenceId, FindingId, StepId};

use crate::draft::{Draft, MAJOR, finding};
use crate::kind::{Kind, RECORD};
use crate::table::{Fact, Side, Table};

mod mpstat;
mod top;
mod vmstat;

pub(crate) use mpstat::Mpstat;
pub(crate) use top::Top;
pub(crate) use vmstat::Vmstat;

/// Up to this share of idle time, in thousandths, a host is busy.
const BUSY: u64 = 50;

/// Shares of one sample, in thousandths.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sample {
    pub steal: Option<u64>,
    pub idle: Option<u64>,
    pub guest: Option<u64>,
    pub ready: Option<u64>,
}

/// A sum of samples of all CPUs, and the worst single CPU.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples {
    pub count: u64,
    steal: u64,
    steal_max: u64,
    with_steal: u64,
    idle: u64,
    with_idle: u64,
    guest: u64,
    guest_max: u64,
    ready: u64,
    ready_max: Option<u64>,
    /// The CPU with most steal, if single ones are in the table.
    pub worst: Option<(String, u64)>,
    pub cpus: Option<u64>,
}

impl Samples {
    pub fn add(&mut self, sample: Sample) {
        let whole = |share: u64| share.min(1000);
        self.count += 1;
        if let Some(steal) = sample.steal.map(whole) {
            self.steal += steal;
            self.with_steal += 1;
            self.steal_max = self.steal_max.max(steal);
        }
        if let Some(idle) = sample.idle.map(whole) {
            self.idle += idle;
            self.with_idle += 1;
        }
        if let Some(guest) = sample.guest.map(whole) {
            self.guest += guest;
            self.guest_max = self.guest_max.max(guest);
        }
        if let Some(ready) = sample.ready {
            self.ready = self.ready.saturating_add(ready);
            self.ready_max = self.ready_max.max(Some(ready));
        }
    }

    pub fn single(&mut self, cpu: &str, steal: u64) {
        let steal = steal.min(1000);
        if self.worst.as_ref().is_none_or(|(_, most)| steal > *most) {
            self.worst = Some((cpu.to_owned(), steal));
        }
    }

    /// Whose table it is: guests run on hosts alone. A guest of its own may have guests too, but
    /// then it has steal as well.
    fn side(&self, host: bool) -> Side {
        match (host || self.guest_max >= MAJOR, self.mean_steal() >= MAJOR) {
            (_, true) => Side::Guest,
            (true, false) => Side::Host,
            _ => Side::Unknown,
        }
    }

    fn mean_steal(&self) -> u64 {
        self.steal.checked_div(self.with_steal).unwrap_or(0)
    }

    /// The table with what is wrong in it. `host` says that it runs guests for sure.
    pub fn table(self, kind: Kind, rows: u64, host: bool) -> Option<Table> {
        if self.count == 0 {
            return None;
        }
        let side = self.side(host);
        let mut table = Table::new(kind, side, rows);
        let mean = self.mean_steal();
        if mean >= MAJOR {
            table.facts.push(Fact::Waits);
            table.findings.push(self.steal(mean));
        } else if side != Side::Host && self.with_steal > 0 {
            table.facts.push(Fact::NoWaits);
        }
        let idle = self.idle.checked_div(self.with_idle);
        if let Some(idle) = idle.filter(|&idle| side == Side::Host && idle <= BUSY) {
            table.facts.push(Fact::HostFull);
            let evidence = Evidence::new(EvidenceId::TableIdle).permille("idle", idle);
            let guest = (self.guest > 0).then_some(self.guest / self.count);
            let evidence = match guest {
                Some(guest) => evidence.permille("guest", guest),
                None => evidence,
            };
            let ready = self.ready_max.map(|_| self.ready / self.count);
            let evidence = evidence
                .maybe_count("ready", ready)
                .maybe_count("cpus", self.cpus);
            table.findings.push(
                finding(FindingId::HostBusy, CauseId::HostFull)
                    .with(evidence)
                    .sure(Confidence::Low)
                    .then(StepId::AskTool, "cat /proc/pressure/cpu")
                    .then(StepId::RecordWhile, RECORD),
            );
        }
        Some(table)
    }

    fn steal(&self, mean: u64) -> steady_diagnose::Finding {
        let all = Evidence::new(EvidenceId::TableSteal)
            .named("who", "all CPUs")
            .permille("mean", mean)
            .permille("max", self.steal_max)
            .count("samples", self.with_steal);
        let worst = self.worst.as_ref().filter(|(_, steal)| *steal > mean);
        let worst = worst.map(|(cpu, steal)| {
            Evidence::new(EvidenceId::TableSteal)
                .named("who", &format!("CPU {cpu}"))
                .permille("mean", *steal)
                .permille("max", *steal)
                .count("samples", 1)
        });
        finding(FindingId::Steal, CauseId::NotShown)
            .lost(mean, 0)
            .with(all)
            .all(worst)
            .then(StepId::RecordWhile, RECORD)
    }
}
