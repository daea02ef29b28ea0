// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The CPUID leaves by which a guest takes its hypervisor for Hyper-V in place of KVM.
//!
//! Linux then has remote TLB flushes done by KVM's `kvm_hv_flush_tlb()`, by ranges and without
//! waiting for a vCPU that does not run (`arch/x86/hyperv/mmu.c` in the guest,
//! `arch/x86/kvm/hyperv.c` in the host). It loses what only KVM's leaf offers: steal time with the
//! mark of a preempted vCPU, paravirtual spinlocks, directed yields to an IPI's target.
//!
//! Shown are what Linux insists on, the rates of its clocks, and the flush. Left out on purpose,
//! so that the flush alone can be compared: IPIs by hypercall. Left out as nothing needs them: the
//! synthetic interrupt controller and its timers, lazy end of interrupt, crash registers.
//!
//! Numbers are those of `include/asm-generic/hyperv-tlfs.h` and
//! `arch/x86/include/asm/hyperv-tlfs.h` in Linux 6.12.

use kvm_bindings::kvm_cpuid_entry2;

/// The first and the last leaf that hypervisors have for themselves, KVM's among them.
const HYPERVISOR_LEAVES: std::ops::RangeInclusive<u32> = 0x4000_0000..=0x4000_ffff;

/// `HV_MSR_TIME_REF_COUNT_AVAILABLE`, `HV_MSR_HYPERCALL_AVAILABLE`, `HV_MSR_VP_INDEX_AVAILABLE`,
/// `HV_MSR_REFERENCE_TSC_AVAILABLE`, `HV_ACCESS_FREQUENCY_MSRS`, `HV_ACCESS_TSC_INVARIANT`.
const MSRS: u32 = (1 << 1) | (1 << 5) | (1 << 6) | (1 << 9) | (1 << 11) | (1 << 15);
/// `HV_FEATURE_FREQUENCY_MSRS_AVAILABLE`.
const FREQUENCY_MSRS: u32 = 1 << 8;
/// `HV_X64_REMOTE_TLB_FLUSH_RECOMMENDED`, `HV_X64_EX_PROCESSOR_MASKS_RECOMMENDED`.
const RECOMMENDED: u32 = (1 << 2) | (1 << 11);
/// Never report long waits to the hypervisor for a lock.
const NO_SPIN_NOTES: u32 = u32::MAX;
/// Hyper-V 10.0, build 14393: the version that KVM gives of itself.
const VERSION: [u32; 4] = [0x3839, 0x000a_0000, 0, 0];
const MOST_PROCESSORS: u32 = 64;

/// Puts the leaves in place of those of KVM.
pub fn replace(entries: &mut Vec<kvm_cpuid_entry2>) {
    entries.retain(|entry| !HYPERVISOR_LEAVES.contains(&entry.function));
    entries.extend(leaves());
}

fn leaves() -> [kvm_cpuid_entry2; 6] {
    let word = |at: usize| {
        let bytes = &b"Microsoft Hv"[4 * at..4 * at + 4];
        u32::from_le_bytes(bytes.try_into().expect("four bytes"))
    };
    let interface = u32::from_le_bytes(*b"Hv#1");
    [
        leaf(0, [0x4000_0005, word(0), word(1), word(2)]),
        leaf(1, [interface, 0, 0, 0]),
        leaf(2, VERSION),
        leaf(3, [MSRS, 0, 0, FREQUENCY_MSRS]),
        leaf(4, [RECOMMENDED, NO_SPIN_NOTES, 0, 0]),
        leaf(5, [MOST_PROCESSORS, MOST_PROCESSORS, 0, 0]),
    ]
}

fn leaf(number: u32, [eax, ebx, ecx, edx]: [u32; 4]) -> kvm_cpuid_entry2 {
    kvm_cpuid_entry2 {
        function: HYPERVISOR_LEAVES.start() + number,
        eax,
        ebx,
        ecx,
        edx,
        ..Default::default()
    }
}
