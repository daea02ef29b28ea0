// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `virsh domstats`: `Domain: 'NAME'`, then `key=value` lines. Of each vCPU libvirt has the time
//! that its thread ran (`vcpu.N.time`) and was ready but did not run (`vcpu.N.delay`, from libvirt
//! 7.2 on, `run_delay` of `/proc/PID/task/TID/schedstat`), both in nanoseconds. Older ones have
//! `vcpu.N.wait`, which is `wait_sum` of `/proc/PID/task/TID/sched` and 0 where the kernel does not
//! count it (`qemuGetSchedInfo` in libvirt). If a domain comes again, the difference counts.

use std::collections::BTreeMap;

use steady_diagnose::{
    CauseId, Confidence, Evidence, EvidenceId, Finding, FindingId, Severity, StepId,
};

use crate::draft::{Draft, MAJOR, finding, not_measured, quoted, step};
use crate::kind::{Kind, RECORD};
use crate::number::permille;
use crate::table::{Fact, Line, Reader, Side, Table};

mod resources;

use resources::Resources;

/// The name of a domain without one.
const NAMELESS: &str = "a domain";
/// Domains that are kept, and vCPUs of each.
const DOMAINS: usize = 1024;
const VCPUS: usize = 1024;
/// Waits of vCPUs that ran for this long without any were not counted, in nanoseconds.
const LONG_NS: u64 = 1_000_000_000;
/// `VIR_DOMAIN_PAUSED`, and `VIR_DOMAIN_PAUSED_IOERROR` of its reasons (libvirt-domain.h).
const PAUSED: u64 = 3;
const BY_IO_ERROR: u64 = 5;

#[derive(Debug, Clone, Copy, Default)]
struct Vcpu {
    time_ns: Option<u64>,
    delay_ns: Option<u64>,
    wait_ns: Option<u64>,
}

impl Vcpu {
    /// How long it was ready but did not run, if that was counted.
    fn waited_ns(&self) -> Option<u64> {
        self.delay_ns.or(self.wait_ns.filter(|&ns| ns > 0))
    }
}

type Vcpus = BTreeMap<u32, Vcpu>;

/// Reads the statistics.
#[derive(Debug, Default)]
pub(crate) struct Domstats {
    domain: Option<String>,
    /// First and last dump of each domain.
    domains: BTreeMap<String, (Vcpus, Option<Vcpus>)>,
    /// State of each, and the reason for it.
    states: BTreeMap<String, (u64, u64)>,
    /// What disks and the balloon of each did.
    resources: BTreeMap<String, Resources>,
    rows: u64,
}

impl Domstats {
    fn current(&mut self) -> Option<&mut Vcpus> {
        let (first, last) = self.domains.get_mut(self.domain.as_ref()?)?;
        Some(last.as_mut().unwrap_or(first))
    }
}

impl Reader for Domstats {
    fn line(&mut self, line: &Line<'_>) {
        let text = line.text.trim();
        if let Some(name) = text.strip_prefix("Domain:") {
            let name = name.trim().trim_matches(['\'', '"']).to_owned();
            if let Some((_, last)) = self.domains.get_mut(&name) {
                *last = Some(Vcpus::new());
                self.resources.entry(name.clone()).or_default().again();
            } else if self.domains.len() < DOMAINS {
                self.domains.insert(name.clone(), Default::default());
            }
            self.domain = Some(name);
            return;
        }
        let Some((key, value)) = text.split_once('=') else {
            return;
        };
        if !key.contains('.') {
            return;
        }
        self.rows += u64::from(self.domain.is_some());
        if let (Some(name), Ok(value)) = (&self.domain, value.parse::<u64>())
            && key.starts_with("state.")
            && self.domains.contains_key(name)
        {
            let state = self.states.entry(name.clone()).or_default();
            match key {
                "state.state" => state.0 = value,
                "state.reason" => state.1 = value,
                _ => {}
            }
        }
        if let Some(name) = &self.domain
            && self.domains.contains_key(name)
            && ["block.", "balloon."].iter().any(|of| key.starts_with(of))
        {
            let resources = self.resources.entry(name.clone()).or_default();
            resources.value(key, value);
            return;
        }
        let mut parts = key.split('.');
        let (Some("vcpu"), Some(number), Some(what), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return;
        };
        let (Ok(number), Ok(value)) = (number.parse::<u32>(), value.parse::<u64>()) else {
            return;
        };
        if self.domain.is_none() && matches!(what, "time" | "delay") {
            // What `grep` leaves of it has no name.
            self.domain = Some(NAMELESS.to_owned());
            self.domains.entry(NAMELESS.to_owned()).or_default();
        }
        let Some(vcpus) = self.current() else {
            return;
        };
        if vcpus.len() >= VCPUS && !vcpus.contains_key(&number) {
            return;
        }
        let vcpu = vcpus.entry(number).or_default();
        match what {
            "time" => vcpu.time_ns = Some(value),
            "delay" => vcpu.delay_ns = Some(value),
            "wait" => vcpu.wait_ns = Some(value),
            _ => {}
        }
    }

