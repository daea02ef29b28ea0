// SPDX-License-Identifier: Apache-2.0 OR MIT
//! UNITD: TLB entries with the address of their page-table entry, in 32 bits, inside the coherence
//! protocol. Native only.

use super::tagged::Tagged;
use super::{Runs, Spec};
use crate::config::Mode;
use crate::os::Agent;

/// Bits of a tag (paper Table 1).
const TAG_BITS: u32 = 32;

/// Tagged TLBs.
pub static UNITD: Spec = Spec {
    name: "unitd",
    help: "tagged TLBs in the coherence protocol; native only",
    runs: Runs::Only(
        Mode::Native,
        "handles native systems only; set `mode = \"native\"` in the machine file",
    ),
    parameters: &[],
    validate: Spec::any_machine,
    make: |config| Box::new(Tagged::new(Agent::Guest, TAG_BITS, config)),
};
