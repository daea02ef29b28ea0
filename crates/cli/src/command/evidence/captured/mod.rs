// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One seed of a captured claim: a run of each variant is recorded, and TLB coherence simulated on
//! what its VMs did. The measures are those of [`steady_evidence::CAPTURED`].
//!
//! Variants are the scenario's, or [inputs and schemes](changed) of the simulation on one of them.
//! A recorded trace is removed once it is measured. Left out: what the recorded run itself
//! measured, since the emulator that records is another build.

mod changed;
mod counted;
mod key;
mod schemes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use steady_evidence::{Captured, Claim, House, Piece};
use steady_lab_artifacts::process::ending_with_us;
use steady_measures::{Metric, RunResult};
use steady_race::Watcher;
use steady_scenario::Scenario;

use crate::progress::Show;

use changed::{Input, inputs_of, needed, speed};
use counted::measures;

pub use changed::INPUTS;
pub use key::{changed_fingerprint, fingerprint};
pub use schemes::measures as simulated_measures;

/// One seed of a claim: what is recorded of it, and where.
struct Runs<'a> {
    claim: &'a Claim,
    captured: &'a Captured,
    seed: u64,
    /// The scenario, and its file.
    scenario: Scenario,
    path: PathBuf,
    /// Where traces are until they are measured.
    folder: PathBuf,
    show: &'a Show,
}

/// Records and simulates one seed of the variants that the claim names.
pub fn raced(
    house: &House,
    claim: &Claim,
    captured: &Captured,
    piece: &Piece,
    out: &Path,
    show: &Show,
) -> anyhow::Result<RunResult> {
    let path = house.root.join(&claim.scenario);
    let folder = out.join(&claim.id);
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    let runs = Runs {
        claim,
        captured,
        seed: piece.seed,
        scenario: Scenario::load(&path)?,
        path,
        folder,
        show,
    };
    let pieces = match &captured.of {
        None => runs.of_scenario()?,
        Some(of) => runs.of_simulation(of)?,
    };
    Ok(RunResult::join(pieces)?)
}

impl Runs<'_> {
    /// Each variant of the scenario recorded.
    fn of_scenario(&self) -> anyhow::Result<Vec<(String, RunResult)>> {
        let mut pieces = Vec::new();
        for variant in self.claim.all_variants() {
            self.recorded(variant, 1, |trace, mut result| {
                let found = schemes::simulated(trace, &INPUTS[0], &schemes::schemes())?;
                put(&mut result, &measures(trace, &self.scenario, &found)?);
                pieces.push((variant.to_owned(), result));
                Ok(())
            })?;
        }
        Ok(pieces)
    }

    /// One variant of the scenario recorded, for inputs and schemes of the simulation.
    fn of_simulation(&self, of: &str) -> anyhow::Result<Vec<(String, RunResult)>> {
        let names: Vec<&str> = self.claim.all_variants().collect();
        let wanted = inputs_of(&names)?;
        let mut by_length: BTreeMap<u64, Vec<&Input>> = BTreeMap::new();
        for input in INPUTS.iter().filter(|one| wanted.contains_key(one.name)) {
            by_length.entry(input.times).or_default().push(input);
        }
        let mut pieces = Vec::new();
        for (times, inputs) in by_length {
            self.recorded(of, times, |trace, result| {
                for input in inputs {
                    let variants = &wanted[input.name];
                    let found = schemes::simulated(trace, input, &needed(input, variants))?;
                    for &name in variants {
                        let metrics = match name == input.name {
                            true => measures(trace, &self.scenario, &found)?,
                            false => of_measured(&self.scenario, &speed(&found, name)?),
                        };
                        let mut result = named(result.clone(), name, input);
                        put(&mut result, &metrics);
                        pieces.push((name.to_owned(), result));
                    }
                }
                Ok(())
            })?;
        }
        Ok(pieces)
    }

    /// Records a variant, of `times` as many accesses as the claim says, and measures it.
    fn recorded(
        &self,
        variant: &str,
        times: u64,
        measure: impl FnOnce(&Path, RunResult) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let seed = self.seed;
        self.show.say(&format!("recording {variant}, seed {seed}"));
        let trace = self.folder.join(format!("{variant}-{seed}.sht"));
        let part = Captured {
            accesses: self.captured.accesses.saturating_mul(times),
            ..self.captured.clone()
        };
        record(&self.path, variant, &part, seed, &trace)?;
        let at = of_run(&self.scenario, &self.claim.engine);
        let mut result = RunResult::load(&beside(&trace).join(at))?;
        result.run.command = self.claim.command();
        measure(&trace, result).with_context(|| format!("{variant}, seed {seed}"))?;
        std::fs::remove_file(&trace)?;
        std::fs::remove_dir_all(beside(&trace))?;
        Ok(())
    }
}

/// A recorded run as that of a variant of the simulation.
fn named(mut result: RunResult, name: &str, input: &Input) -> RunResult {
    assert_eq!(result.variants.len(), 1, "one variant is recorded");
    let variant = &mut result.variants[0];
    variant.title = match name == input.name {
        true if input.how.is_empty() => "every input as stated".to_owned(),
        true => input.how.to_owned(),
        false if input.how.is_empty() => format!("the scheme {name}"),
        false => format!("the scheme {name}, {}", input.how),
    };
    name.clone_into(&mut variant.name);
    result
}

/// A metric in each VM that is measured.
fn of_measured(scenario: &Scenario, metric: &Metric) -> Vec<Metric> {
    let vms = scenario.vms.iter().filter(|vm| !vm.background);
    vms.map(|vm| metric.clone().in_vm(vm.name.clone()))
        .collect()
}

/// Puts the metrics in the place of those of the recorded run.
fn put(result: &mut RunResult, metrics: &[Metric]) {
    for run in result.variants.iter_mut().flat_map(|v| &mut v.repetitions) {
        run.metrics = metrics.to_vec();
        run.distributions.clear();
        run.artifacts.clear();
    }
    result.seal();
}

/// Where a recorded run leaves its result.
fn beside(trace: &Path) -> PathBuf {
    let mut name = trace.as_os_str().to_owned();
    name.push(".run");
    name.into()
}

fn of_run(scenario: &Scenario, engine: &str) -> PathBuf {
    Path::new(&scenario.name).join(engine).join("result.json")
}

/// Records a run; what an interrupted one left is removed first.
fn record(
    scenario: &Path,
    variant: &str,
    captured: &Captured,
    seed: u64,
    trace: &Path,
) -> anyhow::Result<()> {
    let left = beside(trace);
    if left.exists() {
        std::fs::remove_dir_all(&left).with_context(|| left.display().to_string())?;
    }
    let this = std::env::current_exe().context("find this program")?;
    let status = ending_with_us("TERM", &this)
        .args(["coherence", "capture", "--variant", variant])
        .args(["--seed", &seed.to_string()])
        .args(["--after-ticks", &captured.after_ticks.to_string()])
        .args(["--max-accesses", &captured.accesses.to_string()])
        .arg("--host")
        .arg(scenario)
        .arg("--output")
        .arg(trace)
        .stdout(std::process::Stdio::null())
        .status()
        .context("start a capture")?;
    ensure!(
        status.success(),
        "the capture of {variant} failed: {status}"
    );
    Ok(())
}
