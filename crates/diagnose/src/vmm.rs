// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For how long the threads of VMMs ran that are not vCPUs, by the notes of the recording: they use
//! the quota of their groups too.
//!
//! Left out: threads that began after the notes were taken.

use std::collections::BTreeMap;

use crate::spread::add;

/// Their run time.
#[derive(Debug, Default)]
pub struct Vmms {
    /// The VM of the notes that each thread is of, and since when it runs, if it does.
    threads: BTreeMap<i32, (usize, Option<u64>)>,
    /// By VM of the notes, in nanoseconds.
    pub ran_ns: BTreeMap<usize, u64>,
}

impl Vmms {
    /// Of the threads of the notes.
    pub fn new(noted: &BTreeMap<i32, (usize, Option<u32>)>) -> Self {
        let others = noted.iter().filter(|(_, (_, vcpu))| vcpu.is_none());
        Self {
            threads: others.map(|(&tid, &(vm, _))| (tid, (vm, None))).collect(),
            ran_ns: BTreeMap::new(),
        }
    }

    /// A pCPU switches from one thread to another.
    pub fn switch(&mut self, from: i32, to: i32, now_ns: u64) {
        if self.threads.is_empty() {
            return;
        }
        if let Some((vm, since_ns)) = self.threads.get_mut(&from)
            && let Some(since_ns) = since_ns.take()
        {
            let ran_ns = self.ran_ns.entry(*vm).or_default();
            add(ran_ns, now_ns.saturating_sub(since_ns));
        }
        if let Some((_, since_ns)) = self.threads.get_mut(&to) {
            *since_ns = Some(now_ns);
        }
    }

    /// Events were lost: since when they run is not known.
    pub fn lost(&mut self) {
        self.threads.values_mut().for_each(|of| of.1 = None);
    }
}
