// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The one thing that `place` does to a host: it sets which pCPUs a thread may run on.

use std::io;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use steady_hostview::Cpus;

/// Sets a thread's pCPUs; a test has others than the kernel's.
pub trait Hands {
    /// Lets the thread run on these pCPUs alone (sched_setaffinity(2)).
    ///
    /// # Errors
    /// The kernel's: no such thread, no permission, none of the pCPUs in the thread's cpuset.
    fn set(&mut self, tid: i32, cpus: &Cpus) -> io::Result<()>;
}

/// The kernel's.
#[derive(Debug, Default)]
pub struct Kernel;

impl Hands for Kernel {
    fn set(&mut self, tid: i32, cpus: &Cpus) -> io::Result<()> {
        let mut set = CpuSet::new();
        for cpu in cpus.iter() {
            if cpu as usize >= CpuSet::MAX_CPU {
                let most = CpuSet::MAX_CPU;
                return Err(io::Error::other(format!(
                    "CPU {cpu} is above the {most} of a CPU set"
                )));
            }
            set.set(cpu as usize);
        }
        let pid = Pid::from_raw(tid)
            .ok_or_else(|| io::Error::other("a thread id is positive, and this is 0"))?;
        Ok(sched_setaffinity(Some(pid), &set)?)
    }
}

/// None: a dry run.
#[derive(Debug, Default)]
pub struct Tied;

impl Hands for Tied {
    fn set(&mut self, _: i32, _: &Cpus) -> io::Result<()> {
        Ok(())
    }
}
