// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Speed of the simulator on the paper's eight-core machine with everything on, on a generated
//! workload, beside its floor and `valgrind --tool=cachegrind` where that is installed.
//!
//! A generated workload is not a program, so cachegrind runs this one, as a loop of loads. Last
//! comes how much slower an access is on 128 cores with 64 VMs.

mod common;

use std::hint::black_box;
use std::time::Duration;

use anyhow::Result;
use steady_coherence::compare::{compare, jobs};
use steady_coherence::workload::{CALIBRATED_RATE, Generator, GeneratorOptions, find};
use steady_coherence::{MachineConfig, Options, Spec, scheme};

const ACCESSES: u64 = 6_000_000;
/// Loads of the loop that cachegrind runs: some seconds.
const LOADS: u64 = 60_000_000;
/// Cores and VMs of the large machine, and its accesses.
const CORES: u16 = 128;
const VMS: u16 = 64;
const MANY: u64 = 16_000_000;

fn source(vms: u16, accesses: u64) -> Result<Generator> {
    Ok(Generator::new(
        find("fluidanimate")?,
        &GeneratorOptions {
            seed: 1,
            sweep_rate: CALIBRATED_RATE,
            vms,
            accesses,
            dram_percent: 95,
        },
    )?)
}

/// The machine of this number of cores: as `steady reproduce attc --beyond` has it.
fn machine(cores: u16) -> MachineConfig {
    let mut machine = MachineConfig::default();
    machine.core.count = cores.into();
    machine.l3.kib = 1024 * u32::from(cores);
    machine.dram.channels = 2.max(u32::from(cores) / 8).min(16);
    machine
}

/// CPU time of one scheme on this number of cores and VMs.
fn time(scheme: &'static Spec, cores: u16, vms: u16, accesses: u64) -> Result<Duration> {
    let options = Options {
        vms,
        threads_per_vm: find("fluidanimate")?.threads,
        ..Options::default()
    };
    let jobs = jobs(&machine(cores), &[scheme]);
    common::best(common::own, || {
        let source = source(vms, accesses)?;
        black_box(compare(source, accesses, &jobs, &options, 1)?);
        Ok(())
    })
}

/// Prints how fast an access is on the large machine beside the small one: over the whole run, and
/// without the first quarter, most of which is making the VMs.
fn print_large() -> Result<()> {
    println!("fluidanimate, generated: 8 cores and 1 VM, {CORES} cores and {VMS} VMs");
    for scheme in [&scheme::KVMTLB, &scheme::ATTC] {
        let small = (
            time(scheme, 8, 1, ACCESSES)?,
            time(scheme, 8, 1, ACCESSES / 4)?,
        );
        let large = (
            time(scheme, CORES, VMS, MANY)?,
            time(scheme, CORES, VMS, MANY / 4)?,
        );
        let rest = |(whole, first): (Duration, Duration)| whole.saturating_sub(first);
        for (what, small, large, part) in [
            ("whole runs", small.0, large.0, 4),
            ("without the first quarter", rest(small), rest(large), 3),
        ] {
            let small = common::speed(ACCESSES * part / 4, small);
            let large = common::speed(MANY * part / 4, large);
            println!(
                "  {:8} {} and {}, {} ({what})",
                scheme.name,
                common::shown(small),
                common::shown(large),
                common::ratio(large, small)
            );
        }
    }
    Ok(())
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
    let records = common::records(source(1, ACCESSES)?)?;
    let floor = common::speed(ACCESSES, common::floor(&records)?);
    drop(records);
    println!("fluidanimate, generated: {ACCESSES} accesses");
    common::print_speeds(ACCESSES, floor, cachegrind()?, |schemes, check| {
        let options = Options {
            check,
            ..Options::default()
        };
        let jobs = jobs(&MachineConfig::default(), schemes);
        common::best(common::own, || {
            let source = source(1, ACCESSES)?;
            black_box(compare(source, ACCESSES, &jobs, &options, 1)?);
            Ok(())
        })
    })?;
    print_large()
}
