// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The notes beside a trace: which threads are whose, where they may run, and what limits them. The
//! format is that of `steady record` (docs/formats/diagnosis.md).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use steady_agent::plan::{VmPlan, Vmm};

use super::counters::Threads;
use crate::system::{self, Doing, Failure};

const GROUPS: &str = "/sys/fs/cgroup";

/// Writes the notes beside `trace`; the VMs must still run.
pub fn write(
    vmm: Vmm,
    vms: &[VmPlan],
    threads: &BTreeMap<String, Threads>,
    trace: &Path,
) -> Result<PathBuf, Failure> {
    let vmm = match vmm {
        Vmm::Steady => "steady-vmm",
        Vmm::Qemu => "qemu-system-x86_64",
    };
    let known = vms
        .iter()
        .filter_map(|vm| Some((vm, threads.get(&vm.name)?)));
    let notes: Vec<Value> = known.map(|(vm, of)| note(vmm, vm, of)).collect();
    let notes = json!({ "schema": "steady.vms", "version": 1, "vms": notes });
    let path = trace.with_extension("dat.vms");
    fs::write(&path, format!("{notes:#}\n")).doing(|| format!("write {}", path.display()))?;
    Ok(path)
}

fn note(vmm: &str, vm: &VmPlan, threads: &Threads) -> Value {
    let tasks = fs::read_dir(format!("/proc/{}/task", threads.pid));
    let tasks = tasks.into_iter().flatten().flatten();
    let mut others: Vec<u32> = tasks
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|tid| !threads.vcpus.contains(tid))
        .collect();
    others.sort_unstable();
    let vcpus = threads.vcpus.iter().enumerate();
    json!({
        "name": vm.name,
        "process": threads.pid,
        "vmm": vmm,
        "cgroup": group(threads.pid),
        "threads": others,
        "vcpus": vcpus.map(|(number, &tid)| vcpu(number, tid)).collect::<Vec<Value>>(),
    })
}

fn vcpu(number: usize, tid: u32) -> Value {
    let status = system::read_trimmed(format!("/proc/{tid}/status"));
    let cpus = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .map(str::trim);
    let group = group(tid);
    let folder = PathBuf::from(GROUPS).join(group.trim_start_matches('/'));
    json!({
        "number": number,
        "tid": tid,
        "cpus": cpus,
        "cgroup": group,
        "cpu_max": limit(&folder),
        "cpu_weight": file(&folder.join("cpu.weight")),
    })
}

/// The thread's group in cgroup v2, the only hierarchy of the lab's hosts.
fn group(tid: u32) -> String {
    let text = system::read_trimmed(format!("/proc/{tid}/cgroup"));
    let of_v2 = text.lines().find_map(|line| line.strip_prefix("0::"));
    of_v2.unwrap_or("/").to_owned()
}

fn file(path: &Path) -> Option<String> {
    let text = system::read_trimmed(path);
    (!text.is_empty()).then_some(text)
}

/// The first limit from a group upwards.
fn limit(folder: &Path) -> Option<String> {
    let groups = folder.ancestors().take_while(|at| at.starts_with(GROUPS));
    let mut limits = groups.filter_map(|at| file(&at.join("cpu.max")));
    limits.find(|limit| !limit.starts_with("max"))
}
