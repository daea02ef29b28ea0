// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `ideal-atlb`: zero-time, exact coherence on a machine that has ATTC's addressable TLB, so that
//! the distance from it is ATTC's coherence cost alone.

use super::over_atlb::OverAtlb;
use super::{IDEAL, Runs, Spec, atlb};

/// Updates in zero time, with an ATLB.
pub static IDEAL_ATLB: Spec = Spec {
    name: "ideal-atlb",
    help: "updates in zero time on a machine with ATTC's addressable TLB",
    runs: Runs::Anywhere,
    parameters: &[&atlb::KIB, &atlb::WAYS, &atlb::LARGE_KIB, &atlb::WARM],
    validate: atlb::validate,
    make: |config| OverAtlb::boxed(config, &IDEAL, true),
};
