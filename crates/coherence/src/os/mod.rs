// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Guests and hypervisor: which page is mapped where, and what changes.
//!
//! Pages begin in NVM, move to DRAM once enough accesses reached memory, and change places with a
//! page that CLOCK picks when DRAM is full (paper section 3.4). A guest's migration changes its own
//! page table, the host's the nested one. Every change comes out as a [`Remap`], which a scheme
//! must make visible to every core. Page-table pages are in DRAM; they move only where a run asks
//! for it. Left out: the time the
//! system software itself takes and the copying of pages, which the paper does not model either.

mod frames;
mod index;
mod limbo;
mod migrate;
mod remap;
mod ring;
mod tables;

pub use frames::Pool;
pub use migrate::Migration;
pub use remap::{Agent, Bit, Cause, Change, Remap};
pub(crate) use tables::Says;
pub use tables::{TableChange, TablePage};

use crate::config::{MachineConfig, Mode, Start};
use crate::layout::{Key, LARGE_SHIFT, PageMap, TABLE_FRAMES};
use crate::num::{id32, ix};
use crate::radix::Radix;
use crate::record::Resident;
use index::PageIndex;
use steady_random::{Stream, mix};

/// "No block": the page is not mapped.
pub(crate) const NONE: u32 = u32::MAX;
/// Guest-physical frames for guest page tables start here, out of the way of data.
const GUEST_TABLES: u64 = 1 << 34;
/// Guest-physical frames for data begin above this one.
const FIRST_GPN: u64 = 1 << 18;

/// A virtual page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Page {
    pub key: Key,
    /// What it maps, or [`NONE`].
    pub block: u32,
    pub writable: bool,
    pub dirty: bool,
    /// The accessed bit; what is not mapped has it set, for the walk that maps it.
    pub accessed: bool,
}

/// A guest-physical page with the frame behind it; natively the two are one.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub vm: u16,
    pub large: bool,
    pub gpn: u64,
    pub spn: u64,
    /// CLOCK's reference bit.
    pub referenced: bool,
    /// Accesses that reached NVM since the page came there.
    pub hits: u32,
    /// Pages that map it: the first, and its synonyms.
    pub page: u32,
    pub synonyms: Vec<u32>,
}

/// Page tables of one VM (natively: of one process; the host table is unused).
#[derive(Debug, Clone)]
struct Space {
    guest: Radix,
    host: Radix,
    next_guest_table: u64,
    /// Table pages that the guest has freed: their frames there, and what is behind them.
    free_tables: Vec<(u64, u64)>,
    next_gpn: u64,
    next_large_gpn: u64,
}

/// Guest-physical frames that scattered pages get: 2^22, of 16 GiB.
const SCATTERED_FRAMES: u64 = 1 << 24;
const SCATTERED_MASK: u64 = (1 << 22) - 1;

impl Space {
    /// A guest-physical frame that nothing has used: the next, or one far from it.
    fn fresh_gpn(&mut self, seed: u64, scattered_percent: u64) -> u64 {
        self.next_gpn += 1;
        let next = self.next_gpn;
        let number = next - FIRST_GPN;
        if number <= SCATTERED_MASK && mix(seed ^ SCATTERED_FRAMES, next) % 100 < scattered_percent
        {
            // An odd multiplier permutes the frames.
            return SCATTERED_FRAMES + (number.wrapping_mul(0x9E37_79B1) & SCATTERED_MASK);
        }
        next
    }
}

/// What a walk needs to know of the page it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// The translation's name; its size says whether the page is large.
    pub key: Key,
    /// Guest-physical frame of the page's start.
    pub gpn: u64,
    /// System-physical frame of the page's start.
    pub spn: u64,
    /// Stores allowed.
    pub writable: bool,
    /// The dirty bit.
    pub dirty: bool,
    /// The accessed bit.
    pub accessed: bool,
}

/// All system software of the machine.
#[derive(Debug, Clone)]
pub struct Os {
    pub(crate) mode: Mode,
    spaces: Vec<Space>,
    pages: Vec<Page>,
    pub(crate) blocks: Vec<Block>,
    free_blocks: Vec<u32>,
    index: PageIndex,
    pub(crate) pools: [Pool; 2],
    limbo: limbo::Limbo,
    frames: tables::TableFrames,
    /// What frames say that table pages have left.
    left: PageMap<Vec<Says>>,
    seed: u64,
    large_percent: u64,
    scattered_percent: u64,
    pub(crate) hybrid: crate::config::HybridConfig,
    pub(crate) draws: Stream,
}

