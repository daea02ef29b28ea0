// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The coherence schemes: a file each, and this list. `docs/ARCHITECTURE.md` says how to add one.
//!
//! `atlb`, `over_atlb`, `software` and `tagged` are what several schemes are made of.

pub mod atlb;
pub mod attc;
pub mod didi;
pub mod hatric;
pub mod ideal;
pub mod ideal_atlb;
mod interface;
pub mod invlpgb;
pub mod invlpgb_atlb;
pub mod ipi;
pub mod kvmtlb;
pub mod latr;
mod over_atlb;
pub mod pom_tlb;
mod ranges;
pub mod rar;
mod registry;
pub mod rights;
pub mod shoot4u;
pub mod site;
mod software;
mod tagged;
#[cfg(test)]
mod tests;
pub mod unitd;

pub use atlb::{Atlb, set_address, set_index};
pub use attc::ATTC;
pub use didi::DIDI;
pub use hatric::HATRIC;
pub use ideal::IDEAL;
pub use ideal_atlb::IDEAL_ATLB;
pub use interface::{Runs, Scheme, Spec, Sweep};
pub use invlpgb::INVLPGB;
pub use invlpgb_atlb::INVLPGB_ATLB;
pub use ipi::IPI;
pub use kvmtlb::KVMTLB;
pub use latr::LATR;
pub use pom_tlb::POM_TLB;
pub use rar::RAR;
pub use registry::Registry;
pub use shoot4u::SHOOT4U;
pub use site::SITE;
pub use unitd::UNITD;

/// Every scheme: software first, then hardware, then the bounds.
static SHIPPED: &[&Spec] = &[
    &IPI,
    &KVMTLB,
    &SHOOT4U,
    &LATR,
    &INVLPGB,
    &RAR,
    &UNITD,
    &HATRIC,
    &DIDI,
    &SITE,
    &ATTC,
    &POM_TLB,
    &INVLPGB_ATLB,
    &IDEAL,
    &IDEAL_ATLB,
];
