// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of what another placement would have given, and when nothing can be said of it.

use super::{Builder, permille};
use crate::cause::Cause;
use crate::findings::late_ns;
use crate::machine::VcpuId;
use crate::model::{CallTable, FoldTable, NotPredicted, PauseTable, PlacementTable};
use crate::model::{Predicted, SpareRow};
use crate::placement::{OfVm, Sum, WHOLE};
use crate::spread::total;

/// From this part of all switches on, in thousandths, missing ones leave nothing to predict from.
const UNSEEN_MATTERS: u64 = 10;

impl Builder<'_> {
    /// Nothing of one vCPU, or without events of the scheduler.
    pub(super) fn placement(
        &self,
        ids: &[VcpuId],
        pauses: Option<&PauseTable>,
        calls: Option<&CallTable>,
    ) -> Option<PlacementTable> {
        let (&first, placement) = (ids.first()?, &self.analysis.rivals.placement);
        if self.analysis.seen.switch == 0 || ids.len() < 2 {
            return None;
        }
        let none = OfVm::default();
        let vm = self.analysis.machine.vcpus[first].vm;
        let of = placement.vms.get(vm);
        let why_not = self.why_not(ids, of);
        let of = of.filter(|_| why_not.is_none()).unwrap_or(&none);
        let waits = ids
            .iter()
            .filter_map(|&id| self.analysis.rivals.waits.get(id));
        let may = of.may.iter().filter(|may| **may).count();
        let fair_ns = of.fair / u128::from(WHOLE);
        let predicted = why_not.is_none();
        Some(PlacementTable {
            why_not,
            known_ns: of.known_ns,
            wanted_permille: permille(of.wanted_ns, of.known_ns),
            ran_ns: match predicted {
                true => total(waits.map(|waits| waits.ran_ns)),
                false => 0,
            },
            fair_ns: u64::try_from(fair_ns).unwrap_or(u64::MAX),
            stacked_ns: of.stacked_ns,
            stacked_permille: permille(of.stacked_ns, of.known_ns),
            spare: spare(of),
            parted: predicted.then(|| in_ns(of.parted)),
            reach: (predicted && ids.len() <= may)
                .then(|| placement.pace.parted(vm))
                .flatten(),
            pinned: (predicted && ids.len() <= may).then(|| in_ns(of.pinned)),
            fold: (of.short_ns > 0).then(|| {
                let vcpus = of.short_ran_ns.div_ceil(of.short_ns).max(1);
                FoldTable {
                    short_ns: of.short_ns,
                    short_permille: permille(of.short_ns, of.known_ns),
                    vcpus,
                    reach: placement.pace.folded(vm, vcpus),
                    locks_at_most_ns: pauses.and_then(locks_ns),
                }
            }),
            calls_at_most_ns: calls.filter(|_| predicted).and_then(calls_ns),
        })
    }

    fn why_not(&self, ids: &[VcpuId], of: Option<&OfVm>) -> Option<NotPredicted> {
        let (analysis, placement) = (self.analysis, &self.analysis.rivals.placement);
        let seen = &analysis.seen;
        let is_lossy = analysis.gaps > 0 || analysis.clock_set_back > 0 || self.is_lossy;
        let note = analysis.machine.vms[analysis.machine.vcpus[ids[0]].vm].note;
        let note = note.and_then(|note| self.notes?.vms.get(note));
        let mut lists = note
            .into_iter()
            .flat_map(|vm| vm.vcpus.iter().map(|of| &of.cpus));
        let list = lists.next();
        let unseen = permille(placement.unseen, seen.switch);
        [
            (is_lossy, NotPredicted::EventsLost),
            (seen.placeless > 0, NotPredicted::NoPcpus),
            (unseen >= UNSEEN_MATTERS, NotPredicted::SwitchesMissing),
            (placement.too_large, NotPredicted::TooLarge),
            (
                lists.any(|other| Some(other) != list),
                NotPredicted::PinnedAlready,
            ),
            (
                of.is_none_or(|of| of.vcpus != ids.len()),
                NotPredicted::PutTogetherLate,
            ),
        ]
        .into_iter()
        .find_map(|(is_so, why)| is_so.then_some(why))
    }
}

fn in_ns(sum: Sum) -> Predicted {
    let ns = |sum: i128| {
        let ns = sum / i128::from(WHOLE);
        i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
    };
    let predicted = Predicted {
        low_ns: ns(sum.low),
        likely_ns: ns(sum.likely),
        high_ns: ns(sum.high),
    };
    let Predicted {
        low_ns, likely_ns, ..
    } = predicted;
    assert!(low_ns <= likely_ns, "{predicted:?}");
    assert!(likely_ns <= predicted.high_ns, "{predicted:?}");
    predicted
}

/// The pCPU that was free of the VM longest while siblings were on one; of equal ones the first.
fn spare(of: &OfVm) -> Option<SpareRow> {
    let rows = of.spare.iter().enumerate();
    let rows = rows.map(|(at, spare)| (total([spare.idle_ns, spare.stranger_ns]), at, spare));
    let (ns, at, spare) = rows.max_by_key(|&(ns, at, _)| (ns, std::cmp::Reverse(at)))?;
    (ns > 0).then(|| SpareRow {
        pcpu: u32::try_from(at).unwrap_or(u32::MAX),
        idle_ns: spare.idle_ns,
        stranger_ns: spare.stranger_ns,
    })
}

/// Spinning for locks and the waits behind it; nothing if the cause of most exits is not known.
fn locks_ns(pauses: &PauseTable) -> Option<u64> {
    let exits = |of: fn(Cause) -> bool| {
        let rows = pauses.by_cause.iter().filter(|row| of(row.cause));
        total(rows.map(|row| row.exits))
    };
    let known = exits(|cause| cause != Cause::Unknown);
    let is_lock = |cause| matches!(cause, Cause::Spinlock | Cause::OtherLock);
    let rows = pauses.by_cause.iter().filter(|row| is_lock(row.cause));
    (known.saturating_mul(2) > exits(|_| true)).then(|| total(rows.map(|row| row.took_ns())))
}

/// Receivers of one call may be late together: their sum counts up to the calls' own time.
fn calls_ns(calls: &CallTable) -> Option<u64> {
    let call_ns = calls.call_ns.as_ref()?;
    Some(late_ns(calls).min(call_ns.total))
}
