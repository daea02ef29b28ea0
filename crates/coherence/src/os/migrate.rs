// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Migration between NVM and DRAM: who is hot, who must leave, and what that does to the tables.

use super::{Agent, Block, Cause, NONE, Os, Remap};
use crate::config::Mode;
use crate::layout::NVM_FRAMES;

/// A page that earned its move to DRAM, and the page that leaves for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    hot: u32,
    /// [`NONE`] while DRAM has room.
    cold: u32,
    agent: Agent,
}

impl Os {
    /// Notes an access that reached memory; true when the page has earned its migration.
    pub fn touch_memory(&mut self, spn: u64) -> bool {
        let Some(id) = self.block_at(spn) else {
            return false;
        };
        let threshold = self.hybrid.threshold;
        let block = &mut self.blocks[id as usize];
        block.referenced = true;
        if spn < NVM_FRAMES {
            return false;
        }
        block.hits += 1;
        // Equality, so that a page whose move is under way asks once.
        block.hits == threshold + 1
    }

    /// Plans the migration of the page in NVM frame `spn`.
    pub fn plan_migration(&mut self, spn: u64) -> Option<Migration> {
        if spn < NVM_FRAMES || !self.hybrid.enabled {
            return None;
        }
        let hot = self.block_at(spn)?;
        let size = usize::from(self.block(hot).large);
        let guest = self.draws.below(100) < self.hybrid.guest_percent;
        let agent = if guest || self.mode == Mode::Native {
            Agent::Guest
        } else {
            Agent::Host
        };
        let vm = self.block(hot).vm;
        let cold = if self.pools[size].has_room(self.hybrid.dram_percent) {
            NONE
        } else {
            let (pools, blocks) = (&mut self.pools, &mut self.blocks);
            // One agent moves both pages in one batch, so a guest's must both be its own.
            pools[size].clock(vm, |id| std::mem::take(&mut blocks[id as usize].referenced))?
        };
        Some(Migration { hot, cold, agent })
    }

    /// The translations a planned migration will revoke; `None` when a page has gone meanwhile.
    pub fn describe_migration(&mut self, plan: &Migration) -> Option<Remap> {
        let hot = self.block(plan.hot);
        if hot.page == NONE || hot.spn < NVM_FRAMES {
            return None;
        }
        let (vm, large) = (hot.vm, hot.large);
        let mut changes = Vec::new();
        for block in [plan.hot, plan.cold] {
            if block == NONE {
                continue;
            }
            // A plan that waited may find its pages gone and their records reused.
            let now = self.block(block);
            if now.page == NONE || now.vm != vm || now.large != large {
                return None;
            }
            let pages: Vec<u32> = std::iter::once(self.block(block).page)
                .chain(self.block(block).synonyms.iter().copied())
                .collect();
            for page in pages {
                changes.push(self.describe(page));
            }
        }
        if plan.cold != NONE && self.block(plan.cold).spn >= NVM_FRAMES {
            return None;
        }
        Some(Remap {
            vm,
            agent: plan.agent,
            cause: Cause::Migration,
            changes,
            tables: Vec::new(),
            frees: false,
            victims: None,
        })
    }

    /// Carries out a migration that [`Os::describe_migration`] has described just before.
    /// Returns the frames whose contents moved.
    pub fn apply_migration(&mut self, plan: &Migration) -> Vec<u64> {
        let size = usize::from(self.block(plan.hot).large);
        let old = self.block(plan.hot).spn;
        assert!(old >= NVM_FRAMES, "a page migrates out of NVM");
        if plan.cold == NONE {
            let vm = self.block(plan.hot).vm;
            let new = self.pools[size].take_dram(plan.hot, vm);
            self.drop_frame(size == 1, old);
            let fresh_gpn = (plan.agent == Agent::Guest && self.mode == Mode::Virtualized)
                .then(|| self.fresh_gpn(plan.hot));
            let block = &mut self.blocks[plan.hot as usize];
            block.spn = new;
            block.gpn = fresh_gpn.unwrap_or(block.gpn);
            settle(block);
            return vec![old, new];
        }
        let cold_spn = self.block(plan.cold).spn;
        assert!(cold_spn < NVM_FRAMES, "the page that leaves was in DRAM");
        self.pools[size].set_owner(old, plan.cold);
        self.pools[size].set_owner(cold_spn, plan.hot);
        self.blocks[plan.hot as usize].spn = cold_spn;
        self.blocks[plan.cold as usize].spn = old;
        if plan.agent == Agent::Guest {
            // A guest exchanges guest-physical pages; what backs each of them stays as it is.
            let hot_gpn = self.block(plan.hot).gpn;
            self.blocks[plan.hot as usize].gpn = self.block(plan.cold).gpn;
            self.blocks[plan.cold as usize].gpn = hot_gpn;
        }
        settle(&mut self.blocks[plan.hot as usize]);
        let cold = &mut self.blocks[plan.cold as usize];
        settle(cold);
        cold.referenced = false;
        vec![old, cold_spn]
    }

    /// Forgets a plan that can no longer be carried out; the page must earn its move again.
    pub fn abandon_migration(&mut self, plan: &Migration) {
        self.blocks[plan.hot as usize].hits = 0;
    }

    /// A guest-physical page that nothing has used.
    fn fresh_gpn(&mut self, block: u32) -> u64 {
        let (vm, large) = (self.block(block).vm, self.block(block).large);
        let space = &mut self.spaces[usize::from(vm)];
        if large {
            space.next_large_gpn += 512;
            space.next_large_gpn
        } else {
            space.fresh_gpn(self.seed, self.scattered_percent)
        }
    }
}

fn settle(block: &mut Block) {
    block.hits = 0;
    block.referenced = true;
}
