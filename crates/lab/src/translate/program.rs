// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The programs of a scenario: which of them images need, whether they can be run, and the command
//! of a run.

use std::error::Error;

use steady_agent::plan::WorkloadPlan;
use steady_guest_programs::{self as guest_programs, Program, SCRATCH, Setting};
use steady_lab_artifacts::ArtifactError;
use steady_scenario::{self as scenario, Runs, Scenario};

use super::brought;
use crate::error::LabError;

/// The programs that the guests need, each once.
///
/// # Errors
/// [`ArtifactError::Program`] for a program that the images do not know.
pub fn programs(scenario: &Scenario) -> Result<Vec<&'static Program>, LabError> {
    let mut wanted: Vec<&'static Program> = Vec::new();
    let workloads = scenario.vms.iter().flat_map(|vm| &vm.workloads);
    for program in workloads.filter_map(|workload| workload.program.known()) {
        let program = known(program)?;
        if wanted.iter().all(|other| other.name != program.name) {
            wanted.push(program);
        }
    }
    Ok(wanted)
}

/// Refuses a scenario whose programs cannot be run as far as that is known without running them:
/// words of this project that are wrong, and programs that a user brings and that lack something.
///
/// # Errors
/// [`ArtifactError::Program`] for the first of them.
pub fn check_programs(scenario: &Scenario) -> Result<(), LabError> {
    brought::gather(scenario)?;
    let of_vms = scenario.vms.iter().flat_map(|vm| {
        let workloads = vm.workloads.iter();
        workloads.map(|workload| (workload, vm.vcpus))
    });
    let pcpus = scenario.host.pcpus;
    let of_host = scenario.host.workloads.iter().map(|each| (each, pcpus));
    for (workload, cpus) in of_vms.chain(of_host) {
        run_of(workload, cpus, 1, 0)?;
    }
    Ok(())
}

/// The programs that the host itself runs.
///
/// # Errors
/// As [`programs`].
pub fn host_programs(scenario: &Scenario) -> Result<Vec<&'static Program>, LabError> {
    let workloads = scenario.host.workloads.iter();
    let programs = workloads.filter_map(|workload| workload.program.known());
    programs.map(known).collect()
}

fn known(program: &scenario::Program) -> Result<&'static Program, LabError> {
    guest_programs::find(program.name).map_err(|error| wrong(program.name, &error))
}

fn wrong(program: &str, error: &dyn Error) -> LabError {
    let (program, what) = (program.to_owned(), error.to_string());
    ArtifactError::Program { program, what }.into()
}

/// A run of a program on a machine with a number of CPUs.
pub(super) fn run_of(
    workload: &scenario::Workload,
    cpus: u32,
    seed: u32,
    begin_delay_us: u32,
) -> Result<WorkloadPlan, LabError> {
    let program = match &workload.program {
        Runs::Known(program) => known(program)?,
        Runs::Brought(program) => return Ok(brought::run_of(workload, program, begin_delay_us)),
    };
    let setting = Setting {
        args: &workload.args,
        cpus,
        seed,
        scratch: SCRATCH,
    };
    let wrong = |error: guest_programs::ArgumentError| wrong(program.name, &error);
    Ok(WorkloadPlan {
        program: program.name.to_owned(),
        begin_delay_us,
        setup: program.prepare(&setting).map_err(wrong)?,
        argv: program.command(&setting).map_err(wrong)?,
        env: program
            .environment(&setting)
            .into_iter()
            .chain(workload.env.clone())
            .collect(),
        time_limit_ms: limit_ms(workload),
        ..WorkloadPlan::default()
    })
}

/// How long a background program may take until it runs, in milliseconds; from then on the plan as
/// a whole bounds it.
const START_LIMIT_MS: u64 = 60_000;

pub(super) fn limit_ms(workload: &scenario::Workload) -> u64 {
    let limit_ms = workload
        .time_limit_s
        .map(|limit_s| u64::from(limit_s) * 1000);
    limit_ms.unwrap_or(START_LIMIT_MS)
}
