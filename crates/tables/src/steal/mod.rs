// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What CPUs did in tables of whole CPUs: `mpstat`, `sar -u`, `iostat`, `vmstat`, `top`. Steal
//! time, idle time, interrupts, and waits for I/O, during which a CPU is idle too.

use steady_diagnose::{CauseId, Confidence, Evidence, EvidenceId, Finding, FindingId, StepId};

use crate::draft::{Draft, MAJOR, at_least_major, finding, pressure};
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
/// Of a machine whose CPUs are not counted, this many ready threads are more than it has.
const READY: u64 = 8;
/// From this share of all CPUs' time on, in thousandths, interrupts are a finding, and waits for
/// I/O.
const MUCH: u64 = 200;
/// The same of one CPU, which interrupts and steal may take whole while the others are free.
const OF_ONE: u64 = 500;
/// From this share on, in thousandths, steal of one CPU is a finding where that of all is not.
const STEAL_OF_ONE: u64 = 100;

/// Shares of one sample, in thousandths.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sample {
    pub steal: Option<u64>,
    pub idle: Option<u64>,
    pub iowait: Option<u64>,
    pub interrupts: Option<u64>,
    pub guest: Option<u64>,
    pub ready: Option<u64>,
}

/// A sum of shares of the same kind.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    sum: u64,
    count: u64,
    max: u64,
}

impl Sum {
    fn add(&mut self, share: Option<u64>) {
        if let Some(share) = share {
            self.sum = self.sum.saturating_add(share);
            self.count += 1;
            self.max = self.max.max(share);
            assert!(self.max <= self.sum, "the largest is one of them");
        }
    }

    fn mean(&self) -> Option<u64> {
        self.sum.checked_div(self.count)
    }
}

/// The CPU with the largest share, by its name.
type Worst = Option<(String, u64)>;

/// A sum of samples of all CPUs, and the worst single CPUs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples {
    steal: Sum,
    idle: Sum,
    iowait: Sum,
    interrupts: Sum,
    guest: Sum,
    ready: Sum,
    worst_steal: Worst,
    worst_interrupts: Worst,
    pub cpus: Option<u64>,
}

impl Samples {
    pub fn add(&mut self, sample: Sample) {
        let whole = |share: Option<u64>| share.map(|share| share.min(1000));
        self.steal.add(whole(sample.steal));
        self.idle.add(whole(sample.idle));
        self.iowait.add(whole(sample.iowait));
        self.interrupts.add(whole(sample.interrupts));
        self.guest.add(whole(sample.guest));
        self.ready.add(sample.ready);
    }

    fn single(&mut self, cpu: &str, sample: Sample) {
        let worst = |known: &mut Worst, share: Option<u64>| {
            let share = share.unwrap_or(0).min(1000);
            if share > known.as_ref().map_or(0, |(_, most)| *most) {
                *known = Some((cpu.to_owned(), share));
            }
        };
        worst(&mut self.worst_steal, sample.steal);
        worst(&mut self.worst_interrupts, sample.interrupts);
    }

    /// The side that the table is of: guests run on hosts alone. A guest of its own may have
    /// guests too, but then it has steal as well.
    fn side(&self, host: bool) -> Side {
        let steals = self.steal_that_counts().is_some();
        match (host || self.guest.max >= MAJOR, steals) {
            (_, true) => Side::Guest,
            (true, false) => Side::Host,
            _ => Side::Unknown,
        }
    }

    /// Steal of all CPUs, if it is a finding; or because that of one is.
    fn steal_that_counts(&self) -> Option<u64> {
        let mean = self.steal.mean()?;
        let of_one = self.worst_steal.as_ref().map_or(0, |(_, most)| *most);
        (mean >= MAJOR || of_one >= STEAL_OF_ONE).then_some(mean)
    }

