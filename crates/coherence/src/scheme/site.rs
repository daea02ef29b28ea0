// SPDX-License-Identifier: Apache-2.0 OR MIT
//! SITE: TLB entries carry a lease and void themselves when it ends.
//!
//! A migration is put off until the last lease handed out for its pages has ended, and no lease
//! reaches beyond a migration already planned. A program's own update cannot wait in the
//! background: its initiator waits for the leases, or sends IPIs where that is shorter.

use super::{Runs, Scheme, Spec, software};
use crate::config::{Allowed, MachineConfig, Mode, Parameter, Value};
use crate::layout::{Key, PageMap};
use crate::machine::{Fault, View, Walk};
use crate::os::{Cause, Remap};

/// Life of an entry.
pub static LEASE: Parameter = Parameter {
    key: "rivals.site_lease_us",
    default: Value::Number(100),
    allowed: Allowed::Range(1, 10_000_000),
    help: "Life of a SITE entry, microseconds.",
};

/// Entries that expire.
pub static SITE: Spec = Spec {
    name: "site",
    help: "entries that expire; native only",
    runs: Runs::Only(
        Mode::Native,
        "handles native systems only; set `mode = \"native\"` in the machine file",
    ),
    parameters: &[&LEASE],
    validate: Spec::any_machine,
    make: |config| Box::new(Site::new(config)),
};

#[derive(Debug)]
struct Site {
    lease: u64,
    costs: software::Costs,
    /// Last cycle of the leases handed out, by page.
    leased_until: PageMap<u64>,
    /// Leases of a page end here at the latest, since it will migrate then.
    planned: PageMap<u64>,
}

impl Site {
    fn new(config: &MachineConfig) -> Self {
        Self {
            lease: config.cycles(config.schemes.number(&LEASE)),
            costs: software::Costs::of_ipis(config),
            leased_until: PageMap::default(),
            planned: PageMap::default(),
        }
    }
}

impl Scheme for Site {
    fn miss(&mut self, m: &mut View<'_>, core: usize, key: Key, now: u64, issued: u64) -> Walk {
        let mut walk = m.walk(core, key, now).0;
        let mut end = issued + self.lease;
        if let Some(&planned) = self.planned.get(&key.raw()) {
            // A core behind the one that carried the migration out may still be before it.
            if planned > issued {
                end = end.min(planned);
            }
        }
        walk.entry.expires = end;
        if !m.look().has(Fault::LeaseLost) {
            let until = self.leased_until.entry(key.raw()).or_insert(0);
            *until = end.max(*until);
        }
        walk
    }

    fn ready_at(&mut self, remap: &Remap, _core: usize, now: u64) -> u64 {
        let leases = remap.changes.iter().map(|change| change.key.raw());
        let end = leases
            .filter_map(|key| self.leased_until.get(&key).copied())
            .fold(now, u64::max);
        if remap.cause == Cause::Migration {
            for change in &remap.changes {
                self.planned.insert(change.key.raw(), end);
            }
            return end;
        }
        if end - now <= self.costs.initiator {
            end
        } else {
            now
        }
    }

    fn revoke(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, now: u64) -> u64 {
        // Walk caches have no leases.
        let mut leased = !remap.tables.is_empty();
        for change in &remap.changes {
            let until = self.leased_until.remove(&change.key.raw());
            leased |= until.is_some_and(|until| until > now);
            self.planned.remove(&change.key.raw());
        }
        if leased {
            return self.costs.shoot_down(m, remap, core);
        }
        0
    }

    fn expires(&self) -> bool {
        true
    }
}
