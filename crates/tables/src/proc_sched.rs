// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `/proc/PID/sched` and `/proc/PID/schedstat` of threads (`proc_sched_show_task` in
//! `kernel/sched/debug.c`, `proc_pid_schedstat` in `fs/proc/base.c`): how long each ran, and how
//! long it was ready and did not. If a thread comes again, the difference counts. A kernel that
//! does not count the waits (`kernel.sched_schedstats`) prints none, or zeros: they are not known.

use std::collections::BTreeMap;

use steady_diagnose::{CauseId, Confidence, Evidence, EvidenceId, Finding, FindingId, StepId};

use crate::draft::{Draft, MAJOR, at_least_major, finding, not_measured, step};
use crate::kind::{Kind, RECORD};
use crate::number::{decimal, permille};
use crate::table::{Fact, Line, Reader, Side, Table};
use crate::threads::is_vcpu;

/// Threads that are kept.
const THREADS: usize = 8192;
/// Threads that a finding names.
const NAMED: usize = 8;
/// From this length on the longest wait is a finding, in nanoseconds.
const LONG_NS: u64 = 100_000_000;
/// The same of a thread of the host that waits for its disk: half of what the kernel's watchdog
/// calls a lockup.
const HUNG_NS: u64 = 10_000_000_000;
/// How names of threads begin that serve a VM.
const VMM: [&str; 9] = [
    "qemu",
    "kvm",
    "vhost-",
    "IO ",
    "iothread",
    "worker",
    "cloud-hyperviso",
    "firecracker",
    "crosvm",
];
/// A thread with this many switches has waited for some nanoseconds at least.
const SWITCHES: u64 = 100;
/// Threads whose being blocked is evidence.
const BLOCKED: usize = 4;

#[derive(Debug, Clone, Copy, Default)]
struct Times {
    ran_ns: Option<u64>,
    waited_ns: Option<u64>,
    waits: Option<u64>,
    max_ns: Option<u64>,
    switches: Option<u64>,
    /// The longest wait where no signal reaches the thread, and all of them.
    blocked_max_ns: Option<u64>,
    blocked_ns: Option<u64>,
}

impl Times {
    /// Without waits that were not counted.
    fn measured(mut self) -> Self {
        let often = self.switches.or(self.waits).unwrap_or(0) >= SWITCHES;
        let nothing = self.ran_ns.unwrap_or(0) == 0;
        if self.waited_ns == Some(0) && self.max_ns.unwrap_or(0) == 0 && (often || nothing) {
            self.waited_ns = None;
        }
        self
    }
}

#[derive(Debug, Default)]
struct Threads {
    /// First and last reading of each thread.
    by_name: BTreeMap<String, (Times, Option<Times>)>,
}

impl Threads {
    fn begin(&mut self, name: &str) {
        if let Some((_, last)) = self.by_name.get_mut(name) {
            *last = Some(Times::default());
        } else if self.by_name.len() < THREADS {
            self.by_name.insert(name.to_owned(), Default::default());
        }
    }

    fn current(&mut self, name: &str) -> Option<&mut Times> {
        let (first, last) = self.by_name.get_mut(name)?;
        Some(last.as_mut().unwrap_or(first))
    }

    fn since(first: &Times, last: Option<&Times>) -> Times {
        let Some(last) = last else {
            return *first;
        };
        let less = |now: Option<u64>, then: Option<u64>| {
            now.map(|now| now.checked_sub(then.unwrap_or(0)).unwrap_or(now))
        };
        Times {
            ran_ns: less(last.ran_ns, first.ran_ns),
            waited_ns: less(last.waited_ns, first.waited_ns),
            waits: less(last.waits, first.waits),
            max_ns: last.max_ns,
            switches: less(last.switches, first.switches),
            blocked_max_ns: last.blocked_max_ns,
            blocked_ns: less(last.blocked_ns, first.blocked_ns),
        }
    }

