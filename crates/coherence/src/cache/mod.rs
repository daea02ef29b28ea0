// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The data caches: private L1 and L2 per core, a shared L3, and MESI coherence by directory or
//! snoop.
//!
//! An L2 holds its L1. The L3 holds every L2 and knows the sharers of each of its lines, or takes
//! what the L2s drop ([`victim`]). Snooping changes who is asked and how long the answer takes,
//! never who holds a line, so the sharers serve it too, as the simulator's own knowledge. Lines of
//! page tables, ATLB and inverse table are lines like others. Latencies are load-to-use totals.
//! Left out: prefetchers, bandwidth of the on-chip network.

use crate::config::{CacheConfig, Inclusion, MachineConfig, Protocol};
use crate::cores::cores_of;
use crate::dram::Memory;
use crate::lines::{Lines, State};
use crate::num::low64;
use victim::Filter;

mod victim;

/// What the L3 knows of a line.
#[derive(Debug, Clone, Copy)]
struct Directory {
    /// A bit for each core.
    sharers: u128,
    /// The only sharer may write (E or M in its caches).
    exclusive: bool,
    dirty: bool,
}

impl Directory {
    fn new(core: usize) -> Self {
        Self {
            sharers: 1 << core,
            exclusive: true,
            dirty: false,
        }
    }

    #[inline]
    fn unpacked(state: State, cores: Cores) -> Self {
        let (exclusive, dirty) = state.flags();
        let sharers = u128::from(cores[0]) | (u128::from(cores[1]) << 64);
        Self {
            sharers,
            exclusive,
            dirty,
        }
    }

    #[inline]
    fn packed(self) -> (State, Cores) {
        let state = State::of_flags(self.exclusive, self.dirty);
        (state, [low64(self.sharers), low64(self.sharers >> 64)])
    }
}

/// The sharers as a set of the L3 holds them, with the rest in the state: the host then reads three
/// pairs of lines instead of four.
type Cores = [u64; 2];

/// Where a request enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Entry {
    /// Loads, stores and page walks.
    L1,
    /// ATLB and inverse-table requests, which the L2 controller handles (paper Figure 3).
    L2,
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Cycles until the data.
    pub cycles: u64,
    /// Main memory served it.
    pub from_memory: bool,
}

/// Hits by level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct CacheCounts {
    /// Requests that entered at L1 and missed there.
    pub l1_misses: u64,
    /// Requests that missed in L2.
    pub l2_misses: u64,
    /// Requests that missed in L3.
    pub l3_misses: u64,
    /// Copies in other cores' caches invalidated by a write.
    pub copies_invalidated: u64,
    /// Look-ups in other cores' L2 caches, where coherence is by snooping.
    pub snoops: u64,
}

/// Every cache of the machine.
#[derive(Debug, Clone)]
pub struct Caches {
    l1: Vec<Lines>,
    l2: Vec<Lines>,
    l3: Lines<Cores>,
    /// Who holds what, where the L3 does not include the L2s.
    filter: Option<Filter>,
    l1_cycles: u64,
    l2_cycles: u64,
    l3_cycles: u64,
    transfer_cycles: u64,
    /// Cycles until every other core has answered, and how many they are; none with a directory.
    snoop: Option<(u64, u64)>,
    /// What was served where.
    pub counts: CacheCounts,
}

/// The L1 of one core, for look-ups.
#[derive(Debug)]
pub struct L1<'a> {
    lines: &'a mut Lines,
    cycles: u64,
}

/// What an L1 look-up found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// The line, with the right asked for, after this number of cycles.
    Hit(u64),
    /// The line, for a write, where others may hold it too.
    Shared,
    /// Nothing.
    Absent,
}

impl L1<'_> {
    /// Looks for a line, to read or to write it.
    #[inline]
    pub fn find(&mut self, line: u64, write: bool) -> Found {
        match self.lines.find(line, write) {
            None => Found::Absent,
            Some(state) if write && state == State::SHARED => Found::Shared,
            Some(_) => Found::Hit(self.cycles),
        }
    }
}

fn sets(config: &CacheConfig) -> usize {
    (config.kib * 16 / config.ways) as usize
}

