// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of a host: what was wanted and what there was; and, of a VM, its longest stalls, its
//! sleep outside halts and the threads that serve it.

use serde::{Deserialize, Serialize};

use super::{Count, Instance};
use crate::spread::Spread;

/// What the vCPUs of a host wanted, and what its pCPUs had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostTable {
    /// pCPUs of which there are records.
    pub pcpus: u64,
    /// vCPUs.
    pub vcpus: u64,
    /// Time in which vCPUs ran or were ready, in thousandths of one pCPU's time: 3600 is that of
    /// 3.6 pCPUs.
    pub wanted_permille: u64,
    /// Of that, time in which they ran.
    pub ran_permille: u64,
    /// Of the pCPUs' time, what they were seen idle.
    pub idle_permille: u64,
    /// The same in all, in nanoseconds.
    pub idle_ns: u64,
    /// The VMs.
    pub vms: Vec<HostVm>,
    /// Times in which all pCPUs were silent though a vCPU ran, longest first; only such as stand
    /// out among the gaps between records.
    pub silent: Vec<Instance>,
}

/// What one VM wanted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostVm {
    /// Its name.
    pub name: String,
    /// For how long its vCPUs ran.
    pub ran_ns: u64,
    /// For how long they were ready and did not.
    pub waited_ns: u64,
}

/// A stall that is felt: from 100 ms on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallRow {
    /// `ready`, `uninterruptible`, `asleep`, or `exit`; `cut-off` is an exit that had not ended
    /// when the trace did; `in-loss` is what may have been a wait, and lies in a loss of events.
    pub kind: String,
    /// When, where, and how long.
    pub at: Instance,
    /// Who ran meanwhile, as in the rows of waits; of an exit what it was for.
    pub culprit: Option<String>,
    /// Its name.
    pub name: Option<String>,
    /// The exit before, where it is known.
    pub after: Option<String>,
    /// Of a `ready` one, whether who ran shows to be what it waited for, as in
    /// [`WaitTable::shown_ns`](super::WaitTable::shown_ns).
    pub shown: bool,
    /// Whether it began before the trace did, so that it was longer.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_begin: bool,
}

/// Sleep of a VM's vCPU threads outside halts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AsleepTable {
    /// How long they slept.
    pub times_ns: Spread,
    /// Of that, in exits for a device whose work the VMM did.
    pub device_ns: u64,
    /// Nanoseconds by why KVM went back to the VMM (`KVM_EXIT_*`), most first.
    pub by_reason: Vec<Count>,
    /// Nanoseconds by who woke them, most first.
    pub wakers: Vec<Count>,
    /// The longest, but for a device's work.
    pub worst: Option<Instance>,
}

/// A thread that serves a VM and waited for its pCPU while a vCPU slept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerRow {
    /// Its name.
    pub name: String,
    /// Its id.
    pub tid: i32,
    /// How often.
    pub times: u64,
    /// For how long in all.
    pub ns: u64,
    /// The longest after which it woke the vCPU at once.
    pub long_ns: u64,
    /// Nanoseconds by who ran instead, most first, as `kind name`; what it waited in the host's
    /// kernel (D state) is among them, and its kind is `kernel-wait`.
    pub by: Vec<Count>,
    /// Kind of the first of these.
    pub culprit: Option<String>,
    /// Its name.
    pub culprit_name: Option<String>,
    /// The longest.
    pub worst: Option<Instance>,
}
