// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs that users bring to a race of a claim: what the claim must say of them, and which ones
//! a record was raced with. They are in no repository; their digests are in the record.

use std::path::Path;

use steady_scenario::{Runs, Scenario};

use crate::claim::Claim;
use crate::house::{House, short};

/// What `config` of a result has before the path of a brought file, `NAME/FILE`.
const DIGEST: &str = "program.";

/// Name and key in `config` of each program that a user brings to a scenario, once each and in its
/// order.
fn programs(scenario: &Scenario) -> Vec<(&str, String)> {
    let mut found: Vec<(&str, String)> = Vec::new();
    for workload in scenario.vms.iter().flat_map(|vm| &vm.workloads) {
        let Runs::Brought(program) = &workload.program else {
            continue;
        };
        let name = workload.program.name();
        let file = Path::new(program.path()).file_name().unwrap_or_default();
        let key = format!("{DIGEST}{name}/{}", file.to_string_lossy());
        if found.iter().all(|(known, _)| *known != name) {
            found.push((name, key));
        }
    }
    found
}

/// A claim says whose programs its scenario wants, and only then.
pub(crate) fn problem(claim: &Claim, scenario: &Scenario) -> Option<String> {
    let wanted = programs(scenario);
    match (&claim.brought, wanted.as_slice()) {
        (None, [(name, _), ..]) => Some(format!(
            "the scenario wants the user's program `{name}`; expected `brought` with whose \
             programs these are"
        )),
        (Some(_), []) => Some("`brought`, and the scenario wants no user's program".to_owned()),
        _ => None,
    }
}

/// The user's programs that a record was raced with, each by the first digits of its digest.
pub(crate) fn line(house: &House, claim: &Claim) -> Option<String> {
    let said = claim.brought.as_ref()?;
    let config = house.record(claim).map(|record| &record.result.config);
    let digest = |key: &str| config.and_then(|config| config.get(key));
    let wanted = house.scenario(claim).map(programs).unwrap_or_default();
    let each = wanted.iter().filter_map(|(name, key)| {
        let digest = digest(key)?;
        Some(format!("{name} {}", short(digest)))
    });
    let each: Vec<String> = each.collect();
    Some(match each.as_slice() {
        [] => said.clone(),
        each => format!("{said} ({})", each.join(", ")),
    })
}
