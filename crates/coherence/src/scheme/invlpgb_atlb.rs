// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `invlpgb-atlb`: INVLPGB on a machine that has ATTC's addressable TLB, so that the distance from
//! it to ATTC is that of how they keep TLBs coherent: waits, ceilings and filters.
//!
//! No paper proposes it. Entries of the table go with an update at no cost, as POM-TLB's do.

use super::over_atlb::OverAtlb;
use super::pom_tlb::PRECISE;
use super::{INVLPGB, Runs, Spec, atlb, invlpgb};

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
    make: |config| OverAtlb::boxed(config, &INVLPGB, config.schemes.flag(&PRECISE)),
};
