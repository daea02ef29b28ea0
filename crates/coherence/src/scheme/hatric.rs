// SPDX-License-Identifier: Apache-2.0 OR MIT
//! HATRIC: co-tags of 16 bits on TLB entries. It follows the nested table, or the guest's, and
//! changes to the other one are shot down by software.

use super::tagged::Tagged;
use super::{Runs, Spec};
use crate::config::{Allowed, Mode, Parameter, Value};
use crate::os::Agent;

/// The page table followed.
pub static TRACKS: Parameter = Parameter {
    key: "rivals.hatric_tracks",
    default: Value::Word("host"),
    allowed: Allowed::Words(&["host", "guest"]),
    help: "Which page table HATRIC's co-tags follow: the nested (host) one, as the paper's HATRIC, \
           or the guest's. It can follow one, not both.",
};

/// Bits of a co-tag (paper Table 1).
const TAG_BITS: u32 = 16;

/// Co-tags of one page table.
pub static HATRIC: Spec = Spec {
    name: "hatric",
    help: "co-tags of one page table; the other is shot down by software",
    runs: Runs::Anywhere,
    parameters: &[&TRACKS],
    validate: Spec::any_machine,
    make: |config| {
        let host = config.schemes.word(&TRACKS) == "host" && config.mode == Mode::Virtualized;
        let tracks = if host { Agent::Host } else { Agent::Guest };
        Box::new(Tagged::new(tracks, TAG_BITS, config))
    },
};
