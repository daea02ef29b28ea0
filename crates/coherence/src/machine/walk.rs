// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Walks of the page tables through walk caches and nested TLB, and the walks that these lead
//! astray.
//!
//! A cached entry that is true leads where the table does, so that a walk is the reads that are
//! left. One that is stale leads to a frame where the table page was: the oracle hears of it, and
//! the walk gets what is read there. Where nothing is, the access faults, the core forgets what its
//! walk caches have of the VM, and tries again.

use super::{Machine, Walk};
use crate::cache::Entry;
use crate::config::Mode;
use crate::layout::{Key, LINE_SHIFT};
use crate::mmu::{Cached, Dimension, TlbEntry};
use crate::os::{Mapping, Says};
use crate::radix::{Step, index};

impl Machine {
    /// Walks the page tables for `key`, waiting for a free walker first.
    pub fn walk(&mut self, core: usize, key: Key, now: u64) -> (Walk, Mapping) {
        let (walker, start) = self.mmu[core].walker(now);
        let (mapping, end) = self.walk_tables(core, key, start);
        self.mmu[core].hold_walker(walker, end);
        let entry = TlbEntry {
            spn: mapping.spn,
            tag: 0,
            expires: u64::MAX,
            writable: mapping.writable,
            dirty: mapping.dirty,
        };
        (
            Walk {
                entry,
                cycles: end - now,
            },
            mapping,
        )
    }

    /// The reads of one walk, from cycle `start`; returns the mapping and the last read's cycle.
    pub fn walk_tables(&mut self, core: usize, key: Key, start: u64) -> (Mapping, u64) {
        let mapping = self.resolve(core, key, start);
        self.nested_filled.clear();
        self.counts.walks += 1;
        if self.config.mmu.walk_cycles > 0 {
            let fixed = u64::from(self.config.mmu.walk_cycles);
            self.counts.walk_cycles += fixed;
            return (mapping, start + fixed);
        }
        let (mapping, end) = match self.walk_true(core, &mapping, start) {
            Some(end) => (mapping, end),
            None => self.walk_astray(core, &mapping, start),
        };
        self.counts.walk_cycles += end - start;
        (mapping, end)
    }

    /// The reads of a walk to a page that is mapped, as long as all that is cached of it is true;
    /// returns the cycle it ends.
    fn walk_true(&mut self, core: usize, mapping: &Mapping, start: u64) -> Option<u64> {
        let (vm, page) = (mapping.key.vm(), mapping.key.first_vpn());
        let mut at = start;
        let (path, depth) = self.os.guest_path(mapping.key);
        let (first, leads) = self.mmu[core].walk_start(Dimension::Guest, vm, page, depth);
        if first > 0 && leads != path[first].frame {
            return None;
        }
        at += self.read_fifth(core, Dimension::Guest, vm, first, at);
        for (level, step) in path.iter().enumerate().take(depth).skip(first) {
            if self.config.mode == Mode::Virtualized {
                at = self.behind(core, vm, step, at)?;
            }
            at += self.read_entry(core, step.address, at);
            if level + 1 < depth {
                let held = Cached {
                    entry: step.address,
                    leads: path[level + 1].frame,
                };
                self.mmu[core].walk_insert(Dimension::Guest, level, vm, page, held);
            }
        }
        if self.config.mode == Mode::Virtualized {
            let large = mapping.key.is_large();
            at = self.nested_walk(core, vm, mapping.gpn, large, at)?.1;
        }
        Some(at)
    }

    /// Finds the frame behind a guest table page; returns the cycle it is known.
    fn behind(&mut self, core: usize, vm: u16, step: &Step, now: u64) -> Option<u64> {
        if let Some(spn) = self.mmu[core].nested_find(vm, step.frame) {
            return (spn == step.backing()).then_some(now);
        }
        let (entry, end) = self.nested_walk(core, vm, step.frame, false, now)?;
        self.remember_behind(core, vm, step.frame, entry, step.backing());
        Some(end)
    }

