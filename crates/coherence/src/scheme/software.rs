// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shootdowns by software: `ipi`, `kvmtlb` and `shoot4u`.
//!
//! The costs are Table 2's measured means, paid once per batch. A guest's update invalidates pages
//! (or everything, above Linux's ceiling); a host's update flushes the whole VM on every core,
//! since the hypervisor does not know guest-virtual addresses (paper section 1). Preempted vCPUs
//! exist only where several VMs share the cores: `ipi` waits until each has run, `kvmtlb` leaves
//! them a flag, `shoot4u` invalidates from the host. The state of a preempted vCPU's core is
//! flushed at once in all three, which is when its flag would be seen at the latest.

use super::Scheme;
use crate::machine::Machine;
use crate::os::{Agent, Remap};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Ipi,
    Kvmtlb,
    Shoot4u,
}

/// One of the software schemes.
#[derive(Debug)]
pub struct Software {
    kind: Kind,
}

impl Software {
    pub(super) const fn ipi() -> Self {
        Self { kind: Kind::Ipi }
    }
    pub(super) const fn kvmtlb() -> Self {
        Self { kind: Kind::Kvmtlb }
    }
    pub(super) const fn shoot4u() -> Self {
        Self {
            kind: Kind::Shoot4u,
        }
    }
}

/// Removes what `remap` revoked from every TLB as software does, and says whether that flushed.
pub(super) fn clear_tlbs(m: &mut Machine, remap: &Remap) {
    let ceiling = m.config.shootdown.flush_ceiling_pages as usize;
    if remap.agent == Agent::Host || remap.changes.len() > ceiling {
        m.flush_everywhere(remap);
    } else {
        for change in &remap.changes {
            m.invalidate_everywhere(change.key);
        }
    }
}

/// An IPI shootdown at the mode's costs; returns the initiator's cycles.
pub(super) fn shoot_down(m: &mut Machine, remap: &Remap, core: usize) -> u64 {
    let (initiator, victim) = m.config.ipi_costs();
    shoot_down_at(m, remap, core, initiator, victim)
}

fn shoot_down_at(m: &mut Machine, remap: &Remap, core: usize, initiator: u64, victim: u64) -> u64 {
    clear_tlbs(m, remap);
    if m.interrupt_victims(core, remap.vm, victim) == 0 {
        // Nobody to interrupt: the invalidation alone, as a victim does it.
        return victim;
    }
    m.counts.ipi_shootdowns += 1;
    initiator
}

impl Scheme for Software {
    fn revoke(&mut self, m: &mut Machine, remap: &Remap, core: usize, _now: u64) -> u64 {
        match self.kind {
            Kind::Kvmtlb => shoot_down(m, remap, core),
            Kind::Ipi => {
                let wait = match remap.agent {
                    Agent::Guest => m.preempted_wait[usize::from(remap.vm)],
                    Agent::Host => 0,
                };
                shoot_down(m, remap, core) + wait
            }
            Kind::Shoot4u if remap.agent == Agent::Guest => {
                let rivals = &m.config.rivals;
                let (initiator, victim) = (
                    rivals.shoot4u_initiator_cycles,
                    rivals.shoot4u_victim_cycles,
                );
                shoot_down_at(m, remap, core, initiator.into(), victim.into())
            }
            Kind::Shoot4u => shoot_down(m, remap, core),
        }
    }
}
