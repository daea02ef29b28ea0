// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Interrupt vectors of Linux on x86 (`arch/x86/include/asm/irq_vectors.h`, Linux 6.12).
//!
//! Guests of another system use other numbers: what is concluded from a vector holds for Linux.

/// A function must be called on several CPUs: TLB shootdowns come as this.
pub const CALL_FUNCTION: u8 = 0xfc;
/// A function must be called on one CPU: so do shootdowns with one target.
pub const CALL_FUNCTION_SINGLE: u8 = 0xfb;
/// The local APIC's timer.
pub const LOCAL_TIMER: u8 = 0xec;
const _: () = assert!(
    LOCAL_TIMER < CALL_FUNCTION_SINGLE,
    "the timer's is distinguished"
);
const _: () = assert!(
    CALL_FUNCTION_SINGLE + 1 == CALL_FUNCTION,
    "the vectors of calls stand together"
);

/// Whether a sender may wait until the receiver has handled this vector.
#[must_use]
pub fn is_call_function(vector: u8) -> bool {
    matches!(vector, CALL_FUNCTION | CALL_FUNCTION_SINGLE)
}
