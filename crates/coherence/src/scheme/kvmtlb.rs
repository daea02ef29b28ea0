// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `kvmtlb`, the paper's baseline: as `ipi`, but a preempted vCPU is left a flag and flushes when
//! it runs next. The state of its core is flushed at once, which is when its flag would be seen at
//! the latest.

use super::{Runs, Scheme, Spec, software};
use crate::machine::View;
use crate::os::Remap;

/// IPIs to running vCPUs.
pub static KVMTLB: Spec = Spec {
    name: "kvmtlb",
    help: "IPIs, but preempted vCPUs flush when they run next: the paper's baseline",
    runs: Runs::Anywhere,
    parameters: &[],
    validate: Spec::any_machine,
    make: |config| Box::new(Kvmtlb(software::Costs::of_ipis(config))),
};

#[derive(Debug)]
struct Kvmtlb(software::Costs);

impl Scheme for Kvmtlb {
    fn revoke(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, _now: u64) -> u64 {
        self.0.shoot_down(m, remap, core)
    }
}
