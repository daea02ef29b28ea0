// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Zero-time, exact coherence: the bound. `ideal` is the baseline machine without shootdown cost
//! (the reference of the paper's Figure 1); `ideal-atlb` has ATTC's addressable TLB too, so that
//! the distance from it is ATTC's coherence cost alone.

use super::{Atlb, Scheme};
use crate::config::MachineConfig;
use crate::layout::Key;
use crate::machine::{Machine, Walk};
use crate::os::{Mapping, Remap};

/// The bound.
#[derive(Debug)]
pub struct Ideal {
    atlb: Option<Atlb>,
}

impl Ideal {
    pub(super) const fn plain() -> Self {
        Self { atlb: None }
    }
    pub(super) fn with_atlb(config: &MachineConfig) -> Self {
        Self {
            atlb: Some(Atlb::new(config)),
        }
    }
}

impl Scheme for Ideal {
    fn forget(&mut self, key: Key) {
        if let Some(atlb) = &mut self.atlb {
            atlb.remove(key);
        }
    }

    fn warm(&mut self, _m: &Machine, mapping: &Mapping) {
        if let Some(atlb) = &mut self.atlb {
            atlb.warm(mapping);
        }
    }

    fn miss(&mut self, m: &mut Machine, core: usize, key: Key, now: u64, _issued: u64) -> Walk {
        match &mut self.atlb {
            Some(atlb) => atlb.serve(m, core, key, now).walk,
            None => m.walk(core, key, now).0,
        }
    }

    fn revoke(&mut self, m: &mut Machine, remap: &Remap, _core: usize, _now: u64) -> u64 {
        for change in &remap.changes {
            m.invalidate_everywhere(change.key);
            if let Some(atlb) = &mut self.atlb {
                atlb.remove(change.key);
            }
        }
        0
    }
}
