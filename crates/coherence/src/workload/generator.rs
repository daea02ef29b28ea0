// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Turns a workload's description into records, one random stream per thread.
//!
//! The footprint of a VM is one range. Its last part is the working set, which the threads use all
//! the time; the rest is swept slowly in address order, a page at a time, and each page swept gets
//! enough accesses to migrate if it is in NVM. A run begins where such a sweep has been going on:
//! DRAM is full, and the pages swept next are those not in it. The sweep's speed is the shootdown
//! rate; program updates (a page of a thread's own losing and regaining its write permission)
//! follow it in the proportion that gives the workload's guest share.

use super::space::{STACK_BYTES, Space};
use crate::Error;
use crate::filler::Filler;
use crate::num::ix;
use crate::record::{MapKind, Prot, Record, Resident, Run, Sink, Source};
use crate::workload::{Mix, Workload};
use steady_random::{Stream, mix};

/// A thread's pages for program updates, in its heap behind the near data.
const TOGGLED_AT: u64 = 512 << 10;
const TOGGLED_PAGES: u32 = 64;
/// Pages of an update of several.
const MANY_PAGES: u32 = 8;
const HEAP_BYTES: u64 = TOGGLED_AT + ((TOGGLED_PAGES as u64) << 12);
/// Lines touched in a swept page; more than any usual migration threshold.
const SWEEP_LINES: u32 = 16;
/// Bytes of an access.
const SIZE: u8 = 8;
/// Accesses of one thread before the next thread's.
const TURN: usize = 256;
/// Records in a block.
const BLOCK: usize = 1 << 15;

/// How a workload is generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratorOptions {
    /// The run's seed.
    pub seed: u64,
    /// Pages swept per 10^11 instructions of the VM, for each MiB of footprint: the
    /// calibrated shootdown rate.
    pub sweep_rate: u32,
    /// Copies of the workload, each in its own VM.
    pub vms: u16,
    /// Accesses in all.
    pub accesses: u64,
    /// Share of DRAM in the footprint, so that the start is steady; as the machine's.
    pub dram_percent: u32,
}

#[derive(Debug)]
struct Thread {
    random: Stream,
    vm: usize,
    /// First bytes of its stack and of its heap.
    stack: u64,
    heap: u64,
    stream_at: u64,
    /// Instructions until the next page swept and the next program update.
    to_sweep: u64,
    to_update: u64,
    /// Lines left in the page being swept.
    sweeping: u32,
    sweep_page: u64,
    /// A range waits to get its write permission back: first byte and length.
    restore: Option<(u64, u64)>,
}

impl Thread {
    /// Instructions until something is due.
    fn due_at(&self) -> u64 {
        match self.restore {
            Some(_) => 0,
            None => self.to_sweep.min(self.to_update),
        }
    }

    /// Counts instructions that have passed.
    fn pass(&mut self, instructions: u64) {
        self.to_sweep = self.to_sweep.saturating_sub(instructions);
        self.to_update = self.to_update.saturating_sub(instructions);
    }
}

/// A workload's records.
#[derive(Debug)]
pub struct Generator {
    workload: Workload,
    options: GeneratorOptions,
    threads: Vec<Thread>,
    /// By VM.
    spaces: Vec<Space>,
    /// Next page to sweep, by VM.
    sweep_next: Vec<u64>,
    pages: u64,
    /// First page of the working set.
    set_first: u64,
    set_pages: u64,
    sweep_gap: u64,
    update_gap: u64,
    /// Other instructions between two accesses.
    mean_gap: u32,
    left: u64,
    turn: usize,
}

