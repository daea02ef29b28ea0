// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an observer of a host saw happen to each vCPU, in order. Left out: times, and comparing two
//! observers ([`super::beside`]).

use std::collections::BTreeMap;
use std::io::BufRead;

use super::counts::INVVPID;
use super::stream::{Event, HostTraceError, Stream};

/// `VMX` exit reasons with a detail.
const EXCEPTION: u64 = 0;
const INTERRUPT: u64 = 1;
const VMCALL: u64 = 18;
const RDMSR: u64 = 31;
const WRMSR: u64 = 32;
/// The type of INVVPID that names an address.
const OF_AN_ADDRESS: u64 = 0;
/// The type of INVVPID that names a vCPU alone.
const OF_A_VCPU: u64 = 1;
/// Registers that send interprocessor interrupts: `ICR` and `SELF_IPI` of the x2APIC, and Hyper-V's
/// (`arch/x86/include/asm/apicdef.h` and `hyperv-tlfs.h`, Linux 6.12).
const SENDING: [u64; 3] = [0x830, 0x83f, 0x4000_0071];
/// Registers that set a timer, for which KVM's decoder has one name: the deadline and the x2APIC's
/// initial count.
const TIMERS: [u64; 2] = [0x6e0, 0x838];
/// The bit of interruption information that says that there is one.
const VALID: u64 = 1 << 31;
/// Its type, and the two that are interrupts: external ones, and those of INT.
const TYPE: u64 = 7 << 8;
const TYPES: [u64; 2] = [0, 4 << 8];

/// What can be seen by both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// A VM exit: its reason, with [`exit`] the vector of an interrupt.
    Exit,
    /// A VM entry: the processor.
    Entry,
    /// A guest reads a register of its processor: which.
    MsrRead,
    /// A guest writes one: [`written`].
    MsrWrite,
    /// A guest sends interprocessor interrupts: the vector.
    Ipi,
    /// A hypercall: its number.
    Hypercall,
    /// An interrupt that a VM entry injects: its vector.
    Injected,
    /// The host invalidates one of the vCPU's pages by INVVPID: its address.
    Invalidated,
    /// The host invalidates all of the vCPU's pages by INVVPID: no value.
    Flushed,
}

impl Seen {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 9] = [
        Self::Exit,
        Self::Entry,
        Self::MsrRead,
        Self::MsrWrite,
        Self::Ipi,
        Self::Hypercall,
        Self::Injected,
        Self::Invalidated,
        Self::Flushed,
    ];
}

/// The value of a VM exit: of an interrupt, also its vector and type.
#[must_use]
pub fn exit(reason: u64, interruption: u64) -> u128 {
    let value = match reason & 0xffff {
        reason @ (EXCEPTION | INTERRUPT) => reason | (interruption & 0xffff_ffff) << 16,
        reason => reason,
    };
    value.into()
}

/// The value of a written MSR: which, and what is written. Registers of timers have one name.
#[must_use]
pub fn written(register: u64, value: u64) -> u128 {
    let register = match TIMERS.contains(&register) {
        true => TIMERS[0],
        false => register,
    };
    u128::from(register) << 64 | u128::from(value)
}

/// What one observer saw.
#[derive(Debug, Default, Clone)]
pub struct Sequences {
    pub(super) vcpus: BTreeMap<u64, Vcpu>,
    exits: u64,
}

/// What one observer saw of one vCPU.
#[derive(Debug, Default, Clone)]
pub(super) struct Vcpu {
    pub exits: Vec<Exit>,
    /// Exits and written MSRs, by which it is known.
    pub marks: Vec<(Seen, u128)>,
    /// The others, each with the number of exits before it.
    pub others: BTreeMap<Seen, Vec<(usize, u128)>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Exit {
    pub value: u128,
    /// Its place among the exits of all vCPUs, from 1.
    pub order: u64,
    /// Its place among the vCPU's marks.
    pub mark: usize,
}

impl Sequences {
    /// Reads those of a trace, from the host's start to the window's end.
    ///
    /// # Errors
    /// [`HostTraceError`] for a trace that is cut off or damaged.
    pub fn read(input: impl BufRead) -> Result<Self, HostTraceError> {
        let mut stream = Stream::new(input)?;
        let mut all = Self::default();
        while let Some((cpu, event)) = stream.event()? {
            match event {
                Event::Entry {
                    vpid, interruption, ..
                } => {
                    if interruption & VALID != 0 && TYPES.contains(&(interruption & TYPE)) {
                        all.saw(vpid, Seen::Injected, interruption & 0xff);
                    }
                    all.saw(vpid, Seen::Entry, cpu as u64);
                }
                Event::Exit {
                    reason,
                    vpid,
                    detail,
                    high,
                } => all.left(vpid, reason, detail, high),
                Event::Control(INVVPID, false, OF_AN_ADDRESS, [vpid, address]) => {
                    all.saw(vpid & 0xffff, Seen::Invalidated, address);
                }
                Event::Control(INVVPID, false, OF_A_VCPU, [vpid, _]) => {
                    all.saw(vpid & 0xffff, Seen::Flushed, 0_u8);
                }
                _ => {}
            }
        }
        Ok(all)
    }

    /// A VM exit, as a trace has it.
    fn left(&mut self, vpid: u64, reason: u64, detail: u64, high: u64) {
        self.saw(vpid, Seen::Exit, exit(reason, detail));
        let (register, value) = (detail & 0xffff_ffff, high << 32 | detail >> 32);
        match reason & 0xffff {
            VMCALL => self.saw(vpid, Seen::Hypercall, detail),
            RDMSR => self.saw(vpid, Seen::MsrRead, register),
            WRMSR => {
                self.saw(vpid, Seen::MsrWrite, written(register, value));
                if SENDING.contains(&register) {
                    self.saw(vpid, Seen::Ipi, value & 0xff);
                }
            }
            _ => {}
        }
    }

    /// Notes what happened to a vCPU, after all that was noted before of any.
    pub fn saw(&mut self, vcpu: u64, seen: Seen, value: impl Into<u128>) {
        let its = self.vcpus.entry(vcpu).or_default();
        let value = value.into();
        if seen == Seen::Exit {
            self.exits += 1;
            its.exits.push(Exit {
                value,
                order: self.exits,
                mark: its.marks.len(),
            });
        } else {
            let others = its.others.entry(seen).or_default();
            others.push((its.exits.len(), value));
        }
        if matches!(seen, Seen::Exit | Seen::MsrWrite) {
            its.marks.push((seen, value));
        }
    }
}
