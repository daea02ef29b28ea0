// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Calls between vCPUs as a host sees them: IPIs whose sender waits until each receiver took it.
//!
//! A TLB shootdown is such a call. A host's trace shows the IPI arrive at the receiver's virtual
//! APIC and the receiver enter its guest with it; it does not show the guest's handler, nor whether
//! the call was a shootdown or another function. So what is measured here is inferred and a lower
//! bound: from the first IPI of a call until the last receiver entered its guest with it.
//! An IPI to a vCPU that is in its guest is taken at its next exit at the latest, and counted
//! there.

use std::collections::VecDeque;

use steady_events::{Event, Kind, vector};
use steady_measures::Histogram;

use crate::boost::Awaits;
use crate::machine::{Machine, State, VcpuId};

/// IPIs under way to one vCPU; a real APIC has one for each vector.
const MOST_PENDING: usize = 256;

/// Where the receiver of an IPI was when it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Receiver {
    /// On a pCPU.
    Running,
    /// Ready, but another ran.
    Descheduled,
    /// Halted.
    Halted,
}

impl Receiver {
    /// All of them, in the order of [`Sent::delay_ns`].
    pub const ALL: [Self; 3] = [Self::Running, Self::Descheduled, Self::Halted];

    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Descheduled => "descheduled",
            Self::Halted => "halted",
        }
    }

    fn of(state: State) -> Self {
        match state {
            State::Running | State::Unknown => Self::Running,
            State::Ready { .. } => Self::Descheduled,
            State::Blocked => Self::Halted,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    from: VcpuId,
    receiver: Receiver,
    sent_ns: u64,
    entered_ns: Option<u64>,
}

/// Calls of one vCPU.
#[derive(Debug, Default)]
pub struct Sent {
    /// From an IPI to its receiver's entry, in nanoseconds, by [`Receiver::ALL`].
    pub delay_ns: [Histogram; 3],
    /// From a call's first IPI until all its receivers have taken it, in nanoseconds.
    pub call_ns: Histogram,
    /// The longest wait for a descheduled receiver: begin, length, receiver.
    pub worst: Option<(u64, u64, VcpuId)>,
    began_ns: u64,
    under_way: u64,
}

/// Follows IPIs.
#[derive(Debug, Default)]
pub struct Calls {
    /// By sender.
    pub sent: Vec<Sent>,
    /// By receiver.
    pending: Vec<VecDeque<Pending>>,
}

impl Calls {
    /// An event; `me` is the vCPU of its thread. To be called before the machine applies it.
    pub fn event(&mut self, event: &Event<'_>, me: Option<VcpuId>, machine: &Machine) {
        let vcpus = machine.vcpus.len();
        if self.sent.len() < vcpus {
            self.sent.resize_with(vcpus, Sent::default);
            self.pending.resize_with(vcpus, VecDeque::new);
        }
        assert_eq!(self.sent.len(), self.pending.len(), "one of each a vCPU");
        let Some(me) = me else { return };
        match event.kind {
            Kind::IpiAccepted { apic, vector } if vector::is_call_function(vector) => {
                self.accepted(event.time_ns, me, apic, machine);
            }
            Kind::Entry { .. } => {
                let entered = self.pending[me].iter_mut();
                entered.for_each(|ipi| {
                    ipi.entered_ns.get_or_insert(event.time_ns);
                });
            }
            Kind::Exit { .. } => self.taken(me),
            _ => {}
        }
    }

    /// Whether an IPI came while this vCPU was in its guest, and it has not entered with it yet: an
    /// exit for an interrupt is then that of the notification.
    #[must_use]
    pub fn notified(&self, id: VcpuId) -> bool {
        let pending = self.pending.get(id);
        pending.is_some_and(|ipis| ipis.iter().any(|ipi| ipi.entered_ns.is_none()))
    }

    fn accepted(&mut self, time_ns: u64, me: VcpuId, apic: u32, machine: &Machine) {
        // Of a receiver that the trace does not show it is not known when it took the IPI.
        let Some(to) = machine.numbered(machine.vcpus[me].vm, apic) else {
            return;
        };
        if to == me || self.pending[to].len() >= MOST_PENDING {
            return;
        }
        let sent = &mut self.sent[me];
        if sent.under_way == 0 {
            sent.began_ns = time_ns;
        }
        sent.under_way += 1;
        self.pending[to].push_back(Pending {
            from: me,
            receiver: Receiver::of(machine.vcpus[to].state),
            sent_ns: time_ns,
            entered_ns: None,
        });
    }

    /// The receiver left its guest: what it had entered with is taken.
    fn taken(&mut self, me: VcpuId) {
        while let Some(ipi) = self.pending[me].pop_front() {
            // Sent while the receiver was in its guest: the exit is that of the notification.
            let Some(entered_ns) = ipi.entered_ns else {
                self.pending[me].push_front(ipi);
                break;
            };
            let sent = &mut self.sent[ipi.from];
            assert!(sent.under_way > 0, "what is taken was sent");
            assert_ne!(ipi.from, me, "no vCPU waits for itself");
            sent.under_way -= 1;
            let delay_ns = entered_ns.saturating_sub(ipi.sent_ns);
            let at = Receiver::ALL.iter().position(|each| *each == ipi.receiver);
            sent.delay_ns[at.unwrap_or(0)].record(delay_ns);
            let longer = sent.worst.is_none_or(|(_, longest, _)| delay_ns > longest);
            if ipi.receiver == Receiver::Descheduled && longer {
                sent.worst = Some((ipi.sent_ns, delay_ns, me));
            }
            if sent.under_way == 0 {
                sent.call_ns
                    .record(entered_ns.saturating_sub(sent.began_ns));
            }
        }
    }
}

impl Awaits for Calls {
    fn awaits(&self, from: VcpuId, to: VcpuId) -> bool {
        let pending = self.pending.get(to);
        pending.is_some_and(|ipis| ipis.iter().any(|ipi| ipi.from == from))
    }

    fn waits(&self, from: VcpuId) -> bool {
        self.sent.get(from).is_some_and(|sent| sent.under_way > 0)
    }
}