    /// The table with what is wrong in it. `host` says that it runs guests for sure.
    pub fn table(self, kind: Kind, rows: u64, host: bool) -> Option<Table> {
        if self.idle.count == 0 {
            return None;
        }
        let side = self.side(host);
        let mut table = Table::new(kind, side, rows);
        if let Some(mean) = self.steal_that_counts() {
            table.facts.push(Fact::Waits);
            table.findings.push(self.steal(mean));
        } else if side != Side::Host && self.steal.count > 0 {
            table.facts.push(Fact::NoWaits);
        }
        let iowait = self.iowait.mean().unwrap_or(0);
        // A CPU that waits for I/O is idle and runs whatever comes.
        let free = self.idle.mean().map(|idle| idle.saturating_add(iowait));
        if let Some(free) = free.filter(|&free| side == Side::Host && free <= BUSY) {
            table.facts.push(Fact::HostFull);
            table.findings.push(self.busy(free));
        }
        let full = side != Side::Host && free.is_some_and(|free| free <= BUSY);
        let enough = self.cpus.unwrap_or(READY - 1).max(1);
        if full
            && self.ready.mean().is_some_and(|ready| ready > enough)
            && table.findings.is_empty()
        {
            table.findings.push(self.full(free.unwrap_or(0)));
        }
        table.findings.extend(self.interrupts());
        if iowait >= MUCH {
            table.facts.push(Fact::IoWaits);
            let evidence = Evidence::new(EvidenceId::TableIoWait)
                .permille("mean", iowait)
                .permille("max", self.iowait.max);
            table.findings.push(
                pressure("I/O", CauseId::IoPressure)
                    .lost(iowait, 0)
                    .with(evidence),
            );
        }
        Some(table)
    }

    /// A machine without idle time and with more threads ready than it may have CPUs.
    fn full(&self, free: u64) -> Finding {
        let mut found = self.busy(free);
        (found.id, found.cause) = (FindingId::CpuPressure, CauseId::HostFull);
        found
    }

    fn busy(&self, free: u64) -> Finding {
        let guest = self.guest.mean().filter(|_| self.guest.sum > 0);
        let evidence = Evidence::new(EvidenceId::TableIdle).permille("idle", free);
        let evidence = match guest {
            Some(guest) => evidence.permille("guest", guest),
            None => evidence,
        };
        let evidence = evidence
            .maybe_count("ready", self.ready.mean())
            .maybe_count("cpus", self.cpus);
        finding(FindingId::HostBusy, CauseId::HostFull)
            .with(evidence)
            .sure(Confidence::Low)
            .then(StepId::AskTool, "cat /proc/pressure/cpu")
            .then(StepId::RecordWhile, RECORD)
    }

    fn steal(&self, mean: u64) -> Finding {
        let all = Evidence::new(EvidenceId::TableSteal)
            .named("who", "all CPUs")
            .permille("mean", mean)
            .permille("max", self.steal.max)
            .count("samples", self.steal.count);
        let worst = self.worst_steal.as_ref().filter(|(_, steal)| *steal > mean);
        let of_one = worst.map(|(cpu, steal)| {
            Evidence::new(EvidenceId::TableSteal)
                .named("who", &format!("CPU {cpu}"))
                .permille("mean", *steal)
                .permille("max", *steal)
                .count("samples", 1)
        });
        let found = finding(FindingId::Steal, CauseId::NotShown).lost(mean, 0);
        // Where one CPU alone makes it a finding, the numbers begin with it.
        let (first, then) = match of_one {
            Some(of_one) if mean < MAJOR => (of_one, Some(all)),
            of_one => (all, of_one),
        };
        at_least_major(found)
            .with(first)
            .all(then)
            .then(StepId::RecordWhile, RECORD)
    }

    fn interrupts(&self) -> Option<Finding> {
        let mean = self.interrupts.mean()?;
        let worst = self.worst_interrupts.as_ref();
        let worst = worst.filter(|(_, share)| *share >= OF_ONE && *share > mean);
        if mean < MUCH && worst.is_none() {
            return None;
        }
        let took = |who: &str, mean, max| {
            Evidence::new(EvidenceId::TableInterrupts)
                .permille("mean", mean)
                .permille("max", max)
                .named("who", who)
        };
        let of_one = worst.map(|(cpu, share)| took(&format!("CPU {cpu}"), *share, *share));
        let all = took("all CPUs", mean, self.interrupts.max);
        Some(
            at_least_major(pressure("interrupts", CauseId::InterruptLoad).lost(mean, 0))
                .all(of_one)
                .with(all),
        )
    }
}

/// Samples of all CPUs together, and of single ones, which stand for all where those are missing.
#[derive(Debug, Default)]
pub(crate) struct Both {
    all: Samples,
    singles: Samples,
}

impl Both {
    /// Adds a sample; of a single CPU, if it has a name.
    pub fn add(&mut self, cpu: Option<&str>, sample: Sample) {
        match cpu {
            None => self.all.add(sample),
            Some(cpu) => {
                self.singles.add(sample);
                self.all.single(cpu, sample);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.all.idle.count + self.singles.idle.count == 0
    }

    /// What counts of them.
    pub fn chosen(mut self) -> Samples {
        if self.all.idle.count > 0 {
            return self.all;
        }
        self.singles.worst_steal = self.all.worst_steal;
        self.singles.worst_interrupts = self.all.worst_interrupts;
        self.singles
    }
}
