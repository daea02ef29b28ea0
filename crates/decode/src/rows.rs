// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table: tracepoints of Linux 6.12 (`arch/x86/kvm/trace.h`, `include/trace/events/`), of older
//! kernels where they had other names, and the probes of `steady record`.

use steady_events::{ExitReason, IrqOf, Isa, Kind, Task, TaskState, probe, timer, user_exit};

use crate::fields::{Fields, Row};

/// A tracepoint of any system.
const fn row(
    name: &'static str,
    fields: &'static [&'static str],
    read: for<'r, 'a> fn(&Fields<'r, 'a>) -> Option<Kind<'a>>,
) -> Row {
    Row {
        name,
        system: None,
        fields,
        read,
    }
}

/// A probe of `steady record`: its name is ours in our group alone.
const fn probed(
    name: &'static str,
    fields: &'static [&'static str],
    read: for<'r, 'a> fn(&Fields<'r, 'a>) -> Option<Kind<'a>>,
) -> Row {
    Row {
        name,
        system: Some(probe::GROUP),
        fields,
        read,
    }
}

/// Every event that is known, each in one row.
pub static KNOWN: &[Row] = &[
    row("kvm_entry", &["vcpu_id|vcpu"], |f| {
        Some(Kind::Entry { vcpu: f.u32(0) })
    }),
    row(
        "kvm_exit",
        &[
            "vcpu_id|vcpu",
            "exit_reason|reason",
            "guest_rip|rip|vcpu_pc|sepc",
            "isa",
            "intr_info",
            "esr_ec",
            "ret",
            "scause",
            "info2",
        ],
        exit,
    ),
    row("kvm_wfx_arm64", &["is_wfe"], |f| {
        let event = f.flag(0)?;
        Some(Kind::GuestWait { event })
    }),
    row(
        "sched_switch",
        &[
            "prev_pid",
            "prev_comm",
            "prev_state",
            "next_pid",
            "next_comm",
            "prev_prio",
            "next_prio",
        ],
        switch,
    ),
    row("sched_wakeup", &["pid", "target_cpu|CPU"], wakeup),
    row("sched_wakeup_new", &["pid", "target_cpu|CPU"], wakeup),
    row("sched_waking", &["pid", "target_cpu|CPU"], |f| {
        let (tid, cpu) = (f.tid(0)?, f.u32(1)?);
        Some(Kind::Waking { tid, cpu })
    }),
    row("sched_migrate_task", &["pid", "dest_cpu"], |f| {
        let (tid, to) = (f.tid(0)?, f.u32(1)?);
        Some(Kind::Migrate { tid, to })
    }),
    row("kvm_apic_ipi", &["icr_low|vec"], |f| {
        let vector = f.vector(0)?;
        Some(Kind::IpiSent { vector })
    }),
    row("kvm_apic_accept_irq", &["apicid", "vec"], |f| {
        let (apic, vector) = (f.u32(0)?, f.vector(1)?);
        Some(Kind::IpiAccepted { apic, vector })
    }),
    row("kvm_inj_virq", &["vector|irq|IRQ"], |f| {
        let vector = f.vector(0)?;
        Some(Kind::Injected { vector })
    }),
    row("kvm_hypercall", &["nr"], |f| {
        Some(Kind::Hypercall { nr: f.u64(0)? })
    }),
    row("kvm_pv_tlb_flush", &["need_flush_tlb"], |f| {
        let needed = f.flag(0)?;
        Some(Kind::PvTlbFlush { needed })
    }),
    row("kvm_msr", &["write", "ecx|msr_write", "data"], msr),
    row("kvm_apic", &["rw", "reg", "val"], apic),
    row("kvm_vcpu_wakeup", &["ns", "waited"], |f| {
        let (halted_ns, slept) = (f.u64(0)?, f.flag(1).unwrap_or(true));
        Some(Kind::HaltEnd { halted_ns, slept })
    }),
    row("kvm_halt_poll_ns", &["new"], |f| {
        let limit_ns = f.u64(0)?;
        Some(Kind::HaltPoll { limit_ns })
    }),
    row("kvm_ple_window_update", &["new"], ple_window),
    row("kvm_ple_window", &["new"], ple_window),
    row("kvm_pio", &["port"], |f| {
        let port = u16::try_from(f.u64(0)?).ok()?;
        Some(Kind::Port { port })
    }),
    row("kvm_mmio", &["gpa"], |f| {
        Some(Kind::Mmio { address: f.u64(0)? })
    }),
    row(
        "kvm_page_fault",
        &["fault_address|address", "error_code"],
        |f| {
            let (address, error) = (f.u64(0)?, f.u64(1).unwrap_or(0));
            Some(Kind::PageFault { address, error })
        },
    ),
    row("kvm_userspace_exit", &["reason", "errno"], |f| {
        // A signal came first: the reason is that of an exit before.
        if f.u64(1).map(u64::cast_signed) == Some(-4) {
            let reason = user_exit::INTR;
            return Some(Kind::UserExit { reason });
        }
        let reason = f.u32(0).unwrap_or(user_exit::UNKNOWN);
        Some(Kind::UserExit { reason })
    }),
    row("irq_handler_entry", &["name"], |f| {
        host_irq(true, f.str(0).map_or(IrqOf::Device, IrqOf::handler))
    }),
    row("irq_handler_exit", &[], |_| host_irq(false, IrqOf::Device)),
    row("softirq_entry", &["vec"], |f| {
        host_irq(true, f.u64(0).map_or(IrqOf::Deferred, IrqOf::softirq))
    }),
    row("softirq_exit", &[], |_| host_irq(false, IrqOf::Deferred)),
    row("local_timer_entry", &[], |_| Some(Kind::HostTimer)),
    row("csd_queue_cpu", &["cpu", "csd", "func"], |f| {
        Some(Kind::CallQueued {
            target: f.u32(0)?,
            work: f.u64(1)?,
            flush: f.str(2).map(|name| name.starts_with(b"flush_tlb")),
        })
    }),
    row("csd_function_exit", &["csd"], |f| {
        let work = f.u64(0)?;
        Some(Kind::CallDone { work })
    }),
    row("tlb_flush", &["reason", "pages"], |f| {
        let (reason, pages) = (f.u64(0)?, f.u64(1).unwrap_or(u64::MAX));
        Some(Kind::TlbFlush { reason, pages })
    }),
    probed("spin_begin", &["vcpu", "vm"], |f| {
        let (vcpu, vm) = (f.u64(0), f.u64(1));
        Some(Kind::SpinBegin { vcpu, vm })
    }),
    probed("spin_end", &[], |_| Some(Kind::SpinEnd)),
    probed("boost", &["target", "number"], |f| {
        let (target, number) = (f.u64(0)?, f.u32(1));
        Some(Kind::BoostTry { target, number })
    }),
    probed("boost_return", &["value"], |f| {
        let value = f.u64(0)?.cast_signed();
        Some(Kind::BoostReturn { value })
    }),
    probed("vcpu_load", &["vcpu", "vm", "number"], |f| {
        let (vcpu, vm, number) = (f.u64(0)?, f.u64(1), f.u32(2));
        Some(Kind::VcpuLoad { vcpu, vm, number })
    }),
    probed("shootdown_begin", &[], |_| Some(Kind::ShootdownBegin)),
    probed("shootdown_end", &[], |_| Some(Kind::ShootdownEnd)),
];