impl Generator {
    /// A generator at its start.
    ///
    /// # Errors
    /// [`Error::Config`] when there is no VM or no access.
    pub fn new(workload: Workload, options: &GeneratorOptions) -> Result<Self, Error> {
        if options.vms == 0 || options.accesses == 0 {
            return Err(Error::Config(
                "a generated workload needs at least one VM and one access".to_owned(),
            ));
        }
        let pages = u64::from(workload.footprint_mib) << 8;
        let set_pages = pages * u64::from(workload.pattern.working_set_percent) / 100;
        let threads = u64::from(workload.threads);
        // One page for this number of instructions of each thread.
        let rate = u64::from(options.sweep_rate) * u64::from(workload.footprint_mib);
        let sweep_gap = gap(rate);
        // Of the sweeps 25 % are the guest's; u updates per sweep make the share
        // (0.25 + u) / (1 + u) of the whole, so u = (share - 25) / (100 - share).
        let share = u64::from(workload.guest_share_percent);
        let update_gap = match share.checked_sub(25) {
            None | Some(0) => u64::MAX,
            Some(_) if sweep_gap == u64::MAX => u64::MAX,
            Some(above) => sweep_gap * (100 - share) / above,
        };
        let space = |vm| Space::new(options.seed, vm, pages, threads);
        let spaces: Vec<Space> = (0..options.vms).map(space).collect();
        let make = |at: u64| {
            let mut random = Stream::new(options.seed, at);
            let (vm, local) = (ix(at / threads), at % threads);
            Thread {
                vm,
                stack: spaces[vm].stack(local),
                heap: spaces[vm].heap(local),
                stream_at: local * (set_pages << 6) / threads,
                to_sweep: first(&mut random, sweep_gap),
                to_update: first(&mut random, update_gap),
                random,
                sweeping: 0,
                sweep_page: 0,
                restore: None,
            }
        };
        Ok(Self {
            threads: (0..threads * u64::from(options.vms)).map(make).collect(),
            spaces: spaces.clone(),
            sweep_next: vec![0; usize::from(options.vms)],
            set_first: pages - set_pages,
            pages,
            set_pages,
            sweep_gap,
            update_gap,
            mean_gap: 1000 / workload.pattern.memory_per_1000 - 1,
            left: options.accesses,
            turn: 0,
            workload,
            options: options.clone(),
        })
    }

    /// The next block's records, turn by turn; false at the end.
    fn give(&mut self, out: &mut impl Sink) -> bool {
        if self.left == 0 {
            return false;
        }
        let mut given = 0;
        while self.left > 0 && given < BLOCK {
            given += self.give_turn(out);
            self.turn = (self.turn + 1) % self.threads.len();
        }
        true
    }

    /// One thread's turn; returns the records given.
    fn give_turn(&mut self, out: &mut impl Sink) -> usize {
        let at = self.turn;
        let thread = &mut self.threads[at];
        let p = &self.workload.pattern;
        let footprint = self.spaces[thread.vm].footprint;
        let turn = Turn {
            stores_to: p.stores_per_1000,
            random_to: p.random_per_1000,
            stream_to: p.random_per_1000 + p.stream_per_1000,
            near_to: p.random_per_1000 + p.stream_per_1000 + p.near_per_1000,
            near_words: p.near_kib * 128,
            skewed: p.skewed,
            footprint,
            set: footprint + (self.set_first << 12),
            set_pages: self.set_pages,
            set_words: u64::from(crate::num::low32(self.set_pages << 6).max(1)) * 8,
            sweep_next: &mut self.sweep_next[thread.vm],
            sweep_pages: self.set_first.max(1),
            gaps: 2 * self.mean_gap + 1,
            sweep_gap: self.sweep_gap,
            update_gap: self.update_gap,
            updates: self.workload.updates,
        };
        // An access may come with one more and a call.
        let mut run = out.run(crate::num::low16(at as u64), 3 * TURN);
        let given = turn.give(thread, &mut self.left, &mut run);
        run.end();
        given
    }
}

/// What the accesses of one turn have in common.
struct Turn<'a> {
    /// Of 1000 draws, those below are stores; and to the working set at random, and in order, and
    /// to near data.
    stores_to: u32,
    random_to: u32,
    stream_to: u32,
    near_to: u32,
    near_words: u32,
    skewed: bool,
    /// First bytes of the footprint and of the working set.
    footprint: u64,
    set: u64,
    set_pages: u64,
    set_words: u64,
    sweep_next: &'a mut u64,
    sweep_pages: u64,
    /// Other instructions between two accesses are fewer than that.
    gaps: u32,
    sweep_gap: u64,
    update_gap: u64,
    updates: Mix,
}

