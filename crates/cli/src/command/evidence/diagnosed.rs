// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the diagnosis says of a traced run, as measures, so that claims can name it.
//!
//! Per VM, and per workload of a measured one: `diagnosis.pause.exits`, `diagnosis.pause.CAUSE`
//! (share of pause-loop exits by cause), `diagnosis.pause.in_runs` (share in runs of two and more),
//! `diagnosis.pause.longest_run`, and `diagnosis.boost.ran_next` (share of decided boosts whose
//! vCPU ran next). Left out: findings.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use steady_decode::TraceEvents;
use steady_diagnose::{BoostTable, Cause, Diagnoser, PauseTable, Slice, Symbols, VmNotes, VmTable};
use steady_lab_artifacts::{Home, kernel};
use steady_measures::{Better, Metric, RunResult, Unit};

use crate::command::spans;

/// Parts per million in a thousandth.
const PPM_PER_PERMILLE: u64 = 1_000;

/// Diagnoses the trace of each run of a result that lies in `directory`, and adds the measures.
///
/// # Errors
/// If a run has no trace, or it cannot be read.
pub fn add(result: &mut RunResult, directory: &Path) -> anyhow::Result<()> {
    let symbols = Symbols::load(&system_map(result)?)?;
    for variant in &mut result.variants {
        for run in &mut variant.repetitions {
            let trace = run
                .artifacts
                .iter()
                .find(|artifact| artifact.name == "trace");
            let trace = trace.with_context(|| format!("{} has no trace", variant.name))?;
            let path = directory.join(&trace.path);
            let vms = diagnose(&path, &symbols, Slice::default())?;
            run.metrics.extend(vms.iter().flat_map(metrics));
            for span in spans::of_trace(&path)? {
                let slice = Slice {
                    from_ns: Some(span.from_ns),
                    to_ns: Some(span.to_ns),
                    vms: vec![span.vm],
                    ..Slice::default()
                };
                let vms = diagnose(&path, &symbols, slice)?;
                let metrics = vms.iter().flat_map(metrics);
                let named = metrics.map(|metric| metric.of_workload(span.workload.clone()));
                run.metrics.extend(named);
            }
        }
    }
    Ok(())
}

/// The symbols of the kernel that was raced, whose key the result names.
fn system_map(result: &RunResult) -> anyhow::Result<PathBuf> {
    let Some(key) = result.config.get("kernel.key") else {
        bail!("the result does not name the kernel's key, so its symbols cannot be found");
    };
    Ok(kernel::folder_of(&Home::find()?, key).join("System.map"))
}

fn diagnose(path: &Path, symbols: &Symbols, slice: Slice) -> anyhow::Result<Vec<VmTable>> {
    let mut diagnoser = Diagnoser::new();
    diagnoser.slice = slice;
    diagnoser.symbols = Some((symbols, "System.map".to_owned()));
    let notes = crate::command::diagnose::beside(path, ".vms");
    diagnoser.notes = std::fs::read(&notes)
        .ok()
        .and_then(|text| VmNotes::parse(&text).ok());
    let name = path.display().to_string();
    let mut source = steady_tracefile::open(path)?;
    let mut watch = |_: &steady_events::Event<'_>, _: steady_diagnose::Effect, _: &_| Ok(());
    diagnoser.trace(&name, &mut TraceEvents::new(source.as_mut()), &mut watch)?;
    let diagnosis = diagnoser.finish();
    let traces = diagnosis.traces.into_iter();
    Ok(traces.flat_map(|trace| trace.vms).collect())
}

fn metrics(vm: &VmTable) -> Vec<Metric> {
    let mut found = Vec::new();
    let mut put = |name: &str, unit: Unit, value: u64| {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        found.push(Metric::new(name, unit, Better::Neutral, value).in_vm(vm.name.clone()));
    };
    if let Some(pauses) = &vm.pauses {
        put("diagnosis.pause.exits", Unit::Count, pauses.exits);
        for cause in Cause::ALL {
            let name = format!("diagnosis.pause.{}", word(cause));
            put(&name, Unit::Ppm, share(pauses, cause) * PPM_PER_PERMILLE);
        }
        let in_runs = pauses.in_runs_permille * PPM_PER_PERMILLE;
        put("diagnosis.pause.in_runs", Unit::Ppm, in_runs);
        let longest = pauses.longest.as_ref().map_or(0, |run| run.exits);
        put("diagnosis.pause.longest_run", Unit::Count, longest);
    }
    if let Some(BoostTable {
        ran_next_permille,
        decided,
        ..
    }) = vm.boosts
    {
        put("diagnosis.boost.decided", Unit::Count, decided);
        put(
            "diagnosis.boost.ran_next",
            Unit::Ppm,
            ran_next_permille * PPM_PER_PERMILLE,
        );
    }
    found
}

/// Thousandths of pause-loop exits by cause.
fn share(pauses: &PauseTable, cause: Cause) -> u64 {
    let row = pauses.by_cause.iter().find(|row| row.cause == cause);
    row.map_or(0, |row| row.permille)
}

fn word(cause: Cause) -> &'static str {
    match cause {
        Cause::IpiWait => "ipi_wait",
        Cause::Spinlock => "spinlock",
        Cause::OtherLock => "other_lock",
        Cause::TimedDelay => "timed_delay",
        Cause::UserSpin => "user_spin",
        Cause::Unknown => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use steady_evidence::DIAGNOSIS;

    use super::*;

    #[test]
    fn each_cause_has_a_measure_that_claims_may_name() {
        for cause in Cause::ALL {
            let name = format!("diagnosis.pause.{}", word(cause));
            assert!(DIAGNOSIS.contains(&name.as_str()), "{name}");
        }
    }
}
