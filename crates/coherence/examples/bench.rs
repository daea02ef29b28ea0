// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Speed of the simulator on the paper's eight-core machine with everything on, on a generated
//! workload, beside its floor and `valgrind --tool=cachegrind` where that is installed.
//!
//! A generated workload is no program, so cachegrind runs this one, as a loop of loads.

mod common;

use anyhow::Result;
use std::hint::black_box;
use steady_coherence::compare::{compare, jobs};
use steady_coherence::workload::{Generator, GeneratorOptions, find};
use steady_coherence::{MachineConfig, Options};

const ACCESSES: u64 = 6_000_000;
/// Loads of the loop that cachegrind runs.
const LOADS: u64 = 2_000_000;

fn source() -> Result<Generator> {
    Ok(Generator::new(
        find("fluidanimate")?,
        &GeneratorOptions {
            seed: 1,
            sweep_rate: steady_coherence::experiments::CALIBRATED_RATE,
            vms: 1,
            accesses: ACCESSES,
            dram_percent: 95,
        },
    )?)
}

/// The walk that cachegrind runs: an array summed again and again, about a load every 3
/// instructions.
fn walk(accesses: u64) -> u64 {
    let data: Vec<u64> = (0..8192).collect();
    let mut sum = 0;
    let mut at = 0_usize;
    for _ in 0..accesses {
        sum += black_box(data[at]);
        at = (at + 8 + usize::from(sum & 1 == 1)) % data.len();
    }
    sum
}

/// Cachegrind's speed on the walk; `None` where valgrind is not installed.
fn cachegrind() -> Result<Option<u128>> {
    let program = std::env::current_exe()?;
    let program = program.to_string_lossy();
    let run = |count: u64| common::cachegrind(&[&program, "walk", &count.to_string()]);
    // The difference of two runs leaves valgrind's start out.
    let Some((long, start)) = run(LOADS)?.zip(run(1)?) else {
        return Ok(None);
    };
    Ok(Some(common::speed(LOADS, long.saturating_sub(start))))
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("walk") {
        let count = args.next().unwrap_or_default().parse()?;
        println!("{}", walk(count));
        return Ok(());
    }
    let floor = common::speed(ACCESSES, common::floor(&common::records(source()?)?)?);
    println!("fluidanimate, generated: {ACCESSES} accesses");
    common::print_speeds(ACCESSES, floor, cachegrind()?, |scheme, check| {
        let options = Options {
            check,
            ..Options::default()
        };
        common::best(common::own, || {
            let jobs = jobs(&MachineConfig::default(), &[scheme]);
            black_box(compare(source()?, ACCESSES, &jobs, &options, 1)?);
            Ok(())
        })
    })
}
