// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an exit was about: a port, a register, a hypercall, an address; and its own time, which is
//! that from exit to entry without the time that its vCPU stood ready or slept uninterruptibly.
//!
//! KVM's events between an exit and the entry show what it was about. The first of a kind counts.
//! Left out: what the VMM did meanwhile, which a host's trace does not show.

use std::collections::BTreeMap;

use steady_events::{Event, ExitReason, IrqOf, Isa, Kind};

use crate::spread::{add, heavier};

/// Pairs of a reason and what it was about that one vCPU's exits are divided by.
const MOST_DETAILS: usize = 512;
/// Guest addresses are distinguished by pages.
const PAGE: u64 = 12;
/// Memory without a device is distinguished by parts of 64 MiB.
pub const PART: u64 = 26;

/// All parts of memory beyond those that have a row.
pub const REST: u64 = u64::MAX;

/// What an exit was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Detail {
    /// Nothing shows it, or there are too many to distinguish.
    Untold,
    /// This I/O port.
    Port(u16),
    /// This model-specific register.
    Msr(u32),
    /// The register that programs the timer.
    Timer,
    /// This register of the local APIC.
    Apic(u32),
    /// The hypercall of this number.
    Hypercall(u64),
    /// An IPI of another vCPU of the VM, which an interrupt of the host brings.
    Ipi,
    /// Memory that a device answers for, by its page.
    Device(u64),
    /// Memory that the host had to map, by its part of the guest's memory.
    Memory(u64),
    /// Memory that the host had mapped and write-protected, by the same parts.
    Protected(u64),
}

/// An exit that lasts longer, in nanoseconds, is not put down to an interrupt that has no end: most
/// take microseconds.
const LONGEST_IRQ_NS: u64 = 1_000_000;
/// Vectors of Linux's IPIs for a reschedule and for calls (`arch/x86/include/asm/irq_vectors.h`,
/// Linux 6.12).
const IPIS: std::ops::RangeInclusive<u8> = 0xfb..=0xfd;

/// Whether a fault was a write to a page that is mapped for reading: by the exit qualification of
/// VMX (Intel SDM vol. 3, table 28-7: bit 1 a write, bit 3 readable), or the error code of a nested
/// page fault (AMD APM vol. 2, 15.25.6: bit 0 present, bit 1 a write).
fn is_protected(isa: Isa, error: u64) -> bool {
    match isa {
        Isa::Vmx => error & 0b1010 == 0b1010,
        Isa::Svm => error & 0b11 == 0b11,
        _ => false,
    }
}

/// Exits of one reason that were about one thing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub exits: u64,
    /// Of these, how many went back to the VMM.
    pub by_vmm: u64,
    /// Their own time.
    pub by_vmm_ns: u64,
    /// For what KVM went back to the VMM in most of that time (`KVM_EXIT_*`), and by how much
    /// longer than for all else.
    pub user: Option<(u32, u64)>,
    /// Their own time.
    pub own_ns: u64,
    /// When the longest began, and its own time.
    pub worst: (u64, u64),
    /// The pCPU of the longest.
    pub worst_cpu: u32,
    /// Of their own time, in exits in which the host served an interrupt by its own records.
    pub host_irq_ns: u64,
    /// What these interrupts were for in most of that, and by how much longer than all else.
    pub irq: Option<(IrqOf, u64)>,
    /// Of it, in faults at the page of the fault before.
    pub again_ns: u64,
}

/// The exit that goes on.
#[derive(Debug, Clone, Copy)]
struct Open {
    reason: ExitReason,
    since_ns: u64,
    about: Option<Detail>,
    by_vmm: Option<u32>,
    not_own_ns: u64,
    /// Whether a record shows the host serve an interrupt in it.
    host_irq: HostIrq,
    /// Whether the fault before was at the same page.
    again: bool,
}

/// Exits of one vCPU.
#[derive(Debug, Default)]
pub struct Details {
    /// By reason and what they were about.
    pub by: BTreeMap<(ExitReason, Detail), Sum>,
    open: Option<Open>,
    /// The page of the last fault.
    last_page: Option<u64>,
    /// The exit that the trace's end cut off.
    pub cut_off: Option<CutOff>,
}

/// An exit that had not ended when the trace did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutOff {
    /// Its reason.
    pub reason: ExitReason,
    /// What it was about.
    pub about: Detail,
    /// For what KVM went back to the VMM (`KVM_EXIT_*`).
    pub user: Option<u32>,
    /// When it began, in nanoseconds.
    pub since_ns: u64,
    /// Its own time up to the trace's last record, in nanoseconds.
    pub own_ns: u64,
}

