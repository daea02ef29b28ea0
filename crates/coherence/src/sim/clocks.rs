// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The clocks of the busy cores, as a tree of minima: finds who is furthest behind, however many
//! they are.

/// No core's clock: of one that is idle.
pub(super) const IDLE: u64 = u64::MAX;

/// A clock for each core.
#[derive(Debug)]
pub(super) struct Clocks {
    /// Node 1 is the root, node `n` the lesser of `2 n` and `2 n + 1`; the leaves are the cores.
    nodes: Vec<u64>,
    leaves: usize,
}

impl Clocks {
    /// Idle cores, as many as given.
    pub fn new(cores: usize) -> Self {
        let leaves = cores.next_power_of_two();
        Self {
            nodes: vec![IDLE; 2 * leaves],
            leaves,
        }
    }

    /// Sets a core's clock, [`IDLE`] for none.
    pub fn set(&mut self, core: usize, cycle: u64) {
        debug_assert!(core < self.leaves, "the core has a leaf");
        let mut at = self.leaves + core;
        self.nodes[at] = cycle;
        while at > 1 {
            let least = self.nodes[at].min(self.nodes[at ^ 1]);
            at /= 2;
            self.nodes[at] = least;
        }
    }

    /// The core with the lowest clock, the first of equals, and the lowest clock of the others.
    pub fn furthest_behind(&self) -> Option<(usize, u64)> {
        let first = self.nodes[1];
        if first == IDLE {
            return None;
        }
        let (mut at, mut second) = (1, IDLE);
        while at < self.leaves {
            at *= 2;
            if self.nodes[at] != first {
                at += 1;
            }
            second = second.min(self.nodes[at ^ 1]);
        }
        Some((at - self.leaves, second))
    }

    /// The lowest clock; [`IDLE`] when all are.
    pub fn lowest(&self) -> u64 {
        self.nodes[1]
    }
}

#[cfg(test)]
mod tests {
    use super::{Clocks, IDLE};
    use steady_random::Stream;

    #[test]
    fn the_lowest_two_are_those_that_a_scan_of_all_finds() {
        for cores in [1, 2, 3, 8, 100] {
            let mut clocks = Clocks::new(cores);
            let mut plain = vec![IDLE; cores];
            let mut draw = Stream::new(5, cores as u64);
            assert_eq!(clocks.furthest_behind(), None);
            for _ in 0..2_000 {
                let core = draw.below(u32::try_from(cores).expect("a small number")) as usize;
                let cycle = match draw.below(5) {
                    0 => IDLE,
                    _ => u64::from(draw.below(50)),
                };
                clocks.set(core, cycle);
                plain[core] = cycle;
                let mut order: Vec<(u64, usize)> = plain.iter().copied().zip(0..).collect();
                order.sort_unstable();
                let (first, which) = order[0];
                let second = order.get(1).map_or(IDLE, |&(cycle, _)| cycle);
                let expected = (first != IDLE).then_some((which, second));
                assert_eq!(clocks.furthest_behind(), expected);
                assert_eq!(clocks.lowest(), first);
            }
        }
    }
}
