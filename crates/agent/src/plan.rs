// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The plan of one variant: what the emulated host has to run and to measure.
//!
//! The lab writes it as `/plan.json` into the host's initramfs. It is already resolved: no
//! defaults, no names of remedies, only what the host's init has to do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Where the host's init finds its plan.
pub const PLAN_PATH: &str = "/plan.json";

/// The program that runs a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Vmm {
    /// `steady-vmm`, of this project.
    Steady,
    /// The distribution's `qemu-system-x86_64`, machine `microvm`.
    Qemu,
}

/// What a guest takes its hypervisor for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shown {
    /// KVM.
    #[default]
    Kvm,
    /// Hyper-V; only with the VMM `steady`.
    HyperV,
}

impl Shown {
    /// Whether it is what a guest under KVM expects.
    #[must_use]
    pub fn is_kvm(&self) -> bool {
        *self == Self::Kvm
    }
}

/// How the vCPU threads of a VM are grouped for the host's scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grouping {
    /// One cgroup per VM.
    Vm,
    /// One cgroup per VM, and inside it one per vCPU, as libvirt makes them.
    Vcpu,
    /// No cgroup of its own.
    None,
}

/// Knobs of the host's scheduler; what is not given stays as the kernel has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduler {
    /// Words for debugfs's `sched/features`.
    pub features: Vec<String>,
    /// Debugfs's `sched/base_slice_ns`.
    pub base_slice_ns: Option<u32>,
    /// The slice that vCPU threads ask for, in nanoseconds.
    pub vcpu_slice_ns: Option<u32>,
    /// Whether vCPU threads are of `SCHED_BATCH` rather than `SCHED_OTHER`.
    pub vcpu_batch: bool,
}

impl Scheduler {
    /// Whether no knob is turned.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        *self == Self::default()
    }
}

/// One run of one variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPlan {
    /// The program that runs the VMs.
    pub vmm: Vmm,
    /// The VMs, in the order of the scenario.
    pub vms: Vec<VmPlan>,
    /// Programs that the host itself runs, one after another, before the first VM.
    pub programs: Vec<WorkloadPlan>,
    /// Commands that the host runs beside its VMs, all at once, until the measured ones are done.
    /// Left out of the JSON where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<WorkloadPlan>,
    /// The object of a BPF scheduler, as a path in the host, that is loaded before the first VM
    /// starts and must schedule the host to the end. Left out of the JSON where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bpf: Option<String>,
    /// Knobs of the scheduler, turned when the VMs are up. Left out of the JSON where none is.
    #[serde(default, skip_serializing_if = "Scheduler::is_untouched")]
    pub scheduler: Scheduler,
    /// What is counted in the host during each workload.
    pub collect: Collect,
    /// Events to record with trace-cmd, if a trace is wanted.
    pub trace: Option<TracePlan>,
    /// Bound on the whole run by the host's clock, in milliseconds.
    pub time_limit_ms: u64,
}

impl HostPlan {
    /// Whether a host can do what the plan asks for. The lab asserts it of each plan that it
    /// writes, and the host's init refuses any other.
    ///
    /// # Errors
    /// The first contradiction, in words.
    pub fn check(&self) -> Result<(), String> {
        for (at, vm) in self.vms.iter().enumerate() {
            if self.vms[..at].iter().any(|other| other.name == vm.name) {
                return Err(format!("two VMs are named {:?}", vm.name));
            }
            vm.check(self.vmm)
                .map_err(|what| format!("VM {:?}: {what}", vm.name))?;
        }
        let of_vms = self
            .vms
            .iter()
            .flat_map(|vm| vm.workloads.iter().chain(&vm.beside));
        for workload in of_vms.chain(&self.programs).chain(&self.beside) {
            if workload.argv.is_empty() || workload.setup.iter().any(Vec::is_empty) {
                return Err(format!("{:?} has an empty command", workload.program));
            }
        }
        Ok(())
    }
}

