// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fifth level of page tables (`mmu.levels = 5`, Intel's LA57).
//!
//! Addresses of programs have 48 bits here, as Linux gives them to a program that does not ask for
//! more, so each table has one fifth-level entry. A walk that begins at the root reads it first,
//! unless a walk cache has it: one entry for each VM and dimension. It is dropped where a message
//! drops all walk caches of a VM.
//!
//! Left out: that a flush by software drops it, so that the next walk reads a line more. And the
//! nested walk for a guest's fifth-level page: the nested TLB is taken to hold that.

use crate::config::MachineConfig;
use crate::mmu::Dimension;

/// Frames of the fifth-level pages, below those of the other tables.
const FRAMES: u64 = 0x8000;

/// What each core's walk caches hold of the fifth level.
#[derive(Debug)]
pub(crate) struct Fifth {
    /// By core, VM and dimension; empty where there is no such level.
    known: Vec<bool>,
    vms: usize,
}

impl Fifth {
    pub fn new(config: &MachineConfig, vms: u16) -> Self {
        let vms = usize::from(vms);
        let size = config.core.count as usize * vms * 2;
        Self {
            known: vec![false; if config.mmu.levels > 4 { size } else { 0 }],
            vms,
        }
    }

    /// The address of the entry that a walk from the root must read; the walk cache holds it then.
    pub fn learn(&mut self, core: usize, dim: Dimension, vm: u16) -> Option<u64> {
        debug_assert!(usize::from(vm) < self.vms, "VM {vm} walks and is there");
        let of_vm = usize::from(vm) * 2 + dim as usize;
        let known = self.known.get_mut(core * self.vms * 2 + of_vm)?;
        (!std::mem::replace(known, true)).then_some((FRAMES + of_vm as u64) << 12)
    }

    /// A core's walk caches drop what they hold of a VM.
    pub fn forget(&mut self, core: usize, vm: u16) {
        let first = (core * self.vms + usize::from(vm)) * 2;
        if let Some(known) = self.known.get_mut(first..first + 2) {
            known.fill(false);
        }
    }
}
