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
    /// What is counted in the host during each workload.
    pub collect: Collect,
    /// Events to record with trace-cmd, if a trace is wanted.
    pub trace: Option<TracePlan>,
    /// Bound on the whole run by the host's clock, in milliseconds.
    pub time_limit_ms: u64,
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
    /// Quota and period of `cpu.max` in microseconds, of the VM's group or of each vCPU's, if there
    /// is a limit; left out of the JSON where there is none.
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
    /// Bits of EAX in CPUID leaf 0x40000001 that the guest is not shown, 0 to 31; only with the VMM
    /// `steady`. Left out of the JSON where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hidden_features: Vec<u32>,
    /// Workloads, one after another.
    pub workloads: Vec<WorkloadPlan>,
}

/// One program that a guest runs, or the host itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
