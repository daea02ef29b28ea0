// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The experiments of the ATTC paper, and some beyond it.
//!
//! One number is calibrated: the sweep rate of the generators, so that the mean overhead of
//! software shootdowns in virtualized runs is Figure 1's 37 %. The other numbers of the main table are
//! predicted with that rate, but for the inputs marked so. Beside them stands how far some of them
//! move with inputs that the paper leaves open; those values were chosen afterwards and are no
//! predictions (`sensitivity`).

mod attc;
mod beyond;
mod calibrate;
mod headline;
mod render;
mod sensitivity;
mod stated;
mod table;

pub use attc::{Figure, Reproduction, reproduce};
pub use beyond::{Beyond, beyond};
pub use calibrate::{CALIBRATED_RATE, Calibration, calibrate};
pub use headline::headline;
pub use table::{Basis, Row};

use crate::Error;
use crate::compare::{Job, Outcome, compare};
use crate::config::MachineConfig;
use crate::scheme::Spec;
use crate::sim::Options;
use crate::workload::{Generator, GeneratorOptions, TABLE_3, Workload};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Simulations that share one decoded stream at a time; more would cost memory and save little.
const GROUP: usize = 8;

/// How long and how wide experiments run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Settings {
    /// Seed.
    pub seed: u64,
    /// Accesses of each run, warm-up included.
    pub accesses: u64,
    /// Accesses before counting.
    pub warmup: u64,
    /// Pages swept; see [`CALIBRATED_RATE`].
    pub rate: u32,
    /// Threads of the simulator; results do not depend on it.
    #[serde(skip)]
    pub threads: usize,
    /// Oracle on.
    pub check: bool,
}

impl Settings {
    /// The full form: a few minutes on two cores.
    #[must_use]
    pub const fn full() -> Self {
        Self {
            seed: 1,
            accesses: 12_000_000,
            warmup: 4_000_000,
            rate: CALIBRATED_RATE,
            threads: 2,
            check: false,
        }
    }
}

/// The name of a job: the scheme's, and the machine's or stream's variant.
fn label(scheme: &'static Spec, variant: &str) -> String {
    match variant {
        "" => scheme.name.to_owned(),
        variant => format!("{}@{variant}", scheme.name),
    }
}

/// A job named by the scheme and a variant of the machine.
fn job(scheme: &'static Spec, variant: &str, machine: &MachineConfig) -> Job {
    Job {
        label: label(scheme, variant),
        scheme,
        machine: machine.clone(),
    }
}

/// Jobs over one stream of accesses.
struct Stream {
    /// Pages swept, as [`Settings::rate`].
    rate: u32,
    workload: Workload,
    jobs: Vec<Job>,
}

/// Runs jobs on one workload; one outcome for each, in order.
fn run_jobs(
    settings: &Settings,
    workload: Workload,
    vms: u16,
    jobs: &[Job],
) -> Result<Vec<Outcome>, Error> {
    let mut outcomes = Vec::new();
    for group in jobs.chunks(GROUP) {
        let source = Generator::new(
            workload,
            &GeneratorOptions {
                seed: settings.seed,
                sweep_rate: settings.rate,
                vms,
                accesses: settings.accesses,
                dram_percent: group[0].machine.hybrid.dram_percent,
            },
        )?;
        let options = Options {
            seed: settings.seed,
            check: settings.check,
            warmup: settings.warmup,
            vms,
            threads_per_vm: workload.threads,
            ..Options::default()
        };
        outcomes.extend(compare(source, settings.accesses, group, &options, 1)?.outcomes);
    }
    Ok(outcomes)
}

/// Results of one workload, found by label.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct WorkloadResults {
    /// The workload.
    pub workload: &'static str,
    /// One for each job.
    pub outcomes: Vec<Outcome>,
}

impl WorkloadResults {
    /// The outcome of a label that the experiment ran.
    pub(crate) fn get(&self, label: &str) -> &Outcome {
        self.outcomes
            .iter()
            .find(|outcome| outcome.label == label)
            .expect("an experiment asks for the jobs it made")
    }

    /// Gain of one label over another, basis points.
    pub(crate) fn gain(&self, label: &str, base: &str) -> i64 {
        self.get(label).gain_over(self.get(base))
    }
}

/// Runs jobs on every workload of Table 3, workloads in parallel; `done` is told of each finished
/// one (how many, of how many).
fn run_table_3(
    settings: &Settings,
    jobs: &[Job],
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<WorkloadResults>, Error> {
    let stream = |workload| {
        vec![Stream {
            rate: settings.rate,
            workload,
            jobs: jobs.to_vec(),
        }]
    };
    run_streams(settings, &stream, done)
}

/// As [`run_table_3`], with the streams of each workload.
fn run_streams(
    settings: &Settings,
    streams: &(dyn Fn(Workload) -> Vec<Stream> + Sync),
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<WorkloadResults>, Error> {
    let run = |workload: Workload| {
        let mut outcomes = Vec::new();
        for stream in streams(workload) {
            let settings = Settings {
                rate: stream.rate,
                ..settings.clone()
            };
            outcomes.extend(run_jobs(&settings, stream.workload, 1, &stream.jobs)?);
        }
        Ok(outcomes)
    };
    let next = AtomicUsize::new(0);
    let finished = AtomicUsize::new(0);
    let work = || {
        let mut mine = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(workload) = TABLE_3.get(at) else {
                return mine;
            };
            mine.push((at, run(*workload)));
            done(finished.fetch_add(1, Ordering::Relaxed) + 1, TABLE_3.len());
        }
    };
    let mut all = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..settings.threads.clamp(1, TABLE_3.len()))
            .map(|_| scope.spawn(work))
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a simulation does not panic"))
            .collect::<Vec<_>>()
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter()
        .map(|(at, result)| {
            Ok(WorkloadResults {
                workload: TABLE_3[at].name,
                outcomes: result?,
            })
        })
        .collect()
}

/// Mean over workloads of a figure in basis points.
fn mean(all: &[WorkloadResults], of: impl Fn(&WorkloadResults) -> i64) -> i64 {
    let count = i64::try_from(all.len().max(1)).unwrap_or(i64::MAX);
    all.iter().map(of).sum::<i64>() / count
}
