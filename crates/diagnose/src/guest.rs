// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Shootdowns in the trace of a kernel that does them itself: a guest's, or a host's own.
//!
//! One shootdown is a series of calls that a CPU queues for others (`csd_queue_cpu`, Linux 6.4 and
//! later) after it said that it will send the IPI (`tlb_flush`, reason 4); it is done when the last
//! of them has run (`csd_function_exit`). A trace with probes on `native_flush_tlb_multi` shows
//! begin and end by itself. Calls of other functions, as far as the trace distinguishes them, are
//! left out.

use std::collections::HashMap;

use steady_events::{Event, Kind};
use steady_measures::Histogram;

/// `TLB_REMOTE_SEND_IPI` of `enum tlb_flush_reason` (`include/linux/mm_types.h`, Linux 6.12).
const SENDS_IPI: u64 = 4;
/// `TLB_REMOTE_SHOOTDOWN`.
const FOR_ANOTHER: u64 = 1;
/// Calls under way that are followed.
const MOST_CALLS: usize = 65_536;

/// A shootdown under way.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    began_ns: u64,
    targets: u64,
    left: u64,
}

/// The shootdowns of one kernel.
#[derive(Debug, Default)]
pub struct Shootdowns {
    /// From begin until all have flushed, in nanoseconds.
    pub latency_ns: Histogram,
    /// Targets of each.
    pub targets: Histogram,
    /// Flushes done for another CPU.
    pub flushes_for_another: u64,
    /// Announced but never seen done.
    pub unfinished: u64,
    /// The longest: when it began, how long it took, and on which CPU.
    pub worst: Option<(u64, u64, u32)>,
    open: HashMap<u32, Open>,
    calls: HashMap<u64, u32>,
    probed: bool,
}

impl Shootdowns {
    /// An event.
    pub fn event(&mut self, event: &Event<'_>) {
        match event.kind {
            Kind::TlbFlush { reason, .. } if reason == SENDS_IPI => self.begin(event),
            Kind::TlbFlush { reason, .. } => {
                self.flushes_for_another += u64::from(reason == FOR_ANOTHER);
            }
            Kind::ShootdownBegin => {
                self.probed = true;
                self.begin(event);
            }
            Kind::ShootdownEnd => self.end(event.cpu, event.time_ns),
            Kind::CallQueued { work, flush, .. } if flush != Some(false) => {
                self.queued(event.cpu, work);
            }
            Kind::CallDone { work } => self.done(work, event.time_ns),
            _ => {}
        }
    }

    fn begin(&mut self, event: &Event<'_>) {
        // The probe is on the function that then says it will send: one begin, not two.
        let fresh = Open {
            began_ns: event.time_ns,
            ..Open::default()
        };
        match self.open.get_mut(&event.cpu) {
            Some(open) if self.probed && open.targets == 0 => {}
            Some(open) => {
                // Without targets no CPU had to be asked: all other CPUs had left the memory.
                self.unfinished += u64::from(open.left > 0);
                *open = fresh;
            }
            None => {
                self.open.insert(event.cpu, fresh);
            }
        }
    }

    fn queued(&mut self, cpu: u32, work: u64) {
        let Some(open) = self.open.get_mut(&cpu) else {
            return;
        };
        if self.calls.len() < MOST_CALLS {
            open.targets += 1;
            open.left += 1;
            self.calls.insert(work, cpu);
        }
    }

    fn done(&mut self, work: u64, time_ns: u64) {
        let Some(cpu) = self.calls.remove(&work) else {
            return;
        };
        let Some(open) = self.open.get_mut(&cpu) else {
            return;
        };
        open.left = open.left.saturating_sub(1);
        if open.left == 0 && !self.probed {
            self.end(cpu, time_ns);
        }
    }

    fn end(&mut self, cpu: u32, time_ns: u64) {
        let Some(open) = self.open.remove(&cpu) else {
            return;
        };
        let took_ns = time_ns.saturating_sub(open.began_ns);
        self.latency_ns.record(took_ns);
        if self
            .worst
            .is_none_or(|(_, longest_ns, _)| took_ns > longest_ns)
        {
            self.worst = Some((open.began_ns, took_ns, cpu));
        }
        self.targets.record(open.targets);
    }

    /// The trace is over.
    pub fn finish(&mut self) {
        let left = self.open.values().filter(|open| open.left > 0).count();
        self.unfinished += u64::try_from(left).unwrap_or(u64::MAX);
        self.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steady_events::Gap;

    fn event(time_ns: u64, cpu: u32, kind: Kind<'static>) -> Event<'static> {
        Event {
            time_ns,
            cpu,
            tid: 1,
            comm: b"",
            process: 0,
            gap: Gap::None,
            kind,
        }
    }

    fn queued(work: u64) -> Kind<'static> {
        Kind::CallQueued {
            target: 1,
            work,
            flush: Some(true),
        }
    }

    const SENDS: Kind<'static> = Kind::TlbFlush {
        reason: SENDS_IPI,
        pages: 1,
    };

    #[test]
    fn a_shootdown_lasts_until_its_last_target_has_flushed() {
        let mut shootdowns = Shootdowns::default();
        shootdowns.event(&event(100, 0, SENDS));
        shootdowns.event(&event(101, 0, queued(0xa)));
        shootdowns.event(&event(102, 0, queued(0xb)));
        shootdowns.event(&event(110, 1, Kind::CallDone { work: 0xa }));
        assert_eq!(shootdowns.latency_ns.count(), 0);
        shootdowns.event(&event(150, 2, Kind::CallDone { work: 0xb }));
        let latency = crate::Spread::from(&shootdowns.latency_ns);
        assert_eq!((latency.count, latency.max), (1, 50));
        assert_eq!(crate::Spread::from(&shootdowns.targets).max, 2);
    }

    #[test]
    fn two_initiators_at_once_do_not_mix() {
        let mut shootdowns = Shootdowns::default();
        shootdowns.event(&event(100, 0, SENDS));
        shootdowns.event(&event(101, 1, SENDS));
        shootdowns.event(&event(102, 0, queued(0xa)));
        shootdowns.event(&event(103, 1, queued(0xb)));
        shootdowns.event(&event(121, 0, Kind::CallDone { work: 0xb }));
        shootdowns.event(&event(140, 1, Kind::CallDone { work: 0xa }));
        let latency = crate::Spread::from(&shootdowns.latency_ns);
        assert_eq!((latency.min, latency.max), (20, 40));
    }

    #[test]
    fn one_that_never_ends_is_told() {
        let mut shootdowns = Shootdowns::default();
        shootdowns.event(&event(100, 0, SENDS));
        shootdowns.event(&event(101, 0, queued(0xa)));
        shootdowns.finish();
        assert_eq!(
            (shootdowns.unfinished, shootdowns.latency_ns.count()),
            (1, 0)
        );
    }
}
