// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What to record on a KVM host so that its trace can be diagnosed.
//!
//! KVM has no tracepoint where it boosts a vCPU, so probes are set on its functions. They read the
//! first fields of `struct kvm_vcpu` (`include/linux/kvm_host.h`): the VM at byte 0, the vCPU's
//! number at byte 36. These are where they are since Linux 4.17, on every build of x86-64, because
//! KVM there always selects `PREEMPT_NOTIFIERS`.

use std::fmt;

/// The group of the probes: the system of their events.
pub const GROUP: &str = "steady";

/// Tracepoints of the host, as `trace-cmd record -e` takes them.
pub const EVENTS: [&str; 25] = [
    "kvm:kvm_entry",
    "kvm:kvm_exit",
    "kvm:kvm_apic_ipi",
    "kvm:kvm_apic_accept_irq",
    "kvm:kvm_inj_virq",
    "kvm:kvm_hypercall",
    "kvm:kvm_pv_tlb_flush",
    "kvm:kvm_msr",
    "kvm:kvm_apic",
    "kvm:kvm_vcpu_wakeup",
    "kvm:kvm_halt_poll_ns",
    "kvm:kvm_ple_window_update",
    "sched:sched_switch",
    "sched:sched_wakeup",
    "sched:sched_wakeup_new",
    "sched:sched_migrate_task",
    "irq_vectors:local_timer_entry",
    "kvm:kvm_pio",
    "kvm:kvm_mmio",
    "kvm:kvm_page_fault",
    "kvm:kvm_userspace_exit",
    "irq:irq_handler_entry",
    "irq:irq_handler_exit",
    "irq:softirq_entry",
    "irq:softirq_exit",
];

/// Tracepoints of a guest: its shootdowns.
pub const GUEST_EVENTS: [&str; 4] = [
    "tlb:tlb_flush",
    "csd:csd_queue_cpu",
    "csd:csd_function_entry",
    "csd:csd_function_exit",
];

/// A probe on a function of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// Name of its event in [`GROUP`].
    pub event: &'static str,
    /// The function.
    pub function: &'static str,
    /// What it fetches, as `kprobe_events` takes it; of a return probe the value returned.
    pub fetch: &'static str,
    /// Whether it fires when the function returns.
    pub at_return: bool,
}

/// The probes of a host.
pub const PROBES: [Probe; 5] = [
    Probe {
        event: "spin_begin",
        function: "kvm_vcpu_on_spin",
        fetch: "vcpu=$arg1:x64 vm=+0($arg1):x64",
        at_return: false,
    },
    Probe {
        event: "spin_end",
        function: "kvm_vcpu_on_spin",
        fetch: "",
        at_return: true,
    },
    Probe {
        event: "boost",
        function: "kvm_vcpu_yield_to",
        fetch: "target=$arg1:x64 number=+36($arg1):u32",
        at_return: false,
    },
    Probe {
        event: "boost_return",
        function: "kvm_vcpu_yield_to",
        fetch: "value=$retval:s32",
        at_return: true,
    },
    Probe {
        event: "vcpu_load",
        function: "kvm_arch_vcpu_load",
        fetch: "vcpu=$arg1:x64 vm=+0($arg1):x64 number=+36($arg1):u32",
        at_return: false,
    },
];

/// The line of `kprobe_events`.
impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_name = |name: &str| {
            let mut bytes = name.bytes();
            bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !name.is_empty()
        };
        assert!(is_name(self.event), "the kernel takes names of C: {self:?}");
        assert!(is_name(self.function), "a function's name: {self:?}");
        assert!(
            !(self.at_return && self.fetch.contains("$arg")),
            "its arguments are gone when a function returns: {self:?}"
        );
        assert!(
            self.at_return || !self.fetch.contains("$retval"),
            "a function has no value before it returns: {self:?}"
        );
        let kind = if self.at_return { 'r' } else { 'p' };
        write!(f, "{kind}:{GROUP}/{} {}", self.event, self.function)?;
        if !self.fetch.is_empty() {
            write!(f, " {}", self.fetch)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_written_as_the_kernel_reads_it() {
        assert_eq!(
            PROBES[3].to_string(),
            "r:steady/boost_return kvm_vcpu_yield_to value=$retval:s32"
        );
        assert_eq!(PROBES[1].to_string(), "r:steady/spin_end kvm_vcpu_on_spin");
    }
}
