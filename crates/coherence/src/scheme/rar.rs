// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `rar`: Intel's Remote Action Request: the initiator writes what to invalidate into a table in
//! memory, marks the cores of a mask, and sends them a request by their APICs. Each core's
//! microcode carries it out between two instructions and answers in memory; no software runs there.
//!
//! Our reading of public documents: Intel's white paper 341431 and the series for Linux of 2025,
//! which is not merged. The table has 64 entries; an update that needs more flushes everything.
//! Only cores that run the VM or process are asked. Guests cannot send it, so their updates are
//! those of `kvmtlb`; the hypervisor's are EPT invalidations. Left out: entries that other
//! initiators hold.

use std::collections::BTreeMap;

use super::ranges::ranges;
use super::{Runs, Scheme, Spec, software};
use crate::config::{Allowed, LONGEST_UPDATE, Mode, Parameter, Value};
use crate::machine::View;
use crate::os::{Agent, Remap};

/// The initiator's cost.
pub static INITIATOR: Parameter = Parameter {
    key: "rivals.rar_initiator_cycles",
    default: Value::Number(12_700),
    allowed: Allowed::Range(0, LONGEST_UPDATE),
    help: "RAR initiator: Table 2's native initiator without the victim's handler (16200 - 3500), \
           as the request goes by APICs and is waited for; Intel publishes none.",
};
/// Each victim's cost.
pub static VICTIM: Parameter = Parameter {
    key: "rivals.rar_victim_cycles",
    default: Value::Number(500),
    allowed: Allowed::Range(0, LONGEST_UPDATE),
    help: "RAR victim: its microcode between two instructions; assumed, as Intel publishes none.",
};
/// Entries of the table.
pub static ENTRIES: Parameter = Parameter {
    key: "rivals.rar_table_entries",
    default: Value::Number(64),
    allowed: Allowed::Range(1, 64),
    help: "Entries of RAR's table, each a run of up to 64 neighbouring pages (white paper 341431).",
};
/// Pages of one entry.
const PAGES: u64 = 64;

/// Remote Action Request.
pub static RAR: Spec = Spec {
    name: "rar",
    help: "Intel's Remote Action Request for native and host updates, our reading",
    runs: Runs::Anywhere,
    parameters: &[&INITIATOR, &VICTIM, &ENTRIES],
    validate: Spec::any_machine,
    make: |config| {
        let number = |parameter| u64::from(config.schemes.number(parameter));
        Box::new(Rar {
            initiator: number(&INITIATOR),
            victim: number(&VICTIM),
            entries: number(&ENTRIES),
            native: config.mode == Mode::Native,
            ipis: software::Costs::of_ipis(config),
            requests: 0,
        })
    },
};

#[derive(Debug)]
struct Rar {
    initiator: u64,
    victim: u64,
    entries: u64,
    native: bool,
    ipis: software::Costs,
    requests: u64,
}

impl Scheme for Rar {
    fn revoke(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, _now: u64) -> u64 {
        if remap.agent == Agent::Guest && !self.native {
            return self.ipis.shoot_down(m, remap, core);
        }
        let too_many = ranges(&remap.changes, PAGES) > self.entries;
        if remap.agent == Agent::Host || too_many || remap.changes.len() > self.ipis.ceiling {
            m.flush_vm(remap);
        } else {
            m.invalidate_each(remap);
        }
        self.requests += 1;
        if m.interrupt(core, remap, self.victim, self.ipis.victims) == 0 {
            return self.victim;
        }
        self.initiator
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::from([("requests", self.requests)])
    }
}
