// SPDX-License-Identifier: Apache-2.0 OR MIT
//! TLB entries tagged with the address of a page-table entry: what UNITD and HATRIC are made of.
//!
//! A write to a page-table entry is a coherence message with the address of its line. Every TLB
//! drops the entries whose tag matches. A line holds eight entries and a tag is short, so
//! neighbours go too; they are counted. Walk caches and nested TLBs have tags as well (HATRIC's
//! paper). An agent that moves a table page clears the old one, so that what is cached of it goes.

use super::{Scheme, software};
use crate::config::MachineConfig;
use crate::layout::{Key, LINE_SHIFT, PAGE_SHIFT};
use crate::machine::{Fault, View, Walk};
use crate::mmu::{Dimension, Holder};
use crate::os::{Agent, Remap};

/// Lines of a table page.
const LINES: u64 = 1 << (PAGE_SHIFT - LINE_SHIFT);

/// Tagged TLBs that follow one table.
#[derive(Debug)]
pub(super) struct Tagged {
    tracks: Agent,
    tag_bits: u32,
    /// Of changes to the other table.
    costs: software::Costs,
}

impl Tagged {
    pub(super) fn new(tracks: Agent, tag_bits: u32, config: &MachineConfig) -> Self {
        assert!((1..64).contains(&tag_bits), "a tag is part of an address");
        Self {
            tracks,
            tag_bits,
            costs: software::Costs::of_ipis(config),
        }
    }

    const fn tag(&self, entry: u64) -> u64 {
        (entry >> LINE_SHIFT) & ((1 << self.tag_bits) - 1)
    }
}

impl Scheme for Tagged {
    fn miss(&mut self, m: &mut View<'_>, core: usize, key: Key, now: u64, _issued: u64) -> Walk {
        let (mut walk, mapping) = m.walk(core, key, now);
        let (guest, host) = m.leaf_entries(key, mapping.gpn);
        let follows_guest = (self.tracks == Agent::Guest) != m.look().has(Fault::OtherTag);
        walk.entry.tag = self.tag(if follows_guest { guest } else { host });
        walk
    }

    fn revoke(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, _now: u64) -> u64 {
        if remap.agent != self.tracks {
            return self.costs.shoot_down(m, remap, core);
        }
        let tag = |change: &crate::os::Change| {
            self.tag(match self.tracks {
                Agent::Guest => change.guest_entry,
                Agent::Host => change.host_entry,
            })
        };
        let mut tags: Vec<u64> = remap.changes.iter().map(tag).collect();
        for table in &remap.tables {
            let old = table.left << PAGE_SHIFT;
            tags.extend((0..LINES).map(|line| self.tag(old + (line << LINE_SHIFT))));
            tags.push(self.tag(table.entry));
        }
        tags.sort_unstable();
        tags.dedup();
        let mut revoked: Vec<Key> = remap.changes.iter().map(|change| change.key).collect();
        revoked.sort_unstable();
        m.message_entries(
            tags.len(),
            |entry| tags.binary_search(&entry.tag).is_ok(),
            &revoked,
        );
        if !remap.tables.is_empty() {
            m.drop_walks(|holder, _, held| {
                let guests = holder == Holder::Caches(Dimension::Guest);
                guests == (self.tracks == Agent::Guest)
                    && tags.binary_search(&self.tag(held.entry)).is_ok()
            });
        }
        // The write of the entry itself carried the message; its cycles are charged there.
        0
    }
}
