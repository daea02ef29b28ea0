// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What one vCPU did: its exits, its turns, its sleep, where it halted.
//!
//! Left out: what concerns several vCPUs ([`crate::analysis`]).

use steady_events::{Event, ExitReason, Kind};

use crate::asleep::Asleep;
use crate::detail::Details;
use crate::exits::{Exits, Place};
use crate::pause::Pauses;
use crate::preempt::Preempt;
use crate::spread::total;
use crate::timer::Timer;

/// Halts that are distinguished by place: enough for the idle loop of any kernel.
const MOST_HALT_PLACES: usize = 64;

/// What one vCPU did.
#[derive(Debug, Default)]
pub struct OfVcpu {
    /// Its exits.
    pub exits: Exits,
    /// The same by what they were about.
    pub details: Details,
    /// Its pause-loop exits.
    pub pauses: Pauses,
    /// Its timer.
    pub timer: Timer,
    /// Its turns.
    pub preempt: Preempt,
    /// Its sleep outside halts.
    pub asleep: Asleep,
    /// Since when its thread sleeps, in nanoseconds.
    pub slept_since_ns: Option<u64>,
    /// Sleep outside halts that no exit of its counts as its own.
    pub slept_ns: u64,
    /// Where it halts, with how often.
    pub halts: Vec<(u64, u64)>,
    /// Hypercalls by number: send IPI (10), yield to (11), others.
    pub hypercalls: [u64; 3],
    /// Whether its guest was seen in the upper half of its address space.
    pub wide: bool,
    last: Option<(ExitReason, u64)>,
}

impl OfVcpu {
    /// For how long in all it did not run for reasons that are not its exits', `ready_ns` of it
    /// ready.
    #[must_use]
    pub fn not_own_ns(&self, ready_ns: u64) -> u64 {
        let stuck_ns = self.preempt.uninterruptible_total_ns;
        total([ready_ns, stuck_ns, self.slept_ns])
    }

    /// An event of its own thread; `waits` says that it waits for an IPI's answer.
    pub fn event(&mut self, event: &Event<'_>, waits: bool) {
        let time_ns = event.time_ns;
        self.timer.event(event);
        match event.kind {
            Kind::Exit {
                reason,
                rip,
                address,
                ..
            } => {
                self.exits.exit(Place::of(reason, address, rip), time_ns);
                self.exit(reason, rip, time_ns, waits);
            }
            Kind::Entry { .. } => self.entry(time_ns),
            Kind::GuestWait { event } => self.guest_wait(event, time_ns, waits),
            Kind::PleWindow { window } => self.pauses.window = Some(window),
            Kind::Hypercall { nr } => {
                let at = match nr {
                    10 => 0,
                    11 => 1,
                    _ => 2,
                };
                self.hypercalls[at] += 1;
            }
            _ => {}
        }
    }

    fn exit(&mut self, reason: ExitReason, rip: u64, time_ns: u64, waits: bool) {
        self.last = Some((reason, rip));
        self.wide |= rip >> 63 == 1;
        if reason.is_pause() {
            self.pauses.exit(rip, time_ns, waits);
        } else if !reason.is_wfx() {
            self.pauses.other_exit();
        }
        if reason.is_halt() {
            match self.halts.iter().position(|(known, _)| *known == rip) {
                Some(at) => self.halts[at].1 += 1,
                None if self.halts.len() < MOST_HALT_PLACES => self.halts.push((rip, 1)),
                None => {}
            }
        }
    }

    /// What arm64's last exit was for: `wfe`, which is how its guests spin, or `wfi`, a halt.
    fn guest_wait(&mut self, event: bool, time_ns: u64, waits: bool) {
        let Some((_, rip)) = self.last.filter(|(reason, _)| reason.is_wfx()) else {
            return;
        };
        let told = if event {
            ExitReason::ARM64_WFE
        } else {
            ExitReason::ARM64_WFI
        };
        self.exits.told(told);
        self.last = Some((told, rip));
        if event {
            self.pauses.exit(rip, time_ns, waits);
        } else {
            self.pauses.other_exit();
        }
    }

    fn entry(&mut self, time_ns: u64) {
        let ended = self.exits.entry(time_ns);
        let place = self
            .last
            .filter(|(reason, _)| reason.is_pause())
            .map(|(_, rip)| rip);
        self.pauses.entry(
            time_ns,
            place.zip(ended).map(|(rip, (_, took_ns))| (rip, took_ns)),
        );
        if let Some((reason, took_ns)) = ended {
            self.timer.ended(reason, took_ns);
        }
    }
}
