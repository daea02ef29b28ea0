// SPDX-License-Identifier: Apache-2.0 OR MIT
//! POM-TLB: a large addressable TLB in DRAM, coherent by software shootdowns as in `kvmtlb`.

use super::over_atlb::OverAtlb;
use super::{KVMTLB, Runs, Spec, atlb};
use crate::config::{Allowed, Parameter, Value};

/// Whether a host's update drops one entry.
pub static PRECISE: Parameter = Parameter {
    key: "rivals.pom_precise",
    default: Value::Flag(true),
    allowed: Allowed::Flag,
    help: "POM-TLB on a host update: true invalidates the one entry, as if the hypervisor knew its \
           guest-virtual address; false flushes the VM's entries, since it does not.",
};

/// Addressable TLB, software coherence.
pub static POM_TLB: Spec = Spec {
    name: "pom-tlb",
    help: "addressable TLB, software coherence",
    runs: Runs::Anywhere,
    parameters: &[
        &atlb::KIB,
        &atlb::WAYS,
        &atlb::LARGE_KIB,
        &atlb::WARM,
        &PRECISE,
    ],
    validate: atlb::validate,
    make: |config| OverAtlb::boxed(config, &KVMTLB, config.schemes.flag(&PRECISE)),
};
