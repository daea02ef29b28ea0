// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A four-level radix page table in memory: gives the address of every entry that a walk reads.
//!
//! What the entries hold is kept by [`crate::os`]; here is only where they are, since that is what
//! the caches see. Table pages are never freed: an unmapped range keeps its empty tables.

/// Levels of a walk to a 4 KiB page; one to a 2 MiB page reads three.
pub const LEVELS: usize = 4;

#[derive(Debug, Clone)]
struct Node {
    /// Child nodes; 0 for none, as the root has no parent.
    children: Box<[u32; 512]>,
    /// The table page's frame in the address space that the table's owner sees.
    frame: u64,
    /// The table page's system-physical frame.
    backing: u64,
}

/// One entry read by a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step {
    /// The table page's frame as the owner sees it (guest-physical for a guest's table).
    pub frame: u64,
    /// System-physical address of the entry.
    pub address: u64,
}

/// One page table.
#[derive(Debug, Clone)]
pub struct Radix {
    nodes: Vec<Node>,
}

impl Radix {
    /// A table with a root only. `frame` gives a new table page: its own frame and its backing.
    #[must_use]
    pub fn new(mut frame: impl FnMut() -> (u64, u64)) -> Self {
        let mut table = Self { nodes: Vec::new() };
        table.add(&mut frame);
        table
    }

    fn add(&mut self, frame: &mut impl FnMut() -> (u64, u64)) -> u32 {
        let (frame, backing) = frame();
        self.nodes.push(Node {
            children: Box::new([0; 512]),
            frame,
            backing,
        });
        crate::num::id32(self.nodes.len() - 1)
    }

    /// The entries a walk to 4 KiB page `page` reads, root first; `depth` is 4, or 3 for the
    /// large page that holds `page`. Table pages that are missing are made.
    pub fn path(
        &mut self,
        page: u64,
        depth: usize,
        mut frame: impl FnMut() -> (u64, u64),
    ) -> [Step; LEVELS] {
        debug_assert!(page < 1 << 36, "a 48-bit address space");
        debug_assert!((3..=LEVELS).contains(&depth), "leaf of 4 KiB or 2 MiB");
        let mut steps = [Step::default(); LEVELS];
        let mut at = 0_u32;
        for (level, step) in steps.iter_mut().enumerate().take(depth) {
            let index = crate::num::ix((page >> (9 * (LEVELS - 1 - level))) & 511);
            let node = &self.nodes[at as usize];
            *step = Step {
                frame: node.frame,
                address: (node.backing << 12) | (index as u64 * 8),
            };
            if level + 1 < depth {
                at = match node.children[index] {
                    0 => {
                        let child = self.add(&mut frame);
                        self.nodes[at as usize].children[index] = child;
                        child
                    }
                    child => child,
                };
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::Radix;

    #[test]
    fn neighbours_share_their_tables_and_stand_eight_bytes_apart() {
        let mut next = 99;
        let mut frame = || {
            next += 1;
            (next, next + 1000)
        };
        let mut table = Radix::new(&mut frame);
        let a = table.path(0x1234, 4, &mut frame);
        let b = table.path(0x1235, 4, &mut frame);
        assert_eq!(a[..3], b[..3]);
        assert_eq!(b[3].address - a[3].address, 8);
        assert_eq!(a[0].frame, 100, "the root was made first");
        assert_eq!(
            a[0].address >> 12,
            1100,
            "entries are where the page is backed"
        );
        let far = table.path(0x1234 + (1 << 27), 4, &mut frame);
        assert_ne!(far[1].address >> 12, a[1].address >> 12);
    }
}
