// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many events of each kind a trace has: what can be judged depends on it.

/// Which kinds of events were seen: what cannot be concluded depends on it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// `kvm_entry`.
    pub entry: u64,
    /// `kvm_exit`.
    pub exit: u64,
    /// Exits with a reason that no table has.
    pub unknown_exit: u64,
    /// Exits of pause loops.
    pub pause_exit: u64,
    /// Exits of hosts with pause loops, local APICs and PV calls: of x86.
    pub x86_exit: u64,
    /// `sched_switch`.
    pub switch: u64,
    /// `sched_wakeup`.
    pub wakeup: u64,
    /// `kvm_apic_accept_irq`.
    pub accepted: u64,
    /// `kvm_hypercall`.
    pub hypercall: u64,
    /// `kvm_pv_tlb_flush`.
    pub pv_flush: u64,
    /// `kvm_msr` or `kvm_apic`.
    pub timer_write: u64,
    /// `local_timer_entry`.
    pub host_timer: u64,
    /// Ticks that the host put into guests.
    pub tick_injected: u64,
    /// Ticks that guests took.
    pub tick_taken: u64,
    /// Probe on `kvm_vcpu_on_spin`.
    pub spin: u64,
    /// Probe on `kvm_vcpu_yield_to`.
    pub boost: u64,
    /// Its return probe.
    pub boost_return: u64,
    /// `kvm_wfx_arm64`.
    pub guest_wait: u64,
    /// `csd_queue_cpu` or probes on the flush.
    pub guest_call: u64,
    /// `kvm_userspace_exit`.
    pub user_exit: u64,
    /// `irq_handler_entry`, `softirq_entry` and their ends.
    pub host_irq: u64,
    /// `kvm_pio`, `kvm_mmio`, `kvm_page_fault`.
    pub access: u64,
    /// Events of which the trace does not show the CPU.
    pub placeless: u64,
    /// All events.
    pub all: u64,
}
