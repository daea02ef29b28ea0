// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What one vCPU of several loses though its VM as a whole is below the bounds: half the time of
//! one of 64 vCPUs is 0.8 % of their VM's, and the guest waits for that one at each lock and IPI.
//!
//! Left out: what the VM has a finding about, and single stalls, which are findings of their own.

use std::collections::BTreeMap;

use super::{Context, held, many, slow, stalls, steal};
use crate::build::STALL_NS;
use crate::model::{Evidence, EvidenceId, Finding, FindingId, Severity, TraceDiagnosis, VmTable};

/// From this share of its own time on, in thousandths, one vCPU is worth a finding: it is what is
/// severe for a VM of one vCPU.
const SHARE: u64 = 100;

/// Findings about single vCPUs, each given as a VM of its own.
pub fn alone(
    at: usize,
    trace: &TraceDiagnosis,
    vcpus: impl Iterator<Item = VmTable>,
    knobs: &BTreeMap<String, String>,
) -> Vec<Finding> {
    let mut all = Vec::new();
    for vm in vcpus {
        assert_eq!(vm.vcpus.len(), 1, "one vCPU");
        let context = Context {
            at,
            trace,
            vm: &vm,
            knobs,
        };
        let one = [
            steal::steal(&context),
            held::asleep(&context),
            slow::uninterruptible(&context),
            many::reasons(&context),
        ];
        let found = one.into_iter().flatten().chain(slow::exits(&context));
        all.extend(found.filter(is_felt).map(|finding| Finding {
            vcpu: Some(vm.vcpus[0].number),
            severity: Severity::Major,
            ..finding
        }));
    }
    all
}

/// Whether it is much of the vCPU's time, as long in all as a stall that is felt, and not one such
/// stall.
fn is_felt(finding: &Finding) -> bool {
    let longest_ns = finding.worst.as_ref().map_or(0, |worst| worst.length_ns);
    let one = longest_ns >= STALL_NS && longest_ns >= finding.lost_ns / 2;
    finding.lost_permille >= SHARE && finding.lost_ns >= STALL_NS && !one
}

/// Adds, of each VM, kind and exit reason, the vCPU that loses most, where the findings have
/// nothing of that about the VM.
pub fn add(trace: &TraceDiagnosis, findings: &mut Vec<Finding>, alone: &[Finding]) {
    type Key<'a> = (Option<&'a String>, FindingId, Option<&'a String>);
    let mut by: BTreeMap<Key<'_>, Vec<&Finding>> = BTreeMap::new();
    let silent = |finding: &&Finding| {
        let worst = finding.worst.as_ref();
        worst.is_none_or(|worst| !stalls::in_silence(trace, worst))
    };
    for finding in alone.iter().filter(silent) {
        let key = (finding.vm.as_ref(), finding.id, finding.of.as_ref());
        by.entry(key).or_default().push(finding);
    }
    let mut added = Vec::new();
    for ((vm, id, of), same) in by {
        let is_told = findings.iter().any(|finding| {
            let of_host = finding.id == FindingId::HostOvercommitted && id == FindingId::Steal;
            let of_vm = finding.vm.as_ref() == vm && finding.id == id;
            of_host || (of_vm && (finding.of.as_ref() == of || finding.of.is_none()))
        });
        let worst = same
            .iter()
            .max_by_key(|finding| (finding.lost_ns, finding.vcpu));
        let Some(worst) = worst.filter(|_| !is_told) else {
            continue;
        };
        let more = u64::try_from(same.len() - 1).unwrap_or(u64::MAX);
        let vcpus = trace
            .vms
            .iter()
            .filter(|vm| Some(&vm.name) == worst.vm.as_ref());
        let vcpus: usize = vcpus.map(|vm| vm.vcpus.len()).sum();
        let mut finding = (*worst).clone();
        finding.evidence.push(
            Evidence::new(EvidenceId::OneVcpu)
                .number("vcpu", worst.vcpu.unwrap_or(0).into())
                .count("vcpus", u64::try_from(vcpus).unwrap_or(u64::MAX))
                .count("more", more),
        );
        added.push(finding);
    }
    findings.extend(added);
}
