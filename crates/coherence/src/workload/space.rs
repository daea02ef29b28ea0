// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a generated process has its memory: as Linux and glibc lay one out on x86-64, with ASLR.
//!
//! The top of the area for mappings is random in 28 bits of page number (`vm.mmap_rnd_bits`, and
//! `mmap_base` of arch/x86/mm/mmap.c). Below it, downwards, come the data footprint, which Linux
//! aligns to 2 MiB as it does every large anonymous mapping since 6.7; the threads' stacks, 8 MiB
//! and a guard page each; and the threads' heaps, which glibc aligns to 64 MiB (`HEAP_MAX_SIZE` of
//! malloc/arena.c). So what a process uses does not share the low bits of its page numbers by rule.

use steady_random::Stream;

/// Highest address of the area for mappings: the user's end less a gap for the main stack.
const TOP: u64 = 0x7FFF_F000_0000;
/// Bits of page number that are random.
const RANDOM_BITS: u32 = 28;
/// A thread's stack and its guard page.
const STACK_STRIDE: u64 = (8 << 20) + 4096;
/// A thread's heap.
const HEAP_STRIDE: u64 = 64 << 20;
const LARGE: u64 = 2 << 20;
/// The stream of draws for layouts, apart from those of threads.
const LAYOUTS: u64 = 0x1A70_0000;

/// Bytes of a stack that a thread uses, at its top.
pub(super) const STACK_BYTES: u32 = 16 << 10;

/// The address space of one VM's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Space {
    /// First byte of the footprint; a multiple of 2 MiB.
    pub footprint: u64,
    /// First byte below all stacks of earlier threads.
    stacks: u64,
    heaps: u64,
}

impl Space {
    /// The layout of VM `vm` for a footprint of `pages` pages and this number of threads.
    pub fn new(seed: u64, vm: u16, pages: u64, threads: u64) -> Self {
        let mut random = Stream::new(seed, LAYOUTS + u64::from(vm));
        let top = TOP - (u64::from(random.below(1 << RANDOM_BITS)) << 12);
        let footprint = (top - (pages << 12)) & !(LARGE - 1);
        let heaps = (footprint - threads * STACK_STRIDE) & !(HEAP_STRIDE - 1);
        let lowest = heaps - threads * HEAP_STRIDE;
        assert!(
            lowest > 1 << 46,
            "28 random bits leave the upper half of the addresses"
        );
        Self {
            footprint,
            stacks: footprint,
            heaps,
        }
    }

    /// First byte of the used part of a thread's stack.
    pub const fn stack(&self, thread: u64) -> u64 {
        self.stacks - thread * STACK_STRIDE - STACK_BYTES as u64
    }

    /// First byte of a thread's heap.
    pub const fn heap(&self, thread: u64) -> u64 {
        self.heaps - (thread + 1) * HEAP_STRIDE
    }
}

#[cfg(test)]
mod tests {
    use super::{STACK_BYTES, Space};

    #[test]
    fn no_part_of_a_process_lies_in_another_and_each_seed_has_its_own_places() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let space = Space::new(seed, 1, 1000, 16);
            let mut parts = vec![(space.footprint, 1000 << 12)];
            for thread in 0..16 {
                parts.push((space.stack(thread), u64::from(STACK_BYTES)));
                parts.push((space.heap(thread), 1 << 20));
            }
            parts.sort_unstable();
            for pair in parts.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:x?}");
            }
            assert!(parts[32].0 + parts[32].1 < 1 << 47);
            seen.insert(space.footprint);
        }
        assert!(seen.len() > 190, "28 bits");
    }
}