    fn table(&self, kind: Kind, rows: u64) -> Table {
        let of = self.by_name.iter();
        let mut all: Vec<(&str, Times)> = of
            .map(|(name, (first, last))| (name.as_str(), Self::since(first, last.as_ref())))
            .map(|(name, times)| (name, times.measured()))
            .collect();
        let vcpus = all.iter().any(|(name, _)| is_vcpu(name));
        if vcpus {
            all.retain(|(name, _)| is_vcpu(name));
        }
        let side = if vcpus { Side::Host } else { Side::Unknown };
        let mut table = Table::new(kind, side, rows);
        table.findings.extend(blocked(&mut all));
        let (findings, facts) = judge(&mut all, vcpus);
        table.findings.extend(findings);
        table.facts = facts;
        let any = all.iter().any(|(_, times)| times.waited_ns.is_some());
        if table.facts.is_empty() && !any {
            table.findings.push(not_measured(
                "waits for pCPUs (kernel.sched_schedstats is 0)",
                rows,
                "sysctl -w kernel.sched_schedstats=1",
            ));
        }
        table
    }
}

fn judge(all: &mut [(&str, Times)], vcpus: bool) -> (Vec<Finding>, Vec<Fact>) {
    all.sort_by(|a, b| b.1.waited_ns.cmp(&a.1.waited_ns).then(a.0.cmp(b.0)));
    let sum = |of: fn(&Times) -> Option<u64>| {
        let of = all.iter().filter_map(|(_, times)| of(times));
        of.fold(0, u64::saturating_add)
    };
    let (waited, ran) = (sum(|of| of.waited_ns), sum(|of| of.ran_ns));
    let longest = all
        .iter()
        .filter_map(|(_, times)| times.max_ns)
        .max()
        .unwrap_or(0);
    let share = permille(waited, waited.saturating_add(ran));
    if share < MAJOR && longest < LONG_NS {
        let measured = vcpus && all.iter().any(|(_, times)| times.waited_ns.is_some());
        return (
            Vec::new(),
            measured.then_some(Fact::NoWaits).into_iter().collect(),
        );
    }
    let id = if vcpus {
        FindingId::Steal
    } else {
        FindingId::ThreadsWait
    };
    let rows = all.iter().take(NAMED).flat_map(|(name, times)| {
        let waited = times.waited_ns.unwrap_or(0);
        let wanted = waited.saturating_add(times.ran_ns.unwrap_or(0));
        let wait = Evidence::new(EvidenceId::TableWait)
            .named("who", name)
            .ns("waited", waited)
            .maybe_ns("ran", times.ran_ns)
            .permille("share", permille(waited, wanted));
        let longest = times.max_ns.map(|max_ns| {
            Evidence::new(EvidenceId::TableThread)
                .named("name", name)
                .maybe_count("waits", times.waits)
                .ns("max", max_ns)
        });
        [Some(wait), longest].into_iter().flatten()
    });
    let found = finding(id, CauseId::NotShown).lost(share, waited).all(rows);
    let found = at_least_major(found);
    (
        vec![found.then(StepId::RecordWhile, RECORD)],
        vec![Fact::Waits],
    )
}

/// A wait in the host's kernel, where no signal reaches the thread, that was long.
fn blocked(all: &mut [(&str, Times)]) -> Option<Finding> {
    let max_ns = |times: &Times| times.blocked_max_ns.unwrap_or(0);
    all.sort_by(|a, b| max_ns(&b.1).cmp(&max_ns(&a.1)).then(a.0.cmp(b.0)));
    let long = all.iter().filter(|(name, times)| {
        // That a thread of the host waits for its disk is its work; a VM's waits for it.
        let of_vm = is_vcpu(name) || VMM.iter().any(|begin| name.starts_with(begin));
        max_ns(times) >= if of_vm { LONG_NS } else { HUNG_NS }
    });
    let long: Vec<Evidence> = long
        .take(BLOCKED)
        .map(|(name, times)| {
            Evidence::new(EvidenceId::TableBlocked)
                .named("name", name)
                .ns("max", max_ns(times))
                .maybe_ns("time", times.blocked_ns)
        })
        .collect();
    if long.is_empty() {
        return None;
    }
    let longest_ns = all.first().map_or(0, |(_, times)| max_ns(times));
    let mut found = finding(FindingId::Uninterruptible, CauseId::KernelWait)
        .lost(0, longest_ns)
        .all(long)
        .sure(Confidence::Low);
    if !all.iter().any(|(name, _)| is_vcpu(name)) {
        found = found.of("threads");
    }
    found.next.push(step(StepId::LookAtStack, None));
    Some(at_least_major(found).then(StepId::RecordWhile, RECORD))
}

