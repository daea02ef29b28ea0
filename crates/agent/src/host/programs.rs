// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that the host itself runs, such as KVM selftests: each to its end or its limit, with
//! what the kernel said meanwhile. How one ends is reported and never a fault of the run.

use steady_agent::event::{Event, ProgramEnd};
use steady_agent::plan::WorkloadPlan;

use super::kernel_log::KernelLog;
use super::out::Out;
use super::wait_us;
use crate::program::Running;
use crate::system::{self, Doing, Failure};

const TAINTED: &str = "/proc/sys/kernel/tainted";

/// Runs the programs one after another.
pub fn run(out: &Out, programs: &[WorkloadPlan]) -> Result<(), Failure> {
    if programs.is_empty() {
        return Ok(());
    }
    system::mount_one("tmpfs", "/data", None)?;
    let mut log = KernelLog::open()?;
    for plan in programs {
        let program = plan.program.clone();
        out.event(&Event::ProgramBegin {
            program: program.clone(),
        })?;
        let before = system::read_trimmed(TAINTED);
        let mut running = Running::prepare(plan.clone(), false)?;
        wait_us(plan.begin_delay_us);
        running.start().doing(|| format!("start {program}"))?;
        running.wait()?;
        let end = ProgramEnd {
            program,
            output: running.into_output()?,
            warnings: log.warnings()?,
            tainted: system::read_trimmed(TAINTED) != before,
        };
        out.event(&Event::ProgramEnd(Box::new(end)))?;
    }
    Ok(())
}
