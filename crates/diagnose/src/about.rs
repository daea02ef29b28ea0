// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sums of what exits were about: of many regions of memory, or ports, one row.
//!
//! Left out: which rows a finding names.

use crate::build::permille;
use crate::findings::MOST;
use crate::model::{DetailRow, ExitRow};
use crate::spread::total;

impl DetailRow {
    /// Adds exits that were about another thing of the same kind.
    pub(crate) fn join(&mut self, other: &Self) {
        let sum = |own: u64, more: u64| own.saturating_add(more);
        let both = |own: Option<u64>, more: Option<u64>| Some(sum(own?, more?));
        assert_eq!(self.kind, other.kind, "only what is alike is summed");
        self.value = None;
        self.exits = sum(self.exits, other.exits);
        self.by_vmm = both(self.by_vmm, other.by_vmm);
        // By what most of the time was for.
        let more_ns = |of: &Self| of.by_vmm_ns.unwrap_or(0);
        if more_ns(other) > more_ns(self) {
            self.user.clone_from(&other.user);
        }
        if other.host_irq_ns > self.host_irq_ns {
            self.irq.clone_from(&other.irq);
        }
        self.by_vmm_ns = both(self.by_vmm_ns, other.by_vmm_ns);
        self.own_ns = sum(self.own_ns, other.own_ns);
        self.host_irq_ns = sum(self.host_irq_ns, other.host_irq_ns);
        self.again_ns = sum(self.again_ns, other.again_ns);
        let length = |of: &Self| of.worst.as_ref().map_or(0, |worst| worst.length_ns);
        if length(other) > length(self) {
            self.worst.clone_from(&other.worst);
        }
    }
}

/// Puts the rows beyond those that are shown into one of each kind and name, so that their sums are
/// whole.
pub fn fold(rows: &mut Vec<DetailRow>, shown: usize) {
    let rest = rows.split_off(rows.len().min(shown));
    let shown = rows.len();
    for row in rest {
        let same = |known: &&mut DetailRow| (&known.kind, &known.name) == (&row.kind, &row.name);
        match rows[shown..].iter_mut().find(same) {
            Some(known) => known.join(&row),
            None => rows.push(DetailRow { value: None, ..row }),
        }
    }
}

/// What exits were about, most first: of places of one kind and name their sum, where none of them
/// has most of their time.
pub fn groups(row: &ExitRow) -> Vec<DetailRow> {
    let mut groups: Vec<DetailRow> = Vec::new();
    let told = || row.about.iter().filter(|of| of.kind != "untold");
    for of in told() {
        let same = |other: &DetailRow| (&other.kind, &other.name) == (&of.kind, &of.name);
        let all_ns = total(told().filter(|other| same(other)).map(|other| other.own_ns));
        let has_most = told().any(|other| {
            same(other) && other.value.is_some() && permille(other.own_ns, all_ns) >= MOST
        });
        match groups.iter_mut().find(|known| same(known)) {
            Some(known) if !has_most => known.join(of),
            _ => groups.push(of.clone()),
        }
    }
    groups.sort_by_key(|of| std::cmp::Reverse(of.own_ns));
    let all_ns = total(told().map(|of| of.own_ns));
    let in_groups_ns = total(groups.iter().map(|of| of.own_ns));
    assert_eq!(all_ns, in_groups_ns, "the sums are whole");
    groups
}
