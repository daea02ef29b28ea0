// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits that began before the trace did.
//!
//! A thread that comes to run, and that no record named before, was ready all the time: its wake-up
//! would be in the trace. It waited since the trace's begin at least. That is when the last of the
//! pCPUs has its first record, since each has a ring of its own and a wake-up may be recorded on
//! any, and wake-ups are recorded. Which pCPU's queue it was on is known by where it runs first.
//!
//! Left out: short waits; everything after a loss; threads that moved meanwhile, since a wake-up
//! moves them too; traces in which a pCPU has its first record later, unless it is known that all
//! their rings begin together.

use std::collections::BTreeMap;

use steady_events::{Event, Kind};

use crate::names::Names;
use crate::pcpus::Pcpus;
use crate::rivals::divide;
use crate::waits::Open;

/// Shorter waits are left to those whose begin is in the trace, in nanoseconds.
const SHORTEST_NS: u64 = 100_000_000;
/// pCPUs that are followed.
const MOST_PCPUS: usize = 8192;
/// Threads that are distinguished; of two that share a place the second counts as named. A power of
/// two.
const PLACES: usize = 1 << 18;

/// A thread on its first turn.
#[derive(Debug)]
struct First {
    tid: i32,
    /// Whether it is named like a vCPU.
    is_named: bool,
    open: Open,
}

/// What is known of the time before the trace.
#[derive(Debug, Default)]
pub struct Before {
    /// Whether all pCPUs' records begin with the trace's first.
    pub whole: bool,
    /// Whether nothing more can be said of it.
    over: bool,
    /// Threads that records named, a bit each.
    named: Vec<u64>,
    /// The first record, and the first wake-up.
    first_ns: Option<u64>,
    woken_ns: Option<u64>,
    /// Since when all is in the trace, and how long any pCPU had been idle then.
    since_ns: Option<u64>,
    idle_ns: u64,
    /// By pCPU, the wait of a thread that is on its queue since then.
    opens: Vec<Option<Open>>,
    /// By pCPU, the thread that runs, if it came first after a long wait.
    firsts: BTreeMap<u32, First>,
}

impl Before {
    /// Events were lost, or come too late: nothing more is known.
    pub fn is_over(&mut self) {
        self.over = true;
        self.opens.clear();
        self.firsts.clear();
    }

    /// A record. Threads that switches name are noted where they come and leave.
    #[inline]
    pub fn event(&mut self, event: &Event<'_>, pcpus: &Pcpus) {
        let now_ns = event.time_ns;
        match event.kind {
            Kind::Wakeup { tid, .. } => {
                self.woken_ns.get_or_insert(now_ns);
                self.names(tid);
            }
            Kind::Waking { tid, .. } | Kind::Migrate { tid, .. } => {
                self.names(tid);
            }
            _ => {}
        }
        let first_ns = *self.first_ns.get_or_insert(now_ns);
        let since_ns = match self.whole {
            true => Some(first_ns),
            false => pcpus
                .begun_ns
                .max(self.woken_ns)
                .filter(|_| self.woken_ns.is_some()),
        };
        if since_ns != self.since_ns {
            self.since_ns = since_ns;
            self.idle_ns = pcpus.idle_until(now_ns);
        }
    }

    /// No pCPU had a record for this long.
    pub fn is_quiet(&mut self, quiet_ns: u64) {
        for open in self.opens.iter_mut().flatten() {
            open.quiet_ns = open.quiet_ns.max(quiet_ns);
        }
    }

    /// A record names a thread; whether that is the first.
    pub fn names(&mut self, tid: i32) -> bool {
        if self.over {
            return false;
        }
        if self.named.is_empty() {
            self.named.resize(PLACES / 64, 0);
        }
        let at = usize::try_from(tid).unwrap_or(0) % PLACES;
        let (word, bit) = (&mut self.named[at / 64], 1 << (at % 64));
        let is_first = *word & bit == 0;
        *word |= bit;
        is_first
    }

    /// Divides the time since the begin by what a pCPU ran.
    pub fn divide(&mut self, cpu: u32, now_ns: u64, pcpus: &mut Pcpus, names: &mut Names) {
        let at = usize::try_from(cpu).unwrap_or(usize::MAX);
        let Some(since_ns) = self.since_ns.filter(|_| !self.over && at < MOST_PCPUS) else {
            return;
        };
        if self.opens.len() <= at {
            self.opens.resize_with(at + 1, || None);
        }
        // Without a switch before its first record, the thread of that ran all the time.
        if self.whole && self.opens[at].is_none() && pcpus.of(cpu).running.is_none() {
            return;
        }
        let known = self.opens[at].take();
        let irq_ns = known.as_ref().map_or(0, |open| open.irq_ns);
        let known = known.filter(|open| open.begin_ns == since_ns);
        let mut open = known.unwrap_or_else(|| Open {
            from_begin: true,
            // Which threads were passed over, nothing shows.
            passed_over: true,
            ..Open::new(cpu, since_ns, irq_ns, self.idle_ns)
        });
        divide(&mut open, None, (pcpus, names), now_ns, true);
        self.opens[at] = Some(open);
    }

    /// A thread comes to run that no record named before.
    pub fn comes(&mut self, cpu: u32, tid: i32, is_named: bool) {
        let open = usize::try_from(cpu).ok().and_then(|at| self.opens.get(at));
        let Some(open) = open.and_then(Option::as_ref) else {
            return;
        };
        if open.upto_ns.saturating_sub(open.begin_ns) >= SHORTEST_NS {
            let open = open.clone();
            let first = First {
                tid,
                is_named,
                open,
            };
            self.firsts.insert(cpu, first);
        }
        assert!(self.firsts.len() <= self.opens.len(), "one a pCPU");
    }

    /// What a pCPU ran leaves it.
    pub fn leaves(&mut self, cpu: u32) {
        if !self.firsts.is_empty() {
            self.firsts.remove(&cpu);
        }
    }

    /// The event's thread is a vCPU's, by KVM or by its name: gives its wait since the begin, once.
    #[inline]
    pub fn of_vcpu(&mut self, event: &Event<'_>) -> Option<Open> {
        if self.firsts.is_empty() {
            return None;
        }
        let is_kvms = matches!(event.kind, Kind::Entry { .. } | Kind::Exit { .. });
        let first = self.firsts.remove(&event.cpu)?;
        if first.tid == event.tid && (is_kvms || first.is_named) {
            return Some(first.open);
        }
        self.firsts.insert(event.cpu, first);
        None
    }

    /// Whether it is known when the trace is over that a thread waited so: `begun_ns` is the latest
    /// first record of any pCPU.
    #[must_use]
    pub fn is_known(&self, open: &Open, begun_ns: Option<u64>) -> bool {
        assert!(open.from_begin, "another's begin is in the trace");
        self.whole || begun_ns.is_some_and(|begun_ns| begun_ns <= open.begin_ns)
    }
}
