// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reports a variant that is another one by another name: a switch of it is without effect, as
//! where it offers a feature that a VM does not allow. An A/A comparison does so on purpose.

use super::cross::Crossed;
use super::value::Problems;
use crate::model::{Pv, Vm};
use crate::variant::Variant;
use crate::words::{PvFeature, Word};

/// Notes each variant whose machine is that of one before it.
pub(super) fn check(variants: &[Crossed], vms: &[Vm], problems: &Problems) {
    let machines: Vec<_> = variants
        .iter()
        .map(|crossed| machine(&crossed.variant, vms))
        .collect();
    for (at, crossed) in variants.iter().enumerate() {
        let first = machines[..at].iter().position(|one| *one == machines[at]);
        if let Some(first) = first {
            let message = format!(
                "variant \"{}\" is the same machine as \"{}\"",
                crossed.variant.name, variants[first].variant.name
            );
            let label = "a comparison with itself, or a switch without effect";
            problems.note(crossed.name.clone(), message, label);
        }
    }
}

/// The variant with what the VMs make of it, and without its names.
fn machine(variant: &Variant, vms: &[Vm]) -> Variant {
    let mut machine = variant.clone();
    machine.name = String::new();
    machine.title = None;
    machine.pv = Pv::default();
    machine.vms.clear();
    machine.without.sort();
    for vm in vms.iter().filter(|vm| !variant.without.contains(&vm.name)) {
        let mut change = variant.vms.get(&vm.name).cloned().unwrap_or_default();
        let words = [&variant.guest_cmdline, &change.guest_cmdline].map(|words| words.trim());
        change.guest_cmdline = words.join(" ").trim().to_owned();
        let (mut allowed, mut offered) = (vm.pv, variant.pv);
        for &feature in PvFeature::ALL {
            *change.pv.slot(feature) &= *allowed.slot(feature) && *offered.slot(feature);
        }
        machine.vms.insert(vm.name.clone(), change);
    }
    machine.guest_cmdline = String::new();
    machine
}
