// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Small machines and traces that migrate and remap much more than a real one.

#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;

use steady_coherence::Fault;
use steady_coherence::block::Decoder;
use steady_coherence::record::{MapKind, Memory, Prot, Record};
use steady_coherence::scheme::atlb;
use steady_coherence::scheme::attc::invtbl;
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
    let options = Options {
        check: true,
        vms,
        threads_per_vm,
        ..Options::default()
    };
    let mut sim = Sim::new(machine, scheme, &options).expect("a valid machine");
    prepare(&mut sim);
    let mut decoder = Decoder::new(Memory::new(records, 1000), u64::MAX);
    while let Some(block) = decoder.next_block().expect("a valid trace") {
        sim.feed(Arc::new(block));
    }
    sim.finish();
    sim
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
