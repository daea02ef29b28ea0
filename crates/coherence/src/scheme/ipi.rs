// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ipi`: the guest interrupts every vCPU and waits for each, the preempted ones too.
//!
//! Preempted vCPUs exist only where several VMs share the cores.

use super::{Runs, Scheme, Spec, software};
use crate::machine::View;
use crate::os::{Agent, Remap};

/// IPIs to every vCPU.
pub static IPI: Spec = Spec {
    name: "ipi",
    help: "IPIs to every vCPU, waiting for preempted ones",
    runs: Runs::Anywhere,
    parameters: &[],
    validate: Spec::any_machine,
    make: |config| Box::new(Ipi(software::Costs::of_ipis(config))),
};

#[derive(Debug)]
struct Ipi(software::Costs);

impl Scheme for Ipi {
    fn revoke(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, _now: u64) -> u64 {
        let wait = match remap.agent {
            Agent::Guest => m.preempted_wait(remap.vm),
            Agent::Host => 0,
        };
        self.0.shoot_down(m, remap, core) + wait
    }
}
