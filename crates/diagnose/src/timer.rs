// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What keeping time costs a vCPU: exits to arm its timer, exits when it expires, the host's own
//! ticks; and what the schemes of the Paratick paper (ICPP'21) would cost.

use steady_events::{Event, ExitReason, Kind, vector};

use crate::spread::add;

/// Ticks in a second that kernels of Linux can be built with (`kernel/Kconfig.hz`, Linux 6.12).
pub const HZ: [u64; 4] = [100, 250, 300, 1000];

/// One vCPU.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Timer {
    /// Writes that arm or stop the timer.
    pub arms: u64,
    /// Of these, how many stop it.
    pub stops: u64,
    /// Exits because the VMX preemption timer ran out.
    pub expiry_exits: u64,
    /// Timer interrupts that its virtual APIC took.
    pub delivered: u64,
    /// Exits on the host's own timer interrupt.
    pub host_ticks: u64,
    /// Time outside the guest for arming, in nanoseconds.
    pub arm_ns: u64,
    /// Time outside the guest for expiries, in nanoseconds.
    pub expiry_ns: u64,
    /// Time outside the guest for the host's ticks, in nanoseconds.
    pub host_tick_ns: u64,
    /// Ticks that the host put into it.
    pub injected: u64,
    /// Ticks that its guest took.
    pub taken: u64,
    /// Arms that came a tick after the arm before, by [`HZ`].
    pub steady: [u64; HZ.len()],
    armed_ns: Option<u64>,
    arming: bool,
    host_tick: bool,
}

impl Timer {
    /// An event of the vCPU's thread.
    pub fn event(&mut self, event: &Event<'_>) {
        match event.kind {
            Kind::Exit { reason, .. } => {
                (self.arming, self.host_tick) = (false, false);
                self.expiry_exits += u64::from(reason.is_preemption_timer());
            }
            Kind::TimerProgrammed { value } => self.armed(value, event.time_ns),
            Kind::TickInjected => self.injected += 1,
            Kind::TickTaken => self.taken += 1,
            Kind::IpiAccepted { vector, .. } => {
                self.delivered += u64::from(vector == vector::LOCAL_TIMER);
            }
            Kind::HostTimer => self.host_tick = true,
            _ => {}
        }
    }

    fn armed(&mut self, value: u64, now_ns: u64) {
        // With x2APIC the write shows twice: as the register and as the MSR that holds it.
        if !self.arming {
            if let Some(before_ns) = self.armed_ns.replace(now_ns) {
                let apart_ns = now_ns.saturating_sub(before_ns);
                for (hz, count) in HZ.into_iter().zip(&mut self.steady) {
                    let tick_ns = 1_000_000_000 / hz;
                    *count += u64::from(apart_ns.abs_diff(tick_ns) <= tick_ns / 20);
                }
            }
            self.arms += 1;
            self.stops += u64::from(value == 0);
        }
        let most = self.steady.iter().max().copied();
        assert!(most <= Some(self.arms), "an arm a tick after another");
        self.arming = true;
        assert!(self.stops <= self.arms, "a stop is one of the arms");
    }

    /// An exit has ended with an entry.
    pub fn ended(&mut self, reason: ExitReason, took_ns: u64) {
        if reason.is_preemption_timer() {
            add(&mut self.expiry_ns, took_ns);
        } else if self.arming {
            add(&mut self.arm_ns, took_ns);
        } else if self.host_tick && reason.is_host_interrupt() {
            self.host_ticks += 1;
            add(&mut self.host_tick_ns, took_ns);
        }
    }
}

/// What a VM does with its time, as the paper's formulas take it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// vCPUs.
    pub vcpus: u64,
    /// Ticks in a second.
    pub tick_hz: u64,
    /// The time looked at, in nanoseconds.
    pub time_ns: u64,
    /// Time during which its vCPUs were not idle, summed over them, in nanoseconds.
    pub busy_ns: u64,
    /// How often its vCPUs became idle.
    pub idle_entries: u64,
    /// Exits that one tick takes: 2 by the paper's formulas (arming and expiry), 1 in its Table 1.
    pub exits_per_tick: u64,
}