/// One VM of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmPlan {
    /// Name of the VM.
    pub name: String,
    /// Number of vCPUs.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// pCPU of each vCPU, if they are pinned.
    pub pin: Option<Vec<u32>>,
    /// Weight in cgroup v2's `cpu.weight`, 1 to 10000.
    pub cpu_weight: u32,
    /// Grouping of the vCPU threads.
    pub cgroup: Grouping,
    /// Quota and period of `cpu.max` in microseconds, of the VM's group or of each vCPU's, if
    /// there is a limit; left out of the JSON where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_max_us: Option<(u32, u32)>,
    /// Size of the virtio disk in MiB, if there is one.
    pub disk_mib: Option<u32>,
    /// Path of the guest's kernel in the host, where it is not the host's own kernel. Left out of
    /// the JSON where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Words added to the guest kernel's command line.
    pub cmdline: String,
    /// How long the host waits before it starts the VM, in microseconds: a draw of the run's seed.
    pub start_delay_us: u32,
    /// Whether its workload runs until the measured VMs are done.
    pub background: bool,
    /// What its guest takes its hypervisor for. Left out of the JSON where it is KVM.
    #[serde(default, skip_serializing_if = "Shown::is_kvm")]
    pub shown: Shown,
    /// Whether its guest is shown MWAIT, which KVM does not name; only with the VMM `steady`. Left
    /// out of the JSON where it is not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mwait: bool,
    /// Whether its vCPUs halt without leaving the guest; only with the VMM `steady`. Left out of
    /// the JSON where they do not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub halts: bool,
    /// KVM PV features by their name in the VMM, and whether the guest is offered them.
    pub pv: BTreeMap<String, bool>,
    /// Bits of EAX in CPUID leaf 0x40000001 that the guest is not shown, 0 to 31; only with the
    /// VMM `steady`. Left out of the JSON where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden_features: Vec<u32>,
    /// Commands that its guest runs beside its workloads, all at once, while it is up; the
    /// workloads are in a control group of their own then. Left out of the JSON where there are
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<WorkloadPlan>,
    /// Channels to other VMs; only with the VMM `steady`. Left out of the JSON where there are
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// Workloads, one after another.
    pub workloads: Vec<WorkloadPlan>,
}

/// One end of a channel between two VMs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Which channel; two ends have the same.
    pub number: u32,
    /// Which end.
    pub end: LinkEnd,
    /// The local socket: one that the guest makes, or one of a program of it.
    pub socket: String,
}

/// Which end of a channel a VM has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkEnd {
    /// Its programs connect to the socket.
    Reaches,
    /// A program of it listens at the socket.
    Serves,
}

impl Link {
    /// The names of its pipe inward and of that outward, as host and guest have them: at most 20
    /// bytes, the length of a disk's serial text.
    #[must_use]
    pub fn names(&self) -> [String; 2] {
        let name = |direction| format!("link-{}.{direction}", self.number);
        match self.end {
            LinkEnd::Reaches => [name("down"), name("up")],
            LinkEnd::Serves => [name("up"), name("down")],
        }
    }
}

impl VmPlan {
    fn check(&self, vmm: Vmm) -> Result<(), String> {
        if self.vcpus == 0 {
            return Err("it has no vCPU".to_owned());
        }
        let pins = self.pin.as_ref().map_or(0, Vec::len) as u64;
        if self.pin.is_some() && pins != u64::from(self.vcpus) {
            return Err(format!("{pins} pins for {} vCPUs", self.vcpus));
        }
        if !(1..=10_000).contains(&self.cpu_weight) {
            return Err(format!(
                "its weight {} is not in 1 to 10000",
                self.cpu_weight
            ));
        }
        if self
            .cpu_max_us
            .is_some_and(|(quota, period)| quota == 0 || period == 0)
        {
            return Err("a part of its cpu.max is 0".to_owned());
        }
        if let Some(bit) = self.hidden_features.iter().find(|&&bit| bit > 31) {
            return Err(format!("EAX has no bit {bit} to hide"));
        }
        let ours = self.mwait || self.halts || !self.shown.is_kvm() || !self.links.is_empty();
        if vmm != Vmm::Steady && ours {
            return Err("only the VMM `steady` has what it asks for".to_owned());
        }
        if self.workloads.is_empty() {
            return Err("it runs nothing".to_owned());
        }
        Ok(())
    }
}

