// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ideal`: zero-time, exact coherence on the baseline machine, the reference of the paper's Figure
//! 1.

use super::{Runs, Scheme, Spec};
use crate::layout::PAGE_SHIFT;
use crate::machine::View;
use crate::os::{Remap, TableChange};

/// Updates in zero time.
pub static IDEAL: Spec = Spec {
    name: "ideal",
    help: "updates in zero time on the baseline machine",
    runs: Runs::Anywhere,
    parameters: &[],
    validate: Spec::any_machine,
    make: |_| Box::new(Ideal),
};

#[derive(Debug)]
struct Ideal;

impl Scheme for Ideal {
    fn revoke(&mut self, m: &mut View<'_>, remap: &Remap, _core: usize, _now: u64) -> u64 {
        for change in &remap.changes {
            m.invalidate(change.key);
        }
        // Of walk caches and nested TLBs the entries that have changed or whose page has moved.
        if !remap.tables.is_empty() {
            m.drop_walks(|_, _, held| {
                let changed = |table: &TableChange| {
                    table.entry == held.entry || table.left == held.entry >> PAGE_SHIFT
                };
                remap.tables.iter().any(changed)
            });
        }
        0
    }
}
