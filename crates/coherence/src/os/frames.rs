// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames of one page size: who owns each, and which are free.

use super::NONE;
use super::ring::Rings;
use crate::layout::{DRAM_FRAMES, DRAM_LARGE_FRAMES, LARGE_SHIFT, NVM_FRAMES, NVM_LARGE_FRAMES};
use crate::num::{id32, ix};

#[derive(Debug, Clone, Default)]
struct Region {
    base: u64,
    /// Block in each frame ever used.
    owner: Vec<u32>,
    free: Vec<u32>,
}

/// Frames of one size in both tiers.
#[derive(Debug, Clone)]
pub struct Pool {
    shift: u32,
    dram: Region,
    nvm: Region,
    rings: Rings,
    /// Pages mapped; DRAM's capacity is a share of it.
    pub(crate) mapped: u32,
}

impl Region {
    fn at(base: u64) -> Self {
        Self {
            base,
            ..Self::default()
        }
    }

    fn take(&mut self, block: u32, shift: u32) -> u64 {
        let frame = self.free.pop().unwrap_or_else(|| {
            self.owner.push(NONE);
            id32(self.owner.len() - 1)
        });
        assert!(
            self.owner[frame as usize] == NONE,
            "a free frame has no owner"
        );
        self.owner[frame as usize] = block;
        self.base + (u64::from(frame) << shift)
    }

    fn slot(&self, spn: u64, shift: u32) -> Option<usize> {
        let frame = ix(spn.checked_sub(self.base)? >> shift);
        (frame < self.owner.len()).then_some(frame)
    }

    fn used(&self) -> usize {
        self.owner.len() - self.free.len()
    }
}

impl Pool {
    pub(crate) fn small() -> Self {
        Self::at(0, DRAM_FRAMES, NVM_FRAMES)
    }

    pub(crate) fn large() -> Self {
        Self::at(LARGE_SHIFT, DRAM_LARGE_FRAMES, NVM_LARGE_FRAMES)
    }

    fn at(shift: u32, dram: u64, nvm: u64) -> Self {
        Self {
            shift,
            dram: Region::at(dram),
            nvm: Region::at(nvm),
            rings: Rings::default(),
            mapped: 0,
        }
    }

    /// Whether DRAM, `percent` of what is mapped, has a frame left.
    #[must_use]
    pub fn has_room(&self, percent: u32) -> bool {
        let capacity = u64::from(self.mapped) * u64::from(percent) / 100;
        (self.dram.used() as u64) < capacity.max(1)
    }

    pub(crate) fn take_dram(&mut self, block: u32, vm: u16) -> u64 {
        let spn = self.dram.take(block, self.shift);
        let slot = self.dram.slot(spn, self.shift);
        self.rings
            .join(id32(slot.expect("it was taken just now")), vm);
        spn
    }

    pub(crate) fn take_nvm(&mut self, block: u32) -> u64 {
        self.nvm.take(block, self.shift)
    }

    fn region(&mut self, spn: u64) -> &mut Region {
        if spn >= self.nvm.base {
            &mut self.nvm
        } else {
            &mut self.dram
        }
    }

    pub(crate) fn release(&mut self, spn: u64) {
        self.retire(spn);
        self.give_back(spn);
    }

    /// The frame has no page from now on, and is not free yet.
    pub(crate) fn retire(&mut self, spn: u64) {
        let owner = self.owner_mut(spn);
        assert!(*owner != NONE, "a frame is released once");
        *owner = NONE;
    }

    /// A frame that was retired is free.
    pub(crate) fn give_back(&mut self, spn: u64) {
        assert!(*self.owner_mut(spn) == NONE, "a frame in use is not free");
        let shift = self.shift;
        let region = self.region(spn);
        let slot = region.slot(spn, shift).expect("it was taken");
        region.free.push(id32(slot));
    }

    fn owner_mut(&mut self, spn: u64) -> &mut u32 {
        let shift = self.shift;
        let region = self.region(spn);
        let slot = region.slot(spn, shift).expect("a released frame was taken");
        &mut region.owner[slot]
    }

    pub(crate) fn set_owner(&mut self, spn: u64, block: u32) {
        let shift = self.shift;
        let region = self.region(spn);
        let slot = region.slot(spn, shift).expect("an owned frame was taken");
        region.owner[slot] = block;
    }

    /// The block in frame `spn`, if the frame is of this pool.
    pub(crate) fn owner(&self, spn: u64) -> Option<u32> {
        let small_end = self.dram.base + ((self.dram.owner.len() as u64) << self.shift);
        let region = if spn < small_end {
            &self.dram
        } else {
            &self.nvm
        };
        let slot = region.slot(spn, self.shift)?;
        Some(region.owner[slot]).filter(|&block| block != NONE)
    }

    /// CLOCK: the next block of the VM in DRAM whose reference bit is clear; bits passed are
    /// cleared.
    pub(crate) fn clock(&mut self, vm: u16, referenced: impl FnMut(u32) -> bool) -> Option<u32> {
        self.rings.clock(vm, &self.dram.owner, referenced)
    }
}
