// SPDX-License-Identifier: Apache-2.0 OR MIT
//! UNITD and HATRIC: TLB entries tagged with the address of a page-table entry.
//!
//! A write to a page-table entry is a coherence message with the address of its line. Every TLB
//! drops the entries whose tag matches: UNITD compares 32 bits, HATRIC a co-tag of 16 (paper
//! Table 1). A line holds eight entries and a co-tag is short, so neighbours go too; they are
//! counted. UNITD follows the native table. HATRIC follows the nested (or the guest's) table, and
//! changes to the other one are shot down by software.

use super::{Scheme, software};
use crate::config::{MachineConfig, Mode, Tracks};
use crate::layout::{Key, LINE_SHIFT};
use crate::machine::{Machine, Walk};
use crate::os::{Agent, Remap};

/// UNITD or HATRIC.
#[derive(Debug)]
pub struct Tagged {
    tracks: Agent,
    tag_bits: u32,
}

impl Tagged {
    pub(super) const fn unitd() -> Self {
        Self {
            tracks: Agent::Guest,
            tag_bits: 32,
        }
    }

    pub(super) fn hatric(config: &MachineConfig) -> Self {
        let host = config.rivals.hatric_tracks == Tracks::Host;
        Self {
            tracks: if host && config.mode == Mode::Virtualized {
                Agent::Host
            } else {
                Agent::Guest
            },
            tag_bits: 16,
        }
    }

    const fn tag(&self, entry: u64) -> u64 {
        (entry >> LINE_SHIFT) & ((1 << self.tag_bits) - 1)
    }
}

impl Scheme for Tagged {
    fn miss(&mut self, m: &mut Machine, core: usize, key: Key, now: u64, _issued: u64) -> Walk {
        let (mut walk, mapping) = m.walk(core, key, now);
        let (guest, host) = m.os.leaf_entries(key, mapping.gpn);
        walk.entry.tag = self.tag(match self.tracks {
            Agent::Guest => guest,
            Agent::Host => host,
        });
        walk
    }

    fn revoke(&mut self, m: &mut Machine, remap: &Remap, core: usize, _now: u64) -> u64 {
        if remap.agent != self.tracks {
            return software::shoot_down(m, remap, core);
        }
        let mut tags: Vec<u64> = remap
            .changes
            .iter()
            .map(|change| {
                self.tag(match self.tracks {
                    Agent::Guest => change.guest_entry,
                    Agent::Host => change.host_entry,
                })
            })
            .collect();
        tags.sort_unstable();
        tags.dedup();
        let mut revoked: Vec<Key> = remap.changes.iter().map(|change| change.key).collect();
        revoked.sort_unstable();
        m.counts.tlb_messages += (tags.len() * m.mmu.len()) as u64;
        for at in 0..m.mmu.len() {
            if m.is_skipped(at) {
                continue;
            }
            let (mut meant, mut unmeant) = (0, 0);
            m.mmu[at].invalidate_where(|key, entry| {
                let hit = tags.binary_search(&entry.tag).is_ok();
                if hit && revoked.binary_search(&key).is_ok() {
                    meant += 1;
                } else if hit {
                    unmeant += 1;
                }
                hit
            });
            m.counts.true_invalidations += meant;
            m.counts.false_invalidations += unmeant;
        }
        // The write of the entry itself carried the message; its cycles are charged there.
        0
    }
}
