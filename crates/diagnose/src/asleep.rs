// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When a vCPU's thread slept though its guest had not halted: its VMM kept it out of the guest.
//!
//! A thread that is switched out asleep (state `S`) after an exit that is not a halt waits for its
//! VMM (a pause, a snapshot, a migration, a lock), or for something of the host's kernel. The
//! thread that woke it shows what it waited for.
//!
//! Left out: waits that KVM itself makes as halts of another name, which its own event shows when
//! they end; architectures whose halts look like other exits.

use std::collections::BTreeMap;

use steady_events::{Event, ExitReason, Isa, user_exit};
use steady_measures::Histogram;

use crate::preempt::longest;
use crate::spread::add;

/// Threads that wake one vCPU, each counted by itself.
const MOST_WAKERS: usize = 32;
/// Exit reasons to the VMM, each counted by itself.
const MOST_REASONS: usize = 64;
/// VMX: MWAIT, TDCALL. SVM: MWAIT, VMGEXIT. A guest may halt by them.
const HALTS_BY_CALL: [(Isa, u64); 5] = [
    (Isa::Vmx, 36),
    (Isa::Vmx, 77),
    (Isa::Svm, 0x8b),
    (Isa::Svm, 0x8c),
    (Isa::Svm, 0x403),
];

/// A thread that woke a vCPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waker {
    /// Its id; 0 is an interrupt that found its pCPU idle.
    pub tid: i32,
    /// Its name.
    pub comm: String,
    /// The sleep that it ended, in nanoseconds.
    pub ns: u64,
}

/// The sleep of one vCPU outside halts.
#[derive(Debug, Default)]
pub struct Asleep {
    /// How long it slept each time, in nanoseconds.
    pub times_ns: Histogram,
    /// Their sum.
    pub total_ns: u64,
    /// Of that, in exits that went on to the VMM for a device: it did the device's work.
    pub device_ns: u64,
    /// By the reason for which KVM went back to the VMM; `None` if it did not, or it is not known.
    pub by_reason: BTreeMap<Option<u32>, u64>,
    /// By who woke it.
    pub wakers: Vec<Waker>,
    /// The longest: begin, length, pCPU.
    pub worst: Option<(u64, u64, u32)>,
    open: Option<Open>,
    /// The sleep that ended last, until something shows that it was a halt.
    last: Option<Slept>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    since_ns: u64,
    cpu: u32,
    user: Option<u32>,
}

#[derive(Debug, Clone)]
struct Slept {
    open: Open,
    took_ns: u64,
    waker: Option<(i32, String)>,
}

/// Whether a thread may sleep after this exit without anybody keeping it.
#[must_use]
pub fn may_halt(reason: ExitReason) -> bool {
    let call = HALTS_BY_CALL.contains(&(reason.isa, reason.code));
    // What an exit without a code was for is not known.
    reason.is_halt() || call || reason.isa == Isa::Riscv || reason.known_code().is_none()
}

fn is_device(user: Option<u32>) -> bool {
    matches!(user, Some(user_exit::IO | user_exit::MMIO))
}

impl Asleep {
    /// The thread is switched out asleep after this exit; `user` is why KVM went back to the VMM.
    pub fn begin(&mut self, event: &Event<'_>, after: Option<ExitReason>, user: Option<u32>) {
        if after.is_none_or(may_halt) || user == Some(user_exit::HLT) {
            return;
        }
        self.open = Some(Open {
            since_ns: event.time_ns,
            cpu: event.cpu,
            user,
        });
    }

    /// It is woken by the event's thread, or seen running.
    pub fn end(&mut self, event: &Event<'_>, woken: bool) {
        let Some(open) = self.open.take() else { return };
        let waker = woken.then(|| {
            let comm = String::from_utf8_lossy(event.comm).into_owned();
            (event.tid, comm)
        });
        let took_ns = event.time_ns.saturating_sub(open.since_ns);
        self.last = Some(Slept {
            open,
            took_ns,
            waker,
        });
    }

    /// Events were lost: how long a sleep went on is not known.
    pub fn lost(&mut self) {
        self.open = None;
        self.last = None;
    }

    /// KVM shows that the sleep was a halt.
    pub fn was_halt(&mut self) {
        self.last = None;
    }

    /// The vCPU enters its guest: a sleep before that counts. Gives how long it was, without those
    /// in which the VMM did a device's work.
    pub fn settle(&mut self) -> u64 {
        let Some(slept) = self.last.take() else {
            return 0;
        };
        let (open, took_ns) = (slept.open, slept.took_ns);
        self.times_ns.record(took_ns);
        add(&mut self.total_ns, took_ns);
        let known = self.by_reason.contains_key(&open.user);
        let reason = match known || self.by_reason.len() < MOST_REASONS {
            true => open.user,
            false => None,
        };
        add(self.by_reason.entry(reason).or_default(), took_ns);
        if let Some((tid, comm)) = slept.waker {
            self.woke(tid, comm, took_ns);
        }
        if is_device(open.user) {
            add(&mut self.device_ns, took_ns);
            return 0;
        }
        longest(&mut self.worst, (open.since_ns, took_ns, open.cpu));
        took_ns
    }

    fn woke(&mut self, tid: i32, comm: String, ns: u64) {
        let is = |waker: &Waker| (waker.tid, &waker.comm) == (tid, &comm);
        let at = self.wakers.iter().position(is);
        match at {
            Some(at) => add(&mut self.wakers[at].ns, ns),
            None if self.wakers.len() < MOST_WAKERS => self.wakers.push(Waker { tid, comm, ns }),
            None => {}
        }
        assert!(self.wakers.len() <= MOST_WAKERS, "memory stays bounded");
    }

    /// The trace is over. Gives how long a sleep was that goes on, as [`Self::settle`] does.
    pub fn finish(&mut self, now_ns: u64) -> u64 {
        if let Some(open) = self.open.take() {
            let took_ns = now_ns.saturating_sub(open.since_ns);
            self.last = Some(Slept {
                open,
                took_ns,
                waker: None,
            });
        }
        self.settle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steady_events::{Gap, Kind};

    fn event(time_ns: u64, tid: i32) -> Event<'static> {
        Event {
            time_ns,
            cpu: 2,
            tid,
            comm: b"qemu",
            process: 0,
            gap: Gap::None,
            kind: Kind::Other,
        }
    }

    const INTERRUPT: ExitReason = ExitReason {
        isa: Isa::Vmx,
        code: 1,
    };
    const HLT: ExitReason = ExitReason {
        isa: Isa::Vmx,
        code: 12,
    };

    #[test]
    fn sleep_after_an_interrupt_counts_and_after_a_halt_it_does_not() {
        let mut asleep = Asleep::default();
        asleep.begin(&event(100, 1), Some(HLT), None);
        asleep.end(&event(200, 9), true);
        assert_eq!(asleep.settle(), 0);
        asleep.begin(&event(300, 1), Some(INTERRUPT), Some(10));
        asleep.end(&event(350, 9), true);
        assert_eq!(asleep.settle(), 50);
        assert_eq!(asleep.by_reason, [(Some(10), 50)].into());
        assert_eq!((asleep.wakers[0].tid, asleep.wakers[0].ns), (9, 50));
        assert_eq!(asleep.worst, Some((300, 50, 2)));
    }

    #[test]
    fn what_kvm_ends_as_a_halt_was_one() {
        let mut asleep = Asleep::default();
        asleep.begin(&event(100, 1), Some(INTERRUPT), None);
        asleep.end(&event(200, 9), true);
        asleep.was_halt();
        assert_eq!((asleep.settle(), asleep.total_ns), (0, 0));
    }
}