impl Details {
    /// An event of the vCPU's thread. `not_own_ns` is for how long in all, up to now, the vCPU did
    /// not run for reasons that are not the exit's.
    pub fn event(&mut self, event: &Event<'_>, not_own_ns: u64) {
        let about = match event.kind {
            Kind::Exit { reason, .. } => {
                self.open = Some(Open {
                    reason,
                    since_ns: event.time_ns,
                    about: None,
                    by_vmm: None,
                    not_own_ns,
                    host_irq: HostIrq::default(),
                    again: false,
                });
                return;
            }
            Kind::Entry { .. } => return self.entry(event, not_own_ns),
            Kind::UserExit { reason } => {
                if let Some(open) = &mut self.open {
                    open.by_vmm = Some(reason);
                }
                return;
            }
            Kind::Port { port } => Detail::Port(port),
            Kind::MsrRead { index } | Kind::MsrWrite { index, .. } => of_register(index),
            Kind::TimerProgrammed { .. } => Detail::Timer,
            Kind::ApicWrite { register, .. } => Detail::Apic(register),
            Kind::Hypercall { nr } => Detail::Hypercall(nr),
            Kind::Mmio { address } => Detail::Device(address >> PAGE),
            Kind::PageFault { address, error } => return self.fault(address, error),
            Kind::HostIrq { begins, of } => {
                if let Some(open) = &mut self.open {
                    open.host_irq.event(begins.then_some(of), event.time_ns);
                }
                return;
            }
            Kind::HostTimer => {
                if let Some(open) = &mut self.open {
                    open.host_irq.endless = true;
                }
                return;
            }
            Kind::Injected { vector } if IPIS.contains(&vector) => return self.by_ipi(),
            _ => return,
        };
        if let Some(open) = &mut self.open {
            // A fault at a device's address is first a fault, then the device's.
            if matches!(
                open.about,
                None | Some(Detail::Memory(_) | Detail::Protected(_))
            ) {
                open.about = Some(about);
            }
        }
    }

    fn fault(&mut self, address: u64, error: u64) {
        let page = address >> PAGE;
        let again = self.last_page.replace(page) == Some(page);
        let Some(open) = &mut self.open else { return };
        open.again |= again;
        let about = match is_protected(open.reason.isa, error) {
            true => Detail::Protected(address >> PART),
            false => Detail::Memory(address >> PART),
        };
        open.about.get_or_insert(about);
    }

    /// The trace is over: how long the exit that goes on took up to here.
    pub fn finish(&mut self, now_ns: u64, not_own_ns: u64) {
        let Some(open) = self.open.take() else { return };
        let took_ns = now_ns.saturating_sub(open.since_ns);
        self.cut_off = Some(CutOff {
            reason: open.reason,
            about: open.about.unwrap_or(Detail::Untold),
            user: open.by_vmm,
            since_ns: open.since_ns,
            own_ns: took_ns.saturating_sub(not_own_ns.saturating_sub(open.not_own_ns)),
        });
    }

    /// Events were lost: the exit that goes on has no end that is known.
    pub fn lost(&mut self) {
        self.open = None;
    }

    /// The exit that goes on was brought by an IPI of another vCPU, if by an interrupt.
    pub fn by_ipi(&mut self) {
        if let Some(open) = &mut self.open
            && open.reason.is_host_interrupt()
        {
            open.about.get_or_insert(Detail::Ipi);
        }
    }

    /// Why KVM went back to the VMM in the exit that goes on.
    #[must_use]
    pub fn user(&self) -> Option<u32> {
        self.open.and_then(|open| open.by_vmm)
    }

