// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DiDi: a shared directory knows which TLBs hold a page, and invalidates them without interrupts.
//!
//! The directory includes all private TLBs: an entry it loses is dropped from them. The initiator
//! still waits (paper section 1), at the configured cost. Left out: the latency that the shared
//! second-level TLB adds to misses.

use super::{Runs, Scheme, Spec};
use crate::config::{Allowed, LONGEST_UPDATE, MachineConfig, Mode, Parameter, Value, sets};
use crate::cores::CoreSet;
use crate::layout::Key;
use crate::machine::{Fault, View};
use crate::num::ix;
use crate::os::Remap;
use crate::table::Table;

/// The initiator's cost.
pub static INITIATOR: Parameter = Parameter {
    key: "rivals.didi_initiator_cycles",
    default: Value::Number(12_700),
    allowed: Allowed::Range(0, LONGEST_UPDATE),
    help: "DiDi initiator: Table 2's native initiator without the victim's interrupt (16200 - \
           3500); the ATTC paper says that the wait remains.",
};
/// The directory's size.
pub static ENTRIES: Parameter = Parameter {
    key: "rivals.didi_directory_entries",
    default: Value::Number(32_768),
    allowed: Allowed::Range(16, 1 << 22),
    help: "Entries of DiDi's shared directory (16 ways).",
};

/// Shared TLB directory.
pub static DIDI: Spec = Spec {
    name: "didi",
    help: "shared TLB directory; native only",
    runs: Runs::Only(
        Mode::Native,
        "handles native systems only; set `mode = \"native\"` in the machine file",
    ),
    parameters: &[&INITIATOR, &ENTRIES],
    validate: |config| sets(ENTRIES.key, config.schemes.number(&ENTRIES).into(), 16),
    make: |config| Box::new(Didi::new(config)),
};

#[derive(Debug)]
struct Didi {
    directory: Table<CoreSet>,
    initiator_cycles: u64,
}

impl Didi {
    fn new(config: &MachineConfig) -> Self {
        let entries = config.schemes.number(&ENTRIES);
        Self {
            directory: Table::new((entries / 16) as usize, 16),
            initiator_cycles: config.schemes.number(&INITIATOR).into(),
        }
    }

    fn set(&self, key: Key) -> usize {
        ix(key.page() & (self.directory.sets() as u64 - 1))
    }

    /// Messages every holder of a page.
    fn drop_from(m: &mut View<'_>, holders: CoreSet, key: Key, revoked: bool) {
        for core in holders.iter() {
            m.message_core(core, key, revoked);
        }
    }
}

impl Scheme for Didi {
    fn filled(&mut self, m: &mut View<'_>, core: usize, key: Key) {
        let set = self.set(key);
        if let Some(slot) = self.directory.find(set, key.raw()) {
            self.directory.value_mut(slot).insert(core);
        } else if let Some((old, holders)) =
            self.directory.insert(set, key.raw(), CoreSet::of(core))
            && !m.look().has(Fault::DirectoryForgets)
        {
            Self::drop_from(m, holders, Key::from_raw(old), false);
        }
    }

    fn revoke(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, _now: u64) -> u64 {
        let mut others = false;
        for change in &remap.changes {
            let set = self.set(change.key);
            if let Some(slot) = self.directory.find(set, change.key.raw()) {
                let holders = *self.directory.value(slot);
                self.directory.remove(slot);
                others |= holders.iter().any(|holder| holder != core);
                Self::drop_from(m, holders, change.key, true);
            }
        }
        if !remap.tables.is_empty() {
            // The directory knows no walk caches, so that every core is asked.
            m.flush_walks(remap.vm);
            others = true;
        }
        if others { self.initiator_cycles } else { 0 }
    }
}
