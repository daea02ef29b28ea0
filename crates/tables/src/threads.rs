// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits of threads for their pCPU, from tables that name threads: those of vCPUs are steal, those
//! of others may keep a guest waiting as well (vhost, kworker, ksoftirqd, a VMM's I/O thread).

use std::collections::BTreeMap;

use steady_diagnose::{CauseId, Evidence, EvidenceId, Finding, FindingId, StepId};
use steady_events::vcpu_number;

use crate::draft::{Draft, MAJOR, at_least_major, finding};
use crate::kind::RECORD;
use crate::number::permille;
use crate::table::Fact;

/// Threads that are kept.
const THREADS: usize = 8192;
/// Threads that a finding names.
const NAMED: usize = 8;
/// From this length on a single wait of a thread of the host is a finding, in nanoseconds: a tick
/// of many hosts is 4 ms, a slice some milliseconds.
const LONG_NS: u64 = 50_000_000;
/// The same of a vCPU.
const LONG_OF_VCPU_NS: u64 = 20_000_000;

/// What a table has of one thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Waited {
    pub waits: u64,
    pub total_ns: u64,
    pub max_ns: u64,
    /// When the longest began, as the table has it.
    pub max_at: Option<String>,
    pub ran_ns: Option<u64>,
}

/// Threads by the name that the table gives them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Threads {
    by_name: BTreeMap<String, Waited>,
}

/// Whether a thread is a vCPU's. Tables put its number behind the name: `CPU 3/KVM:1234`,
/// `CPU 3/KVM[1234/1200]`.
pub(crate) fn is_vcpu(name: &str) -> bool {
    let name = name.trim().trim_start_matches("b'").trim_end_matches('\'');
    let cut = name
        .find('[')
        .or_else(|| name.rfind(':'))
        .unwrap_or(name.len());
    vcpu_number(name[..cut].trim().as_bytes()).is_some()
}

impl Threads {
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The entry of a thread; none if there are too many.
    pub fn of(&mut self, name: &str) -> Option<&mut Waited> {
        if self.by_name.len() >= THREADS && !self.by_name.contains_key(name) {
            return None;
        }
        Some(self.by_name.entry(name.to_owned()).or_default())
    }

    fn longest(&self, vcpus: bool) -> Vec<(&String, &Waited)> {
        let mut of: Vec<_> = self
            .by_name
            .iter()
            .filter(|(name, waited)| is_vcpu(name) == vcpus && waited.max_ns > 0)
            .collect();
        of.sort_by(|a, b| b.1.max_ns.cmp(&a.1.max_ns).then(a.0.cmp(b.0)));
        of
    }

    /// What is wrong, and what other files may be compared with.
    pub fn judge(&self) -> (Vec<Finding>, Vec<Fact>) {
        let mut findings = Vec::new();
        let mut facts = Vec::new();
        let vcpus = self.longest(true);
        let sum = |of: fn(&Waited) -> u64| {
            vcpus
                .iter()
                .map(|(_, waited)| of(waited))
                .fold(0, u64::saturating_add)
        };
        let (waited_ns, ran_ns) = (sum(|of| of.total_ns), sum(|of| of.ran_ns.unwrap_or(0)));
        let share = match ran_ns {
            0 => 0,
            ran_ns => permille(waited_ns, waited_ns.saturating_add(ran_ns)),
        };
        let longest_ns = vcpus.first().map_or(0, |(_, waited)| waited.max_ns);
        if share >= MAJOR || longest_ns >= LONG_OF_VCPU_NS {
            facts.push(Fact::Waits);
            let steal = finding(FindingId::Steal, CauseId::NotShown).lost(share, waited_ns);
            findings.push(
                at_least_major(steal)
                    .all(vcpus.iter().take(NAMED).map(evidence))
                    .then(StepId::RecordWhile, RECORD),
            );
        } else if !vcpus.is_empty() {
            facts.push(Fact::NoWaits);
        }
        let others = self.longest(false);
        let long = others.iter().filter(|(_, waited)| waited.max_ns >= LONG_NS);
        let long: Vec<Evidence> = long.take(NAMED).map(evidence).collect();
        if !long.is_empty() {
            findings.push(
                finding(FindingId::ThreadsWait, CauseId::NotShown)
                    .all(long)
                    .then(StepId::RecordWhile, RECORD),
            );
        }
        (findings, facts)
    }
}

fn evidence((name, waited): &(&String, &Waited)) -> Evidence {
    let mean_ns = waited.total_ns.checked_div(waited.waits);
    Evidence::new(EvidenceId::TableThread)
        .named("name", name)
        .maybe_count("waits", (waited.waits > 0).then_some(waited.waits))
        .maybe_ns("mean", mean_ns)
        .ns("max", waited.max_ns)
        .maybe_named("at", waited.max_at.as_deref())
}
