// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What it costs that table pages move: the figures of `docs/COHERENCE.md`.

use std::sync::Arc;

use steady_coherence::block::Decoder;
use steady_coherence::counts::Counts;
use steady_coherence::layout::Key;
use steady_coherence::os::TablePage;
use steady_coherence::record::Source;
use steady_coherence::sim::Sim;
use steady_coherence::workload::{CALIBRATED_RATE, Generator, GeneratorOptions, find};
use steady_coherence::{MachineConfig, Options, Spec, scheme};
use steady_random::Stream;

const ACCESSES: u64 = 1_000_000;
const PAGES: [TablePage; 3] = [TablePage::Guest, TablePage::Behind, TablePage::Host];

#[derive(Clone, Copy, PartialEq)]
enum Tables {
    /// They stay, and no scheme follows them.
    Stay,
    /// They may move, and do not.
    May,
    /// One of each kind moves after every block of records.
    Move,
}

/// The counts, and the table pages that moved.
fn run(spec: &'static Spec, tables: Tables) -> (Counts, u64) {
    let workload = find("freqmine").expect("a workload");
    let options = GeneratorOptions {
        seed: 1,
        sweep_rate: CALIBRATED_RATE,
        vms: 1,
        accesses: ACCESSES,
        dram_percent: 95,
    };
    let source = Generator::new(workload, &options).expect("valid options");
    let options = Options {
        threads_per_vm: workload.threads,
        ..Options::default()
    };
    let mut sim = Sim::new(&MachineConfig::default(), spec, &options).expect("a machine");
    if tables != Tables::Stay {
        sim.let_tables_move();
    }
    let residents = source.residents();
    sim.populate(&residents);
    let (mut draws, mut moved) = (Stream::new(1, 0x7AB1E), 0);
    let mut decoder = Decoder::new(source, ACCESSES);
    while let Some(block) = decoder.next_block().expect("no end of records") {
        sim.feed(Arc::new(block));
        for which in PAGES.into_iter().filter(|_| tables == Tables::Move) {
            let pages = steady_coherence::num::low32(residents[0].pages);
            let vpn = (residents[0].start >> 12) + u64::from(draws.below(pages));
            moved += u64::from(sim.move_table(0, which, Key::small(0, vpn), 3));
        }
    }
    sim.finish();
    (*sim.counts(), moved)
}

#[test]
fn a_table_page_s_move_costs_attc_a_small_share_of_what_it_costs_software() {
    println!("scheme     initiator's cycles a move   walk reads a move");
    let mut cycles_of_a_move = Vec::new();
    for spec in [
        &scheme::KVMTLB,
        &scheme::HATRIC,
        &scheme::ATTC,
        &scheme::IDEAL,
    ] {
        let [(stay, _), (may, _), (moves, moved)] =
            [Tables::Stay, Tables::May, Tables::Move].map(|tables| run(spec, tables));
        assert!(moved > 30, "{moved} moved");
        if spec != &scheme::ATTC {
            assert_eq!(stay, may, "{} stores no pointers", spec.name);
        }
        let cycles = (moves.initiator_cycles - may.initiator_cycles) / moved;
        let reads = (moves.walk_reads - may.walk_reads) / moved;
        println!("{:8} {cycles:21} {reads:19}", spec.name);
        cycles_of_a_move.push(cycles);
    }
    let [kvmtlb, _, attc, _] = cycles_of_a_move[..] else {
        unreachable!("four schemes")
    };
    assert!(attc * 20 < kvmtlb, "{attc} of {kvmtlb} cycles");
}
