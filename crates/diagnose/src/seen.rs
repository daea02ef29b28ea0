// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How many events of each kind a trace has: what can be judged depends on it.

use steady_events::{Event, Kind, TaskState};

use crate::analysis::NO_CPU;

/// Which kinds of events were seen: what cannot be concluded depends on it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// `kvm_entry`.
    pub entry: u64,
    /// `kvm_exit`.
    pub exit: u64,
    /// Exits with a reason that no table has.
    pub unknown_exit: u64,
    /// Exits of pause loops.
    pub pause_exit: u64,
    /// Exits of hosts with pause loops, local APICs and PV calls: of x86.
    pub x86_exit: u64,
    /// `sched_switch`.
    pub switch: u64,
    /// `sched_wakeup`.
    pub wakeup: u64,
    /// Switches from a thread that sleeps, or ended.
    pub sleep: u64,
    /// `sched_migrate_task`.
    pub migrate: u64,
    /// `kvm_apic_accept_irq`.
    pub accepted: u64,
    /// `kvm_hypercall`.
    pub hypercall: u64,
    /// `kvm_pv_tlb_flush`.
    pub pv_flush: u64,
    /// `kvm_msr` or `kvm_apic`.
    pub timer_write: u64,
    /// `local_timer_entry`.
    pub host_timer: u64,
    /// Ticks that the host put into guests.
    pub tick_injected: u64,
    /// Ticks that guests took.
    pub tick_taken: u64,
    /// Probe on `kvm_vcpu_on_spin`.
    pub spin: u64,
    /// Probe on `kvm_vcpu_yield_to`.
    pub boost: u64,
    /// Its return probe.
    pub boost_return: u64,
    /// `kvm_wfx_arm64`.
    pub guest_wait: u64,
    /// `csd_queue_cpu` or probes on the flush.
    pub guest_call: u64,
    /// `kvm_userspace_exit`.
    pub user_exit: u64,
    /// `irq_handler_entry`, `softirq_entry` and their ends.
    pub host_irq: u64,
    /// `kvm_pio`, `kvm_mmio`, `kvm_page_fault`.
    pub access: u64,
    /// Events of which the trace does not show the CPU.
    pub placeless: u64,
    /// All events.
    pub all: u64,
}

impl Seen {
    /// Counts an event.
    pub fn count(&mut self, event: &Event<'_>) {
        self.all += 1;
        self.placeless += u64::from(event.cpu == NO_CPU);
        let counter = match event.kind {
            Kind::Entry { .. } => &mut self.entry,
            Kind::Exit { reason, .. } => {
                self.unknown_exit += u64::from(reason.known_name().is_none());
                self.pause_exit += u64::from(reason.is_pause());
                self.x86_exit += u64::from(reason.isa.is_x86());
                &mut self.exit
            }
            Kind::Switch { state, .. } => {
                self.sleep += u64::from(state != TaskState::Runnable);
                &mut self.switch
            }
            Kind::Wakeup { .. } => &mut self.wakeup,
            Kind::Migrate { .. } => &mut self.migrate,
            Kind::IpiAccepted { .. } => &mut self.accepted,
            Kind::Hypercall { .. } => &mut self.hypercall,
            Kind::PvTlbFlush { .. } => &mut self.pv_flush,
            Kind::MsrWrite { .. } | Kind::ApicWrite { .. } | Kind::TimerProgrammed { .. } => {
                &mut self.timer_write
            }
            Kind::TickInjected => &mut self.tick_injected,
            Kind::TickTaken => &mut self.tick_taken,
            Kind::HostTimer => &mut self.host_timer,
            Kind::SpinBegin { .. } => &mut self.spin,
            Kind::BoostTry { .. } => &mut self.boost,
            Kind::BoostReturn { .. } => &mut self.boost_return,
            Kind::CallQueued { .. } | Kind::ShootdownBegin => &mut self.guest_call,
            Kind::UserExit { .. } => &mut self.user_exit,
            Kind::HostIrq { .. } => &mut self.host_irq,
            Kind::Port { .. } | Kind::Mmio { .. } | Kind::PageFault { .. } => &mut self.access,
            Kind::GuestWait { event } => {
                self.pause_exit += u64::from(event);
                &mut self.guest_wait
            }
            _ => return,
        };
        *counter += 1;
    }
}
