// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is different where host and guests boot the kernel of a distribution's package, or of a
//! port of the series.

use steady_agent::plan::HostPlan;
use steady_remedies::Means;
use steady_scenario::{Chosen, Kernel, Scenario, Variant, Vm};

use super::flavors;
use crate::error::LabError;

/// Refuses remedies of the kernel where `kernel`, in words, has none.
///
/// # Errors
/// [`LabError::Beyond`].
pub fn without_remedies(
    scenario: &Scenario,
    variants: &[&Variant],
    kernel: &str,
) -> Result<(), LabError> {
    for variant in variants {
        let of_kernel = |chosen: &&Chosen| matches!(chosen.remedy.means, Means::Kernel);
        if let Some(chosen) = variant.remedies.iter().find(of_kernel) {
            return Err(LabError::Beyond {
                scenario: scenario.name.clone(),
                what: format!("the remedy {} of variant {}", chosen.remedy, variant.name),
                limit: format!("it is not in {kernel}; choose others by --variant"),
            });
        }
    }
    Ok(())
}

/// Refuses a trace where `kernel`, in words, has no probes.
///
/// # Errors
/// [`LabError::Beyond`].
pub fn without_trace(scenario: &Scenario, trace: bool, kernel: &str) -> Result<(), LabError> {
    if !trace {
        return Ok(());
    }
    Err(LabError::Beyond {
        scenario: scenario.name.clone(),
        what: "a trace".to_owned(),
        limit: format!("it needs kernel probes, and {kernel} has none; leave out --trace"),
    })
}

/// Refuses disks of guests, for which a distribution's kernel has no driver here.
///
/// # Errors
/// [`LabError::Beyond`].
pub fn without_disks(scenario: &Scenario, variants: &[&Variant]) -> Result<(), LabError> {
    let beyond = |what: String, limit: &str| {
        Err(LabError::Beyond {
            scenario: scenario.name.clone(),
            what,
            limit: limit.to_owned(),
        })
    };
    for variant in variants {
        let disks = |vm: &Vm| match vm.disk_mib {
            Some(_) => Some(format!("the disk of VM {}", vm.name)),
            None if vm.reaches.is_empty() => None,
            None => Some(format!("the channel's disks of VM {}", vm.name)),
        };
        if let Some(what) = scenario.vms_of(variant).find_map(disks) {
            let limit = "a distribution's kernel finds it by PCI or ACPI, which guests here lack";
            return beyond(what, limit);
        }
    }
    Ok(())
}

/// Refuses what would boot a kernel of another version beside that of a port, which the user wrote
/// as `written`: in its own hosts' guests, and by `--kernel` as the stock kernel.
///
/// # Errors
/// [`LabError::Beyond`].
pub fn alone(scenario: &Scenario, variants: &[&Variant], written: &str) -> Result<(), LabError> {
    let stock = |variant: &&&Variant| variant.kernel == Kernel::Stock;
    let what = match variants.iter().find(stock) {
        Some(variant) => format!("the stock kernel of variant {}", variant.name),
        None if flavors(scenario, variants).is_empty() => return Ok(()),
        None => "a guest with a kernel of its own".to_owned(),
    };
    Err(LabError::Beyond {
        scenario: scenario.name.clone(),
        what,
        limit: format!("{written} is one kernel, of hosts and guests; choose others by --variant"),
    })
}

/// What a distribution's kernel takes more than the lab's, in MiB.
pub const LARGER_MIB: u32 = 96;

/// Makes a plan one for guests that boot a distribution's kernel.
pub fn enlarge(plan: &mut HostPlan) {
    let larger = plan.vms.iter_mut().filter(|vm| vm.kernel.is_none());
    larger.for_each(|vm| vm.memory_mib += LARGER_MIB);
}
