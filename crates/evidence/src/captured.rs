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

/// What a capture gives of a VM.
pub const CAPTURED: [&str; 12] = [
    "captured.instructions",
    "captured.shootdowns",
    "captured.private",
    "captured.pages",
    "captured.victims",
    "captured.one_page",
    "captured.guest_time",
    "captured.speed.shoot4u",
    "captured.speed.invlpgb",
    "captured.speed.hatric",
    "captured.speed.attc",
    "captured.speed.ideal",
];

/// Why a captured race cannot give what a row names, in words; `None` where it can.
pub(crate) fn lacking(row: &Row, scenario: &Scenario) -> Option<String> {
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
    let known = CAPTURED.contains(&row.measure.as_str());
    (!known).then(|| {
        format!(
            "a capture has no measure `{}`; it has {}",
            row.measure,
            CAPTURED.join(", ")
        )
    })
}

/// What is wrong with how a claim is captured, in words.
pub(crate) fn problem(claim: &Claim) -> Option<String> {
    let captured = claim.captured.as_ref()?;
    if claim.engine != "bochs" {
        return Some("`captured`, which the engine `bochs` alone can do".to_owned());
    }
    if claim.trace {
        return Some("`captured` and `trace`; expected one of them".to_owned());
    }
    if claim.kernel.is_some() || claim.brought.is_some() {
        return Some("`captured` takes the lab's kernel and programs alone".to_owned());
    }
    (captured.accesses == 0).then(|| "`captured.accesses` is 0; expected some".to_owned())
}
