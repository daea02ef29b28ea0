// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Speed of the simulator on a captured program, beside two ratios: to the floor, and to
//! `valgrind --tool=cachegrind` on the same program.
//!
//! The floor is a loop over the same records, already decoded, that touches one set of an L1 TLB
//! and one of an L1 cache for each and does nothing else. Cachegrind's time is that of the whole
//! program less that of starting `true`; it also simulates instruction fetches, but one core, no
//! TLBs, no coherence and no time. Each time is CPU time, and the best of three.
//!
//! `bench_trace TRACE PROGRAM ARGS...`, where TRACE holds all of what the program does.

mod cpu;

use anyhow::{Context, Result, ensure};
use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use steady_coherence::captured;
use steady_coherence::compare::{compare, jobs};
use steady_coherence::record::{Record, Source};
use steady_coherence::table::Table;
use steady_coherence::{MachineConfig, Options, SchemeKind};

const ROUNDS: usize = 3;

fn best(clock: fn() -> Result<Duration>, mut work: impl FnMut() -> Result<()>) -> Result<Duration> {
    let mut least = Duration::MAX;
    for _ in 0..ROUNDS {
        least = least.min(cpu::spent(clock, &mut work)?);
    }
    Ok(least)
}

fn floor(trace: &Path) -> Result<(u64, Duration)> {
    let mut source = captured::open(trace)?;
    let mut records = Vec::new();
    while source.next_block(&mut records)? {}
    let accesses = records
        .iter()
        .filter(|record| matches!(record, Record::Access { .. }))
        .count();
    let (mut tlb, mut cache) = (Table::<u64>::new(16, 4), Table::<u8>::new(64, 8));
    let spent = best(cpu::own, || {
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
        black_box((&tlb, &cache));
        Ok(())
    })?;
    Ok((accesses as u64, spent))
}

fn simulated(trace: &Path, scheme: SchemeKind, check: bool) -> Result<Duration> {
    let options = Options {
        check,
        warmup: 0,
        ..Options::default()
    };
    best(cpu::own, || {
        let source = captured::open(trace)?;
        let jobs = jobs(&MachineConfig::default(), &[scheme]);
        black_box(compare(source, u64::MAX, &jobs, &options, 1)?);
        Ok(())
    })
}

/// Cachegrind's time on a program; `None` where valgrind is not installed.
fn cachegrind(program: &[String]) -> Result<Option<Duration>> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Ok(None);
    }
    let run = |program: &[String]| {
        best(cpu::children, || {
            let status = Command::new("valgrind")
                .args(["--tool=cachegrind", "--cache-sim=yes", "-q"])
                .arg("--cachegrind-out-file=/dev/null")
                .args(program)
                .stdout(Stdio::null())
                // Valgrind warns of caches that it must round, and of the markers' system call.
                .stderr(Stdio::null())
                .status()?;
            ensure!(status.success(), "{program:?} fails under valgrind");
            Ok(())
        })
    };
    Ok(Some(
        run(program)?.saturating_sub(run(&["true".to_owned()])?),
    ))
}

/// Millions of accesses a second, in hundredths.
fn speed(accesses: u64, spent: Duration) -> u128 {
    u128::from(accesses) * 100 / spent.as_micros().max(1)
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let trace = args
        .next()
        .context("usage: bench_trace TRACE PROGRAM ARGS...")?;
    let program: Vec<String> = args.collect();
    let trace = Path::new(&trace);
    let (accesses, floor) = floor(trace)?;
    let floor = speed(accesses, floor);
    let peer = cachegrind(&program)?.map(|spent| speed(accesses, spent));
    let shown = |speed: u128| format!("{}.{:02} M accesses/s", speed / 100, speed % 100);
    let name = program
        .first()
        .map_or("", |path| path.rsplit('/').next().unwrap_or(path));
    println!("{name} {}: {accesses} accesses", program[1..].join(" "));
    println!("  floor              {:>20}", shown(floor));
    match peer {
        Some(peer) => println!("  cachegrind         {:>20}", shown(peer)),
        None => println!("  cachegrind         valgrind is not installed"),
    }
    for scheme in [SchemeKind::Kvmtlb, SchemeKind::Attc] {
        for check in [false, true] {
            let own = speed(accesses, simulated(trace, scheme, check)?);
            let oracle = if check { ", oracle on" } else { "" };
            let label = format!("{}{oracle}", scheme.name());
            let ratio = |other: u128| {
                let hundredths = own * 100 / other.max(1);
                format!("x{}.{:02}", hundredths / 100, hundredths % 100)
            };
            let against = peer.map_or_else(String::new, |peer| {
                format!(", {} of cachegrind", ratio(peer))
            });
            println!(
                "  {label:18} {:>20}, {} of the floor{against}",
                shown(own),
                ratio(floor)
            );
        }
    }
    Ok(())
}
