// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Channels between the VMs of a variant.

use steady_agent::plan::{Link, LinkEnd, VmPlan};
use steady_scenario::{Scenario, Variant, Vmm};

/// Disks of a VM; an end of a channel is two.
const DISKS_MAX: usize = 8;

/// Which channel cannot be had, and why.
pub(super) fn beyond(scenario: &Scenario, variant: &Variant) -> Option<(String, &'static str)> {
    let reached = |name: &str| {
        let vms = scenario.vms_of(variant);
        vms.filter(|vm| vm.reaches.iter().any(|other| other == name))
            .count()
    };
    for vm in scenario.vms_of(variant) {
        let ends = vm.reaches.len() + reached(&vm.name);
        if ends > 0 && scenario.host.vmm == Vmm::Qemu {
            let what = format!("the channel of VM {}", vm.name);
            return Some((what, "only steady-vmm joins VMs; use vmm = \"steady\""));
        }
        if 2 * ends + usize::from(vm.disk_mib.is_some()) > DISKS_MAX {
            let what = format!("{ends} channels of VM {}", vm.name);
            return Some((what, "a VM has room for four, or three and a disk"));
        }
    }
    None
}

/// Gives both VMs of each channel their ends. A VM that the variant leaves out is not reached.
pub(super) fn join(plans: &mut [VmPlan], scenario: &Scenario, variant: &Variant) {
    let mut number = 0;
    for vm in scenario.vms_of(variant) {
        for reached in &vm.reaches {
            let server = scenario.vms_of(variant).find(|vm| vm.name == *reached);
            let Some(socket) = server.and_then(|server| server.serves.clone()) else {
                continue;
            };
            let mut end = |name: &str, end, socket| {
                let plan = plans.iter_mut().find(|plan| plan.name == name);
                let plan = plan.unwrap_or_else(|| unreachable!("{name} is of the variant"));
                plan.links.push(Link {
                    number,
                    end,
                    socket,
                });
            };
            end(&vm.name, LinkEnd::Reaches, format!("/run/{reached}.socket"));
            end(reached, LinkEnd::Serves, socket);
            number += 1;
        }
    }
}
