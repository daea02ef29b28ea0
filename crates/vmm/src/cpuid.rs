// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What CPUID shows each vCPU.
//!
//! The base is what this host's KVM supports. On top come the vCPU's own numbers (APIC id; one
//! package, one core per vCPU, no hyper-threads), the paravirtual choice or the leaves of another
//! hypervisor ([`crate::hyperv`]), and some fixed ones: x2APIC and the TSC-deadline timer are shown,
//! VMX and SVM are not, since no guest runs guests of its own. MWAIT is shown where that is asked
//! for, which KVM leaves to the VMM: with it Linux takes its vCPUs to have CPUs of their own, and
//! turns PV TLB flush off (`pv_tlb_flush_supported()` in `arch/x86/kernel/kvm.c`). KVM carries it
//! out as an instruction that does nothing.
//!
//! Left out: clusters, dies and nodes (leaves 0x1F and 0x80000026 show no more than leaf 0xB).

use kvm_bindings::{KVM_CPUID_FLAG_SIGNIFCANT_INDEX, kvm_cpuid_entry2};

use crate::hyperv;

/// The CPUID leaf with KVM's features (EAX) and hints (EDX).
pub const KVM_FEATURES_LEAF: u32 = 0x4000_0001;

const LEVEL_SMT: u32 = 1;
const LEVEL_CORE: u32 = 2;

/// What all vCPUs of a guest share.
#[derive(Debug, Clone, Copy)]
pub struct Guest {
    /// Number of vCPUs, at least 1.
    pub cpus: u8,
    /// KVM features as the guest will see them.
    pub pv_features: u32,
    /// KVM hints as the guest will see them.
    pub pv_hints: u32,
    /// Whether the guest is shown Hyper-V's leaves in place of KVM's, and so no KVM feature.
    pub hyperv: bool,
    /// Whether the guest is shown MONITOR and MWAIT.
    pub mwait: bool,
    /// Whether KVM has the TSC-deadline timer, which its CPUID does not say.
    pub tsc_deadline: bool,
}

impl Guest {
    /// Bits of an APIC id that number the cores.
    fn core_bits(self) -> u32 {
        u32::from(self.cpus).next_power_of_two().trailing_zeros()
    }
}

/// Makes the CPUID of the vCPU with this APIC id out of `host`, which is what KVM supports.
#[must_use]
pub fn for_vcpu(host: &[kvm_cpuid_entry2], guest: Guest, apic_id: u8) -> Vec<kvm_cpuid_entry2> {
    assert!(apic_id < guest.cpus);
    let mut entries: Vec<_> = host
        .iter()
        .copied()
        .filter(|e| !is_topology(e.function))
        .collect();
    let has_dies = host.iter().any(|e| e.function == 0x1f);
    for entry in &mut entries {
        adjust(entry, guest, apic_id);
    }
    entries.extend(topology(0xb, guest, apic_id));
    if has_dies {
        entries.extend(topology(0x1f, guest, apic_id));
    }
    if guest.hyperv {
        hyperv::replace(&mut entries);
    }
    entries
}

/// The feature and hint words of KVM's own leaf, if it has one.
#[must_use]
pub fn kvm_features(host: &[kvm_cpuid_entry2]) -> Option<(u32, u32)> {
    host.iter()
        .find(|e| e.function == KVM_FEATURES_LEAF)
        .map(|e| (e.eax, e.edx))
}

/// Leaves that describe the topology in full and are therefore written again.
fn is_topology(function: u32) -> bool {
    matches!(function, 0xb | 0x1f | 0x8000_0026)
}

fn adjust(entry: &mut kvm_cpuid_entry2, guest: Guest, apic_id: u8) {
    let several = guest.cpus > 1;
    match entry.function {
        0 => entry.eax = entry.eax.max(0xb),
        1 => adjust_leaf_1(entry, guest, apic_id),
        // Caches (Intel, AMD): the highest level is shared by all, the others by none.
        4 | 0x8000_001d if entry.eax & 0x1f != 0 => {
            let sharers = if (entry.eax >> 5) & 7 >= 3 {
                id_span(guest)
            } else {
                0
            };
            entry.eax = (entry.eax & 0x3fff) | (sharers << 14);
            if entry.function == 4 {
                entry.eax |= id_span(guest).min(63) << 26;
            }
        }
        // Sizes of what MONITOR watches, and hints to MWAIT.
        5 => (entry.eax, entry.ebx, entry.ecx, entry.edx) = (0, 0, 0, 0),
        KVM_FEATURES_LEAF => (entry.eax, entry.edx) = (guest.pv_features, guest.pv_hints),
        0x8000_0001 => {
            set(&mut entry.ecx, 1, several); // CmpLegacy
            set(&mut entry.ecx, 2, false); // SVM
        }
        0x8000_0008 => {
            entry.ecx = (entry.ecx & !0xf0ff) | (u32::from(guest.cpus) - 1);
            entry.ecx |= guest.core_bits() << 12;
        }
        // AMD: extended APIC id; core id with one thread; node 0 of one.
        0x8000_001e => {
            (entry.eax, entry.ebx, entry.ecx) = (u32::from(apic_id), u32::from(apic_id), 0);
        }
        _ => {}
    }
}

fn adjust_leaf_1(entry: &mut kvm_cpuid_entry2, guest: Guest, apic_id: u8) {
    let ids = (id_span(guest) + 1).min(255);
    entry.ebx = (entry.ebx & 0xffff) | (ids << 16) | (u32::from(apic_id) << 24);
    set(&mut entry.ecx, 3, guest.mwait); // MONITOR and MWAIT
    set(&mut entry.ecx, 5, false); // VMX
    set(&mut entry.ecx, 21, true); // x2APIC
    set(&mut entry.ecx, 24, guest.tsc_deadline);
    set(&mut entry.ecx, 31, true); // hypervisor
    set(&mut entry.edx, 28, guest.cpus > 1); // HTT
}

/// The highest APIC id that the core bits can number.
fn id_span(guest: Guest) -> u32 {
    (1 << guest.core_bits()) - 1
}

fn topology(function: u32, guest: Guest, apic_id: u8) -> [kvm_cpuid_entry2; 3] {
    let level = |index: u32, kind: u32, shift: u32, count: u32| kvm_cpuid_entry2 {
        function,
        index,
        flags: KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
        eax: shift,
        ebx: count,
        ecx: (kind << 8) | index,
        edx: u32::from(apic_id),
        ..Default::default()
    };
    [
        level(0, LEVEL_SMT, 0, 1),
        level(1, LEVEL_CORE, guest.core_bits(), guest.cpus.into()),
        level(2, 0, 0, 0),
    ]
}

fn set(word: &mut u32, bit: u8, on: bool) {
    *word = if on {
        *word | (1 << bit)
    } else {
        *word & !(1 << bit)
    };
}
