// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a noted limit of CPU time gave to the vCPUs of a VM, and how long they ran.
//!
//! Left out: threads in the same groups that are neither vCPUs nor of a VMM of the notes.

use serde::{Deserialize, Serialize};

use super::vm::is_zero;

/// A limit of CPU time (`cpu.max`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitTable {
    /// What a group may run in a period.
    pub quota_ns: u64,
    /// The period.
    pub period_ns: u64,
    /// The vCPUs with this limit by their control group: each group has a quota. vCPUs whose group
    /// the notes do not have stand apart.
    pub groups: Vec<LimitedGroup>,
    /// All of these vCPUs: a group above theirs may have the limit.
    pub all: LimitedGroup,
    /// For how long these and the other threads of their VMM ran; 0 if none of those did.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub with_vmm_ns: u64,
    /// For how long all VMs ran that have this limit and a group above theirs in common, with
    /// their VMMs; 0 if there is no other.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub with_vms_ns: u64,
}

/// vCPUs that share a quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitedGroup {
    /// Their control group; `None` if it is not known, and of all groups.
    pub cgroup: Option<String>,
    /// How many they are.
    pub vcpus: u64,
    /// For how long they were seen running.
    pub ran_ns: u64,
    /// Waits in which their own pCPU was idle for a millisecond and more.
    pub idled_ns: u64,
    /// How many these are.
    pub idled: u64,
    /// Ends of such waits that are not of one period: the quota was filled up at least as often.
    pub refills: u64,
    /// From the first such end to the last.
    pub window_ns: u64,
    /// For how long at least they ran in that.
    pub window_ran_ns: u64,
}
