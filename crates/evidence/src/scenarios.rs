// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The scenarios that claims name, read once.

use std::collections::BTreeMap;

use steady_scenario::Scenario;

use crate::claim::Claim;
use crate::error::Problem;
use crate::house::House;

/// Every scenario that a claim names, by its path in the claim.
#[derive(Debug, Default)]
pub struct Scenarios {
    found: BTreeMap<String, Scenario>,
}

impl Scenarios {
    /// Reads them all; what cannot be read is a problem and left out.
    pub fn load(house: &House) -> (Self, Vec<Problem>) {
        let (mut found, mut problems) = (BTreeMap::new(), Vec::new());
        for claim in house.claims().filter(|claim| !claim.is_simulated()) {
            if found.contains_key(&claim.scenario) {
                continue;
            }
            match Scenario::load(house.root.join(&claim.scenario)) {
                Ok(scenario) => {
                    found.insert(claim.scenario.clone(), scenario);
                }
                Err(error) => problems.push(Problem::new(
                    format!("claim `{}`", claim.id),
                    format!("its scenario cannot be read: {error}"),
                )),
            }
        }
        (Self { found }, problems)
    }

    /// The scenario of a claim; `None` for simulated ones and unreadable files.
    #[must_use]
    pub fn of(&self, claim: &Claim) -> Option<&Scenario> {
        self.found.get(&claim.scenario)
    }
}