impl Turn<'_> {
    /// Gives the accesses of the turn, with the mapping calls due; returns the records given.
    fn give(mut self, thread: &mut Thread, left: &mut u64, out: &mut impl Run) -> usize {
        // A copy stays in registers.
        let mut random = thread.random.clone();
        let mut given = 0;
        // Instructions since the thread's counters were moved on, and until one of them is due.
        let (mut since, mut due_at) = (0, thread.due_at());
        for _ in 0..TURN {
            // The gap between accesses varies, with the wanted mean.
            let instructions = random.below(self.gaps);
            since += u64::from(instructions) + 1;
            if since >= due_at {
                thread.pass(std::mem::take(&mut since));
                given += self.begin_due(thread, &mut random, left, out);
                due_at = thread.due_at();
            }
            let (vaddr, write) = self.draw(thread, &mut random);
            out.access(vaddr, SIZE, write, instructions + 1);
            given += 1;
            *left = left.saturating_sub(1);
            if *left == 0 {
                break;
            }
        }
        thread.pass(since);
        thread.random = random;
        given
    }

    /// Begins a sweep or an update of the program that is due; returns the records given.
    #[cold]
    fn begin_due(
        &mut self,
        thread: &mut Thread,
        random: &mut Stream,
        left: &mut u64,
        out: &mut impl Run,
    ) -> usize {
        if thread.to_sweep == 0 {
            thread.to_sweep = next(random, self.sweep_gap);
            thread.sweeping = SWEEP_LINES;
            thread.sweep_page = *self.sweep_next;
            *self.sweep_next = (*self.sweep_next + 1) % self.sweep_pages;
        }
        if thread.to_update == 0 {
            thread.to_update = next(random, self.update_gap);
            let (page, pages) = toggled(random, self.updates);
            let (start, len) = (thread.heap + TOGGLED_AT + (page << 12), pages << 12);
            // The page is in use before it loses its right, so that there is something to revoke.
            out.access(start, SIZE, true, 1);
            out.other(protect((start, len), false));
            thread.restore = Some((start, len));
            *left = left.saturating_sub(1);
            return 2;
        }
        let Some(range) = thread.restore.take() else {
            return 0;
        };
        out.other(protect(range, true));
        1
    }

    /// The address of the next access, and whether it is a store.
    #[inline]
    fn draw(&self, thread: &mut Thread, random: &mut Stream) -> (u64, bool) {
        let write = random.below(1000) < self.stores_to;
        let draw = random.below(1000);
        if thread.sweeping > 0 {
            thread.sweeping -= 1;
            let line = u64::from(thread.sweeping) * (64 / u64::from(SWEEP_LINES));
            let page = self.footprint + (thread.sweep_page << 12);
            (page + (line << 6), write)
        } else if draw < self.random_to {
            let line = drawn(random, self.set_pages, self.skewed);
            (self.set + (line << 6), write)
        } else if draw < self.stream_to {
            // Eight-byte elements in order.
            thread.stream_at += 1;
            if thread.stream_at >= self.set_words {
                thread.stream_at = 0;
            }
            (self.set + thread.stream_at * 8, false)
        } else if draw < self.near_to {
            let offset = random.below(self.near_words) * 8;
            (thread.heap + u64::from(offset), write)
        } else {
            let offset = random.below(STACK_BYTES / 8) * 8;
            (thread.stack + u64::from(offset), write)
        }
    }
}

/// The pages of a program's next update: the first of them, and how many.
fn toggled(random: &mut Stream, updates: Mix) -> (u64, u64) {
    let first = random.below(TOGGLED_PAGES);
    if updates == Mix::default() {
        // No draw more than there was before updates could have several pages.
        return (u64::from(first), 1);
    }
    let draw = random.below(100);
    let pages = if draw < updates.whole_percent {
        TOGGLED_PAGES
    } else if draw < updates.whole_percent + updates.many_percent {
        MANY_PAGES
    } else {
        1
    };
    (u64::from(first / pages * pages), u64::from(pages))
}

