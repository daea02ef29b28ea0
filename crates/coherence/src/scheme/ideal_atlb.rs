// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ideal-atlb`: zero-time, exact coherence on a machine that has ATTC's addressable TLB, so that
//! the distance from it is ATTC's coherence cost alone.

use super::{Atlb, Runs, Scheme, Spec, atlb, ideal};
use crate::layout::Key;
use crate::machine::{Look, View, Walk};
use crate::os::{Mapping, Remap};

/// Updates in zero time, with an ATLB.
pub static IDEAL_ATLB: Spec = Spec {
    name: "ideal-atlb",
    help: "updates in zero time on a machine with ATTC's addressable TLB",
    runs: Runs::Anywhere,
    parameters: &[&atlb::KIB, &atlb::WAYS, &atlb::LARGE_KIB, &atlb::WARM],
    validate: atlb::validate,
    make: |config| Box::new(IdealAtlb(Atlb::new(config))),
};

#[derive(Debug)]
struct IdealAtlb(Atlb);

impl Scheme for IdealAtlb {
    fn forget(&mut self, key: Key) {
        self.0.remove(key);
    }

    fn warm(&mut self, _m: Look<'_>, mapping: &Mapping) {
        self.0.warm(mapping);
    }

    fn dirtied(&mut self, m: &mut View<'_>, core: usize, key: Key, now: u64) {
        self.0.dirtied(m, core, key, now);
    }

    fn miss(&mut self, m: &mut View<'_>, core: usize, key: Key, now: u64, _issued: u64) -> Walk {
        self.0.serve(m, core, key, now).walk
    }

    fn revoke(&mut self, m: &mut View<'_>, remap: &Remap, _core: usize, _now: u64) -> u64 {
        for change in &remap.changes {
            m.invalidate(change.key);
            self.0.remove(change.key);
        }
        ideal::drop_changed(m, remap);
        0
    }
}
