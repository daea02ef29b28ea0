// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Schemes of TLB coherence on what the VMs of a recorded host did: their speed, and what updates
//! take under software.
//!
//! The machine is that of the ATTC paper, or an input's, with DRAM alone, so that no update is the
//! simulator's own.
//! The oracle checks every access.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::bail;
use steady_attc_paper::by_agent;
use steady_coherence::compare::{self, Comparison, Job, Outcome};
use steady_coherence::config::Mode;
use steady_coherence::counts::Counts;
use steady_coherence::host::{self, Host};
use steady_coherence::record::Source;
use steady_coherence::scheme::{INVLPGB, INVLPGB_ATLB};
use steady_coherence::{Options, Registry, Spec};
use steady_measures::{Metric, Unit};

use crate::command::coherence::or_usual;

use super::changed::Input;
use super::counted::{metric, share};

/// The machine of a simulation, if its input has no other.
const PRESET: &str = "paper";
const KEYS: [(&str, &str); 1] = [("hybrid.enabled", "false")];

/// The baseline, and what is compared with it: the usual schemes, and what AMD ships beside the
/// software.
pub(super) fn schemes() -> Vec<&'static Spec> {
    let mut all = or_usual(Vec::new(), Mode::Virtualized);
    all.insert(2, &INVLPGB);
    all.insert(3, &INVLPGB_ATLB);
    all
}

/// The measures of the simulation, by their names.
pub fn measures() -> BTreeSet<String> {
    let others = schemes().into_iter().skip(1);
    others
        .map(|scheme| format!("captured.speed.{}", scheme.name))
        .collect()
}

/// Schemes on the machine of an input, with these keys besides.
pub(super) fn jobs(
    input: &Input,
    schemes: &[&'static Spec],
    more: &[(&str, &str)],
) -> anyhow::Result<Vec<Job>> {
    let keys = KEYS.iter().chain(input.keys).chain(more);
    let keys: Vec<_> = keys
        .map(|&(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let preset = input.preset.unwrap_or(PRESET);
    let machine = format!("preset = \"{preset}\"");
    let machine = Registry::shipped().load_with(&machine, preset, &keys)?;
    Ok(compare::jobs(&machine, schemes))
}

/// Schemes on what the VMs did, with an input changed.
pub(super) fn simulated(
    trace: &Path,
    input: &Input,
    schemes: &[&'static Spec],
) -> anyhow::Result<Comparison> {
    let host = host::open(trace)?;
    let how = How::of(&host);
    how.on(host, &jobs(input, schemes, &[])?)
}

/// How what the VMs of a recorded host did is simulated.
pub(super) struct How {
    accesses: u64,
    options: Options,
}

impl How {
    pub fn of<R>(host: &Host<R>) -> Self {
        let accesses = host.accesses();
        let options = Options {
            check: true,
            warmup: accesses / 4,
            vms: host.vms(),
            threads_per_vm: host.threads_per_vm(),
            ..Options::default()
        };
        Self { accesses, options }
    }

    /// Each job on what was recorded.
    pub fn on(&self, source: impl Source, jobs: &[Job]) -> anyhow::Result<Comparison> {
        let found = compare::compare(source, self.accesses, jobs, &self.options, 2)?;
        for outcome in &found.outcomes {
            if !outcome.is_sound() {
                bail!(
                    "the scheme {} is not coherent on this trace",
                    outcome.scheme
                );
            }
        }
        Ok(found)
    }
}

/// The time of updates under the baseline, and the speed of the others over it.
pub(super) fn speeds(found: &Comparison) -> Vec<Metric> {
    let [base, others @ ..] = found.outcomes.as_slice() else {
        return Vec::new();
    };
    let speed = |outcome: &Outcome| {
        let name = format!("speed.{}", outcome.scheme);
        metric(&name, Unit::Ppm, ppm_over(outcome, base))
    };
    let time = metric("guest_time", Unit::Ppm, guest_time(&base.counts));
    std::iter::once(time)
        .chain(others.iter().map(speed))
        .collect()
}

/// The speed of one over another, in parts per million.
pub(super) fn ppm_over(one: &Outcome, base: &Outcome) -> u64 {
    let over = i128::from(one.gain_over(base)) + 10_000;
    u64::try_from(over * 100).unwrap_or(0)
}

/// Share of all cycles that the guests' updates took, each as long as the mean.
fn guest_time(counts: &Counts) -> u64 {
    let (guest, host) = by_agent(counts);
    let spent = counts.initiator_cycles + counts.victim_cycles;
    share(
        share(spent, guest + host, guest),
        counts.core_cycles,
        1_000_000,
    )
}

#[cfg(test)]
mod tests {
    use crate::command::evidence::captured::changed::INPUTS;
    use crate::command::evidence::captured::key::glance;

    use super::*;

    #[test]
    fn what_is_simulated_has_the_names_that_claims_may_name() {
        let found = speeds(&glance(&INPUTS[0]).expect("it runs"));
        let mut known = measures();
        known.extend(steady_evidence::CAPTURED.map(str::to_owned));
        for metric in &found {
            assert!(known.contains(&metric.name), "{}", metric.name);
        }
        for name in measures() {
            assert!(found.iter().any(|metric| metric.name == name), "{name}");
        }
    }

    #[test]
    fn time_in_updates_is_the_guests_part_of_what_all_took() {
        let counts = Counts {
            core_cycles: 1_000,
            initiator_cycles: 150,
            victim_cycles: 50,
            program_updates: 2,
            guest_migrations: 1,
            host_migrations: 1,
            ..Counts::default()
        };
        // Three updates of four, of a fifth of the time.
        assert_eq!(guest_time(&counts), 150_000);
        assert_eq!(guest_time(&Counts::default()), 0);
    }
}
