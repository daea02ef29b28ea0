// SPDX-License-Identifier: Apache-2.0 OR MIT
//! POM-TLB: a large addressable TLB in DRAM, coherent by software shootdowns as in `kvmtlb`.

use super::{Atlb, Runs, Scheme, Spec, atlb, software};
use crate::config::{Allowed, MachineConfig, Parameter, Value};
use crate::layout::Key;
use crate::machine::{Look, View, Walk};
use crate::os::{Agent, Mapping, Remap};

/// Whether a host's update drops one entry.
pub static PRECISE: Parameter = Parameter {
    key: "rivals.pom_precise",
    default: Value::Flag(true),
    allowed: Allowed::Flag,
    help: "POM-TLB on a host update: true invalidates the one entry, as if the hypervisor knew its \
           guest-virtual address; false flushes the VM's entries, since it does not.",
};

/// Addressable TLB, software coherence.
pub static POM_TLB: Spec = Spec {
    name: "pom-tlb",
    help: "addressable TLB, software coherence",
    runs: Runs::Anywhere,
    parameters: &[
        &atlb::KIB,
        &atlb::WAYS,
        &atlb::LARGE_KIB,
        &atlb::WARM,
        &PRECISE,
    ],
    validate: atlb::validate,
    make: |config| Box::new(PomTlb::new(config)),
};

#[derive(Debug)]
struct PomTlb {
    atlb: Atlb,
    precise: bool,
    costs: software::Costs,
}

impl PomTlb {
    fn new(config: &MachineConfig) -> Self {
        Self {
            atlb: Atlb::new(config),
            precise: config.schemes.flag(&PRECISE),
            costs: software::Costs::of_ipis(config),
        }
    }
}

impl Scheme for PomTlb {
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

    fn revoke(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, _now: u64) -> u64 {
        self.atlb
            .revoke(remap, remap.agent == Agent::Host && !self.precise);
        self.costs.shoot_down(m, remap, core)
    }
}
