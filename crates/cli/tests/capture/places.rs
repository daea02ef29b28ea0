// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Are mappings of a captured program where Linux would have placed them? The oracle is the kernel
//! of this machine: it runs `places.c` itself, which says where it got its memory.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use steady_memtrace::capture::{self, Ending};
use steady_memtrace::{Record, check};

use crate::support::{Bench, works};

const SOURCE: &str = include_str!("places.c");

/// Where the program's stores of one byte between its two markers went.
fn stores(records: &[Record]) -> Vec<u64> {
    let marker = |wanted| {
        let is_it = |record: &Record| matches!(record, Record::Marker { id, .. } if *id == wanted);
        records.iter().position(is_it).unwrap()
    };
    let within = &records[marker(1)..marker(2)];
    let byte = |record: &Record| match *record {
        Record::Access {
            vaddr,
            size: 1,
            write: true,
            ..
        } => Some(vaddr),
        _ => None,
    };
    within.iter().filter_map(byte).collect()
}

#[test]
fn mappings_are_where_linux_places_them_and_not_the_emulator() {
    let bench = Bench::linked(SOURCE, &["-static"]);
    assert!(works(Command::new(bench.path("p")).arg(bench.path("said"))));
    let said = bench.said();
    let (_, native) = said.split_last().unwrap();
    let different: BTreeSet<&u64> = native.iter().collect();
    assert!(different.len() < native.len(), "addresses come back");

    let distances = |emulator_addresses| {
        let mut options = bench.options(&[]);
        options.emulator_addresses = emulator_addresses;
        let summary = capture::run(&options, &AtomicBool::new(false)).unwrap();
        assert_eq!(summary.ending, Ending::Exited(0));
        assert_eq!(summary.unmapped_accesses, 0);
        check(&options.output).unwrap();
        let stores = stores(&bench.records());
        let top = stores[0] + native[0];
        let below = |at: &u64| top.wrapping_sub(*at);
        stores.iter().map(below).collect::<Vec<_>>()
    };
    assert_eq!(distances(false), native);
    assert_ne!(distances(true), native);
}
