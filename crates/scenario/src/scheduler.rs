// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Knobs of the host's scheduler that a variant turns: what stock Linux has without a remedy.
//!
//! Left out: core scheduling, which the lab's kernel is built without, and autogroup, which leaves
//! threads in groups of their own alone.

use serde::Serialize;

use crate::words::{VcpuPolicy, Word};

/// Knobs of the host's scheduler. What is not given stays as the kernel has it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Scheduler {
    /// Words for `/sys/kernel/debug/sched/features`: a feature's name, with `NO_` in front to
    /// switch it off.
    pub features: Vec<String>,
    /// `/sys/kernel/debug/sched/base_slice_ns` of Linux 6.6 and later, 100,000 to 1,000,000,000 ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_slice_ns: Option<u32>,
    /// The slice that vCPU threads ask for (`sched_runtime` of `sched_setattr(2)`, Linux 6.12 and
    /// later), 100,000 to 100,000,000 ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpu_slice_ns: Option<u32>,
    /// The policy of vCPU threads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpu_policy: Option<VcpuPolicy>,
    /// The path of a BPF scheduler for `sched_ext`, from the scenario's folder: an object, or its
    /// source in C.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bpf: Option<String>,
}

impl Scheduler {
    /// Whether no knob is turned.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        *self == Self::default()
    }

    /// What is turned, in words for a reader: `features HRTICK`, `base slice 700000 ns`.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let features = (!self.features.is_empty()).then(|| self.features.join(" "));
        [
            features.map(|names| format!("features {names}")),
            self.base_slice_ns.map(|ns| format!("base slice {ns} ns")),
            self.vcpu_slice_ns
                .map(|ns| format!("slice of vCPUs {ns} ns")),
            self.vcpu_policy
                .map(|policy| format!("policy of vCPUs {}", policy.name())),
            self.bpf.as_ref().map(|path| format!("BPF {path}")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