/// `SVM_EXIT_NPF`, whose second number is the guest's address.
const NESTED_FAULT: ExitReason = ExitReason {
    isa: Isa::Svm,
    code: 0x400,
};

fn exit<'a>(f: &Fields<'_, 'a>) -> Option<Kind<'a>> {
    if let Some(isa) = f.u64(3).and_then(Isa::from_number) {
        f.exits.isa.set(Some(isa));
    }
    let reason = match f.u64(1) {
        Some(code) => ExitReason::new(f.exits.isa.get().unwrap_or(Isa::Vmx), code),
        None => match f.str(1) {
            Some(name) => f.exits.named(name),
            None => elsewhere(f)?,
        },
    };
    Some(Kind::Exit {
        vcpu: f.u32(0),
        reason,
        rip: f.u64(2).unwrap_or(0),
        interrupt: f.u32(4).unwrap_or(0),
        address: if reason == NESTED_FAULT {
            f.u64(8).unwrap_or(0)
        } else {
            0
        },
    })
}

/// The reason of an exit on arm64 or RISC-V.
fn elsewhere(f: &Fields<'_, '_>) -> Option<ExitReason> {
    if let Some(class) = f.u64(5) {
        let ret = f.u64(6).or(match f.str(6) {
            Some(b"IRQ") => Some(0),
            Some(b"SERROR") => Some(1),
            // Kernels before 4.4 print no type, and trace traps alone with a class.
            Some(b"TRAP") | None => Some(2),
            Some(_) => Some(u64::MAX),
        });
        return Some(ExitReason::arm64(ret?, class));
    }
    f.u64(7).map(ExitReason::riscv)
}