impl Os {
    /// No page mapped.
    #[must_use]
    pub fn new(config: &MachineConfig, vms: u16, seed: u64) -> Self {
        let mut frames = tables::TableFrames {
            last: TABLE_FRAMES,
            ..tables::TableFrames::default()
        };
        let native = config.mode == Mode::Native;
        let spaces = (0..vms)
            .map(|_| Space {
                guest: Radix::new(|| {
                    let frame = frames.take();
                    (if native { frame } else { GUEST_TABLES }, frame)
                }),
                host: Radix::new(|| {
                    let frame = frames.take();
                    (frame, frame)
                }),
                next_guest_table: GUEST_TABLES,
                free_tables: Vec::new(),
                next_gpn: FIRST_GPN,
                next_large_gpn: 1 << 30,
            })
            .collect();
        Self {
            mode: config.mode,
            spaces,
            pages: Vec::new(),
            blocks: Vec::new(),
            free_blocks: Vec::new(),
            index: PageIndex::default(),
            pools: [Pool::small(), Pool::large()],
            limbo: limbo::Limbo::default(),
            frames,
            left: PageMap::default(),
            seed,
            large_percent: config.mmu.large_page_percent.into(),
            scattered_percent: config.mmu.scattered_frames_percent.into(),
            hybrid: config.hybrid.clone(),
            draws: Stream::new(seed, 0x05),
        }
    }

    /// Address spaces.
    #[must_use]
    pub fn vms(&self) -> u16 {
        crate::num::low16(self.spaces.len() as u64)
    }

    /// The translation that covers 4 KiB page `vpn`: the chunk it lies in decides the size.
    #[inline]
    #[must_use]
    pub fn key_of(&self, vm: u16, vpn: u64) -> Key {
        if self.large_percent == 0 {
            return Key::small(vm, vpn);
        }
        let number = vpn >> LARGE_SHIFT;
        if mix(self.seed, number ^ (u64::from(vm) << 32)) % 100 < self.large_percent {
            Key::large(vm, number)
        } else {
            Key::small(vm, vpn)
        }
    }

    /// The mapping of `key`; a page touched for the first time is mapped now.
    pub fn resolve(&mut self, key: Key) -> Mapping {
        let id = self.page_of(key);
        if self.pages[id as usize].block == NONE {
            self.map(id, false);
        }
        let page = &mut self.pages[id as usize];
        page.accessed = true;
        let block = &mut self.blocks[page.block as usize];
        block.referenced = true;
        Mapping {
            key,
            gpn: block.gpn,
            spn: block.spn,
            writable: page.writable,
            dirty: page.dirty,
            accessed: true,
        }
    }

    /// The page of a key, made when it is new.
    pub(crate) fn page_of(&mut self, key: Key) -> u32 {
        let slot = self.index.slot(key);
        if *slot == NONE {
            *slot = id32(self.pages.len());
            self.pages.push(Page {
                key,
                block: NONE,
                writable: true,
                dirty: false,
                accessed: true,
            });
        }
        *slot
    }

    /// The page of a key that has been seen.
    pub(crate) fn known_page(&self, key: Key) -> Option<u32> {
        self.index.get(key)
    }

    pub(crate) fn page(&self, id: u32) -> &Page {
        &self.pages[id as usize]
    }

    pub(crate) fn page_mut(&mut self, id: u32) -> &mut Page {
        &mut self.pages[id as usize]
    }

    /// Gives a page memory: DRAM where there is only DRAM or where a steady start puts it.
    pub(crate) fn map(&mut self, id: u32, in_dram: bool) {
        let key = self.pages[id as usize].key;
        let space = &mut self.spaces[usize::from(key.vm())];
        let large = key.is_large();
        let gpn = if large {
            space.next_large_gpn += 1 << LARGE_SHIFT;
            space.next_large_gpn
        } else {
            space.fresh_gpn(self.seed, self.scattered_percent)
        };
        let block = match self.free_blocks.pop() {
            Some(block) => block,
            None => {
                self.blocks.push(Block {
                    vm: 0,
                    large: false,
                    gpn: 0,
                    spn: 0,
                    referenced: false,
                    hits: 0,
                    page: NONE,
                    synonyms: Vec::new(),
                });
                id32(self.blocks.len() - 1)
            }
        };
        let pool = &mut self.pools[usize::from(large)];
        pool.mapped += 1;
        let dram = !self.hybrid.enabled || (in_dram && pool.has_room(self.hybrid.dram_percent));
        let spn = if dram {
            pool.take_dram(block, key.vm())
        } else {
            pool.take_nvm(block)
        };
        self.blocks[block as usize] = Block {
            vm: key.vm(),
            large,
            gpn,
            spn,
            referenced: dram,
            hits: 0,
            page: id,
            synonyms: Vec::new(),
        };
        self.pages[id as usize].block = block;
    }

    /// Drops a page's mapping and, with the last mapping, its memory.
    pub(crate) fn unmap(&mut self, id: u32) {
        let at = std::mem::replace(&mut self.pages[id as usize].block, NONE);
        assert!(at != NONE, "only a mapped page is unmapped");
        let page = &mut self.pages[id as usize];
        (page.dirty, page.accessed) = (false, true);
        let block = &mut self.blocks[at as usize];
        let spn = block.spn;
        if block.page == id {
            match block.synonyms.pop() {
                Some(other) => {
                    block.page = other;
                    self.share_frame(spn);
                }
                None => {
                    block.page = NONE;
                    let large = block.large;
                    self.pools[usize::from(large)].mapped -= 1;
                    self.free_blocks.push(at);
                    self.drop_frame(large, spn);
                }
            }
        } else {
            block.synonyms.retain(|&other| other != id);
            self.share_frame(spn);
        }
    }

