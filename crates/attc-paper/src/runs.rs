// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the experiments run: settings, jobs that share a stream, all workloads under all seeds.

use std::sync::atomic::{AtomicUsize, Ordering};

use steady_coherence::compare::{Job, Outcome, compare};
use steady_coherence::config::MachineConfig;
use steady_coherence::sim::Options;
use steady_coherence::workload::{CALIBRATED_RATE, Generator, GeneratorOptions, TABLE_3, Workload};
use steady_coherence::{Error, Spec};

use crate::measured::Seeds;
use crate::shares::updates;

/// Simulations that share one decoded stream at a time; more would cost memory and save little.
const GROUP: usize = 8;
/// Shootdowns that a workload's rate gives in all its seeds together; draws leave more than
/// [`FEWEST`].
const SHOOTDOWNS: u32 = 110;
/// Shootdowns of a workload, under the baseline and in all seeds, below which its numbers are
/// chance; the full form refuses to print such.
pub(crate) const FEWEST: u64 = 100;

/// How long and how wide experiments run.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Settings {
    /// The first seed; the others follow it.
    pub seed: u64,
    /// How many seeds.
    pub seeds: u32,
    /// Accesses of each run, warm-up included, unless it needs more for its shootdowns.
    pub accesses: u64,
    /// Accesses before counting.
    pub warmup: u64,
    /// Shootdowns of a workload that all seeds' runs together are long enough for, as its rate has
    /// them; 0 for no matter how few.
    pub shootdowns: u32,
    /// Pages swept; see [`CALIBRATED_RATE`].
    pub rate: u32,
    /// Threads of the simulator; results do not depend on it.
    #[serde(skip)]
    pub threads: usize,
    /// Oracle on.
    pub check: bool,
}

impl Settings {
    /// The full form: five seeds, at most a quarter of an hour on two cores.
    #[must_use]
    pub const fn full() -> Self {
        Self {
            seed: 1,
            seeds: 5,
            accesses: 8_000_000,
            warmup: 4_000_000,
            shootdowns: SHOOTDOWNS,
            rate: CALIBRATED_RATE,
            threads: 2,
            check: false,
        }
    }

    /// The settings of one workload's runs: long enough for the shootdowns wanted.
    pub(crate) fn of(&self, workload: &Workload) -> Self {
        let mut own = self.clone();
        let each = u64::from(self.rate) * u64::from(workload.footprint_mib);
        if self.shootdowns > 0 && each > 0 {
            // `each` of 10^11 instructions are page moves; program updates come on top.
            let share = u64::from(workload.guest_share_percent).max(25);
            let wanted = u64::from(self.shootdowns.div_ceil(self.seeds.max(1)));
            let moves = (wanted * (100 - share)).div_ceil(75);
            let instructions = moves * 100_000_000_000 / each;
            let counted = instructions * u64::from(workload.pattern.memory_per_1000) / 1000;
            own.accesses = own.accesses.max(own.warmup + counted);
        }
        own
    }

    /// The settings of runs that show directions only: one seed, no more than the base length.
    pub(crate) fn aside(&self) -> Self {
        Self {
            seeds: 1,
            shootdowns: 0,
            ..self.clone()
        }
    }
}

/// The name of a job: the scheme's, and the machine's or stream's variant.
pub(crate) fn label(scheme: &'static Spec, variant: &str) -> String {
    match variant {
        "" => scheme.name.to_owned(),
        variant => format!("{}@{variant}", scheme.name),
    }
}

/// A job named by the scheme and a variant of the machine.
pub(crate) fn job(scheme: &'static Spec, variant: &str, machine: &MachineConfig) -> Job {
    Job {
        label: label(scheme, variant),
        scheme,
        machine: machine.clone(),
    }
}

/// Jobs over one stream of accesses.
pub(crate) struct Stream {
    pub(crate) settings: Settings,
    pub(crate) workload: Workload,
    pub(crate) jobs: Vec<Job>,
}

/// What the accesses of every run are.
pub(crate) const ACCESSES: &str = "generated";

