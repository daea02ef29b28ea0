// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Claims whose runs are captured: the memory accesses of a host and its guests are recorded, and
//! TLB coherence is simulated on them.
//!
//! `steady evidence run` captures (`steady coherence capture --host`) and adds the measures. A
//! capture is a run of another build of the emulator, so that a claim of one has these measures
//! and no others.

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
}

impl Captured {
    /// The word that the simulator's key of captured claims has among the keys.
    pub const SIMULATED: &'static str = "captured";
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
pub(crate) fn lacking(keys: &Keys, row: &Row, scenario: &Scenario) -> Option<String> {
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
    (captured.accesses == 0).then(|| "`captured.accesses` is 0; expected some".to_owned())
}