    fn remember_behind(&mut self, core: usize, vm: u16, gpn: u64, entry: u64, leads: u64) {
        self.mmu[core].nested_insert(vm, gpn, Cached { entry, leads });
        if self.tables_move {
            self.nested_filled.push(leads);
        }
    }

    /// Walks the nested table for guest frame `gpn`; returns the leaf entry's address and the cycle
    /// it ends.
    fn nested_walk(
        &mut self,
        core: usize,
        vm: u16,
        gpn: u64,
        large: bool,
        start: u64,
    ) -> Option<(u64, u64)> {
        let mut at = start;
        let (path, depth) = self.os.host_path(vm, gpn, large);
        let (first, leads) = self.mmu[core].walk_start(Dimension::Host, vm, gpn, depth);
        if first > 0 && leads != path[first].frame {
            return None;
        }
        at += self.read_fifth(core, Dimension::Host, vm, first, at);
        for (level, step) in path.iter().enumerate().take(depth).skip(first) {
            at += self.read_entry(core, step.address, at);
            if level + 1 < depth {
                let held = Cached {
                    entry: step.address,
                    leads: path[level + 1].frame,
                };
                self.mmu[core].walk_insert(Dimension::Host, level, vm, gpn, held);
            }
        }
        Some((path[depth - 1].address, at))
    }

    /// Reads the fifth-level entry where there is one and a walk whose first level is `first`, of
    /// the four below, needs it; returns the cycles.
    fn read_fifth(&mut self, core: usize, dim: Dimension, vm: u16, first: usize, now: u64) -> u64 {
        if first > 0 {
            return 0;
        }
        let address = self.fifth.learn(core, dim, vm);
        address.map_or(0, |address| self.read_entry(core, address, now))
    }

    fn read_entry(&mut self, core: usize, address: u64, now: u64) -> u64 {
        self.counts.walk_reads += 1;
        let line = address >> LINE_SHIFT;
        let memory = &mut self.memory;
        self.caches
            .access(core, line, false, Entry::L1, now, memory)
            .cycles
    }

    /// Sets the dirty bit of a page's table entry, for the first store to it; returns the cycles.
    /// A walker that its caches lead astray sets it where the table was.
    pub fn set_dirty(&mut self, core: usize, key: Key, now: u64) -> u64 {
        self.counts.dirty_updates += 1;
        self.mmu[core].mark_dirty(key);
        let (path, depth) = self.os.guest_path(key);
        match self.stale(core, key, &path[..depth]) {
            Some((used, step)) => self.report_stray(core, key, used, step, now),
            None => {
                self.os.set_dirty(key);
                if let Some(oracle) = &mut self.oracle {
                    oracle.dirtied(key);
                }
            }
        }
        let line = path[depth - 1].address >> LINE_SHIFT;
        let memory = &mut self.memory;
        self.caches
            .access(core, line, true, Entry::L1, now, memory)
            .cycles
    }

    /// What a walk through the guest's table would use that is stale, and where it should go on.
    fn stale(&self, core: usize, key: Key, path: &[Step]) -> Option<(u64, Step)> {
        if self.config.mmu.walk_cycles > 0 {
            return None;
        }
        let (mmu, vm) = (&self.mmu[core], key.vm());
        let page = key.first_vpn();
        let (first, leads) = mmu.walk_peek(Dimension::Guest, vm, page, path.len());
        if first > 0 && leads != path[first].frame {
            return Some((leads, path[first]));
        }
        if self.config.mode == Mode::Native {
            return None;
        }
        path[first..].iter().find_map(|step| {
            let spn = mmu.nested_peek(vm, step.frame)?;
            (spn != step.backing()).then_some((spn, *step))
        })
    }