/// A line of the working set.
#[inline]
fn drawn(random: &mut Stream, pages: u64, is_skewed: bool) -> u64 {
    if is_skewed {
        return skewed(random, pages);
    }
    u64::from(random.below(crate::num::low32(pages << 6).max(1)))
}

/// A line of the working set: some pages are far more popular than others. The product of three
/// uniform numbers gives half of the draws to the most popular tenth of the pages; where those
/// lie is scattered.
fn skewed(random: &mut Stream, pages: u64) -> u64 {
    let wide = u64::from(random.next_u32());
    let narrow = u64::from(random.next_u32());
    let product = (wide * (narrow >> 16)) >> 16;
    let product = (product * (narrow & 0xFFFF)) >> 16;
    let rank = (product * pages) >> 32;
    // A multiplier prime to every footprint that is not a multiple of it.
    let page = rank * 1_000_003 % pages;
    (page << 6) | (wide & 63)
}

/// Instructions of a thread between its events, when all threads of a VM together make `rate` of
/// them in 10^11 instructions of the VM.
fn gap(rate: u64) -> u64 {
    100_000_000_000_u64
        .checked_div(rate)
        .map_or(u64::MAX, |gap| gap.max(1))
}

fn first(random: &mut Stream, gap: u64) -> u64 {
    if gap == u64::MAX {
        return u64::MAX;
    }
    mix(u64::from(random.next_u32()), 0) % gap + 1
}

/// The next gap: between a half and three halves of the mean.
fn next(random: &mut Stream, gap: u64) -> u64 {
    if gap == u64::MAX {
        return u64::MAX;
    }
    gap / 2 + mix(u64::from(random.next_u32()), 1) % gap.max(1) + 1
}

/// A change of a range's rights. The list of records knows whose it is.
const fn protect((start, len): (u64, u64), writable: bool) -> Record {
    Record::Map {
        thread: 0,
        start,
        len,
        prot: Prot {
            read: true,
            write: writable,
            exec: false,
        },
        kind: MapKind::Mprotect,
    }
}

/// Appends records to a list.
struct List<'a>(&'a mut Vec<Record>);

/// Appends those of one thread.
struct ListRun<'a> {
    thread: u16,
    out: &'a mut Vec<Record>,
}

impl Sink for List<'_> {
    type Run<'a>
        = ListRun<'a>
    where
        Self: 'a;

    fn run(&mut self, thread: u16, _: usize) -> ListRun<'_> {
        let out = &mut *self.0;
        ListRun { thread, out }
    }
}

impl Run for ListRun<'_> {
    fn access(&mut self, vaddr: u64, size: u8, write: bool, instructions: u32) {
        self.out.push(Record::Access {
            thread: self.thread,
            vaddr,
            size,
            write,
            instructions,
        });
    }

    fn other(&mut self, mut record: Record) {
        if let Record::Map { thread, .. } = &mut record {
            *thread = self.thread;
        }
        self.out.push(record);
    }

    fn end(self) {}
}

impl Source for Generator {
    fn next_block(&mut self, out: &mut Vec<Record>) -> Result<bool, Error> {
        Ok(self.give(&mut List(out)))
    }

    fn fill(&mut self, block: &mut Filler) -> Result<bool, Error> {
        Ok(self.give(block))
    }

    fn residents(&self) -> Vec<Resident> {
        let cold = self.pages * u64::from(100 - self.options.dram_percent) / 100;
        let mut all = Vec::new();
        for vm in 0..self.options.vms {
            let space = &self.spaces[usize::from(vm)];
            all.push(Resident {
                vm,
                start: space.footprint,
                pages: self.pages,
                cold_pages: cold.min(self.set_first),
            });
            for thread in 0..u64::from(self.workload.threads) {
                let stack = (space.stack(thread), u64::from(STACK_BYTES));
                for (start, bytes) in [stack, (space.heap(thread), HEAP_BYTES)] {
                    all.push(Resident {
                        vm,
                        start,
                        pages: bytes >> 12,
                        cold_pages: 0,
                    });
                }
            }
        }
        all
    }
}
