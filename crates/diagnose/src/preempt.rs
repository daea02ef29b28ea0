// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How often and for how long a vCPU was ready but did not run.
//!
//! KVM lets a guest know that a vCPU is preempted only if it left its guest on a host interrupt
//! (`at_instruction_boundary`, `kvm_steal_time_set_preempted` in `arch/x86/kvm/x86.c`, Linux 6.12).
//! A vCPU descheduled after any other exit looks as if it ran, so PV TLB flush sends it an IPI and
//! waits, and PV spinlocks spin for it.

use std::collections::BTreeMap;

use steady_events::{Event, ExitReason, TaskState};
use steady_measures::Histogram;

use crate::machine::Vcpu;
use crate::spread::add;
use crate::waits::Ended;

/// Reasons that are counted each.
const MOST_REASONS: usize = 256;

/// One vCPU.
#[derive(Debug, Default)]
pub struct Preempt {
    /// Times off its pCPU while ready, after it was switched out so, in nanoseconds.
    pub descheduled_ns: Histogram,
    /// From wake-up to its turn, in nanoseconds.
    pub wakeup_ns: Histogram,
    /// How often it was descheduled while ready, by its last exit; `None` if that is not in the
    /// trace.
    pub after: BTreeMap<Option<ExitReason>, u64>,
    /// Of these, how often KVM marked it preempted.
    pub marked: u64,
    /// How often it was not marked.
    pub unmarked: u64,
    /// Ready but off its pCPU without the mark, in nanoseconds.
    pub unmarked_ns: u64,
    /// How often it waited of its own will: halted, or in its VMM.
    pub blocked: u64,
    /// Times in which its thread waited and no signal could end that (D state), in nanoseconds.
    pub uninterruptible_ns: Histogram,
    /// Their sum.
    pub uninterruptible_total_ns: u64,
    /// These by the exit before; `None` if that is not in the trace.
    pub uninterruptible_after: BTreeMap<Option<ExitReason>, u64>,
    /// The longest of them: when it began, how long it was, and on which pCPU.
    pub worst_uninterruptible: Option<(u64, u64, u32)>,
    /// The exit before that.
    pub worst_stuck_after: Option<ExitReason>,
    /// The longest time off its pCPU without the mark: begin, length, pCPU.
    pub worst_unmarked: Option<(u64, u64, u32)>,
    /// PV TLB flushes that KVM did at entry, in the place of an IPI.
    pub pv_flushes: u64,
    is_unmarked: bool,
    /// Since when it waits uninterruptibly, and where.
    stuck: Option<(u64, u32)>,
}

impl Preempt {
    /// The vCPU is switched out; the machine has not applied that yet.
    pub fn out(&mut self, event: &Event<'_>, state: TaskState, vcpu: &Vcpu) {
        if state == TaskState::Uninterruptible {
            self.stuck = Some((event.time_ns, event.cpu));
        }
        if state != TaskState::Runnable {
            self.blocked += 1;
            return;
        }
        let reason = vcpu.last_reason();
        if self.after.len() < MOST_REASONS || self.after.contains_key(&reason) {
            *self.after.entry(reason).or_default() += 1;
        }
        assert!(self.after.len() <= MOST_REASONS, "memory stays bounded");
        self.is_unmarked = reason.is_some_and(|reason| !reason.is_host_interrupt());
        if self.is_unmarked {
            self.unmarked += 1;
        } else {
            self.marked += u64::from(reason.is_some());
        }
    }

    /// It is woken, or seen running: what no signal could end is over.
    pub fn freed(&mut self, now_ns: u64, vcpu: &Vcpu) {
        let Some((since_ns, cpu)) = self.stuck.take() else {
            return;
        };
        let took_ns = now_ns.saturating_sub(since_ns);
        self.uninterruptible_ns.record(took_ns);
        add(&mut self.uninterruptible_total_ns, took_ns);
        let reason = vcpu.last_reason();
        let after = &mut self.uninterruptible_after;
        if after.len() < MOST_REASONS || after.contains_key(&reason) {
            add(after.entry(reason).or_default(), took_ns);
        }
        let before = self.worst_uninterruptible;
        longest(&mut self.worst_uninterruptible, (since_ns, took_ns, cpu));
        if self.worst_uninterruptible != before {
            self.worst_stuck_after = reason;
        }
    }

    /// A wait of it is over, by its turn or by a loss.
    pub fn waited(&mut self, wait: &Ended) {
        if wait.woken {
            self.wakeup_ns.record(wait.length_ns);
            return;
        }
        self.descheduled_ns.record(wait.length_ns);
        // The mark is that of another wait.
        if wait.from_begin {
            return;
        }
        if std::mem::take(&mut self.is_unmarked) {
            assert!(self.unmarked > 0, "it was counted when it was switched out");
            add(&mut self.unmarked_ns, wait.length_ns);
            let worst = (wait.begin_ns, wait.length_ns, wait.cpu);
            longest(&mut self.worst_unmarked, worst);
        }
    }
}

/// Keeps the longer of two: begin, length, pCPU.
pub(crate) fn longest(known: &mut Option<(u64, u64, u32)>, new: (u64, u64, u32)) {
    if known.is_none_or(|(_, length_ns, _)| new.1 > length_ns) {
        *known = Some(new);
    }
}
