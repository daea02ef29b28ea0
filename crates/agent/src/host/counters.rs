// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host's counters of every VM at one moment, and what was added between two moments.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use steady_agent::event::{VmWindow, Window};
use steady_agent::plan::Collect;

use super::hist::{self, Counts, Histograms};
use crate::system::{self, Doing, Failure};

/// What is known of a running VM's threads.
#[derive(Debug, Clone)]
pub struct Threads {
    /// Process of the VMM.
    pub pid: u32,
    /// vCPU threads, by vCPU.
    pub vcpus: Vec<u32>,
}

impl Threads {
    /// Finds the vCPU threads by the names that both VMMs give them (`CPU 0/KVM`).
    pub fn find(pid: u32, vcpus: u32) -> Result<Self, Failure> {
        let mut found = BTreeMap::new();
        for tid in thread_ids(pid)? {
            let name = system::read_trimmed(format!("/proc/{pid}/task/{tid}/comm"));
            let index = name
                .strip_prefix("CPU ")
                .and_then(|rest| rest.split('/').next()?.parse::<u32>().ok());
            if let Some(index) = index {
                found.insert(index, tid);
            }
        }
        if !found.keys().copied().eq(0..vcpus) {
            return Err(Failure::new(format!(
                "process {pid} has the vCPU threads {:?} instead of 0 to {}",
                found.keys(),
                vcpus - 1
            )));
        }
        Ok(Self {
            pid,
            vcpus: found.into_values().collect(),
        })
    }
}

fn thread_ids(pid: u32) -> Result<Vec<u32>, Failure> {
    let path = format!("/proc/{pid}/task");
    let entries = fs::read_dir(&path).doing(|| format!("read {path}"))?;
    Ok(entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect())
}

/// All counters at one moment.
#[derive(Debug)]
pub struct Snapshot {
    at_ns: u64,
    histograms: Histograms,
    host_ipis: u64,
    vms: BTreeMap<String, VmSnapshot>,
}

#[derive(Debug, Default)]
struct VmSnapshot {
    stats: BTreeMap<String, u64>,
    vcpu_run_ns: u64,
    vcpu_wait_ns: u64,
    vmm_run_ns: u64,
}

/// Takes a snapshot.
pub fn snapshot(collect: Collect, vms: &BTreeMap<String, Threads>) -> Result<Snapshot, Failure> {
    let histograms = if collect.exits || collect.guest_time {
        hist::read()?
    } else {
        Histograms::default()
    };
    let mut snapshots = BTreeMap::new();
    for (name, threads) in vms {
        let mut vm = VmSnapshot::default();
        if collect.kvm_stats {
            vm.stats = kvm_stats(threads.pid)?;
        }
        if collect.cpu_time {
            for tid in thread_ids(threads.pid)? {
                let (run_ns, wait_ns) = sched_times(threads.pid, tid);
                if threads.vcpus.contains(&tid) {
                    vm.vcpu_run_ns += run_ns;
                    vm.vcpu_wait_ns += wait_ns;
                } else {
                    vm.vmm_run_ns += run_ns;
                }
            }
        }
        snapshots.insert(name.clone(), vm);
    }
    Ok(Snapshot {
        at_ns: system::now_ns(),
        histograms,
        host_ipis: host_ipis(),
        vms: snapshots,
    })
}

/// Interrupts between pCPUs so far: the rows of function calls and of reschedules, by which KVM
/// kicks vCPUs, in `/proc/interrupts` (arch/x86/kernel/irq.c, `arch_show_interrupts`).
fn host_ipis() -> u64 {
    let text = system::read_trimmed("/proc/interrupts");
    text.lines()
        .filter_map(|line| {
            let line = line.trim_start();
            line.strip_prefix("CAL:").or(line.strip_prefix("RES:"))
        })
        .flat_map(str::split_whitespace)
        .filter_map(|word| word.parse::<u64>().ok())
        .sum()
}

/// `schedstat` of a thread: time on a CPU and time waiting on a run queue
/// (Documentation/scheduler/sched-stats.rst). A thread that has just ended counts nothing.
fn sched_times(pid: u32, tid: u32) -> (u64, u64) {
    let text = system::read_trimmed(format!("/proc/{pid}/task/{tid}/schedstat"));
    let mut words = text
        .split_whitespace()
        .map(|word| word.parse().unwrap_or(0));
    (words.next().unwrap_or(0), words.next().unwrap_or(0))
}

/// KVM's counters of one VM from debugfs, where those of its vCPUs are already summed.
fn kvm_stats(pid: u32) -> Result<BTreeMap<String, u64>, Failure> {
    let directory = kvm_directory(pid)?;
    let what = || format!("read {}", directory.display());
    let mut stats = BTreeMap::new();
    for entry in fs::read_dir(&directory).doing(what)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Ok(value) = system::read_trimmed(entry.path()).parse() {
            stats.insert(name, value);
        }
    }
    Ok(stats)
}

fn kvm_directory(pid: u32) -> Result<PathBuf, Failure> {
    let root = "/sys/kernel/debug/kvm";
    let prefix = format!("{pid}-");
    let entries = fs::read_dir(root).doing(|| format!("read {root}"))?;
    let mut directories = entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    directories
        .next()
        .map(|entry| entry.path())
        .ok_or_else(|| Failure::new(format!("{root} has no VM of process {pid}")))
}

/// What was added from one snapshot to the next.
pub fn window(before: &Snapshot, after: &Snapshot, vms: &BTreeMap<String, Threads>) -> Window {
    let mut window = Window {
        length_ns: after.at_ns - before.at_ns,
        host_ipis: after.host_ipis.saturating_sub(before.host_ipis),
        dropped: after.histograms.dropped - before.histograms.dropped,
        ..Window::default()
    };
    for (name, threads) in vms {
        let (Some(old), Some(new)) = (before.vms.get(name), after.vms.get(name)) else {
            continue;
        };
        let (then, now) = (&before.histograms, &after.histograms);
        window.vms.insert(
            name.clone(),
            VmWindow {
                exits: of_threads(&then.reasons, &now.reasons, threads),
                rips: of_threads(&then.rips, &now.rips, threads),
                writes: of_threads(&then.writes, &now.writes, threads),
                timer_interrupts: of_threads(&then.delivered, &now.delivered, threads)
                    .values()
                    .sum(),
                host_timer_interrupts: of_threads(&then.host, &now.host, threads).values().sum(),
                stats: system::added(&old.stats, &new.stats),
                vcpu_run_ns: new.vcpu_run_ns - old.vcpu_run_ns,
                vcpu_wait_ns: new.vcpu_wait_ns - old.vcpu_wait_ns,
                vmm_run_ns: new.vmm_run_ns.saturating_sub(old.vmm_run_ns),
            },
        );
    }
    window
}

fn of_threads(before: &Counts, after: &Counts, threads: &Threads) -> BTreeMap<u64, u64> {
    let mut sums = BTreeMap::new();
    for (key, count) in after
        .iter()
        .filter(|((pid, _), _)| threads.vcpus.contains(pid))
    {
        let added = count - before.get(key).copied().unwrap_or(0);
        if added > 0 {
            *sums.entry(key.1).or_default() += added;
        }
    }
    sums
}
