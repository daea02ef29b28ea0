// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DiDi: a shared directory knows which TLBs hold a page, and invalidates them without interrupts.
//!
//! The directory includes all private TLBs: an entry it loses is dropped from them. The initiator
//! still waits (paper section 1), at the configured cost. Left out: the latency that the shared
//! second-level TLB adds to misses.

use super::Scheme;
use crate::config::MachineConfig;
use crate::layout::Key;
use crate::machine::Machine;
use crate::num::ix;
use crate::os::Remap;
use crate::table::Table;

/// DiDi.
#[derive(Debug)]
pub struct Didi {
    directory: Table<u128>,
    initiator_cycles: u64,
}

impl Didi {
    pub(super) fn new(config: &MachineConfig) -> Self {
        let r = &config.rivals;
        Self {
            directory: Table::new((r.didi_directory_entries / 16) as usize, 16),
            initiator_cycles: r.didi_initiator_cycles.into(),
        }
    }

    fn set(&self, key: Key) -> usize {
        ix(key.page() & (self.directory.sets() as u64 - 1))
    }

    fn drop_from(m: &mut Machine, holders: u128, key: Key) -> u64 {
        let mut dropped = 0;
        for core in 0..m.mmu.len() {
            let held = holders & (1 << core) != 0 && !m.is_skipped(core);
            if held {
                m.counts.tlb_messages += 1;
                dropped += u64::from(m.mmu[core].invalidate(key));
            }
        }
        dropped
    }
}

impl Scheme for Didi {
    fn filled(&mut self, m: &mut Machine, core: usize, key: Key) {
        let set = self.set(key);
        if let Some(slot) = self.directory.find(set, key.raw()) {
            *self.directory.value_mut(slot) |= 1 << core;
        } else if let Some((old, holders)) = self.directory.insert(set, key.raw(), 1 << core) {
            m.counts.false_invalidations += Self::drop_from(m, holders, Key::from_raw(old));
        }
    }

    fn revoke(&mut self, m: &mut Machine, remap: &Remap, core: usize, _now: u64) -> u64 {
        let mut others = 0;
        for change in &remap.changes {
            let set = self.set(change.key);
            if let Some(slot) = self.directory.find(set, change.key.raw()) {
                let holders = *self.directory.value(slot);
                self.directory.remove(slot);
                others |= holders & !(1 << core);
                m.counts.true_invalidations += Self::drop_from(m, holders, change.key);
            }
        }
        if others == 0 {
            0
        } else {
            self.initiator_cycles
        }
    }
}
