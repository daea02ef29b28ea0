// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The VMs that run on this host, as a recording notes them beside its trace.

use steady_diagnose::{VcpuNote, VmNote, VmNotes};
use steady_hostview::{Host, Vcpu, Vm};

/// All VMs, by process.
pub(crate) fn vms(host: &Host) -> VmNotes {
    let found = steady_hostview::vms(host);
    VmNotes::new(found.into_iter().map(note).collect())
}

fn note(vm: Vm) -> VmNote {
    VmNote {
        name: vm.name,
        process: vm.process,
        vmm: vm.program,
        cgroup: vm.group,
        threads: vm.threads,
        vcpus: vm.vcpus.into_iter().map(vcpu).collect(),
    }
}

fn vcpu(vcpu: Vcpu) -> VcpuNote {
    let cpus = (!vcpu.allowed.is_empty()).then(|| vcpu.allowed.to_string());
    VcpuNote {
        number: vcpu.number,
        tid: vcpu.tid,
        cpus,
        cgroup: vcpu.group,
        cpu_max: vcpu.cpu_max,
        cpu_weight: vcpu.cpu_weight,
    }
}
