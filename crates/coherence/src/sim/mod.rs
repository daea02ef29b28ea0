// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One simulation: threads on cores, records through the machine, updates through the scheme.
//!
//! Each core has its own clock; the one that is furthest behind runs next, up to `lead_cycles`
//! beyond the second. Where threads outnumber cores they take [turns](self::turns). A simulation is
//! fed decoded blocks and runs as far as they go, so memory does not grow with the trace: a thread
//! that has no record in [`WINDOW`] blocks is taken for blocked and leaves its core.

mod clocks;
mod pace;
mod step;
mod stepper;
mod sweep;
#[cfg(test)]
mod tests;
mod translate;
mod turns;
mod update;

pub use stepper::Stepper;
pub(crate) use translate::translate;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use clocks::Clocks;
use turns::Home;

use crate::Error;
use crate::block::Block;
use crate::cache::CacheCounts;
use crate::config::{MachineConfig, Start};
use crate::counts::Counts;
use crate::dram::TierCounts;
use crate::front::Front;
use crate::layout::Key;
use crate::machine::{Fault, Look, Machine};
use crate::oracle::Oracle;
use crate::os::Migration;
use crate::record::{Recorded, Resident};
use crate::scheme::{Scheme, Spec, Sweep};

/// Blocks kept for threads that lag.
pub const WINDOW: usize = 64;

/// What a run is, beside the machine and the scheme.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Options {
    /// Seed of every random choice of the run.
    pub seed: u64,
    /// Check every access by the oracle.
    pub check: bool,
    /// Accesses before counting begins.
    pub warmup: u64,
    /// Counting begins at this marker instead, when given.
    pub start_marker: Option<u32>,
    /// Virtual machines (natively: processes).
    pub vms: u16,
    /// Threads of each VM; thread `t` of the trace is in VM `t / threads_per_vm`. 0: all in VM 0.
    pub threads_per_vm: u16,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            check: false,
            warmup: 0,
            start_marker: None,
            vms: 1,
            threads_per_vm: 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// On a core or in the queue.
    Ready,
    /// No record within the window.
    Parked,
    Ended,
}

#[derive(Debug, Clone, Copy)]
struct Thread {
    vm: u16,
    state: State,
    home: Home,
    /// Block number and index of the next record.
    block: u64,
    at: usize,
}

#[derive(Debug)]
struct Core {
    front: Front,
    thread: Option<usize>,
    /// Records left in the turn of its thread.
    slice_left: u32,
    /// Cycle at which the turn began, moved on by every stall for coherence: a turn is a quantum of
    /// work. With the stalls in it, a wait for turns would lengthen the turns it waits for.
    slice_begun: u64,
    /// Cycle since which the core's time counts as used.
    since: u64,
    /// The scheduler's next tick, where cores sweep.
    next_tick: u64,
}

/// Why a core stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Ahead,
    SliceOver,
    Dry,
}

