// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cgroup's `cpu.stat`: of how many periods it had used up its limit, and how long it then stood
//! still. Version 2 has `throttled_usec` (microseconds), version 1 `throttled_time` (nanoseconds);
//! see `cpu.stat` in `Documentation/admin-guide/cgroup-v2.rst`. If a group comes again, the
//! difference counts. `core_sched.force_idle_usec` is how long CPUs beside the group's tasks had to
//! idle.

use std::collections::BTreeMap;

use steady_diagnose::{
    CauseId, Confidence, Evidence, EvidenceId, Finding, FindingId, Severity, StepId,
};

use crate::draft::{Draft, MAJOR, finding, quoted, step};
use crate::kind::{Kind, RECORD};
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
    ran_ns: Option<u64>,
    idled_ns: Option<u64>,
}

impl Stat {
    /// What came to it since another reading; all of it if it counts from zero again.
    fn since(&self, then: &Self) -> Self {
        let less = |now: Option<u64>, then: Option<u64>| {
            now.map(|now| now.checked_sub(then.unwrap_or(0)).unwrap_or(now))
        };
        Self {
            periods: less(self.periods, then.periods),
            throttled: less(self.throttled, then.throttled),
            time_ns: less(self.time_ns, then.time_ns),
            ran_ns: less(self.ran_ns, then.ran_ns),
            idled_ns: less(self.idled_ns, then.idled_ns),
        }
    }

    /// The place of a key's value.
    fn of(&mut self, key: &str) -> Option<(&mut Option<u64>, u64)> {
        Some(match key {
            "nr_periods" => (&mut self.periods, 1),
            "nr_throttled" => (&mut self.throttled, 1),
            "throttled_usec" => (&mut self.time_ns, 1_000),
            "throttled_time" => (&mut self.time_ns, 1),
            "usage_usec" => (&mut self.ran_ns, 1_000),
            "core_sched.force_idle_usec" => (&mut self.idled_ns, 1_000),
            _ => return None,
        })
    }
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
        let mut known = *last.as_ref().unwrap_or(first);
        let begins = matches!(key, "usage_usec" | "nr_periods");
        // `usage_usec` stands before the periods, where there is one.
        let again = known.of(key).is_some_and(|(place, _)| place.is_some());
        if begins && again {
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
        if Stat::default().of(key).is_none() {
            return;
        }
        // The times of a group that nothing limits stand alone.
        self.rows += 1;
        if let Some((place, unit)) = self.stat(&name, key).and_then(|stat| stat.of(key)) {
            *place = Some(value.saturating_mul(unit));
        }
    }

    fn finish(self: Box<Self>) -> Option<Table> {
        if self.rows == 0 {
            return None;
        }
        let mut table = Table::new(Kind::CpuStat, Side::Unknown, self.rows);
        let mut found: Vec<(u64, u64, &str, Stat)> = Vec::new();
        for (name, (first, last)) in &self.groups {
            let stat = last.map_or(*first, |last| last.since(first));
            table.findings.extend(idled(name, &stat));
            let share = permille(stat.throttled.unwrap_or(0), stat.periods.unwrap_or(0));
            if share.min(1000) >= MAJOR {
                found.push((share.min(1000), stat.time_ns.unwrap_or(0), name, stat));
            }
        }
        table.findings.truncate(FOUND);
        // What stops vCPUs comes first.
        let rank = |of: &(u64, u64, &str, Stat)| (whose(of.2) == Whose::Vcpus, of.0, of.1);
        found.sort_by(|a, b| rank(b).cmp(&rank(a)).then(a.2.cmp(b.2)));
        // Only what stops vCPUs explains that they wait.
        let of_vcpus = found
            .iter()
            .filter(|(_, _, name, _)| whose(name) == Whose::Vcpus);
        let names: Vec<&str> = of_vcpus.map(|(_, _, name, _)| *name).collect();
        if !names.is_empty() {
            table.facts.push(Fact::Limit);
            let names = names.into_iter().filter(|name| !name.is_empty());
            table.groups = names.map(str::to_owned).collect();
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
            let last = name.rsplit('/').next().unwrap_or(name);
            let (of, raise) = match whose(name) {
                Whose::Vcpus => (None, step(StepId::RaiseCpuMax, None)),
                Whose::Vmm => (Some("emulator"), step(StepId::RaiseServerLimit, Some(last))),
                Whose::Others => (Some("other"), step(StepId::RaiseGroupLimit, Some(last))),
            };
            throttled.of = of.map(str::to_owned);
            if whose(name) == Whose::Others {
                throttled.severity = Severity::Minor;
            }
            throttled.next.push(raise);
            let look = group.map_or("cat cpu.max".to_owned(), |group| {
                format!("cat {}/cpu.max", quoted(group))
            });
            table.findings.push(throttled.then(StepId::AskTool, &look));
        }
        Some(table)
    }
}

/// What the tasks of a cgroup are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// vCPUs, or that is not known.
    Vcpus,
    /// Threads of a VMM that are not vCPUs, as libvirt groups them.
    Vmm,
    /// Not a VM's, by its name.
    Others,
}

fn whose(group: &str) -> Whose {
    let last = group.rsplit('/').next().unwrap_or(group);
    if last == "emulator" || last.starts_with("iothread") {
        return Whose::Vmm;
    }
    const VMS: [&str; 6] = [
        "machine",
        "qemu",
        "kvm",
        "libvirt",
        "firecracker",
        "kubevirt",
    ];
    const OTHERS: [&str; 6] = [
        "system.slice",
        "user.slice",
        "docker",
        "containerd",
        "podman",
        "lxc",
    ];
    let has = |names: &[&str]| names.iter().any(|name| group.contains(name));
    match has(&OTHERS) && !has(&VMS) {
        true => Whose::Others,
        false => Whose::Vcpus,
    }
}

/// CPUs that had to idle beside a group's tasks, if it is worth a word.
fn idled(name: &str, stat: &Stat) -> Option<Finding> {
    let (idled_ns, ran_ns) = (stat.idled_ns?, stat.ran_ns);
    // Of the time of both CPUs of a core.
    let share = permille(idled_ns, ran_ns.unwrap_or(0).saturating_add(idled_ns));
    if share < MAJOR {
        return None;
    }
    let evidence = Evidence::new(EvidenceId::TableForcedIdle)
        .maybe_named("name", (!name.is_empty()).then_some(name))
        .ns("time", idled_ns)
        .maybe_ns("ran", ran_ns);
    let mut found = finding(FindingId::ForcedIdle, CauseId::CoreScheduling)
        .lost(share, idled_ns)
        .with(evidence)
        .sure(Confidence::Medium);
    found.next.push(step(StepId::LookAtIdle, None));
    Some(found.then(StepId::RecordWhile, RECORD))
}
