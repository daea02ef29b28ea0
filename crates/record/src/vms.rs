// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The VMs that run on this host, as a recording notes them beside its trace.

use steady_diagnose::{VcpuNote, VmNote, VmNotes};
use steady_hostview::{Host, Limits, Vcpu, Vm};

/// All VMs, by process.
pub(crate) fn vms(host: &Host) -> VmNotes {
    let found = steady_hostview::vms(host).into_iter();
    VmNotes::new(found.map(|vm| note(host, vm)).collect())
}

fn note(host: &Host, vm: Vm) -> VmNote {
    let vcpus = vm.vcpus.iter();
    VmNote {
        vcpus: vcpus.map(|of| vcpu(host, vm.process, *of)).collect(),
        name: vm.name,
        process: vm.process,
        vmm: vm.program,
        cgroup: vm.group,
        threads: vm.threads,
    }
}

fn vcpu(host: &Host, process: i32, Vcpu { number, tid }: Vcpu) -> VcpuNote {
    let limits = Limits::of(host, process, tid);
    VcpuNote {
        number,
        tid,
        cpus: (!limits.allowed.is_empty()).then(|| limits.allowed.to_string()),
        cgroup: limits.group,
        cpu_max: limits.cpu_max,
        cpu_weight: limits.cpu_weight,
    }
}
