// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads and cores: who runs next, and where.
//!
//! Threads wait in one queue and run in its order. A recorded one goes back to the core that it had
//! if that is idle, since its translations and lines are there. A vCPU that a recording has on one
//! processor alone stays on that core, and waits for it while others are idle.
//!
//! Left out: priorities and balancing. A generated thread waits only where its records are not yet
//! made, and then takes the lowest idle core: recorded results are of that.

use super::clocks::IDLE;
use super::{Sim, Sweep};

/// Where a thread runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    /// On no core yet, or on whichever is idle.
    None,
    /// On this core the last time.
    Last(usize),
    /// On this core alone.
    Pinned(usize),
}

impl Home {
    /// The core that it would have.
    const fn core(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Last(core) | Self::Pinned(core) => Some(core),
        }
    }
}

impl Sim {
    /// Threads go back to cores that they had. From the first thread on, the core that each stays
    /// on; of a machine with fewer cores the remainder. Threads without one run anywhere.
    ///
    /// # Panics
    /// If a block has been fed.
    pub fn keep_cores(&mut self, cores: &[Option<u16>]) {
        assert!(self.threads.is_empty(), "threads run already");
        let count = self.cores.len();
        self.cores_kept = true;
        self.pins = cores
            .iter()
            .map(|core| core.map(|core| usize::from(core) % count))
            .collect();
    }

    /// Where a thread is at first.
    pub(super) fn home(&self, thread: usize) -> Home {
        let pin = self.pins.get(thread).copied().flatten();
        pin.map_or(Home::None, Home::Pinned)
    }

    /// Puts waiting threads on idle cores.
    pub(super) fn schedule(&mut self) {
        if self.queue.is_empty() || self.idle == 0 {
            return;
        }
        let now = match self.clocks.lowest() {
            IDLE => 0,
            now => now,
        };
        let chosen = self.chosen();
        if chosen.is_empty() {
            return;
        }
        for (thread, core) in self.placed(&chosen) {
            self.put_on(core, thread, now);
        }
        self.queue.retain(|thread| !chosen.contains(thread));
    }

    /// Threads that leave the queue: the first, as many as cores are idle.
    fn chosen(&self) -> Vec<usize> {
        let mut chosen: Vec<usize> = Vec::new();
        for &thread in &self.queue {
            if chosen.len() == self.idle {
                break;
            }
            let may = match self.threads[thread].home {
                Home::Pinned(core) => {
                    let home = Home::Pinned(core);
                    self.is_idle(core) && !chosen.iter().any(|&at| self.threads[at].home == home)
                }
                Home::None | Home::Last(_) => true,
            };
            if may {
                chosen.push(thread);
            }
        }
        chosen
    }

    /// A core for each: the pinned their own, then the others theirs if it is left, then the lowest
    /// that are left.
    fn placed(&self, chosen: &[usize]) -> Vec<(usize, usize)> {
        let mut left: Vec<usize> = (0..self.cores.len())
            .filter(|&core| self.is_idle(core))
            .collect();
        let mut placed = Vec::new();
        let is_pinned = |thread: &usize| matches!(self.threads[*thread].home, Home::Pinned(_));
        let (pinned, others): (Vec<_>, Vec<_>) = chosen.iter().copied().partition(is_pinned);
        let mut anywhere = Vec::new();
        for thread in pinned.into_iter().chain(others) {
            let own = self.threads[thread].home.core();
            match left.iter().position(|&core| own == Some(core)) {
                Some(at) => placed.push((thread, left.remove(at))),
                None => anywhere.push(thread),
            }
        }
        assert!(anywhere.len() <= left.len(), "no more than there are cores");
        placed.extend(anywhere.into_iter().zip(left));
        placed
    }

    fn is_idle(&self, core: usize) -> bool {
        self.cores[core].thread.is_none()
    }

    fn put_on(&mut self, core: usize, thread: usize, now: u64) {
        let on = &mut self.cores[core];
        assert!(on.thread.is_none(), "the core is idle");
        on.front.sleep_until(now);
        on.since = on.front.cycle();
        on.slice_left = self.slice_records;
        on.slice_begun = on.since;
        on.thread = Some(thread);
        self.clocks.set(core, on.since);
        self.idle -= 1;
        let thread = &mut self.threads[thread];
        match &mut thread.home {
            Home::Pinned(own) => assert_eq!(*own, core, "it stays on its core"),
            home if self.cores_kept => *home = Home::Last(core),
            Home::None | Home::Last(_) => {}
        }
        self.machine.running[core] = Some(thread.vm);
    }

    pub(super) fn take_off(&mut self, core: usize) -> usize {
        self.cores[core].front.drain();
        self.sweep(core, Sweep::Switch);
        self.settle(core);
        self.machine.running[core] = None;
        self.clocks.set(core, IDLE);
        self.idle += 1;
        self.cores[core]
            .thread
            .take()
            .expect("a thread was running")
    }

    /// Somebody waits for this core.
    pub(super) fn is_awaited(&self, core: usize) -> bool {
        self.queue
            .iter()
            .any(|&thread| match self.threads[thread].home {
                Home::Pinned(own) => own == core,
                Home::None | Home::Last(_) => true,
            })
    }

