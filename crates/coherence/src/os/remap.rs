// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a change of mappings says to the schemes, and the system calls that make such changes.

use super::{NONE, Os, TableChange};
use crate::layout::Key;
use crate::num::ix;
use crate::record::{MapKind, Prot, Recorded};

/// The owner of the page table that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agent {
    /// The guest operating system (natively: the only one).
    Guest,
    /// The hypervisor.
    Host,
}

/// Why it changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A page moved between the memory tiers.
    Migration,
    /// A system call of the program.
    Program,
}

/// A bit that walkers set in a leaf entry and system software clears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bit {
    /// The page was written to.
    Dirty,
    /// The page was used.
    Accessed,
}

/// One translation revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// The translation.
    pub key: Key,
    /// The frame it led to.
    pub old_spn: u64,
    /// Address of the guest's (natively: the) leaf entry.
    pub guest_entry: u64,
    /// Address of the host's leaf entry; natively the same.
    pub host_entry: u64,
}

/// A batch of changes that one agent makes at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remap {
    /// The address space.
    pub vm: u16,
    /// Whose table.
    pub agent: Agent,
    /// Why.
    pub cause: Cause,
    /// Translations revoked.
    pub changes: Vec<Change>,
    /// Table pages freed or moved: page-walk caches and nested TLBs may hold what led to them.
    pub tables: Vec<TableChange>,
    /// Each page is gone, with its memory, and its address has nothing new yet (`munmap`,
    /// `MADV_DONTNEED`).
    pub frees: bool,
    /// Of a recorded update: how many others invalidated. Software interrupts no more.
    pub victims: Option<u64>,
}

impl Remap {
    /// How many others software interrupts, of at most this number.
    #[must_use]
    pub fn told_at_most(&self, most: usize) -> usize {
        self.victims.map_or(most, |told| most.min(ix(told)))
    }
}

impl Os {
    /// Carries out a mapping call; `None` when it revokes no translation and frees no table page
    /// (new pages, more rights, pages never touched).
    pub fn map_call(
        &mut self,
        vm: u16,
        start: u64,
        len: u64,
        prot: Prot,
        kind: MapKind,
    ) -> Option<Remap> {
        let first = start >> 12;
        let end = (start + len).div_ceil(4096);
        let mut changes = Vec::new();
        let mut vpn = first;
        // A range far larger than what is mapped is walked by what is mapped.
        if end - first > self.pages.len() as u64 * 2 + 1024 {
            let mut keys: Vec<Key> = self
                .pages
                .iter()
                .map(|page| page.key)
                .filter(|key| key.vm() == vm && (first..end).contains(&key.first_vpn()))
                .collect();
            keys.sort_unstable();
            for key in keys {
                changes.extend(self.change_page(key, prot, kind));
            }
        } else {
            while vpn < end {
                let key = self.key_of(vm, vpn);
                changes.extend(self.change_page(key, prot, kind));
                vpn = key.first_vpn() + key.small_pages();
            }
        }
        // As Linux does: with a range go the tables that map nothing else.
        let tables = match kind {
            MapKind::Munmap => self.free_tables(vm, first, end),
            _ => Vec::new(),
        };
        (!changes.is_empty() || !tables.is_empty()).then_some(Remap {
            vm,
            agent: Agent::Guest,
            cause: Cause::Program,
            changes,
            tables,
            frees: matches!(kind, MapKind::Munmap | MapKind::Madvise),
            victims: None,
        })
    }

    /// Applies a call to one page; `Some` when cached translations become wrong.
    fn change_page(&mut self, key: Key, prot: Prot, kind: MapKind) -> Option<Change> {
        if matches!(kind, MapKind::Mmap | MapKind::Mprotect | MapKind::Brk) {
            let id = self.page_of(key);
            let was_writable = core::mem::replace(&mut self.page_mut(id).writable, prot.write);
            // Mmap over a mapped page replaces it; fewer rights must reach every core, more need
            // not.
            let replaced = kind == MapKind::Mmap && self.page(id).block != NONE;
            let fewer = was_writable && !prot.write && kind == MapKind::Mprotect;
            if self.page(id).block == NONE || !(replaced || fewer) {
                return None;
            }
            let change = self.describe(id);
            if replaced {
                self.unmap(id);
            } else {
                // The entry is rewritten clean, as when write protection tracks dirty pages.
                self.page_mut(id).dirty = false;
            }
            return Some(change);
        }
        let id = self.known_page(key)?;
        if self.page(id).block == NONE {
            return None;
        }
        let change = self.describe(id);
        self.unmap(id);
        self.page_mut(id).writable = true;
        Some(change)
    }

    /// A guest clears a bit of some pages' entries: the dirty bit, as writeback does, or the
    /// accessed bit, as aging does. `None` if none had it set.
    pub fn clear(&mut self, bit: Bit, keys: &[Key]) -> Option<Remap> {
        let mut changes = Vec::new();
        for &key in keys {
            let Some(id) = self.known_page(key) else {
                continue;
            };
            let page = self.page_mut(id);
            let held = match bit {
                Bit::Dirty => &mut page.dirty,
                Bit::Accessed => &mut page.accessed,
            };
            if page.block != NONE && std::mem::take(held) {
                changes.push(self.describe(id));
            }
        }
        let vm = changes.first()?.key.vm();
        assert!(
            changes.iter().all(|change| change.key.vm() == vm),
            "one VM clears bits of its own pages"
        );
        Some(Remap {
            vm,
            agent: Agent::Guest,
            cause: Cause::Program,
            changes,
            tables: Vec::new(),
            frees: false,
            victims: None,
        })
    }

    /// Makes an update that was recorded. A page that no access has touched is mapped before: it
    /// was in the recorded tables. One that the host has changed gets another guest frame too.
    /// `None` for an update without pages.
    pub fn recorded(&mut self, update: &Recorded) -> Option<Remap> {
        assert!(update.pages.is_sorted(), "each page is met once");
        let mut changes = Vec::new();
        let mut keys: Vec<Key> = update
            .pages
            .iter()
            .map(|&page| self.key_of(update.vm, page))
            .collect();
        keys.dedup();
        for key in keys {
            let id = self.page_of(key);
            let fewer = update.fewer.binary_search(&key.first_vpn()).is_ok();
            if self.page(id).block == NONE {
                self.map(id, true);
            }
            changes.push(self.describe(id));
            if fewer {
                let page = self.page_mut(id);
                (page.writable, page.dirty) = (false, false);
            } else {
                self.unmap(id);
                self.page_mut(id).writable = true;
            }
        }
        (!changes.is_empty()).then_some(Remap {
            vm: update.vm,
            agent: update.agent,
            cause: Cause::Program,
            changes,
            tables: Vec::new(),
            frees: update.fewer.is_empty(),
            victims: Some(update.victims),
        })
    }

    /// The change record of a mapped page as it is now.
    pub(crate) fn describe(&mut self, id: u32) -> Change {
        let page = *self.page(id);
        assert!(page.block != NONE, "only a mapped page can change");
        let (gpn, spn) = {
            let block = self.block(page.block);
            (block.gpn, block.spn)
        };
        let (guest_entry, host_entry) = self.leaf_entries(page.key, gpn);
        Change {
            key: page.key,
            old_spn: spn,
            guest_entry,
            host_entry,
        }
    }
}
