// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exits that KVM answers in microseconds and that took far longer: the host itself was stopped in
//! them, by firmware, by a hypervisor below it, or by interrupts that are not recorded. What other
//! exits took is then not their own either.
//!
//! Left out: exits that may be long by themselves (memory, devices, WBINVD, nested guests).

use super::slow::LONG_NS;
use super::{Confidence, FEW};
use crate::model::{CauseId, ExitRow, Finding, FindingId};

/// How the names of exits begin that KVM answers at once, without a lock or another CPU
/// (`handle_cpuid`, `handle_cr` and others, `arch/x86/kvm`, Linux 6.12).
const SHORT: [&str; 14] = [
    "CPUID",
    "CR_ACCESS",
    "DR_ACCESS",
    "RDTSC",
    "RDPMC",
    "XSETBV",
    "INTERRUPT_WINDOW",
    "PENDING_INTERRUPT",
    "cpuid",
    "read_cr",
    "write_cr",
    "rdpmc",
    "xsetbv",
    "vintr",
];

/// Whether most exits of a row took far longer than KVM does for them.
pub fn is_stopped(row: &ExitRow) -> bool {
    let mean_ns = row.own_ns.checked_div(row.time_ns.count).unwrap_or(0);
    let often = row.time_ns.count >= FEW;
    let short = SHORT.iter().any(|begin| row.name.starts_with(begin));
    short && often && mean_ns >= LONG_NS && row.time_ns.p50 >= LONG_NS / 2
}

/// Where the host was stopped in exits, it may have been in all of them.
pub fn doubt(findings: &mut [Finding]) {
    let stopped = |of: &&Finding| of.cause == CauseId::HostStopped;
    let vms: Vec<Option<String>> = findings
        .iter()
        .filter(stopped)
        .map(|of| of.vm.clone())
        .collect();
    for finding in findings.iter_mut() {
        if finding.id == FindingId::SlowExits && vms.contains(&finding.vm) {
            finding.confidence = finding.confidence.min(Confidence::Medium);
        }
    }
}
