// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Small machines and traces that migrate and remap much more than a real one.

#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;

use steady_coherence::Fault;
use steady_coherence::block::Decoder;
use steady_coherence::layout::Key;
use steady_coherence::os::{Bit, TablePage};
use steady_coherence::record::{MapKind, Memory, Prot, Record};
use steady_coherence::scheme::atlb;
use steady_coherence::scheme::attc::invtbl;
use steady_coherence::scheme::latr;
use steady_coherence::sim::Sim;
use steady_coherence::{MachineConfig, Options, Spec};
use steady_random::Stream;

/// First byte of the pages the traces use.
pub const BASE: u64 = 0x4000_0000;

/// A machine whose caches are small and whose pages move after few accesses.
pub fn busy_machine() -> MachineConfig {
    let mut machine = MachineConfig::default();
    machine.core.count = 4;
    machine.core.slice_records = 200;
    machine.l1d.kib = 4;
    machine.l1d.ways = 4;
    machine.l2.kib = 8;
    machine.l3.kib = 64;
    machine.hybrid.threshold = 2;
    machine.hybrid.dram_percent = 50;
    machine.schemes.set(&atlb::KIB, 1024);
    machine.schemes.set(&atlb::LARGE_KIB, 1024);
    machine.schemes.set(&invtbl::KIB, 1);
    machine.schemes.set(&latr::TICK, 5);
    machine
}

/// Random accesses of `threads` threads to `pages` shared pages, with mapping calls in between.
pub fn busy_trace(seed: u64, threads: u16, pages: u32, length: u32) -> Vec<Record> {
    let mut random = Stream::new(seed, 0xACCE55);
    let rights = |w| Prot {
        read: true,
        write: w,
        exec: false,
    };
    let mut records = Vec::new();
    for _ in 0..length {
        let thread = u16::try_from(random.below(threads.into())).expect("a thread number");
        let page = random.below(pages);
        let start = BASE + (u64::from(page) << 12);
        let kind = match random.below(200) {
            0 => Some((MapKind::Mprotect, false)),
            1 => Some((MapKind::Mprotect, true)),
            2 => Some((MapKind::Madvise, true)),
            3 => Some((MapKind::Munmap, true)),
            4 => Some((MapKind::Mmap, true)),
            _ => None,
        };
        if let Some((kind, writable)) = kind {
            let len = 4096 * u64::from(1 + random.below(40));
            records.push(Record::Map {
                thread,
                start,
                len,
                prot: rights(writable),
                kind,
            });
        } else {
            records.push(Record::Access {
                thread,
                vaddr: start + u64::from(random.below(512)) * 8,
                size: 8,
                write: random.below(3) == 0,
                instructions: 1 + random.below(6),
            });
        }
    }
    records
}

/// Runs records on one scheme with the oracle on; `prepare` sees the simulation first.
pub fn run_checked(
    machine: &MachineConfig,
    scheme: &'static Spec,
    records: Vec<Record>,
    vms: u16,
    threads_per_vm: u16,
    prepare: impl FnOnce(&mut Sim),
) -> Sim {
    let between = |_: &mut Sim| {};
    run_with(
        machine,
        scheme,
        (records, 1000),
        (vms, threads_per_vm),
        prepare,
        between,
    )
}

/// Runs records, a number to the block, with the oracle on; `between` has its turn after each
/// block.
pub fn run_with(
    machine: &MachineConfig,
    scheme: &'static Spec,
    (records, to_the_block): (Vec<Record>, usize),
    (vms, threads_per_vm): (u16, u16),
    prepare: impl FnOnce(&mut Sim),
    mut between: impl FnMut(&mut Sim),
) -> Sim {
    let options = Options {
        check: true,
        vms,
        threads_per_vm,
        ..Options::default()
    };
    let mut sim = Sim::new(machine, scheme, &options).expect("a valid machine");
    prepare(&mut sim);
    let mut decoder = Decoder::new(Memory::new(records, to_the_block), u64::MAX);
    while let Some(block) = decoder.next_block().expect("a valid trace") {
        sim.feed(Arc::new(block));
        between(&mut sim);
    }
    sim.finish();
    sim
}

/// Unmaps the whole spans of the tables below `pages` pages now and then, so that tables go too.
pub fn with_spans_unmapped(mut records: Vec<Record>, pages: u32, every: usize) -> Vec<Record> {
    let spans = u64::from(pages).div_ceil(512);
    let whole = |at: u64| Record::Map {
        thread: 0,
        start: BASE + ((at % spans) << 21),
        len: (1 + at % 2) << 21,
        prot: Prot::default(),
        kind: MapKind::Munmap,
    };
    for at in 1..records.len() / every {
        records.insert(at * (every + 1), whole(at as u64));
    }
    records
}

/// Agents that clear bits and move table pages of `pages` pages of each VM.
pub struct Meddler {
    draws: Stream,
    pages: u32,
    vms: u16,
    /// Table pages move.
    pub moves: bool,
    /// Table pages moved.
    pub moved: u64,
    /// Bits cleared.
    pub cleared: u64,
}

impl Meddler {
    pub fn new(seed: u64, pages: u32, vms: u16) -> Self {
        let draws = Stream::new(seed, 0x1DEA);
        Self {
            draws,
            pages,
            vms,
            moves: true,
            moved: 0,
            cleared: 0,
        }
    }

    fn page(&mut self, sim: &Sim, vm: u16) -> Key {
        let vpn = (BASE >> 12) + u64::from(self.draws.below(self.pages));
        sim.key_of(vm, vpn)
    }

    /// Each guest cleans and ages some pages; of one VM each kind of table page moves.
    pub fn turn(&mut self, sim: &mut Sim) {
        for vm in 0..self.vms {
            for bit in [Bit::Dirty, Bit::Accessed] {
                let keys: Vec<Key> = (0..8).map(|_| self.page(sim, vm)).collect();
                self.cleared += sim.clear(0, bit, &keys);
            }
        }
        if !self.moves {
            return;
        }
        let vm = u16::try_from(self.draws.below(self.vms.into())).expect("a VM");
        for which in [TablePage::Guest, TablePage::Behind, TablePage::Host] {
            let key = self.page(sim, vm);
            let level = self.draws.below(4) as usize;
            self.moved += u64::from(sim.move_table(0, which, key, level));
        }
    }
}

/// Violations the oracle found.
pub fn violations(sim: &Sim) -> u64 {
    sim.oracle()
        .expect("checked runs have an oracle")
        .violations
}

/// Runs the busy trace with a planted fault and returns the violations.
pub fn with_fault(scheme: &'static Spec, fault: Fault, vms: u16) -> u64 {
    let machine = busy_machine();
    let records = busy_trace(3, 4, 96, 60_000);
    let per = if vms > 1 { 4 / vms } else { 0 };
    violations(&run_checked(&machine, scheme, records, vms, per, |sim| {
        sim.plant(fault)
    }))
}
