// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The events.

use crate::isa::ExitReason;
use crate::remedy::RemedyEvent;

/// One thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// When, in nanoseconds of the trace's clock.
    pub time_ns: u64,
    /// On which CPU of the recorded machine.
    pub cpu: u32,
    /// In which thread; 0 is the idle task of a CPU.
    pub tid: i32,
    /// Name of that thread.
    pub comm: &'a [u8],
    /// Its process; 0 if the source does not show it.
    pub process: i32,
    /// Whether events were lost just before it.
    pub gap: Gap,
    /// What.
    pub kind: Kind<'a>,
}

/// Whether events were lost just before an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Gap {
    /// None that the source shows.
    #[default]
    None,
    /// Events of its CPU, since that CPU's event before.
    Cpu,
    /// Events of any CPU: the source does not show of which.
    Any,
}

/// A thread in an event of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task<'a> {
    /// Its id; 0 is the idle task of a CPU.
    pub tid: i32,
    /// Its name.
    pub comm: &'a [u8],
    /// Its priority as the kernel counts: 120 is nice 0, below 100 is real-time; `None` if the
    /// trace does not show it.
    pub prio: Option<u8>,
}

impl Task<'_> {
    /// What stands in [`Self::prio`] for the deadline class, which the kernel counts as -1.
    pub const DEADLINE: u8 = u8::MAX;
}

/// Why a thread was switched out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskState {
    /// It could have gone on: preempted, or it yielded.
    Runnable,
    /// It waits for something.
    Blocked,
    /// It waits in the kernel and no signal can end that (`D`): for memory, a disk or a lock.
    Uninterruptible,
    /// It ended.
    Dead,
}

/// `TASK_*` of a thread that waits: interruptible (1), stopped (4), traced (8), parked (0x40), and
/// uninterruptible (2).
const WAITS: u64 = 0x4f;
/// A kernel thread without work: `TASK_REPORT_IDLE`, alone, since Linux 4.14. Before, 0x80 was
/// `TASK_WAKEKILL`, never alone.
const IDLE: u64 = 0x80;
/// The same before: `TASK_NOLOAD` beside `TASK_UNINTERRUPTIBLE`.
const OLD_IDLE: u64 = 0x402;
/// `TASK_UNINTERRUPTIBLE`.
const UNINTERRUPTIBLE: u64 = 2;
/// `EXIT_DEAD` and `EXIT_ZOMBIE`.
const ENDED: u64 = 0x30;
const _: () = assert!(WAITS & ENDED == 0, "a thread waits or has ended");
const _: () = assert!(
    (WAITS | ENDED | IDLE) & 0x300 == 0,
    "the mark of preemption is in neither"
);

impl TaskState {
    /// From `prev_state` of `sched_switch`: 0 is runnable. `TASK_REPORT_MAX` (0x100 since Linux
    /// 4.14; `TASK_STATE_MAX`, 0x200 and more, before), alone, is a thread preempted in the kernel.
    /// (`include/linux/sched.h`; `__trace_sched_switch_state` in `include/trace/events/sched.h`.)
    #[must_use]
    pub fn from_bits(state: u64) -> Self {
        if state == IDLE || state == OLD_IDLE {
            Self::Blocked
        } else if state & WAITS == UNINTERRUPTIBLE {
            Self::Uninterruptible
        } else if state & WAITS != 0 {
            Self::Blocked
        } else if state & ENDED != 0 {
            Self::Dead
        } else {
            Self::Runnable
        }
    }

    /// From the letters that tools print: `R`, `R+`, `S`, `D`, `X`, …
    #[must_use]
    pub fn from_letters(letters: &[u8]) -> Self {
        match letters.first() {
            Some(b'R') | None => Self::Runnable,
            Some(b'X' | b'Z') => Self::Dead,
            Some(b'D') => Self::Uninterruptible,
            Some(_) => Self::Blocked,
        }
    }
}