    /// Turns of others until the last waiting thread of a VM runs.
    pub(super) fn turns_before(&self, vm: u16) -> u64 {
        let before = |at: usize| match self.threads[self.queue[at]].home {
            home @ Home::Pinned(_) => {
                let earlier = self.queue.iter().take(at);
                earlier
                    .filter(|&&thread| self.threads[thread].home == home)
                    .count()
            }
            Home::None | Home::Last(_) => at / self.cores.len(),
        };
        let its = (0..self.queue.len()).filter(|&at| self.threads[self.queue[at]].vm == vm);
        its.map(|at| before(at) as u64 + 1).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Home;
    use crate::block::{Block, Kind, Packed};
    use crate::config::MachineConfig;
    use crate::scheme::IDEAL;
    use crate::sim::{Options, Sim, State, WINDOW};

    /// Accesses of each thread in a block.
    const EACH: usize = 8;

    fn sim(cores: u32, change: impl FnOnce(&mut MachineConfig)) -> Sim {
        let mut config = MachineConfig::default();
        config.core.count = cores;
        config.hybrid.enabled = false;
        change(&mut config);
        Sim::new(&config, &IDEAL, &Options::default()).expect("a possible machine")
    }

    /// A block in which these threads access a page each, their own.
    fn block(threads: &[usize]) -> Arc<Block> {
        let records = |thread: usize| {
            let access = Packed {
                vaddr: (thread as u64 + 1) << 12,
                instructions: 0,
                kind: Kind::Load,
            };
            vec![access; EACH]
        };
        let count = threads.iter().max().map_or(0, |last| last + 1);
        let of = |thread| match threads.contains(&thread) {
            true => records(thread),
            false => Vec::new(),
        };
        Arc::new(Block {
            threads: (0..count).map(of).collect(),
            calls: Vec::new(),
        })
    }

    #[test]
    fn a_recorded_thread_that_waited_finds_its_translations_on_its_core() {
        for (kept, walks) in [(true, 3), (false, 5)] {
            let mut sim = sim(4, |_| {});
            if kept {
                sim.keep_cores(&[]);
            }
            sim.feed(block(&[0, 1, 2]));
            for _ in 0..=WINDOW {
                sim.feed(block(&[2]));
            }
            assert_eq!(sim.threads[1].state, State::Parked);
            sim.feed(block(&[1, 2]));
            sim.finish();
            assert_eq!(
                sim.counts().walks,
                walks,
                "a page each, on each core that has it"
            );
            let homes: Vec<_> = sim.threads.iter().map(|thread| thread.home).collect();
            let own = [0, 1, 2].map(Home::Last);
            assert_eq!(homes, if kept { own } else { [Home::None; 3] });
        }
    }

    #[test]
    fn a_thread_whose_core_is_taken_has_another() {
        let mut sim = sim(2, |_| {});
        sim.keep_cores(&[]);
        sim.feed(block(&[0, 1]));
        // The second waits, a third takes its core, and the second comes back.
        for _ in 0..=WINDOW {
            sim.feed(block(&[0]));
        }
        sim.feed(block(&[0, 2]));
        for _ in 0..=WINDOW {
            sim.feed(block(&[2]));
        }
        assert_eq!(sim.counts().walks, 3);
        sim.feed(block(&[1, 2]));
        assert_eq!(
            sim.counts().walks,
            4,
            "the first one's core has not its page"
        );
    }

    #[test]
    fn threads_that_share_a_core_all_have_their_turns() {
        for pins in [&[][..], &[Some(0); 3]] {
            let mut sim = sim(1, |config| config.core.slice_records = 4);
            sim.keep_cores(pins);
            sim.feed(block(&[0, 1, 2]));
            assert_eq!(sim.counts().accesses, 3 * EACH as u64);
        }
    }

    #[test]
    fn a_pinned_thread_waits_for_its_core_while_another_is_idle() {
        let mut sim = sim(2, |config| config.core.slice_records = 4);
        sim.keep_cores(&[Some(1), Some(3), Some(2)]);
        let homes = [0, 1, 2].map(|thread| sim.home(thread));
        assert_eq!(homes, [1, 1, 0].map(Home::Pinned), "the remainder");
        sim.feed(block(&[0, 1]));
        assert_eq!(sim.machine.running[0], None);
        assert!(sim.machine.running[1].is_some());
        sim.finish();
        assert_eq!(sim.counts().accesses, 2 * EACH as u64);
        assert_eq!(sim.cores[0].front.cycle(), 0, "no thread ran there");
    }

    #[test]
    fn a_pinned_thread_has_its_core_before_one_that_was_there_last() {
        let mut sim = sim(2, |_| {});
        sim.keep_cores(&[None, None, Some(0)]);
        sim.feed(block(&[0, 1]));
        for _ in 0..=WINDOW {
            sim.feed(block(&[1]));
        }
        assert_eq!(sim.threads[0].home, Home::Last(0));
        assert_eq!(sim.threads[0].state, State::Parked);
        sim.feed(block(&[0, 2]));
        sim.finish();
        let homes: Vec<_> = sim.threads.iter().map(|thread| thread.home).collect();
        assert_eq!(homes[2], Home::Pinned(0));
        assert_eq!(
            sim.counts().accesses,
            (2 + WINDOW as u64 + 1 + 2) * EACH as u64
        );
    }

    #[test]
    fn a_vm_waits_for_the_turns_before_it_on_the_core_that_it_needs() {
        let mut sim = sim(2, |_| {});
        sim.keep_cores(&[Some(0), Some(0), Some(0), Some(1)]);
        sim.feed(block(&[0, 1, 2, 3]));
        assert_eq!(sim.queue, [1, 2]);
        assert_eq!(sim.turns_before(0), 2);
        assert_eq!(sim.turns_before(1), 0);
        assert_eq!([0, 1].map(|core| sim.is_awaited(core)), [true, false]);
        let mut free = self::sim(2, |_| {});
        free.feed(block(&[0, 1, 2, 3]));
        assert_eq!(free.queue, [2, 3]);
        assert_eq!(free.turns_before(0), 1);
    }
}
