// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shootdowns by software, which several schemes use for some or all of their updates.
//!
//! The costs are Table 2's measured means, paid once per batch. A guest's update invalidates pages
//! (or everything, above Linux's ceiling); a host's update flushes the whole VM on every core,
//! since the hypervisor does not know guest-virtual addresses (paper section 1). Where a table page
//! changes, the same interrupts have what walk caches hold of the VM dropped.

use crate::config::MachineConfig;
use crate::machine::View;
use crate::os::{Agent, Remap};

/// What a shootdown costs, and when it flushes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Costs {
    /// Cycles of the initiator.
    pub initiator: u64,
    /// Cycles of each victim.
    pub victim: u64,
    /// Pages above which a guest flushes everything.
    pub ceiling: usize,
    /// Cores interrupted, at most.
    pub victims: usize,
}

/// The most cores that a shootdown interrupts.
pub(super) const fn victims_at_most(config: &MachineConfig) -> usize {
    match config.shootdown.victims_at_most {
        0 => usize::MAX,
        most => most as usize,
    }
}

impl Costs {
    /// IPIs in the machine's mode.
    pub fn of_ipis(config: &MachineConfig) -> Self {
        let (initiator, victim) = config.ipi_costs();
        Self {
            initiator,
            victim,
            ceiling: config.shootdown.flush_ceiling_pages as usize,
            victims: victims_at_most(config),
        }
    }

    /// Removes what `remap` revoked from every TLB as software does, and interrupts the VM's cores;
    /// returns the initiator's cycles.
    pub fn shoot_down(&self, m: &mut View<'_>, remap: &Remap, core: usize) -> u64 {
        if remap.agent == Agent::Host || remap.changes.len() > self.ceiling {
            m.flush_vm(remap);
        } else {
            m.invalidate_each(remap);
        }
        if m.interrupt(core, remap, self.victim, self.victims) == 0 {
            // No core to interrupt: the invalidation alone, as a victim does it.
            return self.victim;
        }
        m.count_ipi_shootdown();
        self.initiator
    }
}