/// What an interrupt of the host is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum IrqOf {
    /// A device of the host, by its handler.
    Device,
    /// A device that is passed through to a VM (`vfio-msix` and others, `drivers/vfio/pci`).
    PassedThrough,
    /// Timers, deferred (softirqs `TIMER` and `HRTIMER`).
    Timers,
    /// RCU callbacks (softirq `RCU`).
    Rcu,
    /// Other deferred work (softirqs), or none that is known.
    Deferred,
}

impl IrqOf {
    /// Of the number of a softirq (`include/linux/interrupt.h`, Linux 6.12).
    #[must_use]
    pub fn softirq(number: u64) -> Self {
        match number {
            1 | 8 => Self::Timers,
            9 => Self::Rcu,
            _ => Self::Deferred,
        }
    }

    /// Of the name under which a handler was registered.
    #[must_use]
    pub fn handler(name: &[u8]) -> Self {
        match name.starts_with(b"vfio-") {
            true => Self::PassedThrough,
            false => Self::Device,
        }
    }
}

const _: () = assert!(size_of::<IrqOf>() == 1, "an event stays small");

/// What happened. Names in parentheses are the kernel's tracepoints, or probes set by
/// `steady record` where the kernel has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind<'a> {
    /// A vCPU entered its guest (`kvm_entry`).
    Entry {
        /// Number of the vCPU in its VM.
        vcpu: Option<u32>,
    },
    /// A vCPU left its guest (`kvm_exit`).
    Exit {
        /// Number of the vCPU in its VM; older kernels do not have it.
        vcpu: Option<u32>,
        /// Why.
        reason: ExitReason,
        /// Where the guest was.
        rip: u64,
        /// `VM_EXIT_INTR_INFO` or `EXITINTINFO`; 0 if the trace lacks it.
        interrupt: u32,
        /// The guest's memory that a nested page fault of SVM was for; 0 for others, whose records
        /// do not have it.
        address: u64,
    },
    /// A pCPU went from one thread to another (`sched_switch`).
    Switch {
        /// Who left.
        prev: Task<'a>,
        /// Why it left.
        state: TaskState,
        /// Who came.
        next: Task<'a>,
    },
    /// A thread became runnable (`sched_wakeup`, `sched_wakeup_new`).
    Wakeup {
        /// The thread.
        tid: i32,
        /// The pCPU whose run queue it joined.
        cpu: u32,
    },
    /// A thread is about to become runnable (`sched_waking`). Where wake-ups themselves are
    /// recorded they are taken instead: they come later, and on the right run queue.
    Waking {
        /// The thread.
        tid: i32,
        /// The pCPU whose run queue it will join, as far as it is known then.
        cpu: u32,
    },
    /// A waiting thread moves to another run queue (`sched_migrate_task`).
    Migrate {
        /// The thread.
        tid: i32,
        /// Where it goes.
        to: u32,
    },
    /// The vCPU of this thread wrote an IPI into its APIC (`kvm_apic_ipi`).
    IpiSent {
        /// Its vector.
        vector: u8,
    },
    /// A virtual APIC took an interrupt (`kvm_apic_accept_irq`); the thread is the sender's.
    IpiAccepted {
        /// The receiver's APIC id, which is the vCPU's number unless the VMM chose otherwise.
        apic: u32,
        /// Its vector.
        vector: u8,
    },
    /// An interrupt is put into the vCPU of this thread at its next entry (`kvm_inj_virq`).
    Injected {
        /// Its vector.
        vector: u8,
    },
    /// A guest called its host (`kvm_hypercall`).
    Hypercall {
        /// Number of the call (`include/uapi/linux/kvm_para.h`).
        nr: u64,
    },
    /// KVM flushed a vCPU's TLB at entry because a guest had asked while it was descheduled
    /// (`kvm_pv_tlb_flush`).
    PvTlbFlush {
        /// Whether a flush was asked for.
        needed: bool,
    },
    /// The guest of this thread's vCPU set or stopped its timer (`kvm_msr` and `kvm_apic`, of the
    /// registers in [`crate::timer`]). With x2APIC one write shows twice, as both.
    TimerProgrammed {
        /// What it wrote, in the register's own unit; 0 stops the timer.
        value: u64,
    },
    /// The host put a scheduler tick into the vCPU of this thread: the guest has programmed none.
    TickInjected,
    /// The guest of this thread's vCPU took a scheduler tick.
    TickTaken,
    /// A guest wrote another model-specific register (`kvm_msr`).
    MsrWrite {
        /// Which.
        index: u32,
        /// What.
        value: u64,
    },
    /// A guest read a model-specific register (`kvm_msr`).
    MsrRead {
        /// Which.
        index: u32,
    },
    /// A guest read or wrote an I/O port (`kvm_pio`).
    Port {
        /// Which.
        port: u16,
    },
    /// A guest touched memory that a device answers for (`kvm_mmio`).
    Mmio {
        /// Guest-physical address.
        address: u64,
    },
    /// A guest touched memory that its host has not mapped, or not so (`kvm_page_fault`).
    PageFault {
        /// Guest-physical address.
        address: u64,
        /// What the processor says of it: VMX's exit qualification, or SVM's error code.
        error: u64,
    },
    /// KVM went back to its VMM (`kvm_userspace_exit`): what follows is done by a program.
    UserExit {
        /// `KVM_EXIT_*` of `include/uapi/linux/kvm.h`.
        reason: u32,
    },
    /// An interrupt of the host began or ended on this pCPU (`irq_handler_entry`, `_exit`,
    /// `softirq_entry`, `_exit`, `local_timer_entry` is [`Self::HostTimer`]).
    HostIrq {
        /// Whether it began.
        begins: bool,
        /// What it is for; of one that ends it is not known.
        of: IrqOf,
    },
    /// A guest wrote another register of its local APIC (`kvm_apic`).
    ApicWrite {
        /// Offset of the register.
        register: u32,
        /// What.
        value: u64,
    },
    /// What arm64's last exit of this thread's vCPU was for (`kvm_wfx_arm64`).
    GuestWait {
        /// True for `wfe`, which waits for an event and so for a lock; false for `wfi`, a halt.
        event: bool,
    },
    /// A halted vCPU goes on (`kvm_vcpu_wakeup`).
    HaltEnd {
        /// How long it was halted, in nanoseconds.
        halted_ns: u64,
        /// Whether its thread slept; otherwise the host polled for all of it.
        slept: bool,
    },
    /// KVM changed how long it polls for a halted vCPU (`kvm_halt_poll_ns`).
    HaltPoll {
        /// The new limit, in nanoseconds.
        limit_ns: u64,
    },
    /// KVM changed how long a vCPU may spin before it exits (`kvm_ple_window_update`).
    PleWindow {
        /// The new window, in cycles.
        window: u64,
    },
    /// KVM begins to look for a vCPU to boost (probe on `kvm_vcpu_on_spin`).
    SpinBegin {
        /// Address of the spinning vCPU in the host's kernel.
        vcpu: Option<u64>,
        /// Address of its VM.
        vm: Option<u64>,
    },
    /// KVM has looked (return probe on `kvm_vcpu_on_spin`).
    SpinEnd,
    /// KVM asks the scheduler to run a vCPU instead of this thread (probe on `kvm_vcpu_yield_to`).
    BoostTry {
        /// Address of the chosen vCPU in the host's kernel.
        target: u64,
        /// Number of the chosen vCPU in its VM.
        number: Option<u32>,
    },
    /// What became of it (return probe on `kvm_vcpu_yield_to`), known when this thread runs again:
    /// 1 if the scheduler agreed, 2 if it did and the yielder kept its pCPU, 0 if it refused,
    /// negative if no other thread could run.
    BoostReturn {
        /// The value returned.
        value: i64,
    },
    /// A vCPU is loaded on a pCPU by its thread (probe on `kvm_arch_vcpu_load`).
    VcpuLoad {
        /// Address of the vCPU in the host's kernel.
        vcpu: u64,
        /// Address of its VM.
        vm: Option<u64>,
        /// Its number in its VM.
        number: Option<u32>,
    },
    /// The host's own APIC timer interrupted (`local_timer_entry`).
    HostTimer,
    /// Work for another CPU was queued (`csd_queue_cpu`): begin of a call, guest or host.
    CallQueued {
        /// The CPU that has to do it.
        target: u32,
        /// Address of the work, which names it until it is done.
        work: u64,
        /// Whether the work is a TLB flush, if the trace names the function.
        flush: Option<bool>,
    },
    /// Work from another CPU was done (`csd_function_exit`).
    CallDone {
        /// Address of the work.
        work: u64,
    },
    /// The TLB was flushed, or others were asked to (`tlb_flush`).
    TlbFlush {
        /// `enum tlb_flush_reason`: 1 is for another CPU, 4 is the sending of the IPI.
        reason: u64,
        /// Pages, or all ones for everything.
        pages: u64,
    },
    /// A function that makes other CPUs flush began (probe on `native_flush_tlb_multi`).
    ShootdownBegin,
    /// It returned: all have flushed.
    ShootdownEnd,
    /// A remedy says what it does (tracepoints of the system `kvm_<remedy>`).
    Remedy(RemedyEvent<'a>),
    /// Something that is counted by its name, and no more.
    Counted {
        /// The name, the same for all of its kind.
        name: &'static str,
    },
    /// Known to the source, of no use here.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The letters are those of `print fmt` in Linux 6.12's and 6.18's own
    /// `events/sched/sched_switch/format`; the last three are older kernels'.
    #[test]
    fn a_state_means_in_binary_what_the_kernel_prints_for_it() {
        for (bits, letters) in [
            (0, "R"),
            (0x01, "S"),
            (0x02, "D"),
            (0x04, "T"),
            (0x08, "t"),
            (0x10, "X"),
            (0x20, "Z"),
            (0x40, "P"),
            (0x80, "I"),
            (0x100, "R+"),
            (0x82, "D|K"),
            (0x402, "N"),
            (0x800, "R+"),
        ] {
            let expected = TaskState::from_letters(letters.as_bytes());
            assert_eq!(
                TaskState::from_bits(bits),
                expected,
                "{bits:#x} is {letters}"
            );
        }
    }

    #[test]
    fn an_interrupt_is_for_what_linux_numbers_and_names_it() {
        // `cat /proc/softirqs` has them in the order of their numbers.
        let numbered = [
            "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER",
            "RCU",
        ];
        for (number, name) in (0..).zip(numbered) {
            let expected = match name {
                "TIMER" | "HRTIMER" => IrqOf::Timers,
                "RCU" => IrqOf::Rcu,
                _ => IrqOf::Deferred,
            };
            assert_eq!(IrqOf::softirq(number), expected, "{name}");
        }
        assert_eq!(IrqOf::softirq(u64::MAX), IrqOf::Deferred);
        let vfio = IrqOf::handler(b"vfio-msix[0](0000:3b:00.0)");
        assert_eq!(vfio, IrqOf::PassedThrough);
        assert_eq!(
            IrqOf::handler(b"mlx5_comp0@pci:0000:3b:00.0"),
            IrqOf::Device
        );
        assert_eq!(IrqOf::handler(b""), IrqOf::Device);
    }

    #[test]
    fn an_event_stays_small_enough_to_be_passed_on_by_value() {
        assert!(size_of::<Event<'_>>() <= 112, "{}", size_of::<Event<'_>>());
    }
}
