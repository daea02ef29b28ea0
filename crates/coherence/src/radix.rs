// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A four-level radix page table in memory: gives the address of every entry that a walk reads.
//!
//! What leaf entries hold is kept by [`crate::os`]; here is only where they are, since that is what
//! the caches see. A table page can be freed with the span that it maps, and can move.

use crate::num::{id32, ix};

/// Levels of a walk to a 4 KiB page; one to a 2 MiB page reads three.
pub const LEVELS: usize = 4;
/// Entries of a table page.
pub const ENTRIES: usize = 512;
/// No page has this frame.
const NOWHERE: u64 = u64::MAX;

/// 4 KiB pages that one entry at `level` covers.
#[must_use]
pub const fn covered(level: usize) -> u64 {
    1 << (9 * (LEVELS - 1 - level))
}

/// The entry that a walk to 4 KiB page `page` reads at `level`.
#[must_use]
pub const fn index(page: u64, level: usize) -> usize {
    ix((page / covered(level)) % ENTRIES as u64)
}

/// A table page.
#[derive(Debug, Clone)]
pub struct Node {
    /// Child nodes; 0 for none, as the root has no parent.
    children: Box<[u32; ENTRIES]>,
    /// The table page's frame in the address space that the table's owner sees.
    frame: u64,
    /// The table page's system-physical frame; [`NOWHERE`] once it is freed.
    backing: u64,
    /// Its level, the root's being 0, and the first page that it maps.
    level: usize,
    base: u64,
}

/// One entry read by a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Step {
    /// The table page's frame as the owner sees it (guest-physical for a guest's table).
    pub frame: u64,
    /// System-physical address of the entry.
    pub address: u64,
}

impl Step {
    /// System-physical frame of the table page.
    #[inline]
    #[must_use]
    pub const fn backing(&self) -> u64 {
        self.address >> 12
    }
}

/// A table page that was freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone {
    /// System-physical address of the entry that led to it.
    pub entry: u64,
    /// Where it was: as the owner sees it, and in the system's memory.
    pub frame: u64,
    /// See `frame`.
    pub backing: u64,
}

impl Node {
    /// The node's level, and the first 4 KiB page that it maps.
    #[must_use]
    pub const fn place(&self) -> (usize, u64) {
        (self.level, self.base)
    }
}

/// One page table.
#[derive(Debug, Clone)]
pub struct Radix {
    nodes: Vec<Node>,
    free: Vec<u32>,
}

impl Radix {
    /// A table with a root only. `frame` gives a new table page: its own frame and its backing.
    #[must_use]
    pub fn new(mut frame: impl FnMut() -> (u64, u64)) -> Self {
        let mut table = Self {
            nodes: Vec::new(),
            free: Vec::new(),
        };
        table.add(0, 0, &mut frame);
        table
    }

    fn add(&mut self, level: usize, base: u64, frame: &mut impl FnMut() -> (u64, u64)) -> u32 {
        let (frame, backing) = frame();
        let node = Node {
            children: Box::new([0; ENTRIES]),
            frame,
            backing,
            level,
            base,
        };
        if let Some(at) = self.free.pop() {
            self.nodes[at as usize] = node;
            return at;
        }
        self.nodes.push(node);
        id32(self.nodes.len() - 1)
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
            let index = ix((page >> (9 * (LEVELS - 1 - level))) & 511);
            let node = &self.nodes[at as usize];
            *step = Step {
                frame: node.frame,
                address: (node.backing << 12) | (index as u64 * 8),
            };
            if level + 1 < depth {
                at = match node.children[index] {
                    0 => {
                        let base = node.base + index as u64 * covered(level);
                        let child = self.add(level + 1, base, &mut frame);
                        self.nodes[at as usize].children[index] = child;
                        child
                    }
                    child => child,
                };
            }
        }
        steps
    }

    /// Frees the table pages below the root whose whole span lies in pages `first..end`.
    pub fn free_within(&mut self, first: u64, end: u64) -> Vec<Gone> {
        let mut gone = Vec::new();
        self.free_below(0, first, end, &mut gone);
        gone
    }

    fn free_below(&mut self, at: u32, first: u64, end: u64, gone: &mut Vec<Gone>) {
        let Node {
            backing,
            level,
            base,
            ..
        } = self.nodes[at as usize];
        let span = covered(level);
        let from = first.saturating_sub(base) / span;
        let to = end.saturating_sub(base).div_ceil(span).min(ENTRIES as u64);
        for index in from..to {
            let child = self.nodes[at as usize].children[ix(index)];
            if child == 0 {
                continue;
            }
            self.free_below(child, first, end, gone);
            let begin = base + index * span;
            if first <= begin && begin + span <= end {
                let node = &mut self.nodes[child as usize];
                gone.push(Gone {
                    entry: (backing << 12) | (index * 8),
                    frame: node.frame,
                    backing: std::mem::replace(&mut node.backing, NOWHERE),
                });
                self.nodes[at as usize].children[ix(index)] = 0;
                self.free.push(child);
            }
        }
    }

    /// Gives the table page that a walk to `page` reads at `level`, and that is there, another
    /// frame and another backing.
    pub fn rehome(&mut self, page: u64, level: usize, to: (u64, u64)) {
        let below = |at: usize, above| self.nodes[at].children[index(page, above)] as usize;
        let at = (0..level).fold(0, below);
        assert!(at != 0 || level == 0, "a walk has made it");
        (self.nodes[at].frame, self.nodes[at].backing) = to;
    }

    /// The table page in system frame `backing`, if one is there; looks at all.
    #[must_use]
    pub fn in_frame(&self, backing: u64) -> Option<&Node> {
        self.nodes.iter().find(|node| node.backing == backing)
    }

    /// The frame, as the owner sees it, of the table page that an entry leads to, if it does.
    #[must_use]
    pub fn child(&self, node: &Node, index: usize) -> Option<u64> {
        match node.children[index] {
            0 => None,
            child => Some(self.nodes[child as usize].frame),
        }
    }

    /// Every table page in use: its frame as the owner sees it, and its backing.
    pub fn pages(&self) -> impl Iterator<Item = (u64, u64)> {
        let used = self.nodes.iter().filter(|node| node.backing != NOWHERE);
        used.map(|node| (node.frame, node.backing))
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

    #[test]
    fn a_span_s_tables_go_with_it_and_a_moved_table_is_found_where_it_is() {
        let mut next = 0;
        let mut frame = || {
            next += 1;
            (next, next + 1000)
        };
        let mut table = Radix::new(&mut frame);
        let a = table.path(0x200, 4, &mut frame);
        let b = table.path(0x400, 4, &mut frame);
        assert_eq!(table.free_within(0x201, 0x400), [], "not the whole span");
        let gone = table.free_within(0x1FF, 0x400);
        assert_eq!(gone.len(), 1);
        assert_eq!((gone[0].entry, gone[0].frame), (a[2].address, a[3].frame));
        assert!(table.in_frame(a[3].backing()).is_none());
        assert_eq!(table.path(0x400, 4, &mut frame), b);
        assert_ne!(table.path(0x200, 4, &mut frame)[3], a[3]);
        table.rehome(0x400, 3, (7, 7777));
        assert_eq!(table.path(0x400, 4, &mut frame)[3].backing(), 7777);
        let all = table.free_within(0, 1 << 36);
        assert_eq!((all.len(), table.pages().count()), (4, 1), "the root stays");
    }
}
