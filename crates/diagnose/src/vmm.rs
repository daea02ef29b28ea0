// SPDX-License-Identifier: Apache-2.0 OR MIT
//! For how long the threads of VMMs ran that are no vCPUs, by the notes of the recording: they use
//! the quota of their groups too.
//!
//! Left out: threads that began after the notes were taken.

use std::collections::BTreeMap;

use crate::machine::Machine;
use crate::spread::add;

/// Their run time.
#[derive(Debug, Default)]
pub struct Vmms {
    since_ns: BTreeMap<i32, u64>,
    /// By VM of the notes, in nanoseconds.
    pub ran_ns: BTreeMap<usize, u64>,
}

impl Vmms {
    /// A pCPU switches from one thread to another.
    #[inline]
    pub fn switch(&mut self, machine: &Machine, from: i32, to: i32, now_ns: u64) {
        if machine.noted.is_empty() {
            return;
        }
        if let Some(since_ns) = self.since_ns.remove(&from)
            && let Some(&(note, None)) = machine.noted.get(&from)
        {
            let ran_ns = self.ran_ns.entry(note).or_default();
            add(ran_ns, now_ns.saturating_sub(since_ns));
        }
        if let Some((_, None)) = machine.noted.get(&to) {
            self.since_ns.insert(to, now_ns);
        }
    }

    /// Events were lost: since when they run is not known.
    pub fn lost(&mut self) {
        self.since_ns.clear();
    }
}
