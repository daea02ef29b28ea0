// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Splits pCPUs among the busy vCPUs of one VM: disjoint sets that together are all of them, so
//! that no two of the VM are on one pCPU and none of the pCPUs is lost to it.
//!
//! Whole cores are kept together while there are as many as vCPUs, and a vCPU keeps a core of the
//! node that it is on, as far as the node has enough. Left out: which pCPUs are busy with others;
//! within its set a vCPU is the scheduler's.

use steady_hostview::{Cpus, Topology};

/// The sets, one for each vCPU, in the order of `now_on`, which is where the vCPUs are; `None` if
/// there are fewer pCPUs than vCPUs, or one vCPU alone.
pub(crate) fn split(allowed: &Cpus, topology: &Topology, now_on: &[u32]) -> Option<Vec<Cpus>> {
    let count = now_on.len();
    if count < 2 || allowed.len() < count {
        return None;
    }
    let cores = topology.cores.iter().map(|core| core.and(allowed));
    let cores: Vec<Cpus> = cores.filter(|core| !core.is_empty()).collect();
    let units = if cores.len() >= count {
        cores
    } else {
        allowed.iter().map(Cpus::one).collect()
    };
    let mut dealt = Deal::new(units, topology, count);
    dealt.keep(now_on);
    for near in [true, false] {
        dealt.one_each(now_on, topology, near);
    }
    dealt.rest(now_on, topology);
    let sets = dealt.sets;
    assert_sound(&sets, allowed);
    Some(sets)
}

/// Disjoint, none empty, all within what is allowed.
fn assert_sound(sets: &[Cpus], allowed: &Cpus) {
    let together: usize = sets.iter().map(Cpus::len).sum();
    let all: Cpus = sets.iter().flat_map(Cpus::iter).collect();
    assert!(
        sets.iter().all(|set| !set.is_empty()) && together == all.len() && all.is_within(allowed),
        "{sets:?} share out {allowed:?}"
    );
}

/// Units that are dealt to vCPUs.
struct Deal {
    /// Each with its node and whether it is dealt.
    units: Vec<(Cpus, usize, bool)>,
    sets: Vec<Cpus>,
}

impl Deal {
    fn new(units: Vec<Cpus>, topology: &Topology, count: usize) -> Self {
        let with_node = |unit: Cpus| {
            let node = unit.iter().next().map_or(0, |cpu| topology.node_of(cpu));
            (unit, node, false)
        };
        Self {
            units: units.into_iter().map(with_node).collect(),
            sets: vec![Cpus::default(); count],
        }
    }

    fn give(&mut self, vcpu: usize, unit: usize) {
        let (cpus, _, dealt) = &mut self.units[unit];
        *dealt = true;
        let cpus: Vec<u32> = cpus.iter().collect();
        cpus.into_iter().for_each(|cpu| self.sets[vcpu].insert(cpu));
    }

    /// The first of those on a unit keeps it.
    fn keep(&mut self, now_on: &[u32]) {
        for (vcpu, &cpu) in now_on.iter().enumerate() {
            let free = |(cpus, _, dealt): &(Cpus, usize, bool)| !dealt && cpus.contains(cpu);
            if let Some(unit) = self.units.iter().position(free) {
                self.give(vcpu, unit);
            }
        }
    }

    /// A unit for each that has none, of its node or of any.
    fn one_each(&mut self, now_on: &[u32], topology: &Topology, near: bool) {
        for (vcpu, &cpu) in now_on.iter().enumerate() {
            if !self.sets[vcpu].is_empty() {
                continue;
            }
            let home = topology.node_of(cpu);
            let fits = |(_, node, dealt): &(Cpus, usize, bool)| !dealt && (!near || *node == home);
            if let Some(unit) = self.units.iter().position(fits) {
                self.give(vcpu, unit);
            }
        }
    }

