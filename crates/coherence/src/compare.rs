// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several schemes over one decoded stream, in parallel where threads are given.
//!
//! Each simulation is independent and sees the same blocks in the same order, so the results do
//! not depend on the number of threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use sha2::{Digest, Sha256};

use crate::Error;
use crate::block::{Block, Decoder};
use crate::cache::CacheCounts;
use crate::config::MachineConfig;
use crate::counts::Counts;
use crate::dram::TierCounts;
use crate::oracle::Violation;
use crate::record::Source;
use crate::scheme::Spec;
use crate::sim::{Options, Sim};

/// One scheme on one machine.
#[derive(Debug, Clone)]
pub struct Job {
    /// Name in the results; the scheme's where the machines are equal.
    pub label: String,
    /// The scheme.
    pub scheme: &'static Spec,
    /// The machine.
    pub machine: MachineConfig,
}

/// Result of one simulation.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Outcome {
    /// The job's label.
    pub label: String,
    /// The scheme's name.
    pub scheme: &'static str,
    /// Counters after warm-up.
    pub counts: Counts,
    /// The scheme's own counters after warm-up.
    pub own: BTreeMap<&'static str, u64>,
    /// Requests to DRAM and NVM, warm-up included.
    pub memory: [TierCounts; 2],
    /// What the caches served, warm-up included.
    pub caches: CacheCounts,
    /// Violations the oracle found; `None` when it was off.
    pub violations: Option<u64>,
    /// Accesses checked to pages that an update had changed; without any, violations could hardly
    /// be found. No part of a result.
    #[serde(skip)]
    pub used_again: Option<u64>,
    /// The first of them.
    pub first_violations: Vec<Violation>,
    /// A broken invariant of the scheme, checked at the end of a checked run.
    pub broken: Option<String>,
}

impl Outcome {
    /// How much more IPC than `base`, in basis points (1/100 %); negative when less. The paper's
    /// measure: instructions over cycles, both summed over cores.
    #[must_use]
    pub fn gain_over(&self, base: &Self) -> i64 {
        let own = u128::from(self.counts.instructions) * u128::from(base.counts.core_cycles);
        let other = u128::from(base.counts.instructions) * u128::from(self.counts.core_cycles);
        if other == 0 {
            return 0;
        }
        let ratio = (own * 10_000 + other / 2) / other;
        i64::try_from(ratio).unwrap_or(i64::MAX) - 10_000
    }

    /// No violation and no broken invariant.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.violations.unwrap_or(0) == 0 && self.broken.is_none()
    }

    fn of(job: &Job, sim: &Sim) -> Self {
        let (counts, own) = sim.measured();
        let oracle = sim.oracle();
        Self {
            label: job.label.clone(),
            scheme: job.scheme.name,
            counts,
            own,
            memory: sim.memory_counts(),
            caches: sim.cache_counts(),
            violations: oracle.map(|oracle| oracle.violations),
            used_again: oracle.map(|oracle| oracle.used_again),
            first_violations: oracle
                .map(|oracle| oracle.first.clone())
                .unwrap_or_default(),
            broken: oracle.and_then(|_| sim.check().err()),
        }
    }
}

/// Results of a comparison, with what they hang on.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Comparison {
    /// Version of this form.
    pub version: u32,
    /// The run's options.
    pub options: Options,
    /// SHA-256 of the machines and options, hexadecimal.
    pub config_digest: String,
    /// One for each job, in order.
    pub outcomes: Vec<Outcome>,
    /// SHA-256 of the outcomes, hexadecimal.
    pub digest: String,
}

impl Comparison {
    /// The outcome of a label.
    #[must_use]
    pub fn get(&self, label: &str) -> Option<&Outcome> {
        self.outcomes.iter().find(|outcome| outcome.label == label)
    }
}

/// SHA-256 of a value's JSON form, hexadecimal: names a configuration or a set of results.
///
/// # Panics
/// Never: plain data has a JSON form.
#[must_use]
pub fn digest(value: &impl serde::Serialize) -> String {
    let bytes = serde_json::to_vec(value).expect("plain data has a JSON form");
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Jobs for some schemes on one machine.
#[must_use]
pub fn jobs(machine: &MachineConfig, schemes: &[&'static Spec]) -> Vec<Job> {
    let job = |&scheme: &&'static Spec| Job {
        label: scheme.name.to_owned(),
        scheme,
        machine: machine.clone(),
    };
    schemes.iter().map(job).collect()
}

/// Runs `jobs` over at most `limit` accesses of `source`, on up to `threads` threads.
///
/// # Errors
/// An impossible machine or scheme, a damaged source, a trace that ends before counting begins.
pub fn compare<S: Source>(
    source: S,
    limit: u64,
    jobs: &[Job],
    options: &Options,
    threads: usize,
) -> Result<Comparison, Error> {
    let (residents, updates) = (source.residents(), source.updates());
    let processors = source.processors();
    let mut sims = Vec::new();
    for job in jobs {
        let mut sim = Sim::new(&job.machine, job.scheme, options)?;
        sim.populate(&residents);
        sim.expect(Arc::clone(&updates));
        if let Some(processors) = &processors {
            sim.keep_cores(processors);
        }
        sims.push(sim);
    }
    let mut decoder = Decoder::new(source, limit);
    let workers = threads.clamp(1, sims.len().max(1));
    if workers == 1 {
        while let Some(block) = decoder.next_block()? {
            let block = Arc::new(block);
            for sim in &mut sims {
                sim.feed(Arc::clone(&block));
            }
        }
        sims.iter_mut().for_each(Sim::finish);
    } else {
        run_parallel(&mut decoder, &mut sims, workers)?;
    }
    if let Some(sim) = sims.iter().find(|sim| !sim.has_begun()) {
        let seen = sim.counts().accesses;
        let want = match options.start_marker {
            Some(marker) => format!("has no marker {marker}"),
            None => format!("has {seen} accesses, the warm-up needs {}", options.warmup),
        };
        return Err(Error::Config(format!(
            "the trace {want}; give a longer trace or less warm-up"
        )));
    }
    let outcomes: Vec<Outcome> = jobs
        .iter()
        .zip(&sims)
        .map(|(job, sim)| Outcome::of(job, sim))
        .collect();
    let machines: Vec<&MachineConfig> = jobs.iter().map(|job| &job.machine).collect();
    Ok(Comparison {
        version: 1,
        options: options.clone(),
        config_digest: digest(&(machines, options, limit)),
        digest: digest(&outcomes),
        outcomes,
    })
}

fn run_parallel<S: Source>(
    decoder: &mut Decoder<S>,
    sims: &mut [Sim],
    workers: usize,
) -> Result<(), Error> {
    let share = sims.len().div_ceil(workers);
    std::thread::scope(|scope| {
        let mut senders = Vec::new();
        for mine in sims.chunks_mut(share) {
            // A short queue: the decoder waits, so memory stays bounded.
            let (sender, receiver) = sync_channel::<Arc<Block>>(4);
            senders.push(sender);
            scope.spawn(move || {
                for block in receiver {
                    for sim in mine.iter_mut() {
                        sim.feed(Arc::clone(&block));
                    }
                }
                mine.iter_mut().for_each(Sim::finish);
            });
        }
        while let Some(block) = decoder.next_block()? {
            let block = Arc::new(block);
            for sender in &senders {
                if sender.send(Arc::clone(&block)).is_err() {
                    return Err(Error::Source("a simulation thread has stopped".to_owned()));
                }
            }
        }
        Ok(())
    })
}
