// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the emulated host reports to the lab.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::channel::Output;

/// One report of the emulated host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// The host is up.
    Up {
        /// Kernel release.
        release: String,
        /// CPUs online.
        cpus: u32,
        /// Time since boot, in nanoseconds.
        uptime_ns: u64,
        /// Its clock source.
        clocksource: String,
        /// `vmx` or `svm`.
        isa: String,
        /// Parameters of the KVM modules, `kvm_intel.ple_gap` and so on.
        parameters: BTreeMap<String, String>,
        /// What it still lacked of having settled when it went on, in words; see `settle.rs`.
        #[serde(default)]
        unsettled: Vec<String>,
    },
    /// A guest is up.
    GuestUp {
        /// Name of the VM.
        vm: String,
        /// Kernel release of the guest.
        release: String,
        /// CPUs online in the guest.
        cpus: u32,
        /// Time since the guest's boot, in nanoseconds.
        uptime_ns: u64,
        /// Clock source of the guest.
        clocksource: String,
        /// As of the host.
        #[serde(default)]
        unsettled: Vec<String>,
        /// Host time since boot, in nanoseconds.
        at_ns: u64,
    },
    /// The host lives.
    Alive {
        /// Host time since boot, in nanoseconds.
        at_ns: u64,
    },
    /// A measured workload starts.
    Begin {
        /// Name of the VM.
        vm: String,
        /// Index of the workload in the VM.
        index: u32,
        /// Host time since boot, in nanoseconds.
        at_ns: u64,
    },
    /// A workload has ended; measured ones bring the window of the host's counters.
    End(Box<WorkloadEnd>),
    /// A program of the host itself starts.
    ProgramBegin {
        /// Its name.
        program: String,
    },
    /// A program of the host itself has ended, however it did.
    ProgramEnd(Box<ProgramEnd>),
    /// A file follows in [`crate::frame::Kind::File`] frames.
    File {
        /// Its name.
        name: String,
        /// Its size in bytes.
        bytes: u64,
    },
    /// Something went wrong; the run cannot be used.
    Fault(Fault),
    /// The run is over and the host powers off.
    Done {
        /// Host time since boot, in nanoseconds.
        at_ns: u64,
    },
}

/// The end of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadEnd {
    /// Name of the VM.
    pub vm: String,
    /// Index of the workload in the VM.
    pub index: u32,
    /// What the program left.
    pub output: Output,
    /// The host's counters over the workload; absent for a background one.
    pub window: Option<Window>,
}

/// The end of a program of the host itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramEnd {
    /// Its name.
    pub program: String,
    /// What it left.
    pub output: Output,
    /// What the host's kernel warned of meanwhile: records of level `warning` and above.
    pub warnings: Vec<String>,
    /// Whether the kernel became tainted meanwhile, as by a `WARN`.
    pub tainted: bool,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Which kind of thing went wrong.
    pub kind: FaultKind,
    /// The VM, if it is one VM's.
    pub vm: Option<String>,
    /// One sentence.
    pub text: String,
    /// The end of the guest's console, if there is one.
    pub console_tail: String,
}

/// Kinds of faults inside the emulated host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// A guest kernel panicked.
    GuestPanic,
    /// A guest triple-faulted.
    GuestTripleFault,
    /// A guest reset or stopped without being asked.
    GuestReset,
    /// A guest did not answer in time.
    GuestSilent,
    /// The VMM failed.
    Vmm,
    /// A workload failed, crashed or ran into its limit.
    Workload,
    /// The host's init could not do its work.
    Host,
}

/// Counters of the host between the start and the end of a workload.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Length by the host's clock, in nanoseconds.
    pub length_ns: u64,
    /// Per VM.
    pub vms: BTreeMap<String, VmWindow>,
    /// Interrupts from one pCPU of the host to another: function calls and reschedules.
    #[serde(default)]
    pub host_ipis: u64,
    /// The longest time that interrupts were off on a pCPU, in nanoseconds, where the host's kernel
    /// can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub irqs_off_max_ns: Option<u64>,
    /// Entries that the kernel's histogram had no room for: counts are a lower bound if not 0.
    pub dropped: u64,
}

/// Counters of one VM in a window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmWindow {
    /// VM exits by the raw reason code of the ISA.
    pub exits: BTreeMap<u64, u64>,
    /// Host interrupts that hit the guest, by guest RIP.
    pub rips: BTreeMap<u64, u64>,
    /// Writes of the guest to its registers that KVM saw, by register.
    #[serde(default)]
    pub writes: BTreeMap<u64, u64>,
    /// Interrupts of the vCPUs' own timers.
    #[serde(default)]
    pub timer_interrupts: u64,
    /// Interrupts of the host's timer while a vCPU's thread was current.
    #[serde(default)]
    pub host_timer_interrupts: u64,
    /// KVM's statistics, vCPU ones summed over the vCPUs.
    pub stats: BTreeMap<String, u64>,
    /// Time on a pCPU of the vCPU threads, in nanoseconds.
    pub vcpu_run_ns: u64,
    /// Time runnable but not running of the vCPU threads, in nanoseconds.
    pub vcpu_wait_ns: u64,
    /// Time on a pCPU of the VMM's other threads, in nanoseconds.
    pub vmm_run_ns: u64,
}
