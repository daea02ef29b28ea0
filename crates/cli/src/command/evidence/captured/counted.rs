// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is counted in a recorded trace: how often a VM changed its own tables, for how many pages,
//! and with how many victims. What is simulated on it stands beside.
//!
//! Left out: the host's updates.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, ensure};
use steady_coherence::compare::Comparison;
use steady_measures::{Better, Metric, Unit};
use steady_memtrace::host::{Owner, Rates, Update};
use steady_scenario::Scenario;

use super::schemes;

/// What rates are of.
const PER_INSTRUCTIONS: u64 = 1_000_000_000;

/// What a trace, and what is simulated on it, give of each VM of its scenario.
pub(super) fn measures(
    trace: &Path,
    scenario: &Scenario,
    found: &Comparison,
) -> anyhow::Result<Vec<Metric>> {
    let file = File::open(trace).with_context(|| trace.display().to_string())?;
    let rates = Rates::read(BufReader::with_capacity(1 << 20, file))?;
    let mut metrics = Vec::new();
    for (number, vm) in (1_u16..).zip(&scenario.vms) {
        // VMs are in the order of their first entries, which is that of the scenario.
        let Some(owner) = rates.owners.get(&number) else {
            ensure!(
                vm.background,
                "the VM `{}` is not in the recorded part",
                vm.name
            );
            continue;
        };
        if !vm.background {
            within_the_program(&vm.name, owner)?;
        }
        let updates = rates.updates.iter();
        let own = updates.filter(|update| update.owner == number && !update.ept);
        let of_vm = counted(owner, own)
            .into_iter()
            .chain(schemes::speeds(found));
        metrics.extend(of_vm.map(|metric| metric.in_vm(vm.name.clone())));
    }
    ensure!(!metrics.is_empty(), "no VM ran in the recorded part");
    Ok(metrics)
}

/// A measured VM without a shootdown was recorded before or after its program.
fn within_the_program(name: &str, owner: &Owner) -> anyhow::Result<()> {
    ensure!(
        owner.updates.shootdowns > 0,
        "the recorded part has no shootdown of the VM `{name}`, so that it lies beside its \
         program; expected another `after_ticks`"
    );
    Ok(())
}

pub(super) fn metric(name: &str, unit: Unit, value: u64) -> Metric {
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    Metric::new(format!("captured.{name}"), unit, Better::Neutral, value)
}

/// `part` of `whole`, times `of`, halves up; 0 of nothing.
pub(super) fn share(part: u64, whole: u64, of: u64) -> u64 {
    let whole = u128::from(whole).max(1);
    let rounded = (u128::from(part) * u128::from(of) + whole / 2) / whole;
    u64::try_from(rounded).unwrap_or(u64::MAX)
}

/// How often a VM changed its own tables, and what for.
fn counted<'a>(owner: &Owner, updates: impl Iterator<Item = &'a Update>) -> Vec<Metric> {
    let its = &owner.updates;
    let one_page = updates.filter(|update| shoots_down(update) && update.entries == 1);
    let one_page = one_page.count() as u64;
    let victims = its.victims + its.victims_by_host;
    let rate = |count| share(count, owner.instructions, PER_INSTRUCTIONS);
    let each = |count| share(count, its.shootdowns, 100);
    let mut found = vec![
        metric("instructions", Unit::Instructions, owner.instructions),
        metric("shootdowns", Unit::Count, rate(its.shootdowns)),
        metric("private", Unit::Count, rate(its.private)),
    ];
    if its.shootdowns > 0 {
        found.push(metric("pages", Unit::Count, each(its.shot_pages)));
        found.push(metric("victims", Unit::Count, each(victims)));
        let share = share(one_page, its.shootdowns, 1_000_000);
        found.push(metric("one_page", Unit::Ppm, share));
    }
    found
}

/// Whether others invalidated.
fn shoots_down(update: &Update) -> bool {
    !update.told.is_empty() || !update.told_by_host.is_empty()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use steady_memtrace::host::{Actor, Updates};

    use super::*;

    #[test]
    fn a_part_beside_the_program_is_refused() {
        let mut owner = Owner::default();
        owner.updates.private = 9;
        let said = within_the_program("victim", &owner).map_err(|error| error.to_string());
        assert!(said.is_err_and(|text| text.contains("`victim`")));
        owner.updates.shootdowns = 1;
        assert!(within_the_program("victim", &owner).is_ok());
    }

    #[test]
    fn rates_are_of_a_thousand_million_instructions_and_pages_and_victims_of_a_hundred() {
        let updates = Updates {
            shootdowns: 4,
            shot_pages: 10,
            victims: 11,
            victims_by_host: 1,
            private: 2,
            ..Updates::default()
        };
        let owner = Owner {
            instructions: 2_000_000,
            updates,
            ..Owner::default()
        };
        let update = |entries, victims: u16| Update {
            at: 0,
            owner: 1,
            ept: false,
            by: Actor::Vcpu(0),
            pages: Vec::new(),
            entries,
            fewer: Vec::new(),
            invalidated: true,
            told: (1..=victims).map(Actor::Vcpu).collect(),
            told_by_host: BTreeSet::new(),
        };
        // A private one of one page is not a shootdown.
        let all = [update(1, 3), update(1, 0), update(9, 1)];
        let found = counted(&owner, all.iter());
        let value = |name: &str| {
            let name = format!("captured.{name}");
            found
                .iter()
                .find(|one| one.name == name)
                .map(|one| one.value)
        };
        for metric in &found {
            let known = steady_evidence::CAPTURED.contains(&metric.name.as_str());
            assert!(known, "{}", metric.name);
        }
        assert_eq!(value("shootdowns"), Some(2_000));
        assert_eq!(value("private"), Some(1_000));
        assert_eq!(value("pages"), Some(250));
        assert_eq!(value("victims"), Some(300));
        assert_eq!(value("one_page"), Some(250_000));
    }
}