/// One program that a guest runs, or the host itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadPlan {
    /// Name of the workload in the results.
    pub program: String,
    /// How long the host waits before it lets the workload begin, in microseconds, once the window
    /// before it has ended and its set-up is done: a draw of the run's seed.
    pub begin_delay_us: u32,
    /// Commands that run before the measured window.
    pub setup: Vec<Vec<String>>,
    /// The measured command.
    pub argv: Vec<String>,
    /// Its environment.
    pub env: BTreeMap<String, String>,
    /// The folder that it is started in, where that is not `/data`. Left out of the JSON where it
    /// is, as what follows where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Part of a line that it prints once it is ready: a background program has started then, and
    /// not before. Its limit bounds that wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// Bound by the clock of the machine that runs it, in milliseconds.
    pub time_limit_ms: u64,
}

/// What is counted in the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collect {
    /// VM exits by reason.
    pub exits: bool,
    /// Guest RIP at host interrupts: where guest time goes.
    pub guest_time: bool,
    /// KVM's own statistics.
    pub kvm_stats: bool,
    /// CPU time and run-queue wait of the vCPU threads.
    pub cpu_time: bool,
}

/// What trace-cmd records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TracePlan {
    /// Event systems or single events, as `trace-cmd record -e` takes them.
    pub events: Vec<String>,
    /// Probes to set before, as lines of tracefs's `kprobe_events`.
    pub probes: Vec<String>,
    /// Buffer of each pCPU, in KiB.
    pub buffer_kib: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> HostPlan {
        let json = r#"{
            "vmm": "steady", "programs": [], "trace": null, "time_limit_ms": 1000,
            "collect": {"exits": true, "guest_time": true, "kvm_stats": true, "cpu_time": true},
            "vms": [{
                "name": "vm1", "vcpus": 2, "memory_mib": 64, "pin": [0, 1], "cpu_weight": 100,
                "cgroup": "vm", "disk_mib": null, "cmdline": "", "start_delay_us": 0,
                "background": false, "pv": {},
                "workloads": [{
                    "program": "ticks", "begin_delay_us": 0, "setup": [], "argv": ["ticks"],
                    "env": {}, "time_limit_ms": 1000
                }]
            }]
        }"#;
        serde_json::from_str(json).unwrap()
    }

    /// What the check says of the plan once `change` has been made to its VM.
    fn said(change: impl Fn(&mut VmPlan)) -> String {
        let mut plan = plan();
        change(&mut plan.vms[0]);
        plan.check().unwrap_err()
    }

    #[test]
    fn a_plan_that_a_host_can_do_passes() {
        assert_eq!(plan().check(), Ok(()));
    }

    #[test]
    fn each_contradiction_is_named_with_its_vm() {
        assert_eq!(said(|vm| vm.vcpus = 3), "VM \"vm1\": 2 pins for 3 vCPUs");
        assert!(said(|vm| (vm.vcpus, vm.pin) = (0, None)).contains("no vCPU"));
        assert!(said(|vm| vm.cpu_weight = 0).contains("weight 0"));
        assert!(said(|vm| vm.cpu_max_us = Some((1000, 0))).contains("cpu.max"));
        assert!(said(|vm| vm.hidden_features = vec![7, 32]).contains("bit 32"));
        assert!(said(|vm| vm.workloads.clear()).contains("runs nothing"));
        assert!(said(|vm| vm.workloads[0].argv.clear()).contains("empty command"));
    }

    #[test]
    fn a_name_twice_and_what_only_steady_shows_are_refused() {
        let mut twice = plan();
        twice.vms.push(twice.vms[0].clone());
        assert!(twice.check().unwrap_err().contains("two VMs"));
        let mut qemu = plan();
        qemu.vmm = Vmm::Qemu;
        assert_eq!(qemu.check(), Ok(()));
        qemu.vms[0].mwait = true;
        assert!(qemu.check().unwrap_err().contains("steady"));
    }
}