/// `/proc/PID/sched`.
#[derive(Debug, Default)]
pub(crate) struct Sched {
    threads: Threads,
    now: Option<String>,
    rows: u64,
}

impl Reader for Sched {
    fn line(&mut self, line: &Line<'_>) {
        let text = line.text.trim();
        if let Some((head, rest)) = text.rsplit_once(" (").filter(|_| text.ends_with(')')) {
            // `CPU 0/KVM (1234, #threads: 5)`
            if let Some((tid, _)) = rest.split_once(", #threads:") {
                let name = format!("{head}:{tid}");
                self.threads.begin(&name);
                self.now = Some(name);
            }
            return;
        }
        let Some((key, value)) = self.now.as_ref().and(text.split_once(':')) else {
            return;
        };
        let key = key.trim();
        let key = key.strip_prefix("se.").unwrap_or(key);
        let key = key.strip_prefix("statistics.").unwrap_or(key);
        // Milliseconds with six decimals.
        let Some(ns) = decimal(value.trim(), 1_000_000) else {
            return;
        };
        self.rows += 1;
        let name = self.now.clone().unwrap_or_default();
        let Some(times) = self.threads.current(&name) else {
            return;
        };
        match key {
            "sum_exec_runtime" => times.ran_ns = Some(ns),
            "wait_sum" => times.waited_ns = Some(ns),
            "wait_max" => times.max_ns = Some(ns),
            "wait_count" => times.waits = Some(ns / 1_000_000),
            "nr_switches" => times.switches = Some(ns / 1_000_000),
            "block_max" => times.blocked_max_ns = Some(ns),
            "sum_block_runtime" => times.blocked_ns = Some(ns),
            _ => {}
        }
    }

    fn finish(self: Box<Self>) -> Option<Table> {
        (self.rows > 0).then(|| self.threads.table(Kind::ProcSched, self.rows))
    }
}

/// `/proc/PID/schedstat`: nanoseconds on a pCPU, nanoseconds ready and not on one, time slices.
#[derive(Debug, Default)]
pub(crate) struct Schedstat {
    threads: Threads,
    /// Rows that no line before them, nor a path, says to be of such a file.
    bare: Threads,
    file: Option<String>,
    rows: u64,
    bare_rows: u64,
    others: u64,
}

impl Schedstat {
    fn keep(threads: &mut Threads, name: &str, times: Times) {
        threads.begin(name);
        if let Some(now) = threads.current(name) {
            *now = times;
        }
    }
}

impl Reader for Schedstat {
    fn line(&mut self, line: &Line<'_>) {
        let text = line.text.trim();
        if text.is_empty() {
            return;
        }
        let (path, numbers) = match text.rsplit_once(':') {
            Some((path, numbers)) if path.contains("schedstat") => (Some(path), numbers),
            _ => (None, text),
        };
        let numbers: Vec<Option<u64>> = numbers
            .split_whitespace()
            .take(4)
            .map(|word| word.parse().ok())
            .collect();
        let [Some(ran), Some(waited), Some(slices)] = numbers[..] else {
            // A prompt with the command, or what `tail` prints, names the file.
            let of_file = text.contains("schedstat") && line.words.len() <= 4;
            self.others += u64::from(!of_file);
            self.file = of_file.then(|| {
                let words = line.words.iter().find(|word| word.contains("schedstat"));
                words.copied().unwrap_or_default().to_owned()
            });
            return;
        };
        let times = Times {
            ran_ns: Some(ran),
            waited_ns: Some(waited),
            waits: Some(slices),
            ..Times::default()
        };
        match path.map(str::to_owned).or_else(|| self.file.clone()) {
            Some(name) => {
                self.rows += 1;
                Self::keep(&mut self.threads, &name, times);
            }
            None => {
                self.bare_rows += 1;
                Self::keep(&mut self.bare, "the thread", times);
            }
        }
    }

    fn finish(self: Box<Self>) -> Option<Table> {
        if self.rows > 0 {
            return Some(self.threads.table(Kind::ProcSchedstat, self.rows));
        }
        // Three numbers are anything: without a name the file has to have them alone.
        let alone = self.bare_rows > 0 && self.others == 0;
        alone.then(|| self.bare.table(Kind::ProcSchedstat, self.bare_rows))
    }
}