    fn entry(&mut self, event: &Event<'_>, not_own_ns: u64) {
        let Some(open) = self.open.take() else { return };
        let took_ns = event.time_ns.saturating_sub(open.since_ns);
        let own_ns = took_ns.saturating_sub(not_own_ns.saturating_sub(open.not_own_ns));
        assert!(own_ns <= took_ns, "a part of the time from exit to entry");
        let mut key = (open.reason, open.about.unwrap_or(Detail::Untold));
        if self.by.len() >= MOST_DETAILS && !self.by.contains_key(&key) {
            key.1 = match key.1 {
                Detail::Memory(_) => Detail::Memory(REST),
                Detail::Protected(_) => Detail::Protected(REST),
                _ => Detail::Untold,
            };
        }
        if self.by.len() >= 2 * MOST_DETAILS && !self.by.contains_key(&key) {
            return;
        }
        let sum = self.by.entry(key).or_default();
        sum.exits += 1;
        if let Some(reason) = open.by_vmm {
            sum.by_vmm += 1;
            add(&mut sum.by_vmm_ns, own_ns);
            sum.user = Some(heavier(sum.user, (reason, own_ns)));
        }
        add(&mut sum.own_ns, own_ns);
        let irq_ns = match open.reason.is_host_interrupt() {
            true => open.host_irq.of(own_ns),
            false => open.host_irq.ns.min(own_ns),
        };
        add(&mut sum.host_irq_ns, irq_ns);
        if let Some((of, _)) = open.host_irq.most.filter(|_| irq_ns > 0) {
            sum.irq = Some(heavier(sum.irq, (of, irq_ns)));
        }
        add(&mut sum.again_ns, if open.again { own_ns } else { 0 });
        let parts_ns = sum.host_irq_ns.max(sum.again_ns);
        assert!(parts_ns <= sum.own_ns, "parts of their own time");
        if own_ns > sum.worst.1 {
            (sum.worst, sum.worst_cpu) = ((open.since_ns, own_ns), event.cpu);
        }
    }
}

/// Interrupts of the host in one exit.
#[derive(Debug, Clone, Copy, Default)]
struct HostIrq {
    depth: u32,
    since_ns: u64,
    /// Those that ended, in nanoseconds.
    ns: u64,
    /// What it was for that goes on, and what most of these were for.
    of: Option<IrqOf>,
    most: Option<(IrqOf, u64)>,
    /// One came whose end the trace does not show.
    endless: bool,
}

impl HostIrq {
    fn event(&mut self, begins: Option<IrqOf>, now_ns: u64) {
        if begins.is_some() {
            if self.depth == 0 {
                (self.since_ns, self.of) = (now_ns, begins);
            }
            self.depth = self.depth.saturating_add(1);
        } else if self.depth > 0 {
            self.depth -= 1;
            if self.depth == 0 {
                let took_ns = now_ns.saturating_sub(self.since_ns);
                add(&mut self.ns, took_ns);
                self.most = self.of.map(|of| heavier(self.most, (of, took_ns)));
            }
        }
    }

    /// How much of an exit's own time they took. One without an end may have taken all of a short
    /// exit; a long one took something else.
    fn of(&self, own_ns: u64) -> u64 {
        let endless = self.endless || self.depth > 0;
        match endless && own_ns < LONGEST_IRQ_NS {
            true => own_ns,
            false => self.ns.min(own_ns),
        }
    }
}

/// A model-specific register. One of an x2APIC is the APIC's: binary traces show a write to it as
/// both, and text only as this (Intel SDM vol. 3, 11.12.1.2).
fn of_register(index: u32) -> Detail {
    match index {
        0x800..=0x8ff => Detail::Apic((index - 0x800) << 4),
        _ => Detail::Msr(index),
    }
}

/// What answers at a port of a PC (QEMU's `i440fx` and `q35` machines, `hw/i386`), or at a page of
/// its memory. Other VMMs keep to the old ports.
#[must_use]
pub fn device(detail: Detail) -> Option<&'static str> {
    match detail {
        Detail::Port(port) => of_port(port),
        Detail::Device(page) => match page {
            0xfee00 => Some("local APIC"),
            0xfec00 => Some("I/O APIC"),
            0xfed00 => Some("HPET"),
            0xa0..=0xbf => Some("VGA"),
            _ => None,
        },
        Detail::Msr(index) => of_msr(index),
        Detail::Timer => Some("the guest's timer"),
        Detail::Hypercall(nr) => of_hypercall(nr),
        Detail::Memory(_) => Some("memory that the host had not mapped"),
        Detail::Protected(_) => Some("memory that the host write-protected"),
        Detail::Apic(0x300 | 0x310) => Some("IPI (local APIC)"),
        Detail::Apic(0xb0) => Some("end of interrupt (local APIC)"),
        Detail::Apic(_) => Some("local APIC"),
        Detail::Ipi => Some("IPI of another vCPU"),
        Detail::Untold => None,
    }
}

