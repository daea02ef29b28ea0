// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ticks of the scheduler, where a scheme puts updates off: each core sweeps, and frames whose time
//! has come are free.
//!
//! All cores tick at the same cycles, as Linux's do unless it is asked to skew them. An idle core
//! swept as its thread left, and ticks again before its next access. The system software keeps the
//! frames of an update that was put off for two periods; within the first every core has swept.

#[cfg(test)]
mod tests;

use super::Sim;
use crate::layout::Key;
use crate::machine::{Fault, Look, View};
use crate::oracle::Grace;
use crate::os::Remap;
use crate::scheme::Sweep;

/// No tick comes.
pub(super) const NEVER: u64 = u64::MAX;

/// Periods that frames of an update that was put off are kept.
const KEPT: u64 = 2;

impl Sim {
    /// The first tick after `now`.
    pub(super) fn tick_after(&self, now: u64) -> u64 {
        let next = |period| (now / period + 1) * period;
        self.period.map_or(NEVER, next)
    }

    /// The first cycle at which a core has more to do than its records.
    pub(super) fn due(&self, core: usize) -> u64 {
        self.next_deferred.min(self.cores[core].next_tick)
    }

    /// What is due on a core at cycle `now`: its tick, then migrations.
    #[cold]
    pub(super) fn run_due(&mut self, core: usize, now: u64) {
        if now >= self.cores[core].next_tick {
            let next = self.tick_after(now);
            self.cores[core].next_tick = next;
            let tick = next - self.period.unwrap_or(NEVER);
            assert!(tick <= now && now < next, "a tick is before its period");
            self.sweep(core, Sweep::Tick(tick));
            self.machine.os.reclaim(tick);
            if let Some(oracle) = &mut self.machine.oracle {
                oracle.ticked(tick);
            }
        }
        if now >= self.next_deferred {
            self.run_deferred(core, now);
        }
    }

    /// A core sweeps, and pays for it as a victim.
    pub(super) fn sweep(&mut self, core: usize, sweep: Sweep) {
        if self.period.is_none() {
            return;
        }
        let mut view = View::of(&mut self.machine);
        let cycles = self.scheme.sweep(&mut view, core, sweep);
        if cycles > 0 {
            self.machine.counts.victim_cycles += cycles;
            self.stall(core, cycles);
        }
    }

    /// What an update that begins at cycle `begin` leaves of the old translations. Frames that it
    /// freed are kept accordingly.
    pub(super) fn grace(&mut self, core: usize, remap: &Remap, begin: u64) -> Grace {
        if let Some(period) = self.period {
            let look = Look::at(&self.machine);
            if self.scheme.puts_off(look, remap, core, begin) {
                let early = self.machine.fault == Some(Fault::FrameReused);
                let kept = (!early).then_some(begin + KEPT * period);
                self.machine.os.settle(kept);
                return Grace::Swept {
                    until: self.tick_after(begin),
                    but: core,
                };
            }
            self.machine.os.settle(None);
        }
        if self.expires {
            Grace::Until(begin)
        } else {
            Grace::None
        }
    }

    /// A migration gave pages frames that no page had: the oracle hears of them.
    pub(super) fn tell_given(&mut self, core: usize, remap: &Remap, frames: &[u64], now: u64) {
        let Some(oracle) = &mut self.machine.oracle else {
            return;
        };
        let key: Key = remap.changes[0].key;
        for &frame in frames {
            if remap.changes.iter().all(|change| change.old_spn != frame) {
                oracle.given(core, key, frame, now);
            }
        }
    }
}
