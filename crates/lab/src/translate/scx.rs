// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BPF schedulers of hosts: which a scenario has, and what a host runs for one.

use steady_agent::plan::WorkloadPlan;
use steady_lab_artifacts::image::scx;
use steady_lab_artifacts::kernel::Kernel;
use steady_scenario::{Scenario, Variant};

use crate::error::LabError;

/// Its name in messages and logs.
const NAME: &str = "the BPF scheduler";

/// The files of a scenario's BPF schedulers, each once.
#[must_use]
pub fn paths(scenario: &Scenario) -> Vec<&str> {
    let variants = scenario.variants.iter();
    let mut paths: Vec<&str> = variants
        .filter_map(|variant| variant.scheduler.bpf.as_deref())
        .collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// Refuses a kernel that cannot have the BPF scheduler of a variant that boots it.
///
/// # Errors
/// [`LabError::Beyond`]; [`LabError::Artifact`] if its configuration cannot be read.
pub fn check(scenario: &Scenario, variants: &[&Variant], kernel: &Kernel) -> Result<(), LabError> {
    let with = |variant: &&&Variant| variant.scheduler.bpf.is_some();
    let Some(variant) = variants.iter().find(with) else {
        return Ok(());
    };
    if kernel.has_sched_ext()? {
        return Ok(());
    }
    Err(LabError::Beyond {
        scenario: scenario.name.clone(),
        what: format!("the BPF scheduler of variant {}", variant.name),
        limit: format!(
            "Linux {} is without CONFIG_SCHED_CLASS_EXT; use --kernel debian-13-backports, or \
             `kernel` of the variant",
            kernel.release
        ),
    })
}

/// What loads the variant's scheduler before the first VM starts.
pub(super) fn load(variant: &Variant) -> Option<WorkloadPlan> {
    let path = variant.scheduler.bpf.as_deref()?;
    Some(plan(scx::load(path)))
}

/// What ends if the variant's scheduler ends: that is a fault of the run.
pub(super) fn watch(variant: &Variant) -> Option<WorkloadPlan> {
    variant.scheduler.bpf.as_ref().map(|_| plan(scx::watch()))
}

fn plan(argv: Vec<String>) -> WorkloadPlan {
    WorkloadPlan {
        program: NAME.to_owned(),
        argv,
        // The kernel verifies a program for seconds where the host is emulated.
        time_limit_ms: 60_000,
        ..WorkloadPlan::default()
    }
}
