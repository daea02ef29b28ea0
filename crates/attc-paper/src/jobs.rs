// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The simulations of the paper's evaluation: which schemes run on which machines.
//!
//! Each is named by its scheme and by how its machine differs from the paper's, as in `attc@1000`.

use steady_coherence::compare::Job;
use steady_coherence::config::{MachineConfig, Mode};
use steady_coherence::scheme::atlb::WARM;
use steady_coherence::scheme::attc::{GUEST_UPDATE, HOST_UPDATE, invtbl};
use steady_coherence::scheme::{
    ATTC, HATRIC, IDEAL, IDEAL_ATLB, IPI, KVMTLB, POM_TLB, Spec, UNITD,
};

use crate::runs::job;

/// Figure 10: cycles of an update under ATTC.
const LATENCIES: [(&str, u32); 3] = [("1000", 1_000), ("2000", 2_000), ("5000", 5_000)];
/// Section 2.6: the larger inverse table; Table 2 has the smaller one.
const LARGE_INVTBL_KIB: u32 = 32 << 10;

fn variant(change: impl FnOnce(&mut MachineConfig)) -> MachineConfig {
    let mut machine = MachineConfig::default();
    change(&mut machine);
    machine
}

/// The paper's schemes on its machine, and the ideal with ATTC's ATLB.
pub(crate) fn main() -> Vec<Job> {
    let mut jobs = figure_8();
    jobs.push(job(&IDEAL_ATLB, "", &MachineConfig::default()));
    jobs
}

/// The schemes of Figure 8 on the paper's machine.
pub(crate) fn figure_8() -> Vec<Job> {
    let paper = MachineConfig::default();
    [&KVMTLB, &POM_TLB, &HATRIC, &ATTC, &IDEAL]
        .map(|scheme| job(scheme, "", &paper))
        .to_vec()
}

/// Those whose numbers hang less on shootdowns, or where a shootdown costs a third (native).
pub(crate) fn short() -> Vec<Job> {
    let mut jobs = guest("guest-0", 0);
    let dram = variant(|m| m.hybrid.enabled = false);
    let cold = variant(|m| m.schemes.set(&WARM, false));
    jobs.extend([&KVMTLB, &ATTC].map(|scheme| job(scheme, "dram", &dram)));
    jobs.push(job(&ATTC, "cold", &cold));
    jobs.extend(native(&[&IPI, &POM_TLB, &HATRIC, &ATTC, &IDEAL]));
    jobs
}

/// Those that the stated numbers are of.
pub(crate) fn stated() -> Vec<Job> {
    [main(), short()].concat()
}

/// Schemes on the paper's machine without virtualization.
fn native(schemes: &[&'static Spec]) -> Vec<Job> {
    let machine = variant(|m| m.mode = Mode::Native);
    let jobs = schemes.iter();
    jobs.map(|scheme| job(scheme, "native", &machine)).collect()
}

/// UNITD, which is native alone.
pub(crate) fn unitd() -> Vec<Job> {
    native(&[&UNITD])
}

/// Figure 10: ATTC with costlier updates.
pub(crate) fn latencies() -> Vec<Job> {
    let of = |(name, cycles): (&str, u32)| {
        let machine = variant(|m| {
            m.schemes.set(&HOST_UPDATE, cycles);
            m.schemes.set(&GUEST_UPDATE, cycles);
        });
        job(&ATTC, name, &machine)
    };
    LATENCIES.map(of).to_vec()
}

/// Figure 14: HATRIC and ATTC where the guest makes this share of the migrations.
pub(crate) fn guest(name: &str, percent: u32) -> Vec<Job> {
    let machine = variant(|m| m.hybrid.guest_percent = percent);
    [&HATRIC, &ATTC]
        .map(|scheme| job(scheme, name, &machine))
        .to_vec()
}

/// Section 2.6: ATTC with the larger inverse table.
pub(crate) fn large_invtbl() -> Vec<Job> {
    let machine = variant(|m| m.schemes.set(&invtbl::KIB, LARGE_INVTBL_KIB));
    vec![job(&ATTC, "invtbl-32", &machine)]
}
