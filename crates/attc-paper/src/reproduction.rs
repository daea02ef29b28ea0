// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The runs of the ATTC paper's evaluation, and what they come to.

use steady_coherence::Error;
use steady_coherence::compare::Job;
use steady_coherence::config::MachineConfig;
use steady_coherence::scheme::SHOOT4U;
use steady_coherence::workload::Workload;

use crate::measured::{Measured, Seeds};
use crate::number::Number;
use crate::numbers::numbers;
use crate::runs::{Settings, Stream, WorkloadResults, enough, job, run_seeds, violations};
use crate::shares::named;
use crate::{figures, jobs, protection, published, sensitivity};

/// One figure: a line for each workload.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Figure {
    /// "Figure 8" and so on.
    pub name: &'static str,
    /// What is shown, with its unit.
    pub what: &'static str,
    /// Column titles after the workload's.
    pub columns: Vec<String>,
    /// Workload and values (basis points unless the title says otherwise).
    pub lines: Vec<(&'static str, Vec<Measured>)>,
}

impl Figure {
    /// A table of numbers that one run or one seed shows, so without intervals.
    pub(crate) fn without_intervals(
        name: &'static str,
        what: &'static str,
        columns: &[&str],
        lines: Vec<(&'static str, Vec<i64>)>,
    ) -> Self {
        let alone = |bp: i64| Measured {
            bp,
            interval_bp: None,
        };
        let line = |(name, values): (_, Vec<i64>)| (name, values.into_iter().map(alone).collect());
        Self {
            name,
            what,
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            lines: lines.into_iter().map(line).collect(),
        }
    }

    /// A figure whose lines `of` gives for each workload of each seed.
    pub(crate) fn of(
        seeds: &Seeds,
        name: &'static str,
        what: &'static str,
        columns: &[&str],
        of: impl Fn(&WorkloadResults) -> Vec<i64>,
    ) -> Self {
        let line = |at: usize| {
            let each: Vec<Vec<i64>> = seeds.iter().map(|all| of(&all[at])).collect();
            let column = |column: usize| {
                let values: Vec<i64> = each.iter().map(|values| values[column]).collect();
                Measured::of(&values)
            };
            (
                seeds[0][at].workload,
                (0..columns.len()).map(column).collect(),
            )
        };
        Self {
            name,
            what,
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
            lines: (0..seeds[0].len()).map(line).collect(),
        }
    }

    /// A figure of gains: a label and what it is compared with in each column.
    pub(crate) fn gains(
        seeds: &Seeds,
        name: &'static str,
        what: &'static str,
        pairs: &[(&str, &str)],
    ) -> Self {
        let columns: Vec<&str> = pairs.iter().map(|(label, _)| *label).collect();
        Self::of(seeds, name, what, &columns, |w| {
            pairs
                .iter()
                .map(|(label, base)| w.gain(label, base))
                .collect()
        })
    }
}

/// The whole reproduction.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Reproduction {
    /// Settings of the runs.
    pub settings: Settings,
    /// The numbers that the paper states.
    pub numbers: Vec<Number>,
    /// The figures.
    pub figures: Vec<Figure>,
    /// Violations the oracle found, when it was on.
    pub violations: u64,
    /// Every outcome, by seed.
    pub results: Vec<Vec<WorkloadResults>>,
}

/// Simulations whose numbers are seen from one seed.
fn side_jobs() -> Vec<Job> {
    let mut all = jobs::latencies();
    all.push(job(&SHOOT4U, "", &MachineConfig::default()));
    all.extend(jobs::unitd());
    all.extend(jobs::guest("guest-50", 50));
    all.extend(sensitivity::jobs());
    all.extend(published::jobs());
    all
}

/// Runs what the stated numbers are of, and nothing beside them: no figures.
///
/// # Errors
/// As the simulations.
pub(crate) fn numbers_alone(
    settings: &Settings,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<Reproduction, Error> {
    let main = |settings: &Settings, workload| {
        let stream = |settings, jobs| Stream {
            settings,
            workload,
            jobs,
        };
        vec![
            stream(settings.of(&workload), jobs::main()),
            stream(settings.clone(), jobs::short()),
        ]
    };
    let results = run_seeds(settings, &main, done)?;
    enough(settings, &results, "kvmtlb")?;
    Ok(Reproduction {
        settings: settings.clone(),
        numbers: numbers(&results, settings.warmup, |_| true),
        figures: Vec::new(),
        violations: violations(&results),
        results,
    })
}

/// Runs everything. `done` hears how many runs of how many have finished.
///
/// # Errors
/// As the simulations.
pub fn reproduce(
    settings: &Settings,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<Reproduction, Error> {
    let mut found = numbers_alone(settings, done)?;
    // One seed, and the base length: they show directions, and are not predictions.
    let aside = settings.aside();
    let side = |settings: &Settings, workload: Workload| {
        let seen = named(&found.results[0], workload.name);
        let mut streams = vec![Stream {
            settings: settings.clone(),
            workload,
            jobs: side_jobs(),
        }];
        streams.extend(sensitivity::streams(settings, workload));
        streams.extend(published::streams(settings, workload, seen));
        streams
    };
    let side = run_seeds(&aside, &side, done)?;
    let guarded = protection::protection(settings, None)?;
    if let Some(broken) = &guarded.broken {
        return Err(Error::Config(format!("an invariant of ATTC: {broken}")));
    }
    found.violations += violations(&side) + guarded.violations;
    found.figures = figures::figures(&found.results, &side);
    found.figures.extend(protection::figures(&guarded));
    let aside = published::Published::of(&side[0]).figures();
    found.figures.extend(aside);
    let aside = sensitivity::Sensitivity::of(&side[0]).figures();
    found.figures.extend(aside);
    found.results.extend(side);
    Ok(found)
}
