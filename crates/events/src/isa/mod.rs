// SPDX-License-Identifier: Apache-2.0 OR MIT
//! VM exit reasons: raw code and ISA, and names spelt as the kernel's tracing spells them.

mod names;
mod tables;

use names::{OLD_VMX, OTHER_NAMES};
use tables::{ARM64, RISCV, SVM, VMX};

/// The ISA of a host's virtualization extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Intel VMX.
    Vmx,
    /// AMD SVM.
    Svm,
    /// arm64, whose KVM has the class of a trap.
    Arm64,
    /// RISC-V's H extension, whose KVM has `scause`.
    Riscv,
}

impl Isa {
    /// From the field `isa` of `kvm_exit` (`KVM_ISA_VMX`, `KVM_ISA_SVM`).
    #[must_use]
    pub fn from_number(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::Vmx),
            2 => Some(Self::Svm),
            _ => None,
        }
    }

    /// From the lower-case word.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "vmx" => Some(Self::Vmx),
            "svm" => Some(Self::Svm),
            "arm64" => Some(Self::Arm64),
            "riscv" => Some(Self::Riscv),
            _ => None,
        }
    }

    /// The lower-case word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Vmx => "vmx",
            Self::Svm => "svm",
            Self::Arm64 => "arm64",
            Self::Riscv => "riscv",
        }
    }

    /// Whether pause loops, local APICs and KVM's calls for its guests are those of x86.
    #[must_use]
    pub fn is_x86(self) -> bool {
        matches!(self, Self::Vmx | Self::Svm)
    }

    fn table(self) -> &'static [(u64, &'static str)] {
        match self {
            Self::Vmx => VMX,
            Self::Svm => SVM,
            Self::Arm64 => ARM64,
            Self::Riscv => RISCV,
        }
    }

    /// Name of a raw exit reason; an unknown one keeps its number.
    #[must_use]
    pub fn exit_name(self, reason: u64) -> String {
        ExitReason::new(self, reason).to_string()
    }
}

/// Why a vCPU left its guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExitReason {
    /// Whose code it is.
    pub isa: Isa,
    /// The code: on VMX the basic reason, without the flags of the upper half; on arm64 the class
    /// of a trap, other exits from [`Self::ARM64_TYPES`] on; on RISC-V `scause`, interrupts from
    /// [`Self::RISCV_INTERRUPTS`] on.
    pub code: u64,
}

impl ExitReason {
    /// The greatest code of [`Self::nameless`]; no processor has such codes.
    pub const NO_CODE: u64 = u64::MAX;
    /// On arm64, the code of an exit of type 0 that is not a trap (`ARM_EXCEPTION_IRQ` of
    /// `arch/arm64/include/asm/kvm_asm.h`).
    pub const ARM64_TYPES: u64 = 0x100;
    /// The exit for `wfi`, once `kvm_wfx_arm64` has distinguished it from `wfe`.
    pub const ARM64_WFI: Self = Self {
        isa: Isa::Arm64,
        code: 0x201,
    };
    /// The exit for `wfe`: a guest that spins for a lock. KVM treats it as a pause loop.
    pub const ARM64_WFE: Self = Self {
        isa: Isa::Arm64,
        code: 0x202,
    };
    /// On RISC-V, what is added to the number of an interrupt.
    pub const RISCV_INTERRUPTS: u64 = 0x100;

    /// From a raw code. The upper bits of a VMX reason are flags (Intel SDM volume 3, 25.9.1).
    #[must_use]
    pub fn new(isa: Isa, raw: u64) -> Self {
        let code = match isa {
            Isa::Vmx => raw & 0xffff,
            // Some traces extend a 32-bit code by its sign.
            Isa::Svm | Isa::Arm64 | Isa::Riscv => raw & 0xffff_ffff,
        };
        assert!(
            code <= raw && code <= u64::from(u32::MAX),
            "a code is a part of what was read"
        );
        Self { isa, code }
    }

    /// Of arm64's `kvm_exit`: the type of the exit (`ret`) and the class of its trap (`esr_ec`).
    #[must_use]
    pub fn arm64(ret: u64, class: u64) -> Self {
        let isa = Isa::Arm64;
        let code = match ret {
            2 => class & 0x3f,
            // `HVC_STUB_ERR`: nothing is there to enter a guest.
            0x100.. => Self::ARM64_TYPES + 0xff,
            kind => Self::ARM64_TYPES + kind,
        };
        Self { isa, code }
    }

    /// Of RISC-V's `kvm_exit`: the highest bit of `scause` marks interrupts.
    #[must_use]
    pub fn riscv(scause: u64) -> Self {
        let interrupt = scause >> 63 == 1;
        let number = scause & 0xff;
        let code = number + if interrupt { Self::RISCV_INTERRUPTS } else { 0 };
        let isa = Isa::Riscv;
        Self { isa, code }
    }