/// Runs jobs on one workload; one outcome for each, in order.
pub(crate) fn run_jobs(
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

/// The streams of one workload under one seed's settings.
pub(crate) type Streams<'a> = &'a (dyn Fn(&Settings, Workload) -> Vec<Stream> + Sync);

/// Runs the streams of every workload of Table 3 under every seed, in parallel; `done` hears of
/// each workload finished under a seed (how many, of how many).
pub(crate) fn run_seeds(
    settings: &Settings,
    streams: Streams<'_>,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<Vec<Vec<WorkloadResults>>, Error> {
    let seeds = settings.seeds.max(1) as usize;
    // The longest first, so that no core waits for it at the end.
    let mut items: Vec<(usize, usize)> = (0..seeds)
        .flat_map(|seed| (0..TABLE_3.len()).map(move |at| (seed, at)))
        .collect();
    items.sort_by_key(|&(seed, at)| (u64::MAX - settings.of(&TABLE_3[at]).accesses, seed));
    let run = |(seed, at): (usize, usize)| -> Result<Vec<Outcome>, Error> {
        let own = Settings {
            seed: settings.seed + seed as u64,
            ..settings.clone()
        };
        let mut outcomes = Vec::new();
        for stream in streams(&own, TABLE_3[at]) {
            outcomes.extend(run_jobs(
                &stream.settings,
                stream.workload,
                1,
                &stream.jobs,
            )?);
        }
        Ok(outcomes)
    };
    let all = in_parallel(settings.threads, &items, &run, done);
    let mut all: Vec<_> = items.iter().copied().zip(all).collect();
    all.sort_by_key(|(item, _)| *item);
    let mut by_seed: Vec<Vec<WorkloadResults>> = (0..seeds).map(|_| Vec::new()).collect();
    for ((seed, at), outcomes) in all {
        by_seed[seed].push(WorkloadResults {
            workload: TABLE_3[at].name,
            outcomes: outcomes?,
        });
    }
    Ok(by_seed)
}

/// What `run` makes of each item, in the items' order, by this number of threads; `done` hears of
/// each that is finished (how many, of how many).
pub(crate) fn in_parallel<T: Copy + Sync, R: Send>(
    threads: usize,
    items: &[T],
    run: &(dyn Fn(T) -> R + Sync),
    done: &(dyn Fn(usize, usize) + Sync),
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let finished = AtomicUsize::new(0);
    let work = || {
        let mut mine = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(&item) = items.get(at) else {
                return mine;
            };
            mine.push((at, run(item)));
            done(finished.fetch_add(1, Ordering::Relaxed) + 1, items.len());
        }
    };
    let mut all: Vec<(usize, R)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, items.len().max(1)))
            .map(|_| scope.spawn(work))
            .collect();
        let results = workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a simulation does not panic"));
        results.collect()
    });
    all.sort_by_key(|(at, _)| *at);
    assert_eq!(all.len(), items.len(), "each item has its result");
    all.into_iter().map(|(_, result)| result).collect()
}

/// Refuses results in which a workload has too few shootdowns under `label`.
pub(crate) fn enough(settings: &Settings, seeds: &Seeds, label: &str) -> Result<(), Error> {
    if u64::from(settings.shootdowns) < FEWEST {
        return Ok(());
    }
    for at in 0..seeds.first().map_or(0, Vec::len) {
        let counted: u64 = seeds.iter().map(|all| updates(&all[at], label)).sum();
        if counted < FEWEST {
            let workload = seeds[0][at].workload;
            return Err(Error::Config(format!(
                "{workload} has {counted} shootdowns under {label} in {} seeds: expected at least \
                 {FEWEST}, or its numbers are chance; run more seeds",
                seeds.len()
            )));
        }
    }
    Ok(())
}

/// Violations that the oracle found in all runs.
pub(crate) fn violations(seeds: &[Vec<WorkloadResults>]) -> u64 {
    let outcomes = seeds.iter().flatten().flat_map(|w| &w.outcomes);
    outcomes.filter_map(|outcome| outcome.violations).sum()
}

/// Mean over workloads of a figure in basis points.
pub(crate) fn mean(all: &[WorkloadResults], of: impl Fn(&WorkloadResults) -> i64) -> i64 {
    let count = i64::try_from(all.len().max(1)).unwrap_or(i64::MAX);
    all.iter().map(of).sum::<i64>() / count
}

#[cfg(test)]
mod tests {
    use steady_coherence::scheme::KVMTLB;
    use steady_coherence::workload::find;

    use super::*;

    fn results(settings: &Settings) -> Vec<Vec<WorkloadResults>> {
        let streams = |settings: &Settings, workload| {
            vec![Stream {
                settings: settings.clone(),
                workload,
                jobs: vec![job(&KVMTLB, "", &MachineConfig::default())],
            }]
        };
        run_seeds(settings, &streams, &|_, _| {}).expect("it runs")
    }

    #[test]
    fn results_with_too_few_shootdowns_of_one_workload_are_refused_by_its_name() {
        let settings = Settings {
            accesses: 30_000,
            warmup: 0,
            seeds: 1,
            ..Settings::full()
        };
        let few = results(&settings);
        let error = enough(&settings, &few, "kvmtlb").expect_err("a short run has none");
        assert!(error.to_string().contains("dedup has "), "{error}");
        // Whoever asks for no number of shootdowns gets what there is.
        let any = Settings {
            shootdowns: 0,
            ..settings
        };
        assert!(enough(&any, &few, "kvmtlb").is_ok());
    }

    #[test]
    fn fewer_seeds_make_longer_runs_so_that_all_together_have_the_shootdowns() {
        let workload = find("bodytrack").expect("it is in Table 3");
        let counted = |seeds| {
            let settings = Settings {
                seeds,
                ..Settings::full()
            };
            u64::from(seeds) * (settings.of(&workload).accesses - settings.warmup)
        };
        // Each run's length is rounded down.
        assert!(counted(1).abs_diff(counted(5)) < 10);
        assert!(counted(7) + 10 > counted(5));
    }
}
