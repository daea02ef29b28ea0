// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How often two vCPUs of a VM that want a pCPU are on one, while another pCPU that they may use
//! has none of them: it is idle or runs a stranger's.

use std::collections::BTreeMap;

use steady_hostview::{Cpus, Place};

/// What was seen until now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stacked {
    looks: u64,
    stacked: u64,
}

/// How often siblings were stacked, and of how many looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct StackedShare {
    /// Of the looks, those with stacked siblings, in thousandths.
    pub permille: u64,
    /// How often it was looked.
    pub looks: u64,
}

impl Stacked {
    /// Looks once.
    pub fn look(&mut self, places: impl Iterator<Item = Place>, allowed: Option<&Cpus>) {
        let mut by_cpu: BTreeMap<u32, u64> = BTreeMap::new();
        let wanting = places.filter(|place| place.wants);
        wanting.for_each(|place| *by_cpu.entry(place.cpu).or_default() += 1);
        let without = allowed.is_some_and(|cpus| cpus.iter().any(|cpu| !by_cpu.contains_key(&cpu)));
        self.looks += 1;
        self.stacked += u64::from(without && by_cpu.values().any(|&count| count > 1));
    }

    pub fn seen(self) -> StackedShare {
        let permille = (self.stacked * 1000).checked_div(self.looks).unwrap_or(0);
        let looks = self.looks;
        StackedShare { permille, looks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_are_stacked_only_while_a_pcpu_has_none_of_them() {
        let at = |cpu: u32| Place { cpu, wants: true };
        let asleep = |cpu: u32| Place { cpu, wants: false };
        let two: Cpus = [0, 1].into_iter().collect();
        for (places, permille) in [
            (vec![at(0), at(0)], 1000),
            (vec![at(0), asleep(0)], 0),
            (vec![at(0), at(0), at(1)], 0),
            (vec![at(0), at(1)], 0),
        ] {
            let mut stacked = Stacked::default();
            stacked.look(places.clone().into_iter(), Some(&two));
            assert_eq!(stacked.seen().permille, permille, "{places:?}");
        }
    }
}
