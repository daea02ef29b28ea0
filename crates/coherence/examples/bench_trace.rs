// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Speed of the simulator on a captured program, beside its floor and `valgrind --tool=cachegrind`
//! on the same program, whose time is that of the whole program less that of starting `true`.
//!
//! `bench_trace TRACE PROGRAM ARGS...`, where TRACE holds all of what the program does.

mod common;

use std::hint::black_box;
use std::path::Path;

use anyhow::{Context, Result};
use steady_coherence::captured;
use steady_coherence::compare::{compare, jobs};
use steady_coherence::record::Record;
use steady_coherence::{MachineConfig, Options};

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let trace = args
        .next()
        .context("usage: bench_trace TRACE PROGRAM ARGS...")?;
    let program: Vec<String> = args.collect();
    let name = program
        .first()
        .map(|path| path.rsplit('/').next().unwrap_or(path))
        .context("usage: bench_trace TRACE PROGRAM ARGS...")?;
    let trace = Path::new(&trace);
    let records = common::records(captured::open(trace)?)?;
    let accesses = records
        .iter()
        .filter(|record| matches!(record, Record::Access { .. }))
        .count() as u64;
    let floor = common::speed(accesses, common::floor(&records)?);
    drop(records);
    let whole = common::cachegrind(&program)?;
    let start = common::cachegrind(&["true"])?;
    let peer = whole
        .zip(start)
        .map(|(whole, start)| common::speed(accesses, whole.saturating_sub(start)));
    println!("{name} {}: {accesses} accesses", program[1..].join(" "));
    common::print_speeds(accesses, floor, peer, |schemes, check| {
        let options = Options {
            check,
            ..Options::default()
        };
        common::best(common::own, || {
            let source = captured::open(trace)?;
            let jobs = jobs(&MachineConfig::default(), schemes);
            black_box(compare(source, u64::MAX, &jobs, &options, 1)?);
            Ok(())
        })
    })
}
