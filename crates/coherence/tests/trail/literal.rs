// SPDX-License-Identifier: Apache-2.0 OR MIT
//! ATTC with the inverse table as the paper's text has it, built on the simulator's own tables.
//!
//! The simulator has the corrected rule alone; this is what it would be without. Left out: cycles,
//! whole flushes, large pages.

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
    /// Nothing: a pointer stays until its set has been written.
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
        if let Some((spn, old)) = self.invtbl.insert(served.walk.entry.spn, pointer)
            && (self.reading != Reading::Eviction || self.holds_frame(old.set, spn))
        {
            self.write_set(m, old.set, |_, held| held == spn);
        }
        served.walk
    }

    fn revoke(&mut self, m: &mut View<'_>, remap: &Remap, _core: usize, _now: u64) -> u64 {
        for change in &remap.changes {
            if remap.agent == Agent::Guest {
                let set = self.pointer(change.key).set;
                self.write_set(m, set, |key, _| key.vm() == remap.vm);
                continue;
            }
            let spn = change.old_spn;
            for pointer in self.invtbl.take(spn, false) {
                if self.reading != Reading::Precise || self.holds_frame(pointer.set, spn) {
                    self.write_set(m, pointer.set, |_, held| held == spn);
                }
            }
        }
        0
    }
}
