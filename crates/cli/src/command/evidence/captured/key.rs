// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The key of captured claims: it changes with what the simulator does, with how a recorded trace
//! is read, and with what counts as an update or a victim in it. It does not change with words.
//!
//! Left out: the emulator, whose keys are those of races.

use std::collections::VecDeque;
use std::io::{BufRead, Cursor, Seek};
use std::sync::Arc;

use anyhow::Context;
use steady_coherence::Options;
use steady_coherence::compare::{self, Comparison};
use steady_coherence::host::Host;
use steady_coherence::record::{Record, Recorded, Source};
use steady_coherence::workload::{CALIBRATED_RATE, Generator, GeneratorOptions, find};
use steady_memtrace::host::Rates;

use super::changed::{INPUTS, Input};
use super::schemes::{How, jobs, schemes};

/// Swept pages in the short run, in times of the calibrated rate.
const OFTEN: u32 = 20_000;
/// A trace written by hand, in which each kind of update and of victim is seen. A test has it.
const TRACE: &[u8] = include_bytes!("key.sht.zst");

/// Records at a time of the trace's slow simulations, where threads without records wait.
const FEW: usize = 4;

/// The key: a digest of a short run in which a program changes its pages often, and of the rates
/// and the simulations of a trace. On one core the victims of the trace wait for it. Read slowly,
/// a vCPU waits and comes back, pinned or not.
///
/// # Errors
/// As the simulations.
pub fn fingerprint() -> anyhow::Result<String> {
    let trace = zstd::decode_all(TRACE).context("the trace of the key")?;
    of(Cursor::new(trace))
}

/// The key, with this trace.
fn of(mut trace: impl BufRead + Seek + Send) -> anyhow::Result<String> {
    let rates = Rates::read(&mut trace)?;
    let mut simulated = Vec::new();
    for way in WAYS {
        trace.rewind()?;
        simulated.push(on_trace(&mut trace, &way)?.outcomes);
    }
    let all = (
        glance(&INPUTS[0])?.outcomes,
        format!("{rates:?}"),
        simulated,
    );
    Ok(compare::digest(&all)[..16].to_owned())
}

/// How the trace of the key is simulated.
#[derive(Debug, Clone, Copy)]
struct Way {
    /// Keys of the machine.
    keys: &'static [(&'static str, &'static str)],
    /// Records at a time; absent: as they are read.
    block: Option<usize>,
    /// vCPUs stay on their cores.
    pinned: bool,
}

const PLAIN: Way = Way {
    keys: &[],
    block: None,
    pinned: true,
};

const WAYS: [Way; 4] = [
    PLAIN,
    Way {
        keys: &[("core.count", "1")],
        ..PLAIN
    },
    Way {
        block: Some(FEW),
        ..PLAIN
    },
    Way {
        block: Some(FEW),
        pinned: false,
        ..PLAIN
    },
];

/// Every scheme on the trace.
fn on_trace(trace: impl BufRead + Seek + Send, way: &Way) -> anyhow::Result<Comparison> {
    let host = Host::new(trace)?;
    let how = How::of(&host);
    let source = Slow {
        host,
        way: *way,
        left: VecDeque::new(),
    };
    how.on(source, &jobs(&INPUTS[0], &schemes(), way.keys)?)
}

/// A recorded host of which some records are read at a time.
struct Slow<R> {
    host: Host<R>,
    way: Way,
    left: VecDeque<Record>,
}

impl<R: BufRead + Seek + Send> Source for Slow<R> {
    fn next_block(&mut self, out: &mut Vec<Record>) -> Result<bool, steady_coherence::Error> {
        let Some(block) = self.way.block else {
            return self.host.next_block(out);
        };
        let mut read = Vec::new();
        while self.left.is_empty() && self.host.next_block(&mut read)? {
            self.left.extend(read.drain(..));
        }
        out.extend(self.left.drain(..block.min(self.left.len())));
        Ok(!out.is_empty())
    }

    fn updates(&self) -> Arc<[Recorded]> {
        self.host.updates()
    }

    fn processors(&self) -> Option<Vec<Option<u16>>> {
        match self.way.pinned {
            true => self.host.processors(),
            false => Some(Vec::new()),
        }
    }
}

/// The key where inputs are changed: it changes with the other one, and with what a changed input
/// does.
///
/// # Errors
/// As the simulations.
pub fn changed_fingerprint(as_is: &str) -> anyhow::Result<String> {
    let runs = INPUTS.iter().map(|input| {
        let found = glance(input)?.outcomes;
        Ok((input.name, input.times, found))
    });
    let runs: Vec<_> = runs.collect::<anyhow::Result<_>>()?;
    Ok(compare::digest(&(as_is, runs))[..16].to_owned())
}

/// The short run, with an input changed.
pub(super) fn glance(input: &Input) -> anyhow::Result<Comparison> {
    let (workload, accesses) = (find("dedup")?, 20_000);
    let options = GeneratorOptions {
        seed: 1,
        sweep_rate: CALIBRATED_RATE * OFTEN,
        vms: 1,
        accesses,
        dram_percent: 100,
    };
    let source = Generator::new(workload, &options)?;
    let options = Options {
        threads_per_vm: workload.threads,
        ..Options::default()
    };
    Ok(compare::compare(
        source,
        accesses,
        &jobs(input, &schemes(), &[])?,
        &options,
        1,
    )?)
}

