// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the host itself runs beside its VMs: load that begins before the measured workloads and
//! goes on until they are done. One that ends by itself is a fault: what was measured beside it
//! would not be what the scenario says.

use std::fs::File;
use std::process::Child;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use steady_agent::plan::WorkloadPlan;

use crate::program;
use crate::system::{self, Doing, Failure};

/// How long a program may take to end once it was asked to.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Programs that run.
#[derive(Debug, Default)]
pub struct Beside(Vec<Load>);

#[derive(Debug)]
struct Load {
    name: String,
    said: String,
    child: Child,
}

/// Starts all of them.
pub fn start(plans: &[WorkloadPlan]) -> Result<Beside, Failure> {
    let mut beside = Beside::default();
    for (at, plan) in plans.iter().enumerate() {
        let said = format!("/run/host-{at}.said");
        let stderr = File::create(&said).doing(|| format!("create {said}"))?;
        let child = program::spawn_beside(plan, stderr.into())?;
        let name = plan.program.clone();
        beside.0.push(Load { name, said, child });
    }
    Ok(beside)
}

impl Beside {
    /// Ends all of them; each must have run until now. Gives what each said, with its name.
    pub fn stop(mut self) -> Result<Vec<(String, String)>, Failure> {
        for load in &mut self.0 {
            let ended = load
                .child
                .try_wait()
                .doing(|| "wait for a program".into())?;
            if let Some(status) = ended {
                return Err(Failure::new(format!(
                    "{} of the host ended before the VMs were done: {status}; it said: {}",
                    load.name,
                    system::tail(&system::read_trimmed(&load.said), 500)
                )));
            }
            load.end();
        }
        let loads = self.0.iter();
        Ok(loads
            .map(|load| (load.name.clone(), load.said.clone()))
            .collect())
    }
}

impl Load {
    /// Asks it to end, so that it undoes what it does; kills it if it does not.
    fn end(&mut self) {
        let asked = i32::try_from(self.child.id()).map(Pid::from_raw);
        if asked.is_ok_and(|pid| kill(pid, Signal::SIGTERM).is_ok()) {
            let begun = Instant::now();
            while begun.elapsed() < END_LIMIT && matches!(self.child.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        for load in &mut self.0 {
            let _ = load.child.kill();
            let _ = load.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn plan(argv: &[&str]) -> WorkloadPlan {
        WorkloadPlan {
            program: "load".to_owned(),
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
            ..WorkloadPlan::default()
        }
    }

    fn beside(argv: &[&str]) -> Beside {
        let child = Command::new(argv[0]).args(&argv[1..]).spawn().unwrap();
        let (name, said) = (plan(argv).program, String::new());
        Beside(vec![Load { name, said, child }])
    }

    #[test]
    fn load_that_ended_by_itself_is_a_fault() {
        let mut ended = beside(&["true"]);
        ended.0[0].child.wait().unwrap();
        let error = ended.stop().unwrap_err().to_string();
        assert!(error.contains("load of the host ended before"), "{error}");
    }

    #[test]
    fn load_that_runs_is_ended() {
        let running = beside(&["sleep", "300"]);
        let id = running.0[0].child.id();
        running.stop().unwrap();
        assert!(!std::fs::exists(format!("/proc/{id}")).unwrap());
    }

    #[test]
    fn a_host_without_load_starts_nothing() {
        assert!(start(&[]).unwrap().0.is_empty());
    }
}