    /// A reason that was printed by a name which no table has, the `at`-th of its trace: that
    /// there was an exit is known, and by the trace its name ([`crate::About::exit_names`]).
    #[must_use]
    pub fn nameless(isa: Isa, at: u32) -> Self {
        let code = Self::NO_CODE - u64::from(at);
        Self { isa, code }
    }

    /// Which of its trace's names it has, if it is [`Self::nameless`].
    #[must_use]
    pub fn name_at(self) -> Option<usize> {
        let at = u32::try_from(Self::NO_CODE - self.code).ok()?;
        usize::try_from(at).ok()
    }

    /// The code, if it has one.
    #[must_use]
    pub fn known_code(self) -> Option<u64> {
        self.name_at().is_none().then_some(self.code)
    }

    /// From the name that the kernel prints, of whatever version, or the other one of
    /// libtraceevent's plugin. Kernels of 2.6.3x on VMX have some names of SVM; `on` is the ISA as
    /// other exits of the trace show it.
    #[must_use]
    pub fn from_name(name: &str, on: Option<Isa>) -> Option<Self> {
        let isas = [Isa::Vmx, Isa::Svm, Isa::Arm64];
        let old = OLD_VMX.iter().find(|(old, _)| *old == name);
        let old = old.map(|&(_, code)| Self::new(Isa::Vmx, code));
        let known = isas.into_iter().find_map(|isa| {
            let row = isa.table().iter().find(|&&(_, known)| known == name);
            row.map(|&(code, _)| Self { isa, code })
        });
        let other = OTHER_NAMES.iter().find(|(other, ..)| *other == name);
        let other = other.map(|&(_, isa, code)| Self { isa, code });
        // What has a name in both is the older kernel's only where others show that it is.
        let old_first = old.filter(|_| on == Some(Isa::Vmx));
        old_first.or(known).or(old).or(other)
    }

    /// The name, if the code is known.
    #[must_use]
    pub fn known_name(self) -> Option<&'static str> {
        let table = self.isa.table();
        let at = table
            .binary_search_by_key(&self.code, |&(code, _)| code)
            .ok()?;
        assert!(
            table[at].0 == self.code,
            "the search gives the row of the code"
        );
        Some(table[at].1)
    }

    /// Whether the guest spun for longer than the pause loop's window; on arm64, whether it waits
    /// for an event, as its spinlocks do.
    #[must_use]
    pub fn is_pause(self) -> bool {
        self.is(40, 0x77) || self == Self::ARM64_WFE
    }

    /// Whether the guest halted its vCPU. On arm64 `wfi` and `wfe` are one class, and a halt until
    /// `kvm_wfx_arm64` distinguishes them. On RISC-V a halt is one of many virtual instructions.
    #[must_use]
    pub fn is_halt(self) -> bool {
        let idle_halt = self.isa == Isa::Svm && self.code == 0xa6;
        self.is(12, 0x78) || idle_halt || self.is_wfx() || self == Self::ARM64_WFI
    }

    /// Whether it is arm64's exit for `wfi` or `wfe`, not distinguished.
    #[must_use]
    pub fn is_wfx(self) -> bool {
        self.isa == Isa::Arm64 && self.code == 1
    }

    /// Whether an interrupt of the host came. After these alone does KVM mark a descheduled vCPU
    /// as preempted (`at_instruction_boundary` in `arch/x86/kvm/{vmx/vmx,svm/svm}.c`, Linux 6.12).
    #[must_use]
    pub fn is_host_interrupt(self) -> bool {
        let arm64 = self.isa == Isa::Arm64 && self.code == Self::ARM64_TYPES;
        let riscv = self.isa == Isa::Riscv && self.code >= Self::RISCV_INTERRUPTS;
        self.is(1, 0x60) || arm64 || riscv
    }

    /// Whether the VMX preemption timer ran out: KVM's way to end a guest's APIC timer.
    #[must_use]
    pub fn is_preemption_timer(self) -> bool {
        self.isa == Isa::Vmx && self.code == 52
    }

    fn is(self, vmx: u64, svm: u64) -> bool {
        match self.isa {
            Isa::Vmx => self.code == vmx,
            Isa::Svm => self.code == svm,
            Isa::Arm64 | Isa::Riscv => false,
        }
    }
}

impl std::fmt::Display for ExitReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.known_name() {
            Some(name) => f.write_str(name),
            None if self.name_at().is_some() => f.write_str("UNKNOWN_NAME"),
            None => write!(f, "UNKNOWN_{:#x}", self.code),
        }
    }
}

/// In which half of its address space a guest was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RipClass {
    /// The lower half: a program.
    User,
    /// The upper half: the kernel.
    Kernel,
}

