// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The short form of the reproduction: what ATTC claims first, on all workloads.
//!
//! Its runs are those of the full form, fewer of them: the schemes that these numbers need, the
//! paper's machine only, and as a rule one seed. With the full form's settings each number is the
//! full form's for that seed, to the digit; the command takes shorter runs for it. Left out: the
//! other schemes, machines and figures.

use steady_coherence::Error;
use steady_coherence::config::MachineConfig;
use steady_coherence::scheme::{ATTC, HATRIC, IDEAL, IDEAL_ATLB, KVMTLB};

use crate::measured::Seeds;
use crate::numbers::numbers;
use crate::reproduction::{Figure, Reproduction};
use crate::runs::{Settings, Stream, job, run_seeds, violations};

/// What the short form is of.
const NUMBERS: [&str; 6] = [
    "fig1-virtualized",
    "fig8-over-kvmtlb",
    "fig8-over-hatric",
    "sec4-below-ideal-same-atlb",
    "sec4-below-ideal-no-atlb",
    "sec4-cycles-removed",
];

/// Runs the short form. `done` hears how many runs of how many have finished.
///
/// # Errors
/// As the simulations.
pub fn headline(
    settings: &Settings,
    done: &(dyn Fn(usize, usize) + Sync),
) -> Result<Reproduction, Error> {
    let paper = MachineConfig::default();
    let jobs = [&KVMTLB, &HATRIC, &ATTC, &IDEAL, &IDEAL_ATLB].map(|scheme| job(scheme, "", &paper));
    let streams = |settings: &Settings, workload| {
        vec![Stream {
            settings: settings.of(&workload),
            workload,
            jobs: jobs.to_vec(),
        }]
    };
    let results = run_seeds(settings, &streams, done)?;
    Ok(Reproduction {
        settings: settings.clone(),
        numbers: numbers(&results, settings.warmup, |name| NUMBERS.contains(&name)),
        figures: vec![figure(&results)],
        violations: violations(&results),
        results,
    })
}

fn figure(seeds: &Seeds) -> Figure {
    let columns = ["hatric", "attc", "ideal", "ideal-atlb"];
    Figure::of(
        seeds,
        "Figure 8",
        "gain over kvmtlb, virtualized",
        &columns,
        |w| columns.map(|label| w.gain(label, "kvmtlb")).to_vec(),
    )
}
