// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the simulator's speed is measured by: its floor, cachegrind, and CPU time, so that other
//! work on the machine does not count as ours.
//!
//! The floor is a loop that reads the same decoded records, touches one set of an L1 TLB and one of
//! an L1 cache for each, and does nothing else: what any trace-driven simulator must do. Cachegrind
//! simulates one core's caches and its instruction fetches: no TLBs, no coherence, no time.

use std::ffi::OsStr;
use std::fs::read_to_string;
use std::hint::black_box;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use steady_coherence::record::{Record, Source};
use steady_coherence::table::Table;
use steady_coherence::{Spec, scheme};

/// A clock tick of `/proc`: Linux's `USER_HZ` is 100 on x86-64.
const TICK: Duration = Duration::from_millis(10);
/// Each time is the least of this number.
const ROUNDS: usize = 3;

/// What `steady coherence compare` compares when nothing is named.
const COMPARED: [&Spec; 5] = [
    &scheme::KVMTLB,
    &scheme::SHOOT4U,
    &scheme::HATRIC,
    &scheme::ATTC,
    &scheme::IDEAL,
];

/// CPU time of this thread so far.
pub fn own() -> Result<Duration> {
    let text = read_to_string("/proc/thread-self/schedstat")?;
    let spent = text.split(' ').next().context("schedstat has no time")?;
    Ok(Duration::from_nanos(spent.parse()?))
}

/// CPU time of every child waited for so far, in whole ticks.
fn children() -> Result<Duration> {
    let text = read_to_string("/proc/self/stat")?;
    // The name may hold spaces; after its parenthesis come state, and then fields 4 and on.
    let (_, fields) = text.rsplit_once(") ").context("stat has no name")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks =
        |at: usize| -> Result<u32> { Ok(fields.get(at - 3).context("stat is short")?.parse()?) };
    Ok(TICK * (ticks(16)? + ticks(17)?))
}

/// The least that `clock` says that `work` took.
pub fn best(
    clock: fn() -> Result<Duration>,
    mut work: impl FnMut() -> Result<()>,
) -> Result<Duration> {
    let mut least = Duration::MAX;
    for _ in 0..ROUNDS {
        let begun = clock()?;
        work()?;
        least = least.min(clock()?.saturating_sub(begun));
    }
    Ok(least)
}

/// Every record of a source.
pub fn records(mut source: impl Source) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    while source.next_block(&mut records)? {}
    Ok(records)
}

/// Time of the floor over `records`.
pub fn floor(records: &[Record]) -> Result<Duration> {
    let (mut tlb, mut cache) = (Table::<u64>::new(16, 4), Table::<u8>::new(64, 8));
    best(own, || {
        for record in records {
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
    })
}

/// Cachegrind's time on a program and its arguments; `None` where valgrind is not installed.
pub fn cachegrind(program: &[impl AsRef<OsStr> + std::fmt::Debug]) -> Result<Option<Duration>> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Ok(None);
    }
    let spent = best(children, || {
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
    })?;
    Ok(Some(spent))
}

/// Millions of accesses a second, in hundredths.
pub fn speed(accesses: u64, spent: Duration) -> u128 {
    u128::from(accesses) * 100 / spent.as_micros().max(1)
}

/// A speed as text.
pub fn shown(speed: u128) -> String {
    format!("{}.{:02} M accesses/s", speed / 100, speed % 100)
}

/// One speed in another, as text.
pub fn ratio(own: u128, other: u128) -> String {
    let hundredths = own * 100 / other.max(1);
    format!("x{}.{:02}", hundredths / 100, hundredths % 100)
}

/// The simulator's speeds: `simulated` gives the time of schemes over one stream, with the oracle
/// off and on. Of several schemes, each one's accesses count.
pub fn print_speeds(
    accesses: u64,
    floor: u128,
    peer: Option<u128>,
    mut simulated: impl FnMut(&[&'static Spec], bool) -> Result<Duration>,
) -> Result<()> {
    println!("  floor              {:>20}", shown(floor));
    match peer {
        Some(peer) => println!("  cachegrind         {:>20}", shown(peer)),
        None => println!("  cachegrind         valgrind is not installed"),
    }
    let mut print = |label: &str, schemes: &[&'static Spec], check: bool| -> Result<()> {
        let each = accesses * schemes.len() as u64;
        let own = speed(each, simulated(schemes, check)?);
        let against = peer.map_or_else(String::new, |peer| {
            format!(", {} of cachegrind", ratio(own, peer))
        });
        let floor = ratio(own, floor);
        println!(
            "  {label:18} {:>20}, {floor} of the floor{against}",
            shown(own)
        );
        Ok(())
    };
    for scheme in [&scheme::KVMTLB, &scheme::ATTC] {
        print(scheme.name, &[scheme], false)?;
        print(&format!("{}, oracle on", scheme.name), &[scheme], true)?;
    }
    print("five compared, each", &COMPARED, false)
}
