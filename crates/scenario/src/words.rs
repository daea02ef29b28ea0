// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The closed sets of words that a scenario may use. A word has one spelling everywhere: in the
//! scenario, the kernel's module parameter, the simulator's module and the report.

use std::fmt;

/// A closed set of words.
pub trait Word: Copy + Eq + Ord + fmt::Debug + 'static {
    /// What one word of the set is called in messages.
    const WHAT: &'static str;
    /// Where another set of such words stands, for messages; mostly empty.
    const BESIDE: &'static str;
    /// Every word, in the order in which they are listed and stored.
    const ALL: &'static [Self];
    /// The word's spelling.
    fn name(self) -> &'static str;
    /// The word so spelt, if there is one.
    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|word| word.name() == name)
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $set:ident, $what:literal; $($rest:tt)+) => {
        words! { $(#[$doc])* $set, $what, ""; $($rest)+ }
    };
    ($(#[$doc:meta])* $set:ident, $what:literal, $beside:literal;
     $($(#[$word_doc:meta])* $word:ident = $name:literal,)+) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $set { $($(#[$word_doc])* $word,)+ }

        impl Word for $set {
            const WHAT: &'static str = $what;
            const BESIDE: &'static str = $beside;
            const ALL: &'static [Self] = &[$(Self::$word,)+];
            fn name(self) -> &'static str {
                match self { $(Self::$word => $name,)+ }
            }
        }

        impl fmt::Display for $set {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl serde::Serialize for $set {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.name())
            }
        }
    };
}

words! {
    /// The configuration of the kernel that one VM's guest boots.
    GuestKernel, "kernel of a guest", "`kernel` of a variant names others, for host and guests";
    /// The kernel of its host.
    Host = "host",
    /// Ticks at 100 Hz.
    Hz100 = "hz-100",
    /// Ticks at 300 Hz.
    Hz300 = "hz-300",
    /// Ticks at 1000 Hz.
    Hz1000 = "hz-1000",
    /// With what distributions have for CPUs that idle or stop: no tick on CPUs that `nohz_full=`
    /// names, halt polling in the guest, suspend, kexec.
    Power = "power",
}

impl GuestKernel {
    /// Whether it is the host's.
    #[must_use]
    pub fn is_host(&self) -> bool {
        *self == Self::Host
    }
}

words! {
    /// Where the result of a program that the user brings is.
    ResultFrom, "result";
    /// In its result line if it prints one, and else in its time alone.
    Any = "any",
    /// In its result line, which has to be there.
    Line = "line",
}

impl ResultFrom {
    /// Whether it is what holds without the key.
    #[must_use]
    pub fn is_any(&self) -> bool {
        *self == Self::Any
    }
}

words! {
    /// The program that runs the VMs on the emulated host.
    Vmm, "vmm";
    /// This project's own small VMM.
    Steady = "steady",
    /// The distribution's QEMU: slower to start, to show that nothing depends on ours.
    Qemu = "qemu",
}

words! {
    /// What guests take their hypervisor for.
    Hypervisor, "hypervisor";
    /// KVM, with its paravirtual features.
    Kvm = "kvm",
    /// Hyper-V, whose remote TLB flush KVM carries out, and no feature of KVM.
    HyperV = "hyper-v",
}

impl Hypervisor {
    pub(crate) fn is_kvm(&self) -> bool {
        *self == Self::Kvm
    }
}

words! {
    /// How guests are given pCPUs of their own, or shown that their vCPUs have them.
    Dedicated, "way to give dedicated pCPUs";
    /// `KVM_HINTS_REALTIME`.
    Hint = "hint",
    /// MWAIT, which VMMs give a guest that may idle on its pCPUs.
    Mwait = "mwait",
    /// Nothing is shown: a vCPU that halts stays in the guest, and its pCPU halts.
    Halt = "halt",
}

words! {
    /// The scheduling policy of vCPU threads, of those that share the fair class.
    VcpuPolicy, "policy of vCPU threads";
    /// `SCHED_OTHER`, which VMMs leave as it is.
    Other = "other",
    /// `SCHED_BATCH`: a thread that wakes preempts no other.
    Batch = "batch",
}

words! {
    /// How the threads of a VM are grouped by cgroup v2 on the host.
    Cgroup, "cgroup";
    /// One group for the VM.
    Vm = "vm",
    /// One group for each vCPU inside the VM's, as libvirt does it.
    Vcpu = "vcpu",
    /// No group: every vCPU thread is in the root group.
    None = "none",
}

words! {
    /// A paravirtual feature of KVM that a guest is offered (`KVM_CPUID_FEATURES`).
    PvFeature, "PV feature";
    /// `KVM_FEATURE_PV_TLB_FLUSH`: a preempted vCPU flushes when it next enters.
    TlbFlush = "tlb_flush",
    /// `KVM_FEATURE_PV_SEND_IPI`: one hypercall for many IPIs.
    Ipi = "ipi",
    /// `KVM_FEATURE_PV_SCHED_YIELD`: yield to a preempted IPI target.
    SchedYield = "sched_yield",
    /// `KVM_FEATURE_PV_UNHALT`: paravirtual spinlocks.
    Unhalt = "unhalt",
    /// `KVM_FEATURE_PV_EOI`: end of interrupt without an exit.
    Eoi = "eoi",
    /// `KVM_FEATURE_STEAL_TIME`: also carries the preempted flag that `tlb_flush`,
    /// `sched_yield` and `unhalt` read.
    StealTime = "steal_time",
    /// `KVM_FEATURE_ASYNC_PF` and its companions.
    AsyncPf = "async_pf",
    /// `KVM_FEATURE_POLL_CONTROL`: the guest may switch off halt polling in the host.
    PollControl = "poll_control",
    /// `KVM_FEATURE_CLOCKSOURCE` and its companions: kvmclock.
    Clocksource = "clocksource",
}

words! {
    /// A group of measures that an engine is asked to bring back.
    Collect, "measure";
    /// VM exits by reason.
    Exits = "exits",
    /// CPU time for each VM.
    CpuTime = "cpu-time",
    /// KVM's own statistics: halts, directed yields, hypercalls, flushed TLBs.
    KvmStats = "kvm-stats",
    /// Guest kernel time by class: shootdown, lock, other, user.
    GuestTime = "guest-time",
}