const SECOND_NS: u128 = 1_000_000_000;

impl Load {
    /// Exits with a periodic tick: `2 t Σ(n f)` (section 3.1).
    #[must_use]
    pub fn periodic(&self) -> u64 {
        let ticks = u128::from(self.time_ns) * u128::from(self.vcpus) * u128::from(self.tick_hz);
        narrow(u128::from(self.exits_per_tick) * ticks / SECOND_NS)
    }

    /// Exits with a tick that stops when idle: `2 t Σ(L n f + (1 - L) n / T_idle)` (section 3.2).
    /// `t L n` is the busy time, and `t (1 - L) n / T_idle` the number of idle periods.
    #[must_use]
    pub fn tickless(&self) -> u64 {
        let ticks = u128::from(self.busy_ns) * u128::from(self.tick_hz);
        let ticks = u128::from(self.exits_per_tick) * ticks / SECOND_NS;
        narrow(ticks + 2 * u128::from(self.idle_entries))
    }

    /// Exits with ticks that the host injects: none for the ticks, and at most one for each time
    /// that a vCPU becomes idle with something left to wake for (section 4.2).
    #[must_use]
    pub fn paratick_at_most(&self) -> u64 {
        self.idle_entries
    }
}

fn narrow(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use steady_events::{Gap, Isa};

    /// The workloads of the paper's section 3.3: 250 Hz, 10 s, VMs of 16 vCPUs.
    fn load(busy_permille: u64, idle_entries_per_second: u64, exits_per_tick: u64) -> Load {
        Load {
            vcpus: 16,
            tick_hz: 250,
            time_ns: 10_000_000_000,
            busy_ns: 160_000_000_000 / 1000 * busy_permille,
            idle_entries: 10 * idle_entries_per_second,
            exits_per_tick,
        }
    }

    #[test]
    fn table_1_of_the_paratick_paper_comes_out_with_one_exit_for_a_tick() {
        let (idle, synchronizing) = (load(0, 0, 1), load(1000, 1000, 1));
        let columns = [(1, idle), (4, idle), (1, synchronizing), (4, synchronizing)];
        let periodic = columns.map(|(vms, load)| vms * load.periodic());
        let tickless = columns.map(|(vms, load)| vms * load.tickless());
        assert_eq!(periodic, [40_000, 160_000, 40_000, 160_000]);
        assert_eq!(tickless, [0, 0, 60_000, 240_000]);
    }

    #[test]
    fn the_formulas_as_printed_count_two_exits_for_a_tick() {
        // 2 t n f, which is twice what the paper's table says of its workload W1.
        assert_eq!(load(0, 0, 2).periodic(), 80_000);
        // 2 t (L n f + 1000) with half the load gives the table's W3.
        assert_eq!(load(500, 1000, 2).tickless(), 60_000);
    }

    #[test]
    fn one_exit_that_arms_is_one_arming_however_many_events_show_it() {
        let event = |kind| Event {
            time_ns: 0,
            cpu: 0,
            tid: 1,
            comm: b"",
            process: 0,
            gap: Gap::None,
            kind,
        };
        let msr = ExitReason::new(Isa::Vmx, 32);
        let mut timer = Timer::default();
        timer.event(&event(Kind::Exit {
            vcpu: None,
            reason: msr,
            rip: 0,
            interrupt: 0,
            address: 0,
        }));
        // As the APIC's register and as the MSR that holds it.
        timer.event(&event(Kind::TimerProgrammed { value: 7 }));
        timer.event(&event(Kind::TimerProgrammed { value: 7 }));
        timer.ended(msr, 12);
        assert_eq!((timer.arms, timer.stops, timer.arm_ns), (1, 0, 12));
    }
}