    /// Makes `alias` a synonym of `target`: two virtual pages of one VM, one frame.
    pub fn alias(&mut self, alias: Key, target: Key) {
        assert!(alias.vm() == target.vm() && alias.is_large() == target.is_large());
        let target = self.page_of(target);
        if self.pages[target as usize].block == NONE {
            self.map(target, false);
        }
        let block = self.pages[target as usize].block;
        let alias = self.page_of(alias);
        if alias == target || self.pages[alias as usize].block == block {
            return;
        }
        assert!(
            self.pages[alias as usize].block == NONE,
            "an alias is a page not mapped yet"
        );
        self.pages[alias as usize].block = block;
        self.blocks[block as usize].synonyms.push(alias);
    }

    /// The mapping of `key` as it is, untouched.
    #[must_use]
    pub fn peek(&self, key: Key) -> Option<Mapping> {
        self.mapping(self.known_page(key)?)
    }

    /// The mapping of a page as it is, untouched.
    pub(crate) fn mapping(&self, id: u32) -> Option<Mapping> {
        let page = self.page(id);
        (page.block != NONE).then(|| {
            let block = self.block(page.block);
            Mapping {
                key: page.key,
                gpn: block.gpn,
                spn: block.spn,
                writable: page.writable,
                dirty: page.dirty,
                accessed: page.accessed,
            }
        })
    }

    /// Sets the dirty bit of a mapped page's table entry, and with it the accessed bit.
    pub fn set_dirty(&mut self, key: Key) {
        let id = self.page_of(key);
        let page = &mut self.pages[id as usize];
        // A core whose clock is behind may store where there is nothing left to be dirty.
        if page.block != NONE {
            (page.dirty, page.accessed) = (true, true);
        }
    }

    /// Maps what a workload has before its first record; returns the pages that are new.
    pub fn populate(&mut self, resident: &Resident) -> Vec<u32> {
        let first = resident.start >> 12;
        let warm_from = first + resident.cold_pages;
        let mut pages = Vec::new();
        let mut vpn = first;
        while vpn < first + resident.pages {
            let key = self.key_of(resident.vm, vpn);
            let id = self.page_of(key);
            if self.pages[id as usize].block == NONE {
                let warm =
                    self.hybrid.start == Start::Steady && key.first_vpn().max(first) >= warm_from;
                self.map(id, warm);
                pages.push(id);
            }
            vpn = key.first_vpn() + key.small_pages();
        }
        pages
    }

    /// System-physical addresses of a page's leaf entries: the guest's, and the host's for `gpn`.
    pub(crate) fn leaf_entries(&mut self, key: Key, gpn: u64) -> (u64, u64) {
        let (path, depth) = self.guest_path(key);
        let guest = path[depth - 1].address;
        let host = match self.mode {
            Mode::Native => guest,
            Mode::Virtualized => {
                let (path, depth) = self.host_path(key.vm(), gpn, key.is_large());
                path[depth - 1].address
            }
        };
        (guest, host)
    }

    /// Pages mapped, in units of 4 KiB.
    #[must_use]
    pub fn mapped_pages(&self) -> u64 {
        u64::from(self.pools[0].mapped) + (u64::from(self.pools[1].mapped) << LARGE_SHIFT)
    }

    /// The block that holds frame `spn`, if it is a data frame in use.
    pub(crate) fn block_at(&self, spn: u64) -> Option<u32> {
        self.pools.iter().find_map(|pool| pool.owner(spn))
    }

    pub(crate) fn block(&self, id: u32) -> &Block {
        &self.blocks[ix(id.into())]
    }
}

#[cfg(test)]
mod tests {
    use super::Os;
    use crate::config::MachineConfig;
    use crate::layout::Key;

    /// Lines of eight nested entries that each eight neighbours of `pages` need, summed.
    fn lines(scattered_percent: u32, pages: u64) -> usize {
        let mut machine = MachineConfig::default();
        machine.mmu.scattered_frames_percent = scattered_percent;
        let mut os = Os::new(&machine, 1, 1);
        let groups = (0..pages / 8).map(|group| {
            let page = |at| Key::small(0, 0x1_0000 + group * 8 + at);
            let lines = (0..8).map(|at| os.resolve(page(at)).gpn / 8);
            lines.collect::<std::collections::BTreeSet<_>>().len()
        });
        groups.sum()
    }

    /// `scenarios/frames.toml` on QEMU, Linux 6.12.117: 32,768 pages needed 8,198 lines just after
    /// boot and 17,652 after the work.
    #[test]
    fn the_default_scatters_frames_as_a_guest_of_the_lab_that_had_worked() {
        assert_eq!(lines(0, 32_768), 8_192, "two a group: none is aligned");
        let default = MachineConfig::default().mmu.scattered_frames_percent;
        let worked = lines(default, 32_768);
        assert!(worked.abs_diff(17_652) * 100 < 17_652 * 2, "{worked}");
    }
}
