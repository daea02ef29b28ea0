// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An L3 that does not include the L2s: it takes what they drop, and gives a line up to the core
//! that asks for it alone. So are AMD's since Zen and Intel's server parts since Skylake.
//!
//! Which private caches hold a line is known exactly, by a directory of its own. Left out: that a
//! directory of limited size sends lines away when it is full; that such an L3 may keep a line that
//! it gave to one core.

use super::{Caches, Reply};
use crate::cores::CoreSet;
use crate::dram::Memory;
use crate::layout::PageMap;
use crate::lines::State;

/// The cores whose private caches hold a line.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Holders {
    cores: CoreSet,
    /// The only holder may write.
    exclusive: bool,
}

/// The holders of every line that some private cache has.
pub(super) type Filter = PageMap<Holders>;

impl Holders {
    const fn only(core: usize) -> Self {
        Self {
            cores: CoreSet::of(core),
            exclusive: true,
        }
    }
}

impl Caches {
    fn filter(&mut self) -> &mut Filter {
        self.filter.as_mut().expect("the L3 is not inclusive")
    }

    /// As `fetch_l3`.
    pub(super) fn fetch_victim(
        &mut self,
        core: usize,
        line: u64,
        write: bool,
        now: u64,
        memory: &mut Memory,
    ) -> (State, Reply) {
        let held = self.filter().get(&line).copied().unwrap_or_default();
        debug_assert!(
            !held.cores.contains(core),
            "L2 missed, so this core holds nothing"
        );
        let others = !held.cores.is_empty();
        let in_l3 = self.l3.touch(line).map(|(state, _)| state);
        let from_memory = !others && in_l3.is_none();
        let others_act = others && (write || held.exclusive || in_l3.is_none());
        let mut cycles = self.beyond_l2(others_act);
        if from_memory {
            self.counts.l3_misses += 1;
            cycles += memory.access(line, false, now + cycles);
        }
        let state = if others && !write {
            let owner = held.cores.iter().next().filter(|_| held.exclusive);
            if owner.is_some_and(|owner| self.downgrade(owner, line)) {
                // Memory is behind, and no private cache may be.
                self.keep(line, true, now, memory);
            }
            let mut cores = held.cores;
            cores.insert(core);
            let shared = Holders {
                cores,
                exclusive: false,
            };
            self.filter().insert(line, shared);
            State::SHARED
        } else {
            if others {
                self.counts.copies_invalidated += held.cores.len();
                self.drop_copies(held.cores.iter(), line);
            }
            self.l3.remove(line);
            self.filter().insert(line, Holders::only(core));
            if write || in_l3 == Some(State::MODIFIED) {
                State::MODIFIED
            } else {
                State::EXCLUSIVE
            }
        };
        let reply = Reply {
            cycles,
            from_memory,
        };
        (state, reply)
    }

    /// As `take_ownership`.
    pub(super) fn own_victim(&mut self, core: usize, line: u64) -> u64 {
        let held = self.filter().insert(line, Holders::only(core));
        let mut others = held.expect("the core holds it").cores;
        others.remove(core);
        let cycles = self.beyond_l2(!others.is_empty());
        self.counts.copies_invalidated += others.len();
        self.drop_copies(others.iter(), line);
        // What the L3 has is behind from now on.
        self.l3.remove(line);
        self.modify_l2(core, line);
        cycles
    }

    /// An L2 has dropped a line: the L3 takes it, unless another L2 still has it.
    pub(super) fn dropped(
        &mut self,
        core: usize,
        line: u64,
        dirty: bool,
        now: u64,
        memory: &mut Memory,
    ) {
        let held = self.filter().get_mut(&line).expect("the core held it");
        held.cores.remove(core);
        held.exclusive = false;
        let last = held.cores.is_empty();
        debug_assert!(last || !dirty, "a modified line has one holder");
        if last {
            self.filter().remove(&line);
            self.keep(line, dirty, now, memory);
        }
    }

