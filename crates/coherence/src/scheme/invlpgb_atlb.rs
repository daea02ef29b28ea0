// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `invlpgb-atlb`: INVLPGB on a machine that has ATTC's addressable TLB, so that the distance from
//! it to ATTC is that of their coherence alone.
//!
//! No paper proposes it. Entries of the table go with an update at no cost, as POM-TLB's do.

use std::collections::BTreeMap;

use super::invlpgb::{self, Invlpgb};
use super::pom_tlb::PRECISE;
use super::{Atlb, Runs, Scheme, Spec, atlb};
use crate::config::MachineConfig;
use crate::layout::Key;
use crate::machine::{Look, View, Walk};
use crate::os::{Agent, Mapping, Remap};

/// Broadcast invalidation, with an ATLB.
pub static INVLPGB_ATLB: Spec = Spec {
    name: "invlpgb-atlb",
    help: "INVLPGB on a machine with ATTC's addressable TLB, to compare",
    runs: Runs::Anywhere,
    parameters: &[
        &atlb::KIB,
        &atlb::WAYS,
        &atlb::LARGE_KIB,
        &atlb::WARM,
        &PRECISE,
        &invlpgb::ISSUE,
        &invlpgb::SYNC,
        &invlpgb::PAGES,
        &invlpgb::IN_GUESTS,
    ],
    validate: atlb::validate,
    make: |config| Box::new(InvlpgbAtlb::new(config)),
};

#[derive(Debug)]
struct InvlpgbAtlb {
    atlb: Atlb,
    precise: bool,
    broadcast: Invlpgb,
}

impl InvlpgbAtlb {
    fn new(config: &MachineConfig) -> Self {
        Self {
            atlb: Atlb::new(config),
            precise: config.schemes.flag(&PRECISE),
            broadcast: Invlpgb::new(config),
        }
    }
}

impl Scheme for InvlpgbAtlb {
    fn forget(&mut self, key: Key) {
        self.atlb.remove(key);
    }

    fn warm(&mut self, _m: Look<'_>, mapping: &Mapping) {
        self.atlb.warm(mapping);
    }

    fn dirtied(&mut self, m: &mut View<'_>, core: usize, key: Key, now: u64) {
        self.atlb.dirtied(m, core, key, now);
    }

    fn miss(&mut self, m: &mut View<'_>, core: usize, key: Key, now: u64, _issued: u64) -> Walk {
        self.atlb.serve(m, core, key, now).walk
    }

    fn revoke(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, now: u64) -> u64 {
        self.atlb
            .revoke(remap, remap.agent == Agent::Host && !self.precise);
        self.broadcast.revoke(m, remap, core, now)
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.broadcast.counts()
    }
}