/// One simulation.
#[derive(Debug)]
pub struct Sim {
    machine: Machine,
    scheme: Box<dyn Scheme>,
    spec: &'static Spec,
    options: Options,
    cores: Vec<Core>,
    /// Their clocks, between turns.
    clocks: Clocks,
    /// Cores without a thread.
    idle: usize,
    threads: Vec<Thread>,
    /// Threads go back to the cores that they had.
    cores_kept: bool,
    /// The core that a thread stays on, from the first thread on.
    pins: Vec<Option<usize>>,
    queue: VecDeque<usize>,
    blocks: VecDeque<Arc<Block>>,
    first_block: u64,
    ended: bool,
    slice_records: u32,
    /// Cycles of work in the last turn: what a vCPU that waits must expect.
    slice_cycles: u64,
    lead_cycles: u64,
    serialize: bool,
    /// Translations may expire, so each use is looked at.
    expires: bool,
    /// Cycles between two ticks of the scheduler, where cores sweep.
    period: Option<u64>,
    lock_until: u64,
    deferred: BTreeMap<(u64, u64), Migration>,
    deferred_seen: u64,
    next_deferred: u64,
    base: Option<(Counts, BTreeMap<&'static str, u64>)>,
    /// What markers number.
    recorded: Arc<[Recorded]>,
}

impl Sim {
    /// A simulation ready for its first block.
    ///
    /// # Errors
    /// An impossible machine, or a scheme that cannot run in its mode.
    pub fn new(
        config: &MachineConfig,
        spec: &'static Spec,
        options: &Options,
    ) -> Result<Self, Error> {
        config.validate()?;
        if options.vms == 0 || options.vms > 1024 {
            let got = options.vms;
            return Err(Error::Config(format!("`vms` is {got}: expected 1 to 1024")));
        }
        let scheme = spec.build(config)?;
        let period = scheme.period();
        let mut machine = Machine::new(config, options.vms, options.seed);
        machine.oracle = options.check.then(Oracle::default);
        if period.is_some() {
            machine.os.hold_frames();
        }
        let c = &config.core;
        let cores = (0..c.count)
            .map(|_| Core {
                front: Front::new(c.width, c.rob_entries),
                thread: None,
                slice_left: 0,
                slice_begun: 0,
                since: 0,
                next_tick: period.unwrap_or(sweep::NEVER),
            })
            .collect();
        Ok(Self {
            machine,
            expires: scheme.expires(),
            period,
            scheme,
            spec,
            options: options.clone(),
            cores,
            clocks: Clocks::new(c.count as usize),
            idle: c.count as usize,
            threads: Vec::new(),
            cores_kept: false,
            pins: Vec::new(),
            queue: VecDeque::new(),
            blocks: VecDeque::new(),
            first_block: 0,
            ended: false,
            slice_records: c.slice_records,
            slice_cycles: 0,
            lead_cycles: c.lead_cycles.into(),
            serialize: config.shootdown.serialize,
            lock_until: 0,
            deferred: BTreeMap::new(),
            deferred_seen: 0,
            next_deferred: u64::MAX,
            base: (options.warmup == 0 && options.start_marker.is_none())
                .then(|| (Counts::default(), BTreeMap::new())),
            recorded: Arc::default(),
        })
    }

    /// The scheme simulated.
    #[must_use]
    pub const fn spec(&self) -> &'static Spec {
        self.spec
    }