    fn finish(self: Box<Self>) -> Option<Table> {
        if self.domains.is_empty() || self.rows == 0 {
            return None;
        }
        let mut table = Table::new(Kind::Domstats, Side::Host, self.rows);
        for (name, (first, last)) in &self.domains {
            let (findings, facts) = of_domain(name, first, last.as_ref());
            let noted = |found: &Finding| found.id == FindingId::NotMeasured;
            // Of many domains that lack it one says enough.
            let again = findings.iter().any(noted) && table.findings.iter().any(noted);
            table
                .findings
                .extend(findings.into_iter().filter(|_| !again));
            table.facts.extend(facts);
            let resources = self.resources.get(name);
            let found = resources.into_iter().flat_map(|of| of.findings(name));
            table.findings.extend(found);
        }
        let waits_for_io = |found: &Finding| found.cause == CauseId::IoPressure;
        if table.findings.iter().any(waits_for_io) {
            table.facts.push(Fact::IoWaits);
        }
        let states = self.states.iter().filter(|(_, state)| state.0 == PAUSED);
        table
            .findings
            .extend(states.map(|(name, state)| paused(name, state.1 == BY_IO_ERROR)));
        if table.facts.contains(&Fact::Waits) {
            table.facts.retain(|fact| *fact != Fact::NoWaits);
        }
        Some(table)
    }
}

/// A domain that libvirt has as paused: all of its vCPUs stand still.
fn paused(name: &str, by_io_error: bool) -> Finding {
    let ask = format!("virsh domblkerror {}; df -h", quoted(name));
    let (cause, then) = match by_io_error {
        true => (CauseId::IoPressure, step(StepId::AskTool, Some(&ask))),
        false => (CauseId::VmmHolds, step(StepId::LookAtVmmJobs, None)),
    };
    let mut found = finding(FindingId::Asleep, cause)
        .vm(Some(name))
        .of("paused")
        .severity(Severity::Severe)
        .sure(Confidence::Medium);
    found.next.push(then);
    found
}

/// Times that vCPUs waited and ran, since they began or between two dumps.
fn of_domain(name: &str, first: &Vcpus, last: Option<&Vcpus>) -> (Vec<Finding>, Vec<Fact>) {
    let mut rows: Vec<(u32, u64, u64)> = Vec::new();
    let all = || last.unwrap_or(first).values();
    let never = all().all(|vcpu| vcpu.waited_ns().unwrap_or(0) == 0);
    let long = all().any(|vcpu| vcpu.time_ns.unwrap_or(0) >= LONG_NS);
    let counted = !(never && long);
    for (&number, vcpu) in last.unwrap_or(first) {
        let before = last.and(first.get(&number)).copied().unwrap_or_default();
        let since = |now: Option<u64>, then: Option<u64>| {
            now.map(|now| now.checked_sub(then.unwrap_or(0)).unwrap_or(now))
        };
        let waited = since(vcpu.waited_ns(), before.waited_ns());
        if let Some((waited, ran)) = waited.zip(since(vcpu.time_ns, before.time_ns)) {
            rows.push((number, waited, ran));
        }
    }
    let sum = |of: fn(&(u32, u64, u64)) -> u64| rows.iter().map(of).fold(0, u64::saturating_add);
    let (waited, ran) = (sum(|row| row.1), sum(|row| row.2));
    let wait = |who: &str, waited: u64, ran: u64| {
        Evidence::new(EvidenceId::TableWait)
            .named("who", who)
            .ns("waited", waited)
            .ns("ran", ran)
            .permille("share", permille(waited, waited.saturating_add(ran)))
    };
    let share = permille(waited, waited.saturating_add(ran));
    assert!(share <= 1000, "a part of what they wanted");
    if rows.is_empty() || !counted {
        // A dump without `--vcpu`, or of an older libvirt: that is not an all-clear.
        let lacks = not_measured(
            "how long vCPUs waited (vcpu.N.delay, from libvirt 7.2 on)",
            u64::try_from(last.unwrap_or(first).len()).unwrap_or(u64::MAX),
            "grep . /proc/$(pidof qemu-system-x86_64)/task/*/schedstat",
        );
        return (vec![lacks.vm(Some(name))], Vec::new());
    }
    if share < MAJOR {
        return (Vec::new(), vec![Fact::NoWaits]);
    }
    let vcpus = rows
        .iter()
        .map(|(number, waited, ran)| wait(&format!("vCPU {number}"), *waited, *ran));
    let mut steal = finding(FindingId::Steal, CauseId::NotShown)
        .vm(Some(name))
        .lost(share, waited)
        .with(wait(name, waited, ran))
        // Of one vCPU the sum says it all.
        .all(vcpus.filter(|_| rows.len() > 1))
        .sure(Confidence::Low);
    if last.is_none() {
        let twice = format!("virsh domstats --vcpu {name}; sleep 10; virsh domstats --vcpu {name}");
        steal = steal.then(StepId::AskTool, &twice);
    }
    (
        vec![steal.then(StepId::RecordWhile, RECORD)],
        vec![Fact::Waits],
    )
}
