// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rings of `latr`: what each core has written down for others, in order. A slot is free again
//! once its core has seen that no other still has to sweep it.

use std::collections::VecDeque;

use crate::cores::CoreSet;
use crate::layout::{Key, PageMap};
use crate::machine::View;
use crate::os::Remap;
use crate::scheme::Sweep;

/// An update that is written down.
#[derive(Debug)]
pub(super) struct State {
    vm: u16,
    keys: Vec<Key>,
    /// The frames that they led to.
    frames: Vec<u64>,
    /// Cores flush the VM.
    flush: bool,
    /// Cores that have not swept it.
    pub waits: CoreSet,
    published: u64,
    /// Of a migration: the tick from which it may be carried out.
    pub ready: Option<u64>,
    /// It has been.
    pub moved: bool,
}

impl State {
    /// What `remap` revokes, written down at cycle `published`, for no core yet.
    pub fn of(remap: &Remap, flush: bool, published: u64) -> Self {
        let changes = || remap.changes.iter();
        Self {
            vm: remap.vm,
            keys: changes().map(|change| change.key).collect(),
            frames: changes().map(|change| change.old_spn).collect(),
            flush,
            waits: CoreSet::default(),
            published,
            ready: None,
            moved: false,
        }
    }

    /// A core drops what the state says.
    pub fn drop_at(&self, m: &mut View<'_>, core: usize) {
        m.drop_at(core, self.vm, &self.keys, self.flush);
    }

    /// Whether a sweep handles it. A migration is handled at its tick, or later; before that its
    /// page is where the tables say, and cores may load it again.
    fn is_for(&self, sweep: Sweep) -> bool {
        match (sweep, self.ready) {
            (Sweep::Tick(at), None) => self.published <= at,
            (Sweep::Tick(at), Some(ready)) => ready <= at,
            (Sweep::Switch, None) => true,
            (Sweep::Switch, Some(_)) => self.moved,
        }
    }
}

/// A ring for each core.
#[derive(Debug)]
pub(super) struct Rings {
    of: Vec<VecDeque<State>>,
    /// States a ring holds at most.
    most: usize,
    /// Pages that are gone and that some core has not swept: how many states name each.
    named: PageMap<u32>,
}

impl Rings {
    pub fn new(cores: usize, most: usize) -> Self {
        assert!(most > 0, "a ring holds a state");
        Self {
            of: (0..cores).map(|_| VecDeque::new()).collect(),
            most,
            named: PageMap::default(),
        }
    }

    pub fn has_room(&self, core: usize) -> bool {
        self.of[core].len() < self.most
    }

    /// Appends a state to a core's ring, over the oldest where the ring is full.
    pub fn push(&mut self, core: usize, state: State) {
        if !self.has_room(core)
            && let Some(lost) = self.of[core].pop_front()
            && lost.ready.is_none()
            && !lost.waits.is_empty()
        {
            Self::unname(&mut self.named, &lost.keys);
        }
        if state.ready.is_none() && !state.waits.is_empty() {
            for key in &state.keys {
                *self.named.entry(key.raw()).or_insert(0) += 1;
            }
        }
        self.of[core].push_back(state);
        assert!(self.of[core].len() <= self.most, "a ring has its size");
    }

    fn unname(named: &mut PageMap<u32>, keys: &[Key]) {
        for key in keys {
            let count = named.get_mut(&key.raw()).expect("a state names it");
            assert!(*count > 0, "a page that is named is counted");
            *count -= 1;
            if *count == 0 {
                named.remove(&key.raw());
            }
        }
    }

    /// Whether some core may still have a translation of a page that is gone.
    pub fn names(&self, key: Key) -> bool {
        self.named.contains_key(&key.raw())
    }

    /// A core handles what names it, in all rings; returns how many states.
    pub fn sweep(&mut self, m: &mut View<'_>, core: usize, sweep: Sweep) -> u64 {
        let mut swept = 0;
        for state in self.of.iter_mut().flatten() {
            if !state.waits.contains(core) || !state.is_for(sweep) {
                continue;
            }
            state.drop_at(m, core);
            state.waits.remove(core);
            swept += 1;
            if state.waits.is_empty() && state.ready.is_none() {
                Self::unname(&mut self.named, &state.keys);
            }
        }
        swept
    }

    /// Frees the slots of a core from the oldest on that no core has to sweep, and those of
    /// migrations that were not carried out for a period.
    pub fn retire(&mut self, core: usize, now: u64, period: u64) {
        let ring = &mut self.of[core];
        let over = |state: &State| {
            let dropped = |ready| !state.moved && ready + period <= now;
            state.waits.is_empty() || state.ready.is_some_and(dropped)
        };
        while ring.front().is_some_and(over) {
            ring.pop_front();
        }
    }

    /// The migration that was last written down as `remap`, of those whose tick has come: one that
    /// was planned before and given up names the same pages.
    pub fn planned(&mut self, remap: &Remap, now: u64) -> Option<&mut State> {
        let is_it = |state: &&mut State| {
            let keys = remap.changes.iter().map(|change| change.key);
            !state.moved
                && state.ready.is_some_and(|ready| ready <= now)
                && keys.eq(state.keys.iter().copied())
        };
        let found = self.of.iter_mut().flatten().filter(is_it);
        found.max_by_key(|state| state.ready)
    }

    /// Every core drops what names a page that is gone; returns how many of them but `core` had it
    /// to sweep.
    pub fn end_of_page(&mut self, m: &mut View<'_>, key: Key, core: usize) -> usize {
        let mut waited = self.end(m, |state| state.keys.contains(&key));
        waited.remove(core);
        waited.iter().count()
    }

    /// The same of what leads to a frame that `remap` changes.
    pub fn end_of_frames(&mut self, m: &mut View<'_>, remap: &Remap) {
        let moves = |frame: &u64| remap.changes.iter().any(|change| change.old_spn == *frame);
        self.end(m, |state| state.frames.iter().any(moves));
    }

    /// Ends the states of pages that are gone that `ends` says; returns the cores that they named.
    fn end(&mut self, m: &mut View<'_>, ends: impl Fn(&State) -> bool) -> CoreSet {
        let mut waited = CoreSet::default();
        if self.named.is_empty() {
            return waited;
        }
        for state in self.of.iter_mut().flatten() {
            if state.ready.is_some() || state.waits.is_empty() || !ends(state) {
                continue;
            }
            for core in std::mem::take(&mut state.waits).iter() {
                state.drop_at(m, core);
                waited.insert(core);
            }
            Self::unname(&mut self.named, &state.keys);
        }
        waited
    }

    /// Each ring is within its size, and each page that waits is named as often as it is counted.
    ///
    /// # Errors
    /// What is broken.
    pub fn check(&self) -> Result<(), String> {
        if let Some(ring) = self.of.iter().find(|ring| ring.len() > self.most) {
            return Err(format!("{} states in a ring of {}", ring.len(), self.most));
        }
        let mut named = PageMap::default();
        let gone = |state: &&State| state.ready.is_none() && !state.waits.is_empty();
        for state in self.of.iter().flatten().filter(gone) {
            for key in &state.keys {
                *named.entry(key.raw()).or_insert(0) += 1;
            }
        }
        if named != self.named {
            return Err(format!(
                "{} pages are counted and {} named by states",
                self.named.len(),
                named.len()
            ));
        }
        Ok(())
    }
}