fn of_port(port: u16) -> Option<&'static str> {
    Some(match port {
        0x20 | 0x21 | 0xa0 | 0xa1 | 0x4d0 | 0x4d1 => "interrupt controller (PIC)",
        0x40..=0x43 | 0x61 => "timer (PIT)",
        0x60 | 0x64 => "keyboard controller",
        0x70 | 0x71 => "clock (RTC)",
        0x80 => "delay port",
        0xe9 | 0x402 => "debug console",
        0x1f0..=0x1f7 | 0x3f6 | 0x170..=0x177 | 0x376 => "IDE disk",
        0x3b0..=0x3df => "VGA",
        0x3f8..=0x3ff => "serial line COM1",
        0x2f8..=0x2ff => "serial line COM2",
        0x510 | 0x511 | 0x514 => "firmware configuration (fw_cfg)",
        0x608 | 0xb008 => "ACPI timer",
        0xcf8..=0xcff => "PCI configuration",
        0xae00..=0xae1f => "PCI or CPU hotplug",
        _ => return None,
    })
}

/// `arch/x86/include/asm/msr-index.h` and `arch/x86/include/uapi/asm/kvm_para.h`, Linux 6.12.
fn of_msr(index: u32) -> Option<&'static str> {
    Some(match index {
        0x10 => "time stamp counter",
        0x48 => "SPEC_CTRL",
        0x49 => "PRED_CMD",
        0x6e0 => "the guest's timer",
        0x4b56_4d00..=0x4b56_4d08 => "KVM's own registers",
        0x4000_0000..=0x4000_01ff => "Hyper-V's registers",
        0xc1..=0xc8 | 0x186..=0x18d | 0x38d..=0x390 => "performance counters",
        _ => return None,
    })
}

/// `include/uapi/linux/kvm_para.h`, Linux 6.12.
fn of_hypercall(nr: u64) -> Option<&'static str> {
    Some(match nr {
        1 => "KVM_HC_VAPIC_POLL_IRQ",
        5 => "KVM_HC_KICK_CPU",
        9 => "KVM_HC_CLOCK_PAIRING",
        10 => "KVM_HC_SEND_IPI",
        11 => "KVM_HC_SCHED_YIELD",
        12 => "KVM_HC_MAP_GPA_RANGE",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use steady_events::Gap;

    const IO: ExitReason = ExitReason {
        isa: Isa::Vmx,
        code: 30,
    };

    fn event(time_ns: u64, kind: Kind<'static>) -> Event<'static> {
        Event {
            time_ns,
            cpu: 3,
            tid: 1,
            comm: b"CPU 0/KVM",
            process: 0,
            gap: Gap::None,
            kind,
        }
    }

    fn exit() -> Kind<'static> {
        Kind::Exit {
            vcpu: None,
            reason: IO,
            rip: 0,
            interrupt: 0,
            address: 0,
        }
    }

    #[test]
    fn an_exits_own_time_is_without_that_of_waiting_for_a_turn() {
        let mut details = Details::default();
        details.event(&event(100, exit()), 7);
        details.event(&event(110, Kind::Port { port: 0x3f8 }), 7);
        details.event(&event(120, Kind::UserExit { reason: 2 }), 7);
        details.event(&event(200, Kind::Entry { vcpu: None }), 37);
        let sum = details.by[&(IO, Detail::Port(0x3f8))];
        assert_eq!((sum.exits, sum.by_vmm, sum.own_ns), (1, 1, 70));
        assert_eq!((sum.worst, sum.worst_cpu), ((100, 70), 3));
    }

    #[test]
    fn a_fault_at_a_devices_address_is_the_devices() {
        let mut details = Details::default();
        details.event(&event(0, exit()), 0);
        details.event(
            &event(
                1,
                Kind::PageFault {
                    address: 0xfee0_0020,
                    error: 0,
                },
            ),
            0,
        );
        details.event(
            &event(
                2,
                Kind::Mmio {
                    address: 0xfee0_0020,
                },
            ),
            0,
        );
        details.event(&event(9, Kind::Entry { vcpu: None }), 0);
        let (&(_, about), _) = details.by.iter().next().unwrap();
        assert_eq!(about, Detail::Device(0xfee00));
        assert_eq!(device(about), Some("local APIC"));
    }

    #[test]
    fn a_register_of_an_x2apic_is_the_apics() {
        assert_eq!(of_register(0x830), Detail::Apic(0x300));
        assert_eq!(of_register(0x48), Detail::Msr(0x48));
    }

    #[test]
    fn more_things_than_the_bound_are_counted_as_untold() {
        let mut details = Details::default();
        for port in 0..u16::try_from(MOST_DETAILS + 10).unwrap() {
            details.event(&event(0, exit()), 0);
            details.event(&event(0, Kind::Port { port }), 0);
            details.event(&event(1, Kind::Entry { vcpu: None }), 0);
        }
        assert_eq!(details.by.len(), MOST_DETAILS + 1);
        assert_eq!(details.by[&(IO, Detail::Untold)].exits, 10);
    }
}
