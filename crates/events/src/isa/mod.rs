// SPDX-License-Identifier: Apache-2.0 OR MIT
//! VM exit reasons: raw code and ISA, and names spelt as the kernel's tracing spells them.

/// The ISA of a host's virtualization extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Intel VMX.
    Vmx,
    /// AMD SVM.
    Svm,
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
            _ => None,
        }
    }

    /// The lower-case word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Vmx => "vmx",
            Self::Svm => "svm",
        }
    }

    fn table(self) -> &'static [(u64, &'static str)] {
        match self {
            Self::Vmx => VMX,
            Self::Svm => SVM,
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
    /// The code: on VMX the basic reason, without the flags of the upper half.
    pub code: u64,
}

impl ExitReason {
    /// The code of [`Self::nameless`], which no processor has.
    pub const NO_CODE: u64 = u64::MAX;

    /// From a raw code. The upper bits of a VMX reason are flags (Intel SDM volume 3, 25.9.1).
    #[must_use]
    pub fn new(isa: Isa, raw: u64) -> Self {
        let code = match isa {
            Isa::Vmx => raw & 0xffff,
            // Some traces extend a 32-bit code by its sign.
            Isa::Svm => raw & 0xffff_ffff,
        };
        assert!(
            code <= raw && code <= u64::from(u32::MAX),
            "a code is a part of what was read"
        );
        Self { isa, code }
    }

    /// A reason that was printed by a name which no table has: that there was an exit is known.
    #[must_use]
    pub fn nameless(isa: Isa) -> Self {
        let code = Self::NO_CODE;
        Self { isa, code }
    }

    /// From the name that the kernel prints, or the other one of libtraceevent's plugin.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let other = OTHER_NAMES.iter().find(|(other, ..)| *other == name);
        if let Some(&(_, isa, code)) = other {
            return Some(Self { isa, code });
        }
        [Isa::Vmx, Isa::Svm].into_iter().find_map(|isa| {
            let row = isa.table().iter().find(|&&(_, known)| known == name);
            row.map(|&(code, _)| Self { isa, code })
        })
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

    /// Whether the guest spun for longer than the pause loop's window.
    #[must_use]
    pub fn is_pause(self) -> bool {
        self.is(40, 0x77)
    }

    /// Whether the guest halted its vCPU.
    #[must_use]
    pub fn is_halt(self) -> bool {
        self.is(12, 0x78)
    }

    /// Whether an interrupt of the host came. After these alone does KVM mark a descheduled vCPU
    /// as preempted (`at_instruction_boundary` in `arch/x86/kvm/{vmx/vmx,svm/svm}.c`, Linux 6.12).
    #[must_use]
    pub fn is_host_interrupt(self) -> bool {
        self.is(1, 0x60)
    }

    /// Whether the VMX preemption timer ran out: KVM's way to end a guest's APIC timer.
    #[must_use]
    pub fn is_preemption_timer(self) -> bool {
        self.isa == Isa::Vmx && self.code == 52
    }

    fn is(self, vmx: u64, svm: u64) -> bool {
        self.code
            == match self.isa {
                Isa::Vmx => vmx,
                Isa::Svm => svm,
            }
    }
}

impl std::fmt::Display for ExitReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.known_name() {
            Some(name) => f.write_str(name),
            None if self.code == Self::NO_CODE => f.write_str("UNKNOWN_NAME"),
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
    /// Of a 64-bit guest's RIP; a guest without paging or of another system may differ.
    #[must_use]
    pub fn of(rip: u64) -> Self {
        if rip >> 63 == 0 {
            Self::User
        } else {
            Self::Kernel
        }
    }
}

/// Basic exit reasons of `arch/x86/include/uapi/asm/vmx.h`, Linux 6.12.
const VMX: &[(u64, &str)] = &[
    (0, "EXCEPTION_NMI"),
    (1, "EXTERNAL_INTERRUPT"),
    (2, "TRIPLE_FAULT"),
    (3, "INIT_SIGNAL"),
    (4, "SIPI_SIGNAL"),
    (7, "INTERRUPT_WINDOW"),
    (8, "NMI_WINDOW"),
    (9, "TASK_SWITCH"),
    (10, "CPUID"),
    (12, "HLT"),
    (13, "INVD"),
    (14, "INVLPG"),
    (15, "RDPMC"),
    (16, "RDTSC"),
    (18, "VMCALL"),
    (19, "VMCLEAR"),
    (20, "VMLAUNCH"),
    (21, "VMPTRLD"),
    (22, "VMPTRST"),
    (23, "VMREAD"),
    (24, "VMRESUME"),
    (25, "VMWRITE"),
    (26, "VMOFF"),
    (27, "VMON"),
    (28, "CR_ACCESS"),
    (29, "DR_ACCESS"),
    (30, "IO_INSTRUCTION"),
    (31, "MSR_READ"),
    (32, "MSR_WRITE"),
    (33, "INVALID_STATE"),
    (34, "MSR_LOAD_FAIL"),
    (36, "MWAIT_INSTRUCTION"),
    (37, "MONITOR_TRAP_FLAG"),
    (39, "MONITOR_INSTRUCTION"),
    (40, "PAUSE_INSTRUCTION"),
    (41, "MCE_DURING_VMENTRY"),
    (43, "TPR_BELOW_THRESHOLD"),
    (44, "APIC_ACCESS"),
    (45, "EOI_INDUCED"),
    (46, "GDTR_IDTR"),
    (47, "LDTR_TR"),
    (48, "EPT_VIOLATION"),
    (49, "EPT_MISCONFIG"),
    (50, "INVEPT"),
    (51, "RDTSCP"),
    (52, "PREEMPTION_TIMER"),
    (53, "INVVPID"),
    (54, "WBINVD"),
    (55, "XSETBV"),
    (56, "APIC_WRITE"),
    (57, "RDRAND"),
    (58, "INVPCID"),
    (59, "VMFUNC"),
    (60, "ENCLS"),
    (61, "RDSEED"),
    (62, "PML_FULL"),
    (63, "XSAVES"),
    (64, "XRSTORS"),
    (67, "UMWAIT"),
    (68, "TPAUSE"),
    (74, "BUS_LOCK"),
    (75, "NOTIFY"),
];

/// Exit codes of `arch/x86/include/uapi/asm/svm.h`, Linux 6.12.
const SVM: &[(u64, &str)] = &[
    (0x0, "read_cr0"),
    (0x2, "read_cr2"),
    (0x3, "read_cr3"),
    (0x4, "read_cr4"),
    (0x8, "read_cr8"),
    (0x10, "write_cr0"),
    (0x12, "write_cr2"),
    (0x13, "write_cr3"),
    (0x14, "write_cr4"),
    (0x18, "write_cr8"),
    (0x20, "read_dr0"),
    (0x21, "read_dr1"),
    (0x22, "read_dr2"),
    (0x23, "read_dr3"),
    (0x24, "read_dr4"),
    (0x25, "read_dr5"),
    (0x26, "read_dr6"),
    (0x27, "read_dr7"),
    (0x30, "write_dr0"),
    (0x31, "write_dr1"),
    (0x32, "write_dr2"),
    (0x33, "write_dr3"),
    (0x34, "write_dr4"),
    (0x35, "write_dr5"),
    (0x36, "write_dr6"),
    (0x37, "write_dr7"),
    (0x60, "interrupt"),
    (0x61, "nmi"),
    (0x62, "smi"),
    (0x63, "init"),
    (0x64, "vintr"),
    (0x65, "cr0_sel_write"),
    (0x66, "read_idtr"),
    (0x67, "read_gdtr"),
    (0x68, "read_ldtr"),
    (0x69, "read_rt"),
    (0x6a, "write_idtr"),
    (0x6b, "write_gdtr"),
    (0x6c, "write_ldtr"),
    (0x6d, "write_rt"),
    (0x6e, "rdtsc"),
    (0x6f, "rdpmc"),
    (0x70, "pushf"),
    (0x71, "popf"),
    (0x72, "cpuid"),
    (0x73, "rsm"),
    (0x74, "iret"),
    (0x75, "swint"),
    (0x76, "invd"),
    (0x77, "pause"),
    (0x78, "hlt"),
    (0x79, "invlpg"),
    (0x7a, "invlpga"),
    (0x7b, "io"),
    (0x7c, "msr"),
    (0x7d, "task_switch"),
    (0x7e, "ferr_freeze"),
    (0x7f, "shutdown"),
    (0x80, "vmrun"),
    (0x81, "hypercall"),
    (0x82, "vmload"),
    (0x83, "vmsave"),
    (0x84, "stgi"),
    (0x85, "clgi"),
    (0x86, "skinit"),
    (0x87, "rdtscp"),
    (0x88, "icebp"),
    (0x89, "wbinvd"),
    (0x8a, "monitor"),
    (0x8b, "mwait"),
    (0x8d, "xsetbv"),
    (0x8f, "write_efer_trap"),
    (0x90, "write_cr0_trap"),
    (0x94, "write_cr4_trap"),
    (0x98, "write_cr8_trap"),
    (0xa2, "invpcid"),
    (0x400, "npf"),
    (0x401, "avic_incomplete_ipi"),
    (0x402, "avic_unaccelerated_access"),
    (0x403, "vmgexit"),
];

/// Whether codes rise, as the search for a name needs.
const fn rises(table: &[(u64, &str)]) -> bool {
    let mut at = 1;
    while at < table.len() {
        if table[at - 1].0 >= table[at].0 {
            return false;
        }
        at += 1;
    }
    true
}
const _: () = assert!(
    rises(VMX) && rises(SVM),
    "a table of exit reasons is out of order"
);

/// What libtraceevent's plugin for KVM (1.7), and so `trace-cmd report` and `perf script`, print
/// otherwise than the kernel does.
const OTHER_NAMES: &[(&str, Isa, u64)] = &[
    ("PENDING_INTERRUPT", Isa::Vmx, 7),
    ("EXIT_INTR", Isa::Svm, 0x60),
    ("EXIT_NMI", Isa::Svm, 0x61),
    ("EXIT_SMI", Isa::Svm, 0x62),
    ("EXIT_INIT", Isa::Svm, 0x63),
    ("EXIT_VINTR", Isa::Svm, 0x64),
    ("EXIT_RDTSC", Isa::Svm, 0x6e),
    ("EXIT_RDPMC", Isa::Svm, 0x6f),
    ("EXIT_CPUID", Isa::Svm, 0x72),
    ("EXIT_IRET", Isa::Svm, 0x74),
    ("EXIT_INVD", Isa::Svm, 0x76),
    ("EXIT_PAUSE", Isa::Svm, 0x77),
    ("EXIT_HLT", Isa::Svm, 0x78),
    ("EXIT_INVLPG", Isa::Svm, 0x79),
    ("EXIT_INVLPGA", Isa::Svm, 0x7a),
    ("EXIT_IOIO", Isa::Svm, 0x7b),
    ("EXIT_MSR", Isa::Svm, 0x7c),
    ("EXIT_TASK_SWITCH", Isa::Svm, 0x7d),
    ("EXIT_SHUTDOWN", Isa::Svm, 0x7f),
    ("EXIT_VMMCALL", Isa::Svm, 0x81),
    ("EXIT_WBINVD", Isa::Svm, 0x89),
    ("EXIT_MONITOR", Isa::Svm, 0x8a),
    ("EXIT_MWAIT", Isa::Svm, 0x8b),
    ("EXIT_XSETBV", Isa::Svm, 0x8d),
    ("EXIT_NPF", Isa::Svm, 0x400),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_tables_are_in_order_so_that_the_search_finds_every_row() {
        for (isa, table) in [(Isa::Vmx, VMX), (Isa::Svm, SVM)] {
            for &(code, name) in table {
                assert_eq!(isa.exit_name(code), name);
            }
        }
    }

    #[test]
    fn a_printed_name_gives_its_code_back() {
        let pause = ExitReason::from_name("PAUSE_INSTRUCTION").unwrap();
        assert_eq!((pause.isa, pause.code), (Isa::Vmx, 40));
        assert!(ExitReason::from_name("hlt").unwrap().is_halt());
        assert_eq!(
            ExitReason::from_name("EXIT_PAUSE").unwrap().to_string(),
            "pause"
        );
        assert_eq!(
            ExitReason::from_name("PENDING_INTERRUPT")
                .unwrap()
                .to_string(),
            "INTERRUPT_WINDOW"
        );
        assert_eq!(ExitReason::from_name("no_such"), None);
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
