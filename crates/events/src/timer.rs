// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers by which a guest programs its timer (`arch/x86/include/asm/msr-index.h` and
//! `apicdef.h`, Linux 6.12).

/// Arms the APIC timer in deadline mode (`MSR_IA32_TSC_DEADLINE`).
pub const TSC_DEADLINE: u32 = 0x6e0;
/// The initial count of the APIC timer, as an x2APIC register.
pub const X2APIC_TMICT: u32 = 0x838;
/// The same, as an offset in the APIC's page.
pub const APIC_TMICT: u32 = 0x380;
const _: () = assert!(
    X2APIC_TMICT == 0x800 + (APIC_TMICT >> 4),
    "an x2APIC register is numbered by its offset in the page (Intel SDM vol. 3, 11.12.1.2)"
);
const _: () = assert!(TSC_DEADLINE < 0x800, "it is not a register of the APIC");

/// Whether a write to this model-specific register programs the timer.
#[must_use]
pub fn is_timer_msr(index: u32) -> bool {
    matches!(index, TSC_DEADLINE | X2APIC_TMICT)
}
