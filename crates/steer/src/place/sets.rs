// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which vCPUs of a VM may be parted, and the pCPUs that each would have.

use std::collections::BTreeMap;

use steady_hostview::{Cpus, Topology};

use super::split::split;
use super::threads::Thread;

/// The pCPUs that most of a VM's vCPUs may run on, if a second one may.
pub(super) fn allowed(threads: &[Thread]) -> Option<Cpus> {
    let mut counts: BTreeMap<&Cpus, usize> = BTreeMap::new();
    let ours = threads.iter().filter(|thread| !thread.theirs);
    ours.for_each(|thread| *counts.entry(&thread.before).or_default() += 1);
    let most = counts.into_iter().max_by_key(|&(_, count)| count)?;
    (most.1 > 1).then(|| most.0.clone())
}

/// The threads that may be parted: unpinned, and not changed by others.
fn movable<'a>(threads: &'a [Thread], allowed: &'a Cpus) -> impl Iterator<Item = usize> + 'a {
    let can = move |thread: &Thread| !thread.theirs && thread.before == *allowed;
    (0..threads.len()).filter(move |&at| can(&threads[at]))
}

/// The set of each thread that may be parted: a part for the busy ones, all for the others. The
/// pCPUs of pinned siblings are left to them. `None` if it cannot be parted.
pub(super) fn sets(
    threads: &[Thread],
    topology: &Topology,
    least: usize,
) -> Option<Vec<(usize, Cpus)>> {
    let allowed = allowed(threads)?;
    let pinned = threads
        .iter()
        .filter(|thread| thread.before.len() == 1 && thread.busy_for > 0);
    let pinned: Cpus = pinned
        .flat_map(|thread| thread.before.iter().collect::<Vec<_>>())
        .collect();
    let usable = allowed.and(&topology.online).without(&pinned);
    let (busy, idle): (Vec<usize>, Vec<usize>) =
        movable(threads, &allowed).partition(|&at| threads[at].busy_for > 0);
    let now_on = busy.iter().map(|&at| threads[at].meter.cpu().unwrap_or(0));
    let now_on: Vec<u32> = now_on.collect();
    let mut sets = split(&usable, topology, &now_on)?;
    widen(&mut sets, least);
    let idle = idle.into_iter().map(|at| (at, allowed.clone()));
    Some(busy.into_iter().zip(sets).chain(idle).collect())
}

/// The busy vCPUs among those that may be parted, by thread.
pub(super) fn busy(threads: &[Thread]) -> Vec<i32> {
    let Some(allowed) = allowed(threads) else {
        return Vec::new();
    };
    let threads = movable(threads, &allowed).map(|at| &threads[at]);
    let busy = threads.filter(|thread| thread.busy_for > 0);
    busy.map(|thread| thread.meter.tid()).collect()
}

/// Gives a set pCPUs of the next ones until it has `least`.
fn widen(sets: &mut [Cpus], least: usize) {
    let own = sets.to_vec();
    for at in 0..sets.len() {
        let others =
            (1..sets.len()).flat_map(|by| own[(at + by) % own.len()].iter().collect::<Vec<_>>());
        for cpu in others {
            if sets[at].len() >= least {
                break;
            }
            sets[at].insert(cpu);
        }
    }
}
