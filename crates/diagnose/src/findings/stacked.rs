// SPDX-License-Identifier: Apache-2.0 OR MIT
//! vCPUs of one VM that wait for each other while another pCPU that they may use has none of them.
//!
//! Fewer vCPUs would not help there: what is wrong is where they are. Left out: what strangers do
//! when the vCPUs are parted, which [`crate::placement`] bounds.

use super::limits::noted;
use super::steal::of_note;
use super::{Context, MOST, step};
use crate::build::permille;
use crate::model::{Assumption, CauseId, Step, StepId};

/// The cause of waits for siblings: that they are stacked, where most of the time in which vCPUs
/// wait is such, and parting them gives something.
pub fn of_siblings(context: &Context<'_>) -> CauseId {
    match gain_ns(context) {
        Some(_) => CauseId::Stacked,
        None => CauseId::OwnVm,
    }
}

/// Whether the VM surely has more vCPUs than pCPUs: the machine has fewer. Where it has as many, or
/// that is not known, pins or the scheduler may hold them together.
pub fn are_too_many(context: &Context<'_>) -> bool {
    let pcpus = context
        .trace
        .pcpus
        .and_then(|pcpus| usize::try_from(pcpus).ok());
    pcpus.is_some_and(|pcpus| pcpus < context.vm.vcpus.len())
}

/// Parts them where that may help, and else has fewer of them; `ns` of the waits are for siblings.
pub fn steps_of_siblings(context: &Context<'_>, ns: u64, whole_ns: u64) -> Vec<Step> {
    let pins = noted(context, |vcpu| vcpu.cpus.as_ref());
    let part = of_note(StepId::PartVcpus, "pCPUs of its vCPUs", pins);
    let (fewer, share) = (step(StepId::FewerVcpus), step(StepId::ShareOrSplit));
    match gain_ns(context) {
        Some(gain_ns) => {
            let part = part.gives(gain_ns, whole_ns, Assumption::FairShares);
            vec![part, share]
        }
        None if are_too_many(context) => {
            vec![
                fewer.gives(ns, whole_ns, Assumption::NobodyTakesItsPlace),
                share,
            ]
        }
        None => vec![part, fewer],
    }
}

/// What they would run more if they were parted.
fn gain_ns(context: &Context<'_>) -> Option<u64> {
    let table = context.vm.placement.as_ref()?;
    let short_ns = table.fold.as_ref()?.short_ns;
    let gain_ns = u64::try_from(table.parted?.likely_ns).ok()?;
    assert!(table.stacked_ns <= short_ns, "one of two on a pCPU waits");
    let most = permille(table.stacked_ns, short_ns) >= MOST;
    (most && gain_ns > 0).then_some(gain_ns)
}
