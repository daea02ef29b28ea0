// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a guest runs beside its workloads. These are in a control group then, as the programs of a
//! distribution are in slices, so that the command can act on them and not on itself.

use std::fs;
use std::process::{Command, Stdio};

use steady_agent::plan::WorkloadPlan;

use crate::system::{self, Doing, Failure};

const ROOT: &str = "/sys/fs/cgroup";
/// The group of the workloads.
const GROUP: &str = "/sys/fs/cgroup/workloads.slice";

/// Starts a command, which says what it does on the console, and moves this init with all that it
/// starts from now on into the group.
pub fn start(plan: &WorkloadPlan) -> Result<(), Failure> {
    if !fs::exists(GROUP).unwrap_or(false) {
        system::mount_one("cgroup2", ROOT, None)?;
        fs::create_dir_all(GROUP).doing(|| format!("make {GROUP}"))?;
    }
    let (program, arguments) = plan
        .argv
        .split_first()
        .ok_or_else(|| Failure::new("an empty command of the guest"))?;
    let own = std::process::id().to_string();
    put(&format!("{ROOT}/cgroup.procs"), &own)?;
    Command::new(program)
        .args(arguments)
        .env_clear()
        .envs(&plan.env)
        .current_dir("/tmp")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .doing(|| format!("start `{program}`"))?;
    put(&format!("{GROUP}/cgroup.procs"), &own)
}

fn put(path: &str, text: &str) -> Result<(), Failure> {
    fs::write(path, text).doing(|| format!("write `{text}` to {path}"))
}