    /// Puts a line into the L3, or marks the copy there.
    fn keep(&mut self, line: u64, dirty: bool, now: u64, memory: &mut Memory) {
        let state = if dirty {
            State::MODIFIED
        } else {
            State::SHARED
        };
        if let Some((held, _)) = self.l3.touch(line) {
            if dirty && held != State::MODIFIED {
                self.l3.change(line, State::MODIFIED);
            }
            return;
        }
        let out = self.l3.insert(line, state, Default::default());
        if let Some((victim, State::MODIFIED, _)) = out {
            memory.access(victim, true, now);
        }
    }

    /// The private holders of a line, which are forgotten.
    pub(super) fn forget_holders(&mut self, line: u64) -> CoreSet {
        self.filter().remove(&line).unwrap_or_default().cores
    }
}

#[cfg(test)]
mod tests {
    use crate::cache::{Caches, Entry, Reply};
    use crate::config::{Inclusion, MachineConfig};
    use crate::dram::Memory;
    use crate::lines::State;
    use steady_random::Stream;

    /// Caches of few lines; `kib` of L3, less than the L2s have together.
    fn machine(cores: u32) -> MachineConfig {
        let mut machine = MachineConfig {
            inclusion: Inclusion::NonInclusive,
            ..MachineConfig::default()
        };
        machine.core.count = cores;
        machine.l1d.kib = 4;
        machine.l1d.ways = 4;
        machine.l2.kib = 8;
        machine.l3.kib = 16;
        machine.validate().expect("a possible machine");
        machine
    }

    struct Rig(Caches, Memory);

    impl Rig {
        fn new(cores: u32) -> Self {
            let machine = machine(cores);
            Self(Caches::new(&machine), Memory::new(&machine))
        }

        fn access(&mut self, core: usize, line: u64, write: bool) -> Reply {
            self.0.access(core, line, write, Entry::L1, 0, &mut self.1)
        }

        fn written(&self) -> u64 {
            self.1.counts().iter().map(|tier| tier.writes).sum()
        }
    }

    #[test]
    fn what_an_l2_drops_is_in_the_l3_and_moves_back() {
        let mut rig = Rig::new(2);
        let l3 = |rig: &Rig, line| rig.0.l3.holds(line);
        rig.access(0, 0, true);
        assert!(!l3(&rig, 0), "memory fills the L2 alone");
        // The L2 has 32 sets of 4 ways: four more lines of the set drop the first.
        for way in 1..=4 {
            rig.access(0, 32 * way, false);
        }
        assert!(
            l3(&rig, 0) && rig.written() == 0,
            "the L3 keeps what was written"
        );
        let reply = rig.access(1, 0, false);
        assert_eq!((reply.from_memory, reply.cycles), (false, 42));
        assert!(!l3(&rig, 0), "it has moved up");
        // Still not in memory: it goes there when the L3 has dropped it too.
        for way in 1..=60 {
            rig.access(1, 32 * way, false);
        }
        assert_eq!(rig.written(), 1);
    }

    #[test]
    fn the_directory_is_what_the_l2s_hold_and_a_writer_is_alone() {
        let mut rig = Rig::new(130);
        let mut draw = Stream::new(4, 1);
        for _ in 0..30_000 {
            // Cores on both sides of every word of a set.
            let core = [0, 1, 63, 64, 127, 128, 129][draw.below(7) as usize];
            let line = u64::from(draw.below(2_000));
            rig.access(core, line, draw.below(3) == 0);
            let holds = |core: usize, rig: &mut Rig| rig.0.l2[core].touch(line).map(|one| one.0);
            let states: Vec<(usize, State)> = (0..130)
                .filter_map(|core| Some((core, holds(core, &mut rig)?)))
                .collect();
            let known = rig.0.filter().get(&line).copied().unwrap_or_default();
            let cores: Vec<usize> = states.iter().map(|(core, _)| *core).collect();
            assert_eq!(known.cores.iter().collect::<Vec<_>>(), cores);
            let owned = states.iter().any(|(_, state)| *state != State::SHARED);
            assert!(!owned || states.len() == 1, "{states:?}");
            assert!(!owned || known.exclusive, "an owner may write");
            assert!(!owned || !rig.0.l3.holds(line), "the L3 has given it up");
        }
        assert!(rig.written() > 1_000 && rig.0.counts.l3_misses > 1_000);
    }
}