#[cfg(test)]
#[path = "../../../../../memtrace/tests/common/handmade.rs"]
mod handmade;

#[cfg(test)]
mod tests {
    use steady_attc_paper::by_agent;

    use super::handmade::{GONE, LEAVES, Trace};
    use super::*;

    /// Updates of the guest: with a victim, of one vCPU alone, of fewer rights, with a victim that
    /// the host invalidates for, with one that has no access left. Then one of the host.
    fn shown() -> Vec<u8> {
        let mut trace = Trace::new();
        let at = |page: u64| LEAVES + 8 * page;
        for page in 0..6 {
            trace
                .store(0, page << 12, 16 + page)
                .load(1, page << 12, 16 + page);
        }
        trace.write(0, at(0), GONE).write(0, at(1), GONE);
        for cpu in [0, 1] {
            trace.invlpg(cpu, 0).invlpg(cpu, 0x1000);
        }
        trace.write(0, at(2), GONE).invlpg(0, 0x2000);
        trace.write(1, at(3), 19 << 12 | 1);
        trace.invlpg(1, 0x3000).invlpg(0, 0x3000);
        trace.write(0, at(4), GONE).invlpg(0, 0x4000);
        trace.record(1, 7, &[18, 0, 2, 0]);
        trace.record(1, 4, &[17, 0, 2, 0x4000]);
        // One alone, while the other waits; both come back to what they had.
        for (cpu, page, count) in [(0, 6, 1_000), (1, 7, 500), (0, 6, 500)] {
            for _ in 0..count {
                trace.load(cpu, page << 12, 16 + page);
            }
        }
        trace.write(0, at(5), GONE);
        trace.invlpg(0, 0x5000).invlpg(1, 0x5000);
        trace.load(0, 0x6000, 22);
        trace.record(0, 1, &[0, 0x9000, 1 << 31, 1 << 10, 0, 0]);
        trace.write(0, 0xc000, GONE);
        for cpu in [0, 1] {
            trace.record(cpu, 4, &[16, 1, 0xa01e, 0]);
        }
        trace.write(0, 0xc000, 0x87);
        trace.ended().to_vec()
    }

    #[test]
    fn the_trace_of_the_key_is_the_one_that_is_written_here() {
        let kept = zstd::decode_all(TRACE).expect("it is zstd");
        assert!(kept == shown(), "write it again from `shown`");
        let rates = Rates::read(Cursor::new(kept)).expect("a trace");
        let its = &rates.owners[&1];
        let own = &its.updates;
        assert_eq!((own.shootdowns, own.private), (4, 1));
        assert_eq!((own.victims, own.victims_by_host), (3, 1));
        assert_eq!(its.ept_updates.all, 1);
    }

    #[test]
    fn another_victim_in_the_trace_is_another_key() {
        let key = |trace: &[u8]| of(Cursor::new(trace.to_vec())).expect("it runs");
        let kept = shown();
        assert_eq!(key(&kept), key(&kept));
        assert_eq!(key(&kept), fingerprint().expect("it runs"));
        // One invalidation fewer is one victim fewer.
        let mut trace = Trace::new();
        trace.write(0, LEAVES, GONE).invlpg(0, 0);
        let private = key(trace.ended());
        let mut trace = Trace::new();
        trace.write(0, LEAVES, GONE).invlpg(0, 0).invlpg(1, 0);
        assert_ne!(key(trace.ended()), private);
    }

    #[test]
    fn an_input_that_is_changed_changes_what_is_simulated() {
        let of = |input| compare::digest(&glance(input).expect("it runs").outcomes);
        let mut seen: Vec<_> = INPUTS.iter().map(|one| (of(one), one.times)).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), INPUTS.len());
    }

    #[test]
    fn on_one_core_a_victim_of_the_trace_waits_for_it() {
        let found = on_trace(Cursor::new(shown()), &WAYS[1]).expect("it runs");
        // One that waits, and one whose accesses have ended. Others are within the warm-up.
        assert_eq!(found.outcomes[0].counts.victims, 2);
    }

    #[test]
    fn a_vcpu_of_the_trace_that_waited_finds_its_page_on_its_core() {
        let walks = |way: &Way| {
            let found = on_trace(Cursor::new(shown()), way).expect("it runs");
            found.outcomes[0].counts.walks
        };
        let as_read = walks(&PLAIN);
        assert!(WAYS[2..].iter().all(|way| walks(way) == as_read));
    }

    #[test]
    fn the_short_run_has_updates_under_every_scheme() {
        let found = glance(&INPUTS[0]).expect("it runs");
        assert_eq!(found.outcomes.len(), schemes().len());
        for outcome in &found.outcomes {
            let (guest, _) = by_agent(&outcome.counts);
            assert!(guest > 0, "{} has no update", outcome.scheme);
        }
    }

    #[test]
    #[ignore = "writes the trace of the key again, where `shown` has changed"]
    fn write_the_trace_of_the_key() {
        let packed = zstd::encode_all(shown().as_slice(), 19).expect("it packs");
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/command/evidence/captured/key.sht.zst"
        );
        std::fs::write(path, packed).expect("it is written");
    }
}
