// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ATTC with the inverse table as the paper's text has it, built on the simulator's own tables.
//!
//! The simulator has the corrected rule alone, and a rule for walk caches, of which the text has
//! none; this is what it would be without. Left out: cycles, whole flushes, large pages.

use std::collections::BTreeMap;
use steady_coherence::config::MachineConfig;
use steady_coherence::layout::Key;
use steady_coherence::os::{Agent, Remap};
use steady_coherence::scheme::attc::{Invtbl, Pointer};
use steady_coherence::scheme::{Atlb, Runs, set_index};
use steady_coherence::{Message, Scheme, Spec, View, Walk};

/// The readings by the names that the model has for them.
pub static POINTER: Spec = spec("paper-pointer", |config| make(config, Reading::Pointer));
pub static EVICTION: Spec = spec("paper-eviction", |config| make(config, Reading::Eviction));
pub static PRECISE: Spec = spec("paper-precise", |config| make(config, Reading::Precise));
pub static GUEST_TABLE: Spec = spec("paper-guest-table", |config| {
    make(config, Reading::GuestTable)
});
pub static TABLE_FRAME: Spec = spec("paper-table-frame", |config| {
    make(config, Reading::TableFrame)
});
pub static NESTED_TABLE: Spec = spec("paper-nested-table", |config| {
    make(config, Reading::NestedTable)
});
/// What they are without their gap.
pub static CORRECTED: Spec = spec("corrected", |config| make(config, Reading::Corrected));

const fn spec(name: &'static str, make: fn(&MachineConfig) -> Box<dyn Scheme>) -> Spec {
    Spec {
        name,
        help: "ATTC as the paper's text has it",
        runs: Runs::Anywhere,
        // Those of its tables, which the shipped schemes declare.
        parameters: &[],
        validate: Spec::any_machine,
        make,
    }
}

fn make(config: &MachineConfig, reading: Reading) -> Box<dyn Scheme> {
    Box::new(Literal {
        atlb: Atlb::new(config),
        invtbl: Invtbl::new(config),
        reading,
    })
}

/// What is taken literally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// Only valid ATLB entries have pointers (section 2.3.2): both go together.
    Pointer,
    /// A displaced pointer evicts the ATLB entry it points to (2.3.2), if there is one.
    Eviction,
    /// The host invalidates the entries that map to the old frame (2.4.2), where there are any.
    Precise,
    /// A guest writes the sets of the pages whose translations change (5): none, if it moves a
    /// table.
    GuestTable,
    /// Pointers lead to the sets of guest-virtual pages (2.3.2), so that a table page has none.
    TableFrame,
    /// The host writes the sets of the pages whose translations change (5): none, as above.
    NestedTable,
    /// Nothing: a pointer stays until its set has been written, and table pages have walk lines.
    Corrected,
}

/// The scheme.
#[derive(Debug)]
struct Literal {
    atlb: Atlb,
    invtbl: Invtbl,
    reading: Reading,
}

impl Literal {
    fn pointer(&self, key: Key) -> Pointer {
        assert!(!key.is_large(), "small pages only");
        Pointer {
            set: self.atlb.index(key),
            large: false,
        }
    }

    /// A pointer to the walk line of a VM.
    fn walk_line(&self, vm: u16) -> Pointer {
        Pointer {
            set: self.atlb.sets(false) + u64::from(vm),
            large: false,
        }
    }

    /// Writes the set that a pointer leads to, or sends the message of the walk line.
    fn follow(&mut self, m: &mut View<'_>, pointer: Pointer, doomed: impl Fn(Key, u64) -> bool) {
        match pointer.set.checked_sub(self.atlb.sets(false)) {
            Some(vm) => {
                m.message_walks(u16::try_from(vm).expect("a VM"));
            }
            None => self.write_set(m, pointer.set, doomed),
        }
    }

    fn update_tables(&mut self, m: &mut View<'_>, remap: &Remap) {
        for table in &remap.tables {
            let untold = match remap.agent {
                Agent::Guest => Reading::GuestTable,
                Agent::Host => Reading::NestedTable,
            };
            if table.behind {
                for pointer in self.invtbl.take(table.left, false) {
                    self.follow(m, pointer, |_, _| false);
                }
            } else if self.reading != untold {
                m.message_walks(remap.vm);
            }
        }
    }

    fn entries_of(&self, set: u64) -> BTreeMap<Key, u64> {
        self.atlb
            .entries()
            .filter(|&(key, _)| self.atlb.index(key) == set)
            .collect()
    }

    /// Takes one pointer of a frame away.
    fn unpoint(&mut self, spn: u64, gone: Pointer) {
        for pointer in self.invtbl.take(spn, false) {
            if pointer != gone {
                self.invtbl.insert(spn, pointer);
            }
        }
    }

    /// Rewrites a set without the doomed entries, and sends its address to every core.
    fn write_set(&mut self, m: &mut View<'_>, set: u64, doomed: impl Fn(Key, u64) -> bool) {
        self.atlb.clear_set(set, false, doomed);
        let sets = self.atlb.sets(false);
        m.message(&Message {
            page_bits: set,
            large: false,
            names: |key: Key| set_index(key.page(), key.vm_id(), sets) == set,
            revoked: &[],
        });
    }

    fn holds_frame(&self, set: u64, spn: u64) -> bool {
        self.entries_of(set).values().any(|&held| held == spn)
    }
}

impl Scheme for Literal {
    fn miss(&mut self, m: &mut View<'_>, core: usize, key: Key, now: u64, _issued: u64) -> Walk {
        let pointer = self.pointer(key);
        let before = self.entries_of(pointer.set);
        let served = self.atlb.serve(m, core, key, now);
        if !served.inserted {
            return served.walk;
        }
        let after = self.entries_of(pointer.set);
        for (displaced, spn) in before {
            if self.reading == Reading::Pointer && !after.contains_key(&displaced) {
                self.unpoint(spn, pointer);
            }
        }
        let mut pointers = vec![(served.walk.entry.spn, pointer)];
        if self.reading != Reading::TableFrame {
            let filled = m.take_nested_filled();
            let line = self.walk_line(key.vm());
            pointers.splice(0..0, filled.into_iter().map(|table| (table, line)));
        }
        for (frame, pointer) in pointers {
            if let Some((spn, old)) = self.invtbl.insert(frame, pointer)
                && (self.reading != Reading::Eviction || self.holds_frame(old.set, spn))
            {
                self.follow(m, old, |_, held| held == spn);
            }
        }
        served.walk
    }

    fn revoke(&mut self, m: &mut View<'_>, remap: &Remap, _core: usize, _now: u64) -> u64 {
        self.update_tables(m, remap);
        for change in &remap.changes {
            if remap.agent == Agent::Guest {
                let set = self.pointer(change.key).set;
                self.write_set(m, set, |key, _| key.vm() == remap.vm);
                continue;
            }
            let spn = change.old_spn;
            for pointer in self.invtbl.take(spn, false) {
                if self.reading != Reading::Precise || self.holds_frame(pointer.set, spn) {
                    self.follow(m, pointer, |_, held| held == spn);
                }
            }
        }
        0
    }
}
