// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whether variants met the same work: updates of translations, which are what schemes of TLB
//! coherence are raced for. Where they met other numbers, a difference is not that of the schemes.

use std::fmt;

use crate::names::UPDATES_PREFIX;
use crate::result::{RunResult, VariantResult};

/// The variants that met most and fewest updates, in all their runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uneven {
    most: (String, i64),
    fewest: (String, i64),
}

impl fmt::Display for Uneven {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((many, most), (few, fewest)) = (&self.most, &self.fewest);
        write!(
            out,
            "updates differ, {most} under {many} and {fewest} under {few}"
        )
    }
}

/// Updates that each variant met, in all its runs; `None` where a variant has no measure of
/// them.
fn updates(result: &RunResult) -> Option<Vec<(&str, i64)>> {
    let counted = |one: &VariantResult| {
        let metrics = one.repetitions.iter().flat_map(|run| &run.metrics);
        let of_updates = metrics.filter(|metric| {
            metric.vm.is_none()
                && metric.workload.is_none()
                && metric.name.starts_with(UPDATES_PREFIX)
        });
        of_updates
            .map(|metric| metric.value)
            .reduce(|a, b| a.saturating_add(b))
    };
    let variants = result.variants.iter();
    variants
        .map(|one| Some((one.name.as_str(), counted(one)?)))
        .collect()
}

/// Whether updates were counted, and there was none in any variant.
#[must_use]
pub fn without_updates(result: &RunResult) -> bool {
    updates(result).is_some_and(|all| all.iter().all(|&(_, count)| count == 0))
}

/// The variants that met most and fewest updates, where one met a quarter fewer. The warm-up ends
/// at a number of accesses, and under each scheme other threads are further then. Few updates, or
/// those of one moment, can all lie on one side of its end.
#[must_use]
pub fn uneven_updates(result: &RunResult) -> Option<Uneven> {
    let all = updates(result)?;
    let most = all.iter().rev().max_by_key(|one| one.1)?;
    let fewest = all.iter().min_by_key(|one| one.1)?;
    let owned = |&(name, count): &(&str, i64)| (name.to_owned(), count);
    (i128::from(fewest.1) * 4 < i128::from(most.1) * 3).then(|| Uneven {
        most: owned(most),
        fewest: owned(fewest),
    })
}