impl Caches {
    /// Empty caches.
    #[must_use]
    pub fn new(config: &MachineConfig) -> Self {
        let cores = config.core.count as usize;
        let lines = |c: &CacheConfig| Lines::<()>::new(sets(c), c.ways as usize);
        Self {
            l1: vec![lines(&config.l1d); cores],
            l2: vec![lines(&config.l2); cores],
            l3: Lines::new(sets(&config.l3), config.l3.ways as usize),
            filter: (config.inclusion == Inclusion::NonInclusive).then(Filter::default),
            l1_cycles: config.l1d.cycles.into(),
            l2_cycles: config.l2.cycles.into(),
            l3_cycles: config.l3.cycles.into(),
            transfer_cycles: config.core.cache_to_cache_cycles.into(),
            snoop: (config.protocol == Protocol::Snoop).then(|| {
                let answer = config.l2.cycles + config.core.cache_to_cache_cycles;
                (u64::from(answer), u64::from(config.core.count) - 1)
            }),
            counts: CacheCounts::default(),
        }
    }

    /// Cycles of a hit in an L1.
    #[inline]
    #[must_use]
    pub const fn l1_cycles(&self) -> u64 {
        self.l1_cycles
    }

    /// The L1 of a core.
    #[inline]
    pub fn l1(&mut self, core: usize) -> L1<'_> {
        L1 {
            lines: &mut self.l1[core],
            cycles: self.l1_cycles,
        }
    }

    /// Reads or writes `line` from `core` at cycle `now`.
    pub fn access(
        &mut self,
        core: usize,
        line: u64,
        write: bool,
        entry: Entry,
        now: u64,
        memory: &mut Memory,
    ) -> Reply {
        let hit = |cycles| Reply {
            cycles,
            from_memory: false,
        };
        if entry == Entry::L1 {
            match self.l1(core).find(line, write) {
                Found::Hit(cycles) => return hit(cycles),
                Found::Shared => {
                    let cycles = self.take_ownership(core, line);
                    self.l1[core].change(line, State::MODIFIED);
                    return hit(cycles);
                }
                Found::Absent => {}
            }
        }
        self.access_l2(core, line, write, entry, now, memory)
    }

    /// The rest of [`Caches::access`] for a line that is not in the L1, or not asked for there.
    pub fn access_l2(
        &mut self,
        core: usize,
        line: u64,
        write: bool,
        entry: Entry,
        now: u64,
        memory: &mut Memory,
    ) -> Reply {
        let hit = |cycles| Reply {
            cycles,
            from_memory: false,
        };
        if entry == Entry::L1 {
            self.counts.l1_misses += 1;
        }
        if let Some(state) = self.l2[core].find(line, write) {
            let mut cycles = self.l2_cycles;
            if write && state == State::SHARED {
                cycles = self.take_ownership(core, line);
            }
            let state = if write { State::MODIFIED } else { state };
            if entry == Entry::L1 {
                self.fill_l1(core, line, state);
            }
            return hit(cycles);
        }
        self.counts.l2_misses += 1;
        let (state, reply) = self.fetch_l3(core, line, write, now, memory);
        self.fill_l2(core, line, state, now, memory);
        if entry == Entry::L1 {
            self.fill_l1(core, line, state);
        }
        reply
    }

    /// Cycles of a request that leaves the private caches: the L3's, and those of the cores asked.
    fn beyond_l2(&mut self, others_act: bool) -> u64 {
        match self.snoop {
            None => self.l3_cycles + if others_act { self.transfer_cycles } else { 0 },
            Some((answer, others)) => {
                self.counts.snoops += others;
                // All are asked while the L3 is looked up.
                self.l3_cycles.max(if others > 0 { answer } else { 0 })
            }
        }
    }

    /// Serves a miss of `core`'s L2; returns the state it may hold.
    fn fetch_l3(
        &mut self,
        core: usize,
        line: u64,
        write: bool,
        now: u64,
        memory: &mut Memory,
    ) -> (State, Reply) {
        if self.filter.is_some() {
            return self.fetch_victim(core, line, write, now, memory);
        }
        let me = 1_u128 << core;
        if let Some((state, cores)) = self.l3.touch(line) {
            let mut entry = Directory::unpacked(state, cores);
            let sharers = entry.sharers;
            debug_assert!(sharers & me == 0, "L2 missed, so this core shares nothing");
            let others_act = sharers != 0 && (write || entry.exclusive);
            let cycles = self.beyond_l2(others_act);
            let state = if write {
                if sharers != 0 {
                    entry.dirty |= self.drop_copies(cores_of(sharers), line);
                }
                entry.sharers = me;
                entry.exclusive = true;
                State::MODIFIED
            } else if sharers == 0 {
                entry.sharers = me;
                entry.exclusive = true;
                State::EXCLUSIVE
            } else {
                if entry.exclusive {
                    entry.dirty |= self.downgrade(sharers.trailing_zeros() as usize, line);
                    entry.exclusive = false;
                }
                entry.sharers = sharers | me;
                State::SHARED
            };
            self.edit_directory(line, |held| *held = entry);
            return (
                state,
                Reply {
                    cycles,
                    from_memory: false,
                },
            );
        }
        self.counts.l3_misses += 1;
        let mut cycles = self.beyond_l2(false);
        cycles += memory.access(line, false, now + cycles);
        let (state, cores) = Directory::new(core).packed();
        if let Some((victim, state, cores)) = self.l3.insert(line, state, cores) {
            let old = Directory::unpacked(state, cores);
            let dirty = old.dirty | self.drop_copies(cores_of(old.sharers), victim);
            if dirty {
                memory.access(victim, true, now);
            }
        }
        let state = if write {
            State::MODIFIED
        } else {
            State::EXCLUSIVE
        };
        (
            state,
            Reply {
                cycles,
                from_memory: true,
            },
        )
    }

    /// Changes what the L3 knows of a line that some private cache holds; recency untouched.
    #[inline]
    fn edit_directory(&mut self, line: u64, edit: impl FnOnce(&mut Directory)) {
        let held = self.l3.edit(line, |state, cores| {
            let mut entry = Directory::unpacked(state, cores);
            edit(&mut entry);
            entry.packed()
        });
        assert!(held, "the L3 includes every private line");
    }

    /// Makes `core` the only holder of a line it shares; returns the cycles.
    fn take_ownership(&mut self, core: usize, line: u64) -> u64 {
        if self.filter.is_some() {
            return self.own_victim(core, line);
        }
        let me = 1_u128 << core;
        let held = self.l3.touch(line);
        let (state, cores) = held.expect("the L3 includes every private line");
        let mut entry = Directory::unpacked(state, cores);
        let others = entry.sharers & !me;
        let cycles = self.beyond_l2(others != 0);
        if others != 0 {
            self.counts.copies_invalidated += u64::from(others.count_ones());
            entry.dirty |= self.drop_copies(cores_of(others), line);
        }
        entry.sharers = me;
        entry.exclusive = true;
        self.edit_directory(line, |held| *held = entry);
        self.modify_l2(core, line);
        cycles
    }

    /// Removes a line from the private caches in `sharers`; true where a copy was modified.
    fn drop_copies(&mut self, sharers: impl Iterator<Item = usize>, line: u64) -> bool {
        let mut dirty = false;
        for core in sharers {
            dirty |= self.l2[core].remove(line) == Some(State::MODIFIED);
            dirty |= self.l1[core].remove(line) == Some(State::MODIFIED);
        }
        dirty
    }

    /// Makes the owner's copies shared; true where they were modified.
    fn downgrade(&mut self, core: usize, line: u64) -> bool {
        let mut dirty = false;
        for lines in [&mut self.l2[core], &mut self.l1[core]] {
            dirty |= lines.change(line, State::SHARED) == Some(State::MODIFIED);
        }
        dirty
    }

    fn fill_l1(&mut self, core: usize, line: u64, state: State) {
        if let Some((victim, State::MODIFIED, ())) = self.l1[core].insert(line, state, ()) {
            self.modify_l2(core, victim);
        }
    }

    fn modify_l2(&mut self, core: usize, line: u64) {
        let held = self.l2[core].change(line, State::MODIFIED);
        assert!(held.is_some(), "the L2 includes the L1");
    }

    fn fill_l2(&mut self, core: usize, line: u64, state: State, now: u64, memory: &mut Memory) {
        let Some((victim, state, ())) = self.l2[core].insert(line, state, ()) else {
            return;
        };
        let above = self.l1[core].remove(victim);
        let dirty = state == State::MODIFIED || above == Some(State::MODIFIED);
        if self.filter.is_some() {
            return self.dropped(core, victim, dirty, now, memory);
        }
        self.edit_directory(victim, |entry| {
            entry.sharers &= !(1_u128 << core);
            entry.exclusive = false;
            entry.dirty |= dirty;
        });
    }

    /// Removes a line from every cache, as when its frame is moved by DMA.
    pub fn purge(&mut self, line: u64) {
        if self.filter.is_some() {
            let holders = self.forget_holders(line);
            self.drop_copies(holders.iter(), line);
            self.l3.remove(line);
            return;
        }
        let mut sharers = 0;
        self.l3.edit(line, |state, cores| {
            sharers = Directory::unpacked(state, cores).sharers;
            (state, cores)
        });
        self.drop_copies(cores_of(sharers), line);
        self.l3.remove(line);
    }

    /// Whether some cache holds the line.
    #[must_use]
    pub fn holds(&self, line: u64) -> bool {
        let private = self
            .filter
            .as_ref()
            .is_some_and(|held| held.contains_key(&line));
        private || self.l3.holds(line)
    }
}
