// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where a vCPU was when its machine was stopped: what to read first about a guest that stands
//! still.
//!
//! The callers are found by frame pointers, which a Linux with `CONFIG_UNWINDER_FRAME_POINTER` has;
//! others give one or none. Addresses are looked up in the guest kernel's `System.map`.

use std::fmt;

use kvm_bindings::{KVM_MP_STATE_HALTED, kvm_lapic_state};
use kvm_ioctls::VcpuFd;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Most callers that are named.
const CALLERS: usize = 24;
/// The interrupt flag of RFLAGS.
const RFLAGS_IF: u64 = 1 << 9;
/// Where the local APIC has what was taken and what waits (Intel SDM 3A, table 12-1).
const APIC_ISR: usize = 0x100;
const APIC_IRR: usize = 0x200;

/// Where a vCPU was.
#[derive(Debug, PartialEq, Eq)]
pub struct LastState {
    /// The address of its next instruction.
    rip: u64,
    /// Whether it took interrupts.
    interrupts_on: bool,
    /// Whether it slept.
    halted: bool,
    /// Vectors that waited to be taken, from the lowest.
    pending: Vec<u8>,
    /// Vectors that were taken and not acknowledged, from the lowest.
    in_service: Vec<u8>,
    /// Return addresses, the innermost first.
    callers: Vec<u64>,
}

impl LastState {
    /// Reads it; the vCPU must be out of the guest. `None`: KVM does not say.
    #[must_use]
    pub fn of(vcpu: &VcpuFd, memory: &GuestMemoryMmap) -> Option<Self> {
        let registers = vcpu.get_regs().ok()?;
        let lapic = vcpu.get_lapic().ok()?;
        let word = |address: u64| -> Option<u64> {
            let place = vcpu
                .translate_gva(address)
                .ok()
                .filter(|to| to.valid != 0)?;
            memory.read_obj(GuestAddress(place.physical_address)).ok()
        };
        Some(LastState {
            rip: registers.rip,
            interrupts_on: registers.rflags & RFLAGS_IF != 0,
            halted: vcpu.get_mp_state().ok()?.mp_state == KVM_MP_STATE_HALTED,
            pending: vectors(&lapic, APIC_IRR),
            in_service: vectors(&lapic, APIC_ISR),
            callers: callers(registers.rbp, word),
        })
    }
}

/// The vectors whose bits are set in the 256 bits that begin at register `first`: 32 in each of
/// eight registers, 16 bytes apart (Intel SDM 3A, 12.8.4).
fn vectors(lapic: &kvm_lapic_state, first: usize) -> Vec<u8> {
    (0..=u8::MAX)
        .filter(|vector| {
            let bit = usize::from(*vector);
            let byte = lapic.regs[first + bit / 32 * 16 + bit % 32 / 8];
            byte.cast_unsigned() >> (bit % 8) & 1 == 1
        })
        .collect()
}

/// Follows the frame pointers from `frame`, as long as they go up.
fn callers(mut frame: u64, word: impl Fn(u64) -> Option<u64>) -> Vec<u64> {
    let mut found = Vec::new();
    while found.len() < CALLERS {
        let Some(above) = frame.checked_add(8) else {
            break;
        };
        let (Some(next), Some(back)) = (word(frame), word(above)) else {
            break;
        };
        found.push(back);
        if next <= frame {
            break;
        }
        frame = next;
    }
    found
}

impl fmt::Display for LastState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at {:#x}, interrupts {}, pending vectors {:x?}, in service {:x?}, called from",
            if self.halted { "slept" } else { "ran" },
            self.rip,
            if self.interrupts_on { "on" } else { "off" },
            self.pending,
            self.in_service,
        )?;
        for caller in &self.callers {
            write!(f, " {caller:x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_read_from_its_bit_of_its_register() {
        let mut lapic = kvm_lapic_state { regs: [0; 1024] };
        lapic.regs[APIC_IRR] = 1;
        lapic.regs[APIC_IRR + 0x70 + 1] = 1 << 4;
        assert_eq!(vectors(&lapic, APIC_IRR), [0, 0xec]);
        assert_eq!(vectors(&lapic, APIC_ISR), [0; 0]);
    }

    #[test]
    fn callers_end_where_the_frames_do_not_go_up_or_are_not_there() {
        let memory = [(16, 48), (24, 0xa), (48, 32), (56, 0xb), (32, 0), (40, 0xc)];
        let word = |address| {
            memory
                .iter()
                .find(|(at, _)| *at == address)
                .map(|(_, word)| *word)
        };
        assert_eq!(callers(16, word), [0xa, 0xb]);
        assert_eq!(callers(8, word), [0; 0]);
        assert_eq!(callers(u64::MAX, |_| Some(1)), [0; 0]);
    }

    #[test]
    fn a_ring_of_frames_ends() {
        assert_eq!(callers(0, |address| Some(address + 16)).len(), CALLERS);
    }
}