impl RipClass {
    /// Of a guest's RIP; `wide` says whether the guest was seen in the upper half at all. Where it
    /// was not, it may have 32 bits, with its kernel from `0xc0000000` on or elsewhere, or run
    /// firmware: of addresses below 4 GiB nothing is known then.
    #[must_use]
    pub fn of(rip: u64, wide: bool) -> Option<Self> {
        if rip >> 63 == 1 {
            Some(Self::Kernel)
        } else if rip != 0 && (wide || rip >> 32 != 0) {
            Some(Self::User)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables_are_in_order_so_that_the_search_finds_every_row() {
        let tables = [
            (Isa::Vmx, VMX),
            (Isa::Svm, SVM),
            (Isa::Arm64, ARM64),
            (Isa::Riscv, RISCV),
        ];
        for (isa, table) in tables {
            for &(code, name) in table {
                assert_eq!(isa.exit_name(code), name);
            }
        }
    }

    #[test]
    fn a_printed_name_gives_its_code_back() {
        let pause = ExitReason::from_name("PAUSE_INSTRUCTION", None).unwrap();
        assert_eq!((pause.isa, pause.code), (Isa::Vmx, 40));
        assert!(ExitReason::from_name("hlt", None).unwrap().is_halt());
        assert_eq!(
            ExitReason::from_name("EXIT_PAUSE", None)
                .unwrap()
                .to_string(),
            "pause"
        );
        assert_eq!(
            ExitReason::from_name("PENDING_INTERRUPT", None)
                .unwrap()
                .to_string(),
            "INTERRUPT_WINDOW"
        );
        assert_eq!(ExitReason::from_name("no_such", None), None);
    }

    #[test]
    fn every_name_of_libtraceevents_plugin_and_of_old_kernels_is_an_exit_of_its_code() {
        for &(name, isa, code) in OTHER_NAMES {
            let reason = ExitReason::from_name(name, None);
            assert_eq!(reason, Some(ExitReason { isa, code }), "{name}");
        }
        for &(name, code) in OLD_VMX {
            let reason = ExitReason::from_name(name, Some(Isa::Vmx)).unwrap();
            assert_eq!((reason.isa, reason.code), (Isa::Vmx, code), "{name}");
            assert!(reason.known_name().is_some(), "{name}");
        }
        // Halts of both have their own names; a name that both have is SVM's until shown otherwise.
        let cpuid = ExitReason::from_name("cpuid", None).unwrap();
        assert_eq!((cpuid.isa, cpuid.code), (Isa::Svm, 0x72));
        assert!(ExitReason::from_name("halt", None).unwrap().is_halt());
    }

    #[test]
    fn exits_of_arm64_and_riscv_have_the_names_of_their_kernels() {
        let names = [
            (2, 1, "WFx"),
            (2, 0x24, "DABT_LOW"),
            (0, 0, "IRQ"),
            (3, 0, "IL"),
        ];
        for (ret, class, name) in names {
            assert_eq!(ExitReason::arm64(ret, class).to_string(), name);
        }
        assert_eq!(ExitReason::arm64(0xbad_ca11, 0).to_string(), "HYP_GONE");
        assert!(ExitReason::arm64(2, 1).is_halt() && ExitReason::ARM64_WFE.is_pause());
        assert!(ExitReason::arm64(0, 0).is_host_interrupt());
        let timer = ExitReason::riscv(1 << 63 | 5);
        assert_eq!(timer.to_string(), "IRQ_S_TIMER");
        assert_eq!(ExitReason::riscv(10).to_string(), "SUPERVISOR_SYSCALL");
        assert!(!ExitReason::riscv(12).is_halt());
    }

    #[test]
    fn a_low_address_is_a_programs_only_in_a_guest_that_was_seen_above() {
        assert_eq!(RipClass::of(0xc101_2345, false), None);
        assert_eq!(RipClass::of(0x40_1b98, true), Some(RipClass::User));
        assert_eq!(RipClass::of(0x7fff_0000_1000, false), Some(RipClass::User));
        assert_eq!(RipClass::of(u64::MAX, false), Some(RipClass::Kernel));
        assert_eq!(RipClass::of(0, true), None);
    }

    #[test]
    fn a_name_that_no_table_has_keeps_its_place_in_the_trace() {
        let reason = ExitReason::nameless(Isa::Vmx, 7);
        assert_eq!((reason.name_at(), reason.known_code()), (Some(7), None));
        assert_eq!(ExitReason::new(Isa::Svm, u64::MAX).name_at(), None);
    }

    #[test]
    fn only_the_host_interrupt_of_the_same_isa_is_one() {
        assert!(ExitReason::new(Isa::Svm, 0x60).is_host_interrupt());
        assert!(!ExitReason::new(Isa::Vmx, 0x60).is_host_interrupt());
    }

    #[test]
    fn a_pause_loop_exit_has_the_name_of_its_isa() {
        assert_eq!(Isa::Vmx.exit_name(40), "PAUSE_INSTRUCTION");
        assert_eq!(Isa::Svm.exit_name(0x77), "pause");
    }

    #[test]
    fn flags_of_a_vmx_reason_do_not_hide_its_name_and_unknown_ones_keep_their_number() {
        assert_eq!(Isa::Vmx.exit_name(0x8000_0021), "INVALID_STATE");
        assert_eq!(Isa::Svm.exit_name(0x999), "UNKNOWN_0x999");
    }
}
