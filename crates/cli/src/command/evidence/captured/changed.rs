// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Variants of a claim on one recording: an input of the simulation that is changed, or one of its
//! schemes. All are of one run of the guests, so that they meet the same accesses and updates; a
//! longer part is recorded of its own, from the same beginning.
//!
//! Left out: how often updates are, which is recorded.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use steady_coherence::compare::Comparison;
use steady_evidence::Captured;
use steady_measures::{Better, Metric, Unit};

use super::schemes::{ppm_over, schemes};

/// The variant that has every input as stated.
pub const AS_IS: &str = "as-is";

/// An input of the simulation.
pub struct Input {
    /// The variant's name.
    pub name: &'static str,
    /// How it is changed, in words; empty for what is not.
    pub how: &'static str,
    /// Keys of the machine.
    pub keys: &'static [(&'static str, &'static str)],
    /// Accesses recorded, in times of the claim's.
    pub times: u64,
}

/// Nothing changed, then each change that an explanation of a simulated number names.
pub const INPUTS: [Input; 3] = [
    Input {
        name: AS_IS,
        how: "",
        keys: &[],
        times: 1,
    },
    Input {
        name: "frames",
        how: "neighbours of a guest have neighbouring frames",
        keys: &[("mmu.scattered_frames_percent", "0")],
        times: 1,
    },
    Input {
        name: "longer",
        how: "twice as many accesses",
        keys: &[],
        times: 2,
    },
];

/// The inputs that must be simulated for these variants: a scheme needs the one that is as stated.
///
/// # Errors
/// If a variant is neither an input nor a scheme.
pub fn inputs_of<'a>(variants: &[&'a str]) -> anyhow::Result<BTreeMap<&'static str, Vec<&'a str>>> {
    let mut wanted: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for &name in variants {
        let input = INPUTS.iter().find(|input| input.name == name);
        let is_scheme = schemes().iter().any(|scheme| scheme.name == name);
        ensure!(
            input.is_some() || is_scheme,
            "`{name}` is neither an input nor a scheme of the simulation"
        );
        let of = input.map_or(AS_IS, |input| input.name);
        wanted.entry(of).or_default().push(name);
    }
    Ok(wanted)
}

/// The speed of a scheme over the baseline's.
///
/// # Errors
/// If it was not simulated.
pub fn speed(found: &Comparison, scheme: &str) -> anyhow::Result<Metric> {
    let base = found.outcomes.first().context("a baseline is simulated")?;
    let own = found.outcomes.iter().find(|one| one.scheme == scheme);
    let own = own.with_context(|| format!("`{scheme}` was not simulated"))?;
    let ppm = i64::try_from(ppm_over(own, base)).unwrap_or(i64::MAX);
    Ok(Metric::new(Captured::SPEED, Unit::Ppm, Better::Higher, ppm))
}

#[cfg(test)]
mod tests {
    use super::super::key::glance;
    use super::*;

    #[test]
    fn a_scheme_needs_the_inputs_as_stated_and_an_unknown_variant_is_refused() {
        let found = inputs_of(&["longer", "attc", "as-is"]).expect("all are known");
        let names: Vec<_> = found.into_iter().collect();
        let wanted = [("as-is", vec!["attc", "as-is"]), ("longer", vec!["longer"])];
        assert_eq!(names, wanted);
        let said = inputs_of(&["half-rate"]).map_err(|error| error.to_string());
        assert!(said.is_err_and(|text| text.contains("`half-rate`")));
    }

    #[test]
    fn the_speed_of_the_baseline_is_one() {
        let found = glance(&[]).expect("it runs");
        let speed_of = |scheme| speed(&found, scheme).map(|metric| metric.value);
        let base = found.outcomes[0].scheme;
        assert_eq!(speed_of(base).expect("it is there"), 1_000_000);
        assert_ne!(speed_of("ideal").expect("it is there"), 1_000_000);
        assert!(speed_of("unitd").is_err());
    }
}
