// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Speed of the simulator on the paper's eight-core machine with everything on: accesses a second,
//! its ratio to the floor, and to `valgrind --tool=cachegrind` where that is installed.
//!
//! The floor is a loop that reads the same decoded records, touches one set of an L1 TLB and one
//! of an L1 cache for each, and does nothing else: what any trace-driven simulator must do.
//! Cachegrind simulates caches of one core, no TLBs, no coherence, no timing: it does less.
//! All speeds are by CPU time.

mod cpu;

use anyhow::{Result, ensure};
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::Duration;
use steady_coherence::compare::{compare, jobs};
use steady_coherence::record::{Record, Source};
use steady_coherence::table::Table;
use steady_coherence::workload::{Generator, GeneratorOptions, find};
use steady_coherence::{MachineConfig, Options, SchemeKind};

const ACCESSES: u64 = 6_000_000;

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

/// The walk that cachegrind runs: an array summed again and again, about a load every 3 instructions.
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

fn per_second(accesses: u64, spent: Duration) -> Result<u64> {
    Ok(accesses * 1000 / u64::try_from(spent.as_millis())?.max(1))
}

fn floor() -> Result<u64> {
    let mut source = source()?;
    let mut records = Vec::new();
    while source.next_block(&mut records)? {}
    let (mut tlb, mut cache) = (Table::<u64>::new(16, 4), Table::<u8>::new(64, 8));
    let spent = cpu::spent(cpu::own, || {
        for record in &records {
            if let Record::Access { vaddr, .. } = *record {
                let (page, line) = (vaddr >> 12, vaddr >> 6);
                let sets = (usize::try_from(page & 15)?, usize::try_from(line & 63)?);
                if tlb.find(sets.0, page + 1).is_none() {
                    tlb.insert(sets.0, page + 1, page);
                }
                if cache.find(sets.1, line + 1).is_none() {
                    cache.insert(sets.1, line + 1, 0);
                }
            }
        }
        Ok(())
    })?;
    black_box((&tlb, &cache));
    per_second(ACCESSES, spent)
}

fn cachegrind() -> Result<Option<u64>> {
    let accesses = 2_000_000_u64;
    let program = std::env::current_exe()?;
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Ok(None);
    }
    let run = |count: u64| {
        cpu::spent(cpu::children, || {
            let status = Command::new("valgrind")
                .args(["--tool=cachegrind", "--cache-sim=yes", "-q"])
                .arg("--cachegrind-out-file=/dev/null")
                .arg(&program)
                .args(["walk", &count.to_string()])
                // Valgrind warns of caches that it must round.
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()?;
            ensure!(
                status.success(),
                "valgrind cannot run {}",
                program.display()
            );
            Ok(())
        })
    };
    // The difference of two runs leaves valgrind's start out.
    let spent = run(accesses)?.saturating_sub(run(1)?);
    Ok(Some(per_second(accesses, spent)?))
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    if args.next().as_deref() == Some("walk") {
        let count = args.next().unwrap_or_default().parse()?;
        println!("{}", walk(count));
        return Ok(());
    }
    let floor = floor()?;
    println!("floor: {floor} accesses/s (16 bytes of trace and 2 look-ups an access)");
    let cachegrind = cachegrind()?;
    match cachegrind {
        Some(speed) => println!("cachegrind: {speed} loads/s of a loop of 3 to 6 instructions"),
        None => println!("cachegrind: valgrind is not installed"),
    }
    for scheme in [SchemeKind::Kvmtlb, SchemeKind::Attc] {
        for check in [false, true] {
            let options = Options {
                check,
                ..Options::default()
            };
            let spent = cpu::spent(cpu::own, || {
                let jobs = jobs(&MachineConfig::default(), &[scheme]);
                compare(source()?, ACCESSES, &jobs, &options, 1)?;
                Ok(())
            })?;
            let speed = per_second(ACCESSES, spent)?;
            let oracle = if check { ", oracle on" } else { "" };
            let against = cachegrind.map_or_else(String::new, |other| {
                format!(", {} % of cachegrind's", speed * 100 / other.max(1))
            });
            println!(
                "{}{oracle}: {speed} accesses/s, {} % of the floor{against}",
                scheme.name(),
                speed * 100 / floor.max(1)
            );
        }
    }
    Ok(())
}