    /// What is left, each to the one with the fewest, of its node first.
    fn rest(&mut self, now_on: &[u32], topology: &Topology) {
        for unit in 0..self.units.len() {
            let (_, node, dealt) = self.units[unit];
            if dealt {
                continue;
            }
            let far = |vcpu: usize| topology.node_of(now_on[vcpu]) != node;
            let fewest =
                (0..self.sets.len()).min_by_key(|&vcpu| (far(vcpu), self.sets[vcpu].len()));
            if let Some(vcpu) = fewest {
                self.give(vcpu, unit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn topology(pcpus: u32, threads: u32, nodes: u32) -> Topology {
        let cores = pcpus / threads;
        let core = |core: u32| (0..threads).map(|thread| core + thread * cores).collect();
        let node = |node: u32| {
            let cpus = (0..pcpus).filter(|cpu| cpu % cores * nodes / cores == node);
            cpus.collect()
        };
        Topology {
            online: (0..pcpus).collect(),
            possible: (0..pcpus).collect(),
            cores: (0..cores).map(core).collect(),
            nodes: (0..nodes).map(node).collect(),
        }
    }

    fn texts(sets: Option<Vec<Cpus>>) -> Vec<String> {
        sets.unwrap_or_default()
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn as_many_vcpus_as_pcpus_have_one_each_and_keep_theirs() {
        let host = topology(4, 1, 1);
        assert_eq!(
            texts(split(&host.online, &host, &[2, 2, 0, 2])),
            ["2", "1", "0", "3"]
        );
    }

    #[test]
    fn fewer_vcpus_than_pcpus_share_out_all_of_them() {
        let host = topology(8, 1, 1);
        assert_eq!(
            texts(split(&host.online, &host, &[5, 5, 1])),
            ["2,5-6", "0,3,7", "1,4"]
        );
    }

    #[test]
    fn threads_of_a_core_stay_together_while_there_are_cores() {
        let host = topology(8, 2, 1);
        assert_eq!(
            texts(split(&host.online, &host, &[0, 4])),
            ["0,2,4,6", "1,3,5,7"]
        );
        assert_eq!(texts(split(&host.online, &host, &[0, 4, 1, 2, 3])).len(), 5);
    }

    #[test]
    fn a_vcpu_stays_on_its_node_while_that_has_room() {
        let host = topology(8, 1, 2);
        let sets = split(&host.online, &host, &[6, 6, 6, 1]).unwrap_or_default();
        let near = |vcpu: usize, node: usize| !sets[vcpu].and(&host.nodes[node]).is_empty();
        assert!((0..3).all(|vcpu| near(vcpu, 1)) && near(3, 0), "{sets:?}");
        assert!(
            sets[3].is_within(&host.nodes[0]) && sets[0].is_within(&host.nodes[1]),
            "{sets:?}"
        );
    }

    #[test]
    fn more_vcpus_than_pcpus_or_one_alone_are_not_split() {
        let host = topology(2, 1, 1);
        assert_eq!(split(&host.online, &host, &[0, 1, 0]), None);
        assert_eq!(split(&host.online, &host, &[0]), None);
    }

    proptest! {
        #[test]
        fn the_sets_are_disjoint_and_together_all_that_is_allowed(
            cores in 1u32..12,
            threads in 1u32..3,
            nodes in 1u32..3,
            allowed in proptest::collection::vec(any::<bool>(), 24),
            now_on in proptest::collection::vec(0u32..24, 2..10),
        ) {
            let host = topology(cores * threads, threads, nodes.min(cores));
            let allowed: Cpus = host.online.iter().filter(|&cpu| allowed[cpu as usize]).collect();
            let now_on: Vec<u32> = now_on.iter().map(|cpu| cpu % (cores * threads)).collect();
            let sets = split(&allowed, &host, &now_on);
            prop_assert_eq!(sets.is_some(), allowed.len() >= now_on.len());
            if let Some(sets) = sets {
                let all: Vec<u32> = sets.iter().flat_map(Cpus::iter).collect();
                prop_assert_eq!(all.len(), allowed.len());
                prop_assert_eq!(all.into_iter().collect::<Cpus>(), allowed);
                // No vCPU has two cores more than another, on a host without nodes.
                if host.nodes.len() == 1 && threads == 1 {
                    let sizes: Vec<usize> = sets.iter().map(Cpus::len).collect();
                    prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
                }
            }
        }
    }
}
