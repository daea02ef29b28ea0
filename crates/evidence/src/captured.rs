// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claims whose runs are captured: the memory accesses of a host and its guests are recorded, and
//! TLB coherence is simulated on them.
//!
//! `steady evidence run` captures (`steady coherence capture --host`) and adds the measures. A
//! capture is a run of another build of the emulator, so that a claim of one has these measures
//! and no others. A claim may be of one recorded variant: its own variants are then inputs of the
//! simulation that are changed, or its schemes (`NAME`, or `NAME@INPUT`), on the same recording.

use std::collections::BTreeMap;

use serde::Deserialize;
use steady_scenario::Scenario;

use crate::claim::{Claim, Row};
use crate::house::Keys;

/// What is recorded of each run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Captured {
    /// Recorded from the first VM entry at or after this time of the host, in ticks of its clock.
    pub after_ticks: u64,
    /// Accesses recorded, of all processors.
    pub accesses: u64,
    /// The scenario's variant that is recorded, where the claim's variants are inputs or schemes of
    /// the simulation; absent: each of the claim's variants is recorded.
    pub of: Option<String>,
}

impl Captured {
    /// The word that the simulator's key of captured claims has among the keys.
    pub const SIMULATED: &'static str = "captured";
    /// The same where [`Captured::of`] is set. Its variants are the inputs that can be changed,
    /// each with how, in words.
    pub const CHANGED: &'static str = "captured-changed";
    /// The measure of a scheme as a variant: its speed over the baseline's.
    pub const SPEED: &'static str = "captured.speed";

    /// The word among the keys.
    #[must_use]
    pub(crate) fn word(&self) -> &'static str {
        match self.of {
            None => Self::SIMULATED,
            Some(_) => Self::CHANGED,
        }
    }
}

/// Whether a claim's variant is a scheme of the simulation: `NAME`, or `NAME@INPUT` where an input
/// is changed besides.
fn is_scheme(keys: &Keys, name: &str) -> bool {
    let (name, input) = match name.split_once('@') {
        None => (name, None),
        Some((name, input)) => (name, Some(input)),
    };
    let simulated = keys.simulated.get(Captured::SIMULATED);
    simulated.is_some_and(|of| of.measures.contains(&format!("{}.{name}", Captured::SPEED)))
        && input.is_none_or(|input| is_input(keys, input))
}

/// Whether it is an input of the simulation that can be changed.
fn is_input(keys: &Keys, name: &str) -> bool {
    let inputs = keys.simulated.get(Captured::CHANGED);
    inputs.is_some_and(|of| of.variants.contains_key(name))
}

/// The scenario's variants that a claim races or records.
pub(crate) fn recorded(claim: &Claim) -> Vec<&str> {
    let of = claim.captured.as_ref().and_then(|of| of.of.as_deref());
    of.map_or_else(|| claim.all_variants().collect(), |one| vec![one])
}

/// How the inputs are changed that are variants of a claim, in words.
pub(crate) fn changes(keys: &Keys, variants: &[&str]) -> Vec<String> {
    let known = keys.simulated.get(Captured::CHANGED);
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for &name in variants {
        let input = name.split_once('@').map_or(name, |(_, input)| input);
        let words = known.and_then(|known| known.variants.get(input));
        let words: Vec<&str> = words
            .into_iter()
            .flat_map(BTreeMap::values)
            .map(String::as_str)
            .collect();
        let words = words.join(", ");
        if words.is_empty() {
            continue;
        }
        match found.iter_mut().find(|(known, _)| *known == words) {
            Some((_, names)) => names.push(name),
            None => found.push((words, vec![name])),
        }
    }
    let line = |(words, names): (String, Vec<&str>)| format!("{words} (`{}`)", names.join("`, `"));
    found.into_iter().map(line).collect()
}

/// What a capture gives of a VM by itself. What is simulated on it is among the keys, by
/// [`Captured::SIMULATED`].
pub const CAPTURED: [&str; 7] = [
    "captured.instructions",
    "captured.shootdowns",
    "captured.private",
    "captured.pages",
    "captured.victims",
    "captured.one_page",
    "captured.guest_time",
];

/// The patches that make an engine record are in a folder of `lab/` of this name.
#[must_use]
pub(crate) fn recorder(engine: &str) -> String {
    format!("{engine}-events")
}

/// Why a captured race cannot give what a row names, in words; `None` where it can.
pub(crate) fn lacking(
    keys: &Keys,
    claim: &Claim,
    row: &Row,
    scenario: &Scenario,
) -> Option<String> {
    let Some(name) = &row.vm else {
        return Some("a capture gives measures of VMs; expected `vm`".to_owned());
    };
    if !scenario.vms.iter().any(|vm| &vm.name == name) {
        return Some(format!("the scenario has no VM `{name}`"));
    }
    if row.workload.is_some() || !row.mean_over.is_empty() || !row.share_of.is_empty() {
        let text = "a capture is of a part of a run; expected a row of a VM, without `workload`, \
                    `mean_over` and `share_of`";
        return Some(text.to_owned());
    }
    if claim.all_variants().all(|name| is_scheme(keys, name)) {
        let (measure, speed) = (&row.measure, Captured::SPEED);
        return (measure != speed).then(|| {
            format!("a scheme as a variant has no measure `{measure}`; it has {speed} alone")
        });
    }
    let simulated = keys.simulated.get(Captured::SIMULATED);
    let simulated = simulated.into_iter().flat_map(|of| &of.measures);
    let mut known = CAPTURED.into_iter().chain(simulated.map(String::as_str));
    (!known.clone().any(|name| name == row.measure)).then(|| {
        let all: Vec<&str> = known.by_ref().collect();
        let measure = &row.measure;
        format!(
            "a capture has no measure `{measure}`; it has {}",
            all.join(", ")
        )
    })
}

/// What is wrong with how a claim is captured, in words.
pub(crate) fn problem(keys: &Keys, claim: &Claim) -> Option<String> {
    let captured = claim.captured.as_ref()?;
    let patches = recorder(&claim.engine);
    if !keys.emulators.contains_key(&patches) {
        let engine = &claim.engine;
        return Some(format!(
            "`captured`, and the engine `{engine}` cannot record: lab/{patches} is missing; \
             expected an engine whose patches are there"
        ));
    }
    if claim.trace {
        return Some("`captured` and `trace`; expected one of them".to_owned());
    }
    if claim.kernel.is_some() || claim.brought.is_some() {
        return Some("`captured` takes the lab's kernel and programs alone".to_owned());
    }
    if captured.accesses == 0 {
        return Some("`captured.accesses` is 0; expected some".to_owned());
    }
    captured.of.as_ref()?;
    let all: Vec<&str> = claim.all_variants().collect();
    let fits =
        all.iter().all(|name| is_input(keys, name)) || all.iter().all(|name| is_scheme(keys, name));
    (!fits).then(|| {
        let inputs = keys.simulated.get(Captured::CHANGED);
        let inputs = inputs.into_iter().flat_map(|of| of.variants.keys());
        let inputs: Vec<&str> = inputs.map(String::as_str).collect();
        format!(
            "`captured.of`, and its variants are {}; expected schemes of the simulation, or of: {}",
            all.join(", "),
            inputs.join(", ")
        )
    })
}