    /// The scheme's own counters since the beginning.
    #[must_use]
    pub fn own_counts(&self) -> BTreeMap<&'static str, u64> {
        self.scheme.counts()
    }

    /// What the machine counted since the beginning.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.machine.counts
    }

    /// Requests to DRAM and NVM since the beginning.
    #[must_use]
    pub fn memory_counts(&self) -> [TierCounts; 2] {
        self.machine.memory.counts()
    }

    /// What the caches served since the beginning.
    #[must_use]
    pub const fn cache_counts(&self) -> CacheCounts {
        self.machine.caches.counts
    }

    /// The oracle, where accesses are checked.
    #[must_use]
    pub const fn oracle(&self) -> Option<&Oracle> {
        self.machine.oracle.as_ref()
    }

    /// Checks the scheme's invariants against the machine.
    ///
    /// # Errors
    /// What is broken, in words.
    pub fn check(&self) -> Result<(), String> {
        self.scheme.check(Look::at(&self.machine))
    }

    /// Makes `alias` a synonym of `target`: two virtual pages of one VM, one frame.
    pub fn alias(&mut self, alias: Key, target: Key) {
        self.machine.os.alias(alias, target);
    }

    /// Plants a fault for the oracle to find.
    pub const fn plant(&mut self, fault: Fault) {
        self.machine.fault = Some(fault);
    }

    /// Maps the pages a workload begins with.
    pub fn populate(&mut self, residents: &[Resident]) {
        for resident in residents {
            for page in self.machine.os.populate(resident) {
                let mapping = self.machine.os.mapping(page);
                let mapping = mapping.expect("it was mapped just now");
                if let Some(oracle) = &mut self.machine.oracle {
                    oracle.walked(&mapping);
                }
                if self.machine.config.hybrid.start == Start::Steady {
                    self.scheme.warm(Look::at(&self.machine), &mapping);
                }
            }
        }
    }

    /// Updates that markers number, by their place in this list.
    pub fn expect(&mut self, updates: Arc<[Recorded]>) {
        self.recorded = updates;
    }

    /// Takes a block and runs until it needs the next.
    pub fn feed(&mut self, block: Arc<Block>) {
        let number = self.first_block + self.blocks.len() as u64;
        for at in self.threads.len()..block.threads.len() {
            let vm = match self.options.threads_per_vm {
                0 => 0,
                per => crate::num::low16(at as u64 / u64::from(per)).min(self.options.vms - 1),
            };
            self.threads.push(Thread {
                vm,
                state: State::Parked,
                home: self.home(at),
                block: number,
                at: 0,
            });
        }
        for (at, records) in block.threads.iter().enumerate() {
            let thread = &mut self.threads[at];
            if thread.state == State::Parked && !records.is_empty() {
                thread.state = State::Ready;
                (thread.block, thread.at) = (number, 0);
                self.queue.push_back(at);
            }
        }
        self.blocks.push_back(block);
        self.run();
    }

    /// No more blocks: runs to the end.
    pub fn finish(&mut self) {
        self.ended = true;
        self.run();
        while let Some(((ready, _), plan)) = self.deferred.pop_first() {
            if self.period.is_some() {
                // No thread is left to wait for the tick.
                self.cores[0].front.sleep_until(ready);
            }
            self.migrate_now(0, &plan, ready);
        }
        for core in 0..self.cores.len() {
            self.cores[core].front.drain();
            self.settle(core);
        }
    }

    fn run(&mut self) {
        loop {
            self.schedule();
            let Some((core, second)) = self.clocks.furthest_behind() else {
                break;
            };
            let limit = second.saturating_add(self.lead_cycles);
            let stop = self.run_core(core, limit);
            self.clocks.set(core, self.cores[core].front.cycle());
            match stop {
                Stop::Ahead => {}
                Stop::SliceOver => {
                    let cycle = self.cores[core].front.cycle();
                    self.slice_cycles = cycle - self.cores[core].slice_begun;
                    if !self.is_awaited(core) {
                        self.cores[core].slice_left = self.slice_records;
                        self.cores[core].slice_begun = cycle;
                    } else {
                        let thread = self.take_off(core);
                        self.queue.push_back(thread);
                    }
                }
                Stop::Dry if self.ended => {
                    let thread = self.take_off(core);
                    self.threads[thread].state = State::Ended;
                }
                Stop::Dry if self.blocks.len() >= WINDOW => {
                    let thread = self.take_off(core);
                    self.threads[thread].state = State::Parked;
                }
                Stop::Dry => break,
            }
        }
        self.drop_used_blocks();
    }

    fn drop_used_blocks(&mut self) {
        let end = self.first_block + self.blocks.len() as u64;
        let needed = self
            .threads
            .iter()
            .filter(|thread| thread.state == State::Ready)
            .map(|thread| thread.block)
            .min()
            .unwrap_or(end);
        while self.first_block < needed && self.blocks.pop_front().is_some() {
            self.first_block += 1;
        }
    }

    /// Counts the core's time up to now.
    fn settle(&mut self, core: usize) {
        let now = self.cores[core].front.cycle();
        if self.cores[core].thread.is_some() {
            self.machine.counts.core_cycles += now - self.cores[core].since;
        }
        self.cores[core].since = now;
    }

    /// Stops a core for coherence.
    fn stall(&mut self, core: usize, cycles: u64) {
        let core = &mut self.cores[core];
        core.front.stall(cycles);
        core.slice_begun += cycles;
        debug_assert!(
            core.slice_begun <= core.front.cycle(),
            "a turn has no negative length"
        );
    }

    /// Counting begins here.
    fn begin(&mut self) {
        for core in 0..self.cores.len() {
            self.settle(core);
        }
        self.base = Some((self.machine.counts, self.scheme.counts()));
    }

    fn mark(&mut self, id: u64) {
        if self.base.is_none() && self.options.start_marker.map(u64::from) == Some(id) {
            self.begin();
        }
    }

    /// What was counted, and the scheme's own counters.
    #[must_use]
    pub fn measured(&self) -> (Counts, BTreeMap<&'static str, u64>) {
        let own = self.scheme.counts();
        match &self.base {
            None => (Counts::default(), own),
            Some((base, base_own)) => {
                let diff = own
                    .iter()
                    .map(|(name, value)| {
                        (*name, value - base_own.get(name).unwrap_or(&0).min(value))
                    })
                    .collect();
                (self.machine.counts.since(base), diff)
            }
        }
    }

    /// Whether counting has begun.
    #[must_use]
    pub const fn has_begun(&self) -> bool {
        self.base.is_some()
    }
}
