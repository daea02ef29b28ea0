// SPDX-License-Identifier: Apache-2.0 OR MIT
//! POM-TLB: a large addressable TLB in DRAM, coherent by software shootdowns as in `kvmtlb`.

use super::{Atlb, Scheme, software};
use crate::config::MachineConfig;
use crate::layout::Key;
use crate::machine::{Machine, Walk};
use crate::os::{Agent, Mapping, Remap};

/// POM-TLB.
#[derive(Debug)]
pub struct PomTlb {
    atlb: Atlb,
    precise: bool,
}

impl PomTlb {
    pub(super) fn new(config: &MachineConfig) -> Self {
        Self {
            atlb: Atlb::new(config),
            precise: config.rivals.pom_precise,
        }
    }
}

impl Scheme for PomTlb {
    fn forget(&mut self, key: Key) {
        self.atlb.remove(key);
    }

    fn warm(&mut self, _m: &Machine, mapping: &Mapping) {
        self.atlb.warm(mapping);
    }

    fn miss(&mut self, m: &mut Machine, core: usize, key: Key, now: u64, _issued: u64) -> Walk {
        self.atlb.serve(m, core, key, now).walk
    }

    fn revoke(&mut self, m: &mut Machine, remap: &Remap, core: usize, _now: u64) -> u64 {
        if remap.agent == Agent::Host && !self.precise {
            self.atlb.remove_where(|key| key.vm() == remap.vm);
        } else {
            for change in &remap.changes {
                self.atlb.remove(change.key);
            }
        }
        software::shoot_down(m, remap, core)
    }
}
