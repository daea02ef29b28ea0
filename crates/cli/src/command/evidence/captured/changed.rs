// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Variants of a claim on one recording: an input of the simulation that is changed, or one of its
//! schemes. All are of one run of the guests, so that they meet the same accesses and updates; a
//! longer part is recorded of its own, from the same beginning.
//!
//! Left out: how often updates are, which is recorded.

use std::collections::BTreeMap;

use anyhow::Context;
use steady_coherence::Spec;
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
    /// The machine, where it is another.
    pub preset: Option<&'static str>,
    /// Keys of the machine.
    pub keys: &'static [(&'static str, &'static str)],
    /// Accesses recorded, in times of the claim's.
    pub times: u64,
}

/// Nothing changed, each change that an explanation of a simulated number names, and machines of
/// today, on which schemes are compared.
pub const INPUTS: [Input; 7] = [
    Input {
        name: AS_IS,
        how: "",
        preset: None,
        keys: &[],
        times: 1,
    },
    Input {
        name: "frames",
        how: "neighbours of a guest have neighbouring frames",
        preset: None,
        keys: &[("mmu.scattered_frames_percent", "0")],
        times: 1,
    },
    Input {
        name: "walks",
        how: "walks as long as Victima's authors publish",
        preset: None,
        keys: &[("mmu.walk_cycles", "275")],
        times: 1,
    },
    Input {
        name: "longer",
        how: "twice as many accesses",
        preset: None,
        keys: &[],
        times: 2,
    },
    Input {
        name: "zen5",
        how: "on a Zen 5, where messages cost",
        preset: Some("zen5"),
        keys: &[],
        times: 1,
    },
    Input {
        name: "zen5-quick",
        how: "on a Zen 5, where a broadcast waits no longer than a guess at a lone one has it",
        preset: Some("zen5"),
        keys: &[("rivals.invlpgb_sync_cycles", "900")],
        times: 1,
    },
    Input {
        name: "zen5-equal",
        how: "on a Zen 5, where a broadcast costs its messages' way and nothing else",
        preset: Some("zen5"),
        keys: &[
            ("rivals.invlpgb_issue_cycles", "0"),
            ("rivals.invlpgb_sync_cycles", "0"),
        ],
        times: 1,
    },
];

/// A scheme as a variant, and the input that it is simulated with.
fn scheme_of(name: &str) -> (&str, &str) {
    name.split_once('@').unwrap_or((name, AS_IS))
}

/// The schemes that the variants of an input need: all of them where the input is a variant itself.
pub fn needed(input: &Input, variants: &[&str]) -> Vec<&'static Spec> {
    let named = |name: &str| variants.iter().any(|&variant| scheme_of(variant).0 == name);
    let all = schemes();
    if variants.contains(&input.name) {
        return all;
    }
    let base = all[0].name;
    let is_needed = |scheme: &&Spec| scheme.name == base || named(scheme.name);
    all.into_iter().filter(is_needed).collect()
}

/// The inputs that must be simulated for these variants: a scheme `NAME@INPUT` needs that one,
/// `NAME` the one that is as stated.
///
/// # Errors
/// If a variant is neither an input nor a scheme.
pub fn inputs_of<'a>(variants: &[&'a str]) -> anyhow::Result<BTreeMap<&'static str, Vec<&'a str>>> {
    let mut wanted: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for &name in variants {
        let is_input = |name: &str| INPUTS.iter().find(|input| input.name == name);
        let of_scheme = || {
            let (scheme, input) = scheme_of(name);
            let known = schemes().iter().any(|known| known.name == scheme);
            is_input(input).filter(|_| known)
        };
        let input = is_input(name).or_else(of_scheme).with_context(|| {
            format!("`{name}` is neither an input nor a scheme of the simulation")
        })?;
        wanted.entry(input.name).or_default().push(name);
    }
    Ok(wanted)
}

/// The speed of a variant's scheme over the baseline's, on the same machine.
///
/// # Errors
/// If it was not simulated.
pub fn speed(found: &Comparison, variant: &str) -> anyhow::Result<Metric> {
    let (scheme, _) = scheme_of(variant);
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
        let found = inputs_of(&["longer", "attc", "as-is", "attc@zen5"]).expect("all are known");
        let names: Vec<_> = found.into_iter().collect();
        let wanted = [
            ("as-is", vec!["attc", "as-is"]),
            ("longer", vec!["longer"]),
            ("zen5", vec!["attc@zen5"]),
        ];
        assert_eq!(names, wanted);
        let names = |variants: &[&str]| -> Vec<_> {
            let found = needed(&INPUTS[0], variants);
            found.iter().map(|scheme| scheme.name).collect()
        };
        assert_eq!(names(&["attc"]), [schemes()[0].name, "attc"]);
        assert_eq!(names(&["attc", "as-is"]).len(), schemes().len());
        for unknown in ["half-rate", "attc@half-rate", "half-rate@zen5"] {
            let said = inputs_of(&[unknown]).map_err(|error| error.to_string());
            assert!(said.is_err_and(|text| text.contains(unknown)));
        }
    }

    #[test]
    fn walks_are_those_of_the_generated_numbers() {
        let published = steady_attc_paper::VICTIMA_WALK.0.to_string();
        let walks = INPUTS.iter().find(|input| input.name == "walks");
        let keys = walks.expect("it is there").keys;
        assert_eq!(keys, [("mmu.walk_cycles", published.as_str())]);
    }

    #[test]
    fn the_speed_of_the_baseline_is_one() {
        let found = glance(&INPUTS[0]).expect("it runs");
        let speed_of = |scheme| speed(&found, scheme).map(|metric| metric.value);
        let base = found.outcomes[0].scheme;
        assert_eq!(speed_of(base).expect("it is there"), 1_000_000);
        assert_ne!(speed_of("ideal").expect("it is there"), 1_000_000);
        assert!(speed_of("unitd").is_err());
    }
}
