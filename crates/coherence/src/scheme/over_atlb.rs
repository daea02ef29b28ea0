// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A scheme on a machine that has ATTC's addressable TLB: the table serves misses, what an update
//! revokes leaves it at no cost, and the scheme does all else.
//!
//! Left out: hooks of the scheme but its updates and counts. The schemes that stand over a table
//! here have no others.

use std::collections::BTreeMap;

use super::{Atlb, Scheme, Spec};
use crate::config::MachineConfig;
use crate::layout::Key;
use crate::machine::{Look, View, Walk};
use crate::os::{Agent, Mapping, Remap};

/// The table, and who keeps TLBs coherent.
#[derive(Debug)]
pub(super) struct OverAtlb {
    atlb: Atlb,
    /// A host's update drops its pages' entries; else those of the VM.
    precise: bool,
    scheme: Box<dyn Scheme>,
}

impl OverAtlb {
    /// A scheme that runs anywhere, on a machine that has been validated.
    pub fn boxed(config: &MachineConfig, scheme: &Spec, precise: bool) -> Box<dyn Scheme> {
        Box::new(Self {
            atlb: Atlb::new(config),
            precise,
            scheme: (scheme.make)(config),
        })
    }
}

impl Scheme for OverAtlb {
    fn forget(&mut self, key: Key) {
        self.atlb.remove(key);
    }

    fn warm(&mut self, _m: Look<'_>, mapping: &Mapping) {
        self.atlb.warm(mapping);
    }

    fn dirtied(&mut self, m: &mut View<'_>, core: usize, key: Key, now: u64) {
        self.atlb.dirtied(m, core, key, now);
    }

    fn miss(&mut self, m: &mut View<'_>, core: usize, key: Key, now: u64, _issued: u64) -> Walk {
        self.atlb.serve(m, core, key, now).walk
    }

    fn revoke(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, now: u64) -> u64 {
        if remap.agent == Agent::Host && !self.precise {
            self.atlb.remove_where(|key| key.vm() == remap.vm);
        } else {
            for change in &remap.changes {
                self.atlb.remove(change.key);
            }
        }
        self.scheme.revoke(m, remap, core, now)
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.scheme.counts()
    }
}