fn switch<'a>(f: &Fields<'_, 'a>) -> Option<Kind<'a>> {
    let task = |tid, comm, prio| {
        Some(Task {
            tid: f.tid(tid)?,
            comm: f.str(comm).unwrap_or(b""),
            prio: f.u64(prio).and_then(|prio| match prio {
                // The deadline class, -1 in 32 or 64 bits.
                0xffff_ffff | u64::MAX => Some(Task::DEADLINE),
                other => u8::try_from(other).ok(),
            }),
        })
    };
    Some(Kind::Switch {
        prev: task(0, 1, 5)?,
        state: match f.u64(2) {
            Some(bits) => TaskState::from_bits(bits),
            None => TaskState::from_letters(f.str(2)?),
        },
        next: task(3, 4, 6)?,
    })
}

fn host_irq<'a>(begins: bool, of: IrqOf) -> Option<Kind<'a>> {
    Some(Kind::HostIrq { begins, of })
}

fn wakeup<'a>(f: &Fields<'_, 'a>) -> Option<Kind<'a>> {
    let (tid, cpu) = (f.tid(0)?, f.u32(1)?);
    Some(Kind::Wakeup { tid, cpu })
}

fn ple_window<'a>(f: &Fields<'_, 'a>) -> Option<Kind<'a>> {
    let window = f.u64(0)?;
    Some(Kind::PleWindow { window })
}

/// Printed as `msr_write 6e0 = 0x28f400ab`, where the index has no prefix.
fn msr<'a>(f: &Fields<'_, 'a>) -> Option<Kind<'a>> {
    if f.u64(0) == Some(0) {
        return Some(Kind::MsrRead { index: f.u32(1)? });
    }
    let (index, value) = (f.u32(1)?, f.u64(2).unwrap_or(0));
    Some(if timer::is_timer_msr(index) {
        Kind::TimerProgrammed { value }
    } else {
        Kind::MsrWrite { index, value }
    })
}

fn apic<'a>(f: &Fields<'_, 'a>) -> Option<Kind<'a>> {
    if f.u64(0) != Some(1) {
        return Some(Kind::Other);
    }
    let (register, value) = (f.u32(1)?, f.u64(2).unwrap_or(0));
    Some(if register == timer::APIC_TMICT {
        Kind::TimerProgrammed { value }
    } else {
        Kind::ApicWrite { register, value }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::{MOST_FIELDS, MOST_NAMES};

    #[test]
    fn every_row_fits_its_layout_and_no_tracepoint_has_two() {
        for (at, row) in KNOWN.iter().enumerate() {
            assert!(row.fields.len() <= MOST_FIELDS, "{}", row.name);
            let names = row.fields.iter().map(|names| names.split('|').count());
            assert!(names.max().unwrap_or(0) <= MOST_NAMES, "{}", row.name);
            assert!(
                KNOWN[at + 1..].iter().all(|other| other.name != row.name),
                "{}",
                row.name
            );
        }
    }
}
