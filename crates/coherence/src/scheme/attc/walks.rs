// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Walk lines: a rule of ours beside the paper's, for walk caches and nested TLBs.
//!
//! The paper's messages name what guest-virtual pages have in common, so that they cannot name
//! these. Each VM has a *walk line* behind the ATLB's sets, at set number `sets + VM_ID`. An agent
//! that frees or moves a table page writes the VM's, and its message has every core drop what walk
//! caches and nested TLB hold of the VM. The host does not know which frames hold guests' tables.
//! So where table pages move, a walker that fills a nested TLB stores a pointer from the table
//! page's frame to the walk line.

use super::{Attc, Invtbl, Pointer};
use crate::layout::Key;
use crate::machine::{Fault, Look, View};
use crate::num::low16;

impl Attc {
    /// The walk line of a VM: behind the sets of the ATLB for small pages.
    pub(super) const fn walk_line(&self, vm: u16) -> Pointer {
        Pointer {
            set: self.atlb.sets(false) + Key::small(vm, 0).vm_id(),
            large: false,
        }
    }

    /// The VM whose walk line a pointer leads to.
    pub(super) fn walks_of(&self, pointer: Pointer) -> Option<u16> {
        let behind = pointer.set.checked_sub(self.atlb.sets(false) + 1)?;
        (!pointer.large).then_some(low16(behind))
    }

    /// Stores the pointer from a guest table page's frame to its VM's walk line, unless it is
    /// there: nested TLBs are filled with the same pages over and over.
    pub(super) fn point_table(
        &mut self,
        m: &mut View<'_>,
        core: usize,
        vm: u16,
        spn: u64,
        now: u64,
    ) {
        let pointer = self.walk_line(vm);
        match &self.invtbl {
            Some(table) if table.points(spn, pointer) => {
                m.read_line(core, table.line(spn, false), now);
            }
            _ if m.look().has(Fault::TablePointerLost) => {}
            _ => self.point(m, core, pointer, spn, now),
        }
    }

    /// Every entry of a nested TLB has its pointer, where table pages move.
    pub(super) fn check_behind(&self, m: Look<'_>, table: &Invtbl) -> Result<(), String> {
        let mut behind = m.tables_behind().filter(|_| m.tables_move());
        match behind.find(|&(vm, spn)| !table.points(spn, self.walk_line(vm))) {
            None => Ok(()),
            Some((vm, spn)) => Err(format!(
                "a nested TLB's entry of VM {vm} -> frame {spn:#x} has no pointer"
            )),
        }
    }
}
