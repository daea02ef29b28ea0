// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a guest runs beside its workloads. These are in a control group then, as the programs of a
//! distribution are in slices, so that the command can act on them and not on itself. A command
//! that ends by itself is a fault: what was measured would not be what the scenario says.

use std::fs;
use std::process::{Child, Stdio};

use steady_agent::plan::WorkloadPlan;

use crate::program;
use crate::system::{self, Doing, Failure};

const ROOT: &str = "/sys/fs/cgroup";
/// The group of the workloads.
const GROUP: &str = "/sys/fs/cgroup/workloads.slice";

/// The commands that run, with their names.
#[derive(Debug, Default)]
pub struct Beside(Vec<(String, Child)>);

impl Beside {
    /// Starts a command, which says what it does on the console, and moves this init with all that
    /// it starts from now on into the group.
    pub fn start(&mut self, plan: &WorkloadPlan) -> Result<(), Failure> {
        if !fs::exists(GROUP).unwrap_or(false) {
            system::mount_one("cgroup2", ROOT, None)?;
            fs::create_dir_all(GROUP).doing(|| format!("make {GROUP}"))?;
        }
        let own = std::process::id().to_string();
        put(&format!("{ROOT}/cgroup.procs"), &own)?;
        self.spawn(plan)?;
        put(&format!("{GROUP}/cgroup.procs"), &own)
    }

    fn spawn(&mut self, plan: &WorkloadPlan) -> Result<(), Failure> {
        let child = program::spawn_beside(plan, Stdio::inherit())?;
        self.0.push((plan.program.clone(), child));
        Ok(())
    }

    /// Whether all of them run still.
    pub fn check(&mut self) -> Result<(), Failure> {
        for (name, child) in &mut self.0 {
            let ended = child.try_wait().doing(|| format!("look at {name}"))?;
            if let Some(status) = ended {
                return Err(Failure::new(format!(
                    "{name} of the guest ended before its workloads did: {status}; its words are \
                     on the console"
                )));
            }
        }
        Ok(())
    }
}

fn put(path: &str, text: &str) -> Result<(), Failure> {
    fs::write(path, text).doing(|| format!("write `{text}` to {path}"))
}

#[cfg(test)]
mod tests {
    use steady_agent::channel::ToGuest;

    use super::super::obey;
    use super::*;
    use crate::program::Running;

    #[test]
    fn a_command_that_ended_by_itself_is_a_fault_and_one_that_runs_is_not() {
        let plan = |argv: &[&str]| WorkloadPlan {
            program: "fold".to_owned(),
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
            ..WorkloadPlan::default()
        };
        let mut beside = Beside::default();
        beside.spawn(&plan(&["/bin/sleep", "300"])).unwrap();
        beside.check().unwrap();
        beside.0[0].1.kill().unwrap();
        beside.0[0].1.wait().unwrap();
        let error = beside.check().unwrap_err().to_string();
        assert!(error.contains("fold of the guest ended before"), "{error}");
        // A background VM is asked to stop and never to report.
        let mut line = fs::File::create("/dev/null").unwrap();
        let mut stop = |mut running| obey(ToGuest::Stop, &mut running, &mut beside, &mut line);
        let running = Running::prepare(WorkloadPlan::default(), true).unwrap();
        assert_eq!(stop(Some(running)).unwrap_err().to_string(), error);
        stop(None).unwrap();
    }
}
