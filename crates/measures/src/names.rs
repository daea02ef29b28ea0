// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names of metrics that every engine shares.
//!
//! An engine may add others; a reader finds these by name. Where KVM has a statistic, the name is
//! KVM's own behind `stat.`, also when a simulator counted it. Exit reasons keep the names of the
//! processor's manual as KVM prints them: upper case for VMX, lower case for SVM.

/// All VM exits of a VM.
pub const EXITS_TOTAL: &str = "exits.total";
/// Before an exit reason: `exits.EPT_VIOLATION`, `exits.npf`.
pub const EXITS_PREFIX: &str = "exits.";
/// Exits of a pause loop, as VMX and as SVM name the reason.
pub const PLE_EXITS: [&str; 2] = ["exits.PAUSE_INSTRUCTION", "exits.pause"];
/// Writes of a guest to the registers of its local timers.
pub const TIMER_WRITES: &str = "timer.writes";
/// Interrupts of a guest's local timers.
pub const TIMER_INTERRUPTS: &str = "timer.interrupts";
/// Interrupts of the host's timer while a vCPU's thread was current.
pub const TIMER_HOST: &str = "timer.host_interrupts";
/// Before a statistic of KVM, summed over the vCPUs of a VM.
pub const STAT_PREFIX: &str = "stat.";
/// Exits because a vCPU halted.
pub const HALTS: &str = "stat.halt_exits";
/// Hypercalls that a VM made.
pub const HYPERCALLS: &str = "stat.hypercalls";
/// Directed yields that KVM tried.
pub const DIRECTED_YIELDS_ATTEMPTED: &str = "stat.directed_yield_attempted";
/// Directed yields that the host scheduler accepted.
pub const DIRECTED_YIELDS_SUCCESSFUL: &str = "stat.directed_yield_successful";
/// TLBs of vCPUs that were flushed as a whole, for the guest or for KVM.
pub const TLB_FLUSHES: &str = "stat.tlb_flush";
/// Interrupts from one pCPU of the host to another, whoever caused them.
pub const HOST_IPIS: &str = "host.ipis";
/// The same, for 1000 shootdowns of the workload.
pub const HOST_IPIS_PER_1000_SHOOTDOWNS: &str = "host.ipis_per_1000_shootdowns";
/// The longest time that interrupts were off on a pCPU of the host, whoever had them off, in ns;
/// only of kernels with the tracer for it.
pub const HOST_IRQS_OFF_MAX: &str = "host.irqs_off_max";
/// VM exits for 1000 shootdowns of the workload.
pub const EXITS_PER_1000_SHOOTDOWNS: &str = "exits_per_1000_shootdowns";
/// CPU time that the threads of a VM used on the host, in ns.
pub const CPU_TIME: &str = "cpu_time";
/// Before a class of time inside the guest, in ns.
pub const GUEST_TIME_PREFIX: &str = "guest_time.";
/// The classes of guest time, in the order in which they are shown.
pub const GUEST_TIME_CLASSES: [&str; 5] = ["shootdown", "lock", "other", "user", "idle"];
/// A TLB shootdown seen from its initiator: a distribution, in ns.
pub const SHOOTDOWN_LATENCY: &str = "shootdown.latency";
/// Before the updates of translations that a scheme of TLB coherence met, by their cause.
pub const UPDATES_PREFIX: &str = "updates.";
/// Time of a workload's process from start to end, in ns.
pub const TIME: &str = "time";
/// Operations of a workload, in `ops/ks`.
pub const THROUGHPUT: &str = "throughput";
/// Instructions per cycle: of a workload that is simulated, its throughput.
pub const IPC: &str = "ipc";