    fn report_stray(&mut self, core: usize, key: Key, used: u64, step: Step, now: u64) {
        if let Some(oracle) = &mut self.oracle {
            oracle.strayed(core, key, used, step.backing(), now);
        }
    }

    /// A walk of which something cached is stale.
    #[cold]
    fn walk_astray(&mut self, core: usize, mapping: &Mapping, start: u64) -> (Mapping, u64) {
        let mut at = start;
        let found = self.follow_guest(core, mapping, &mut at);
        if let Some(found) = found {
            return (found, at);
        }
        let vm = mapping.key.vm();
        self.mmu[core].drop_walks(|_, of, _| of == vm);
        self.fifth.forget(core, vm);
        let end = self.walk_true(core, mapping, at);
        (*mapping, end.expect("nothing cached is stale"))
    }

    /// Goes where walk caches and tables lead; `None` where nothing is.
    fn follow_guest(&mut self, core: usize, mapping: &Mapping, at: &mut u64) -> Option<Mapping> {
        let key = mapping.key;
        let (vm, page) = (key.vm(), key.first_vpn());
        let (path, depth) = self.os.guest_path(key);
        let (first, leads) = self.mmu[core].walk_start(Dimension::Guest, vm, page, depth);
        let mut table = if first > 0 { leads } else { path[0].frame };
        for (level, &step) in path.iter().enumerate().take(depth).skip(first) {
            let frame = match self.config.mode {
                Mode::Native => table,
                Mode::Virtualized => match self.mmu[core].nested_find(vm, table) {
                    Some(frame) => frame,
                    None => {
                        let (entry, frame) = self.follow_host(core, key, table, false, at)?;
                        self.remember_behind(core, vm, table, entry, frame);
                        frame
                    }
                },
            };
            if frame != step.backing() {
                self.report_stray(core, key, frame, step, *at);
            }
            let entry = (frame << 12) | (index(page, level) as u64 * 8);
            *at += self.read_entry(core, entry, *at);
            match self.os.says(frame, index(page, level)) {
                Says::Table(leads) if level + 1 < depth => {
                    let held = Cached { entry, leads };
                    self.mmu[core].walk_insert(Dimension::Guest, level, vm, page, held);
                    table = leads;
                }
                Says::Page {
                    frame,
                    writable,
                    dirty,
                } if level + 1 == depth => {
                    let spn = match self.config.mode {
                        Mode::Native => frame,
                        Mode::Virtualized => {
                            self.follow_host(core, key, frame, key.is_large(), at)?.1
                        }
                    };
                    return Some(Mapping {
                        gpn: frame,
                        spn,
                        writable,
                        dirty,
                        ..*mapping
                    });
                }
                _ => return None,
            }
        }
        None
    }

    /// As [`Machine::follow_guest`], in the nested table: the leaf entry's address and the frame.
    fn follow_host(
        &mut self,
        core: usize,
        key: Key,
        gpn: u64,
        large: bool,
        at: &mut u64,
    ) -> Option<(u64, u64)> {
        let vm = key.vm();
        let (path, depth) = self.os.host_path(vm, gpn, large);
        let (first, leads) = self.mmu[core].walk_start(Dimension::Host, vm, gpn, depth);
        let mut table = if first > 0 { leads } else { path[0].frame };
        for (level, &step) in path.iter().enumerate().take(depth).skip(first) {
            if table != step.backing() {
                self.report_stray(core, key, table, step, *at);
            }
            let entry = (table << 12) | (index(gpn, level) as u64 * 8);
            *at += self.read_entry(core, entry, *at);
            match self.os.says(table, index(gpn, level)) {
                Says::Table(leads) if level + 1 < depth => {
                    let held = Cached { entry, leads };
                    self.mmu[core].walk_insert(Dimension::Host, level, vm, gpn, held);
                    table = leads;
                }
                Says::Page { frame, .. } if level + 1 == depth => return Some((entry, frame)),
                _ => return None,
            }
        }
        None
    }
}
