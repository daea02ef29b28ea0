// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Remedies that a program carries out, on the host or in guests: what is run for them.

use steady_agent::plan::WorkloadPlan;
use steady_lab_artifacts::image::tree::STEER;
use steady_remedies::Means;
use steady_scenario::{Chosen, Scenario, Variant};

/// Whether a variant has such a remedy on its host.
#[must_use]
pub fn on_hosts(scenario: &Scenario) -> bool {
    any(scenario, |means| matches!(means, Means::Host(_)))
}

/// Whether a variant has such a remedy in guests.
#[must_use]
pub fn in_guests(scenario: &Scenario) -> bool {
    any(scenario, |means| matches!(means, Means::Guest(_)))
}

fn any(scenario: &Scenario, is: impl Fn(Means) -> bool) -> bool {
    let on = scenario
        .variants
        .iter()
        .flat_map(|variant| &variant.remedies);
    on.into_iter().any(|on| is(on.remedy.means))
}

/// What the host runs; a remedy for some VMs names them.
pub(super) fn of_host(variant: &Variant) -> Vec<WorkloadPlan> {
    let on = variant.remedies.iter();
    let on = on.filter(|on| matches!(on.remedy.means, Means::Host(_)));
    // A remedy for no VM would be one for all to its program.
    let on = on.filter(|on| on.vms.as_ref().is_none_or(|vms| !vms.is_empty()));
    on.map(|on| {
        let vms = on.vms.iter().flatten();
        plan(on, vms.flat_map(|vm| ["--vm".to_owned(), vm.clone()]))
    })
    .collect()
}

/// What the guest of this name runs.
pub(super) fn of_guest(variant: &Variant, vm: &str) -> Vec<WorkloadPlan> {
    let on = variant.remedies.iter();
    let on = on.filter(|on| matches!(on.remedy.means, Means::Guest(_)) && on.is_offered_to(vm));
    on.map(|on| plan(on, [])).collect()
}

fn plan(on: &Chosen, more: impl IntoIterator<Item = String>) -> WorkloadPlan {
    let words = on.remedy.words(on.mode());
    let words = words.unwrap_or_else(|| unreachable!("a program's mode has words"));
    let words = words.iter().map(|&word| word.to_owned());
    WorkloadPlan {
        program: on.remedy.name.to_owned(),
        argv: std::iter::once(STEER.to_owned())
            .chain(words)
            .chain(more)
            .collect(),
        ..WorkloadPlan::default()
    }
}
