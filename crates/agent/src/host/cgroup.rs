// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU shares: cgroup v2, one group per VM, and one per vCPU inside it where the plan says so.
//!
//! The per-vCPU layout is that of libvirt: a threaded group for each vCPU and one for the VMM's
//! other threads, so that two vCPUs never share a run-queue entity of their own.

use std::fs;
use std::path::{Path, PathBuf};

use steady_agent::plan::{Grouping, VmPlan};

use super::counters::Threads;
use crate::system::{Doing, Failure, mount_one};

const ROOT: &str = "/sys/fs/cgroup";

fn put(path: PathBuf, text: &str) -> Result<(), Failure> {
    fs::write(&path, text).doing(|| format!("write `{text}` to {}", path.display()))
}

/// Mounts cgroup v2 with its CPU controller.
pub fn prepare() -> Result<(), Failure> {
    mount_one("cgroup2", ROOT, None)?;
    put(PathBuf::from(ROOT).join("cgroup.subtree_control"), "+cpu")
}

/// Makes the VM's group and moves its VMM in; call it before the VMM makes its vCPU threads.
pub fn enter(plan: &VmPlan, pid: u32) -> Result<(), Failure> {
    if plan.cgroup == Grouping::None {
        return Ok(());
    }
    let group = PathBuf::from(ROOT).join(format!("vm-{}", plan.name));
    fs::create_dir_all(&group).doing(|| format!("make {}", group.display()))?;
    put(group.join("cpu.weight"), &plan.cpu_weight.to_string())?;
    if plan.cgroup == Grouping::Vm {
        limit(plan, &group)?;
    }
    put(group.join("cgroup.procs"), &pid.to_string())
}

/// Sets the limit of CPU time, where the plan has one.
fn limit(plan: &VmPlan, group: &Path) -> Result<(), Failure> {
    let Some((quota_us, period_us)) = plan.cpu_max_us else {
        return Ok(());
    };
    put(group.join("cpu.max"), &format!("{quota_us} {period_us}"))
}

/// Gives each vCPU its own group, where the plan says so.
pub fn split(plan: &VmPlan, threads: &Threads) -> Result<(), Failure> {
    if plan.cgroup != Grouping::Vcpu {
        return Ok(());
    }
    let group = PathBuf::from(ROOT).join(format!("vm-{}", plan.name));
    let names = (0..threads.vcpus.len()).map(|index| format!("vcpu{index}"));
    for name in names.chain(["emulator".to_owned()]) {
        let part = group.join(&name);
        fs::create_dir_all(&part).doing(|| format!("make {}", part.display()))?;
        put(part.join("cgroup.type"), "threaded")?;
    }
    put(group.join("cgroup.subtree_control"), "+cpu")?;
    for index in 0..threads.vcpus.len() {
        limit(plan, &group.join(format!("vcpu{index}")))?;
    }
    let tasks = format!("/proc/{}/task", threads.pid);
    for entry in fs::read_dir(&tasks)
        .doing(|| format!("read {tasks}"))?
        .flatten()
    {
        let tid = entry.file_name().to_string_lossy().into_owned();
        let vcpu = threads
            .vcpus
            .iter()
            .position(|vcpu| vcpu.to_string() == tid);
        let name = vcpu.map_or("emulator".to_owned(), |index| format!("vcpu{index}"));
        put(group.join(name).join("cgroup.threads"), &tid)?;
    }
    Ok(())
}
