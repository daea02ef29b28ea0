// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which pCPUs are there, which share a core and which a NUMA node, from sysfs
//! (Documentation/admin-guide/cputopology.rst).

use std::fs;
use std::path::Path;

use crate::{Cpus, Host, files};

/// The pCPUs of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// The pCPUs that are online.
    pub online: Cpus,
    /// Those that may come; those online where sysfs does not say.
    pub possible: Cpus,
    /// Those of each core, in the order of the lowest; of one each where sysfs does not say.
    pub cores: Vec<Cpus>,
    /// Those of each NUMA node; one with all where sysfs has none.
    pub nodes: Vec<Cpus>,
}

impl Topology {
    /// Reads it.
    #[must_use]
    pub fn read(host: &Host) -> Self {
        let cpus = host.sys.join("devices/system/cpu");
        let online = list(&cpus.join("online")).unwrap_or_default();
        let mut cores: Vec<Cpus> = Vec::new();
        for cpu in online.iter() {
            if cores.iter().any(|core| core.contains(cpu)) {
                continue;
            }
            let topology = cpus.join(format!("cpu{cpu}/topology"));
            let threads = list(&topology.join("core_cpus_list"));
            let threads = threads.or_else(|| list(&topology.join("thread_siblings_list")));
            let core = threads.map_or(Cpus::one(cpu), |threads| threads.and(&online));
            cores.push(if core.contains(cpu) {
                core
            } else {
                Cpus::one(cpu)
            });
        }
        let mut nodes = nodes(&host.sys.join("devices/system/node"), &online);
        if nodes.is_empty() {
            nodes.push(online.clone());
        }
        let possible = list(&cpus.join("possible")).unwrap_or_else(|| online.clone());
        Self {
            online,
            possible,
            cores,
            nodes,
        }
    }

    /// Those of `cpus` that are online: the first thread of each core, then the second, and so on.
    #[must_use]
    pub fn by_thread(&self, cpus: &Cpus) -> Vec<u32> {
        let cores = self
            .cores
            .iter()
            .map(|core| core.and(cpus).iter().collect());
        let cores: Vec<Vec<u32>> = cores.collect();
        let most = cores.iter().map(Vec::len).max().unwrap_or(0);
        let nth = |at: usize| cores.iter().filter_map(move |core| core.get(at).copied());
        (0..most).flat_map(nth).collect()
    }

    /// The number of its node in [`Self::nodes`].
    #[must_use]
    pub fn node_of(&self, cpu: u32) -> usize {
        let at = self.nodes.iter().position(|node| node.contains(cpu));
        at.unwrap_or(0)
    }
}

fn nodes(folder: &Path, online: &Cpus) -> Vec<Cpus> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(u32, Cpus)> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let number = name.to_str()?.strip_prefix("node")?.parse().ok()?;
            let cpus = list(&entry.path().join("cpulist"))?.and(online);
            // A node of memory alone.
            (!cpus.is_empty()).then_some((number, cpus))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, cpus)| cpus).collect()
}

fn list(path: &Path) -> Option<Cpus> {
    files::text(path).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join("sys/devices/system").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn cores_and_nodes_are_of_the_cpus_that_are_online() {
        let made = tempfile::tempdir().unwrap();
        let root = made.path();
        write(root, "cpu/online", "0-2,4-7\n");
        for cpu in 0..8 {
            let core = format!("{},{}\n", cpu % 4, cpu % 4 + 4);
            write(
                root,
                &format!("cpu/cpu{cpu}/topology/core_cpus_list"),
                &core,
            );
        }
        write(root, "node/node1/cpulist", "2-3,6-7\n");
        write(root, "node/node0/cpulist", "0-1,4-5\n");
        write(root, "node/node2/cpulist", "\n");
        let found = Topology::read(&Host::under(root));
        let texts = |sets: &[Cpus]| sets.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts(&found.cores), ["0,4", "1,5", "2,6", "7"]);
        assert_eq!(texts(&found.nodes), ["0-1,4-5", "2,6-7"]);
        assert_eq!((found.node_of(6), found.node_of(5)), (1, 0));
        assert_eq!(found.by_thread(&found.online), [0, 1, 2, 7, 4, 5, 6]);
        assert_eq!(found.by_thread(&found.nodes[1]), [2, 7, 6]);
    }

    #[test]
    fn a_host_without_topology_has_a_core_for_each_cpu_and_one_node() {
        let made = tempfile::tempdir().unwrap();
        write(made.path(), "cpu/online", "0-1\n");
        let found = Topology::read(&Host::under(made.path()));
        assert_eq!((found.cores.len(), found.nodes.len()), (2, 1));
        assert_eq!(found.nodes[0], found.online);
    }
}
