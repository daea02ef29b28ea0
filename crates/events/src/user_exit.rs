// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why KVM goes back to its VMM: `KVM_EXIT_*` of `include/uapi/linux/kvm.h`, Linux 6.12.

/// Of a reason that no list here has: no kernel has such a number.
pub const UNKNOWN: u32 = u32::MAX;
/// A port.
pub const IO: u32 = 2;
/// A halt that the VMM does.
pub const HLT: u32 = 5;
/// Memory of a device.
pub const MMIO: u32 = 6;
/// A signal: the VMM wants the vCPU out of its guest.
pub const INTR: u32 = 10;
/// The ring of dirty pages is full.
pub const DIRTY_RING_FULL: u32 = 31;

/// Numbers and names, without `KVM_EXIT_`.
const NAMES: [(u32, &str); 32] = [
    (0, "UNKNOWN"),
    (1, "EXCEPTION"),
    (IO, "IO"),
    (3, "HYPERCALL"),
    (4, "DEBUG"),
    (HLT, "HLT"),
    (MMIO, "MMIO"),
    (7, "IRQ_WINDOW_OPEN"),
    (8, "SHUTDOWN"),
    (9, "FAIL_ENTRY"),
    (INTR, "INTR"),
    (11, "SET_TPR"),
    (12, "TPR_ACCESS"),
    (13, "S390_SIEIC"),
    (14, "S390_RESET"),
    (16, "NMI"),
    (17, "INTERNAL_ERROR"),
    (18, "OSI"),
    (24, "SYSTEM_EVENT"),
    (26, "IOAPIC_EOI"),
    (27, "HYPERV"),
    (28, "ARM_NISV"),
    (29, "X86_RDMSR"),
    (30, "X86_WRMSR"),
    (DIRTY_RING_FULL, "DIRTY_RING_FULL"),
    (32, "AP_RESET_HOLD"),
    (33, "X86_BUS_LOCK"),
    (34, "XEN"),
    (35, "RISCV_SBI"),
    (36, "RISCV_CSR"),
    (37, "NOTIFY"),
    (39, "MEMORY_FAULT"),
];

/// The name, if the number is known.
#[must_use]
pub fn name(number: u32) -> Option<&'static str> {
    let row = NAMES.iter().find(|&&(known, _)| known == number);
    row.map(|&(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise_and_each_has_one_name() {
        for (at, &(number, name)) in NAMES.iter().enumerate() {
            assert!(NAMES[at + 1..].iter().all(|&(other, _)| other > number));
            assert_eq!(super::name(number), Some(name));
        }
        assert_eq!(name(UNKNOWN), None);
    }
}
