// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shoot4U: the host invalidates for the guest. A host's own update is shot down as in `kvmtlb`.

use super::{Runs, Scheme, Spec, software};
use crate::config::{Allowed, LONGEST_UPDATE, Mode, Parameter, Value};
use crate::machine::View;
use crate::os::{Agent, Remap};

/// The initiator's cost.
pub static INITIATOR: Parameter = Parameter {
    key: "rivals.shoot4u_initiator_cycles",
    default: Value::Number(11_016),
    allowed: Allowed::Range(0, LONGEST_UPDATE),
    help: "Shoot4U initiator: Table 2's virtualized initiator times 28/122, the ratio of mean \
           latencies of Shoot4U and kvmtlb in one VM (Shoot4U paper, Table 1).",
};
/// Each victim's cost.
pub static VICTIM: Parameter = Parameter {
    key: "rivals.shoot4u_victim_cycles",
    default: Value::Number(3_500),
    allowed: Allowed::Range(0, LONGEST_UPDATE),
    help: "Shoot4U victim: the host's handler, so Table 2's native victim.",
};

/// The host invalidates for the guest.
pub static SHOOT4U: Spec = Spec {
    name: "shoot4u",
    help: "the host invalidates for the guest",
    runs: Runs::Only(
        Mode::Virtualized,
        "asks a hypervisor; set `mode = \"virtualized\"` in the machine file",
    ),
    parameters: &[&INITIATOR, &VICTIM],
    validate: Spec::any_machine,
    make: |config| {
        let host = software::Costs::of_ipis(config);
        let guest = software::Costs {
            initiator: config.schemes.number(&INITIATOR).into(),
            victim: config.schemes.number(&VICTIM).into(),
            ..host
        };
        Box::new(Shoot4u { guest, host })
    },
};

#[derive(Debug)]
struct Shoot4u {
    guest: software::Costs,
    host: software::Costs,
}

impl Scheme for Shoot4u {
    fn revoke(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, _now: u64) -> u64 {
        match remap.agent {
            Agent::Guest => self.guest.shoot_down(m, remap, core),
            Agent::Host => self.host.shoot_down(m, remap, core),
        }
    }
}
