// SPDX-License-Identifier: Apache-2.0 OR MIT
//! BPF schedulers of hosts: which a scenario has, and what a host loads for a variant.

use steady_lab_artifacts::image::scx;
use steady_lab_artifacts::kernel::Kernel;
use steady_scenario::{Scenario, Variant};

use crate::error::LabError;

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
            "Linux {} is without CONFIG_SCHED_CLASS_EXT; use bpf or debian-13-backports, by \
             --kernel or `kernel` of the variant",
            kernel.release
        ),
    })
}

/// The object of the variant's scheduler, in the host that loads it.
pub(super) fn object(variant: &Variant) -> Option<String> {
    variant.scheduler.bpf.as_deref().map(scx::object)
}
