// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `latr`: Latr (Kumar et al., ASPLOS 2018). A core that frees pages writes down what others must
//! invalidate, in a ring of its own, and goes on. Each core sweeps all rings at its scheduler's
//! tick, and as its thread leaves it. The freed frames are kept for two ticks.
//!
//! Our reading of the authors' kernel (Linux 4.10; mm/, kernel/sched/, arch/x86/mm/tlb.c):
//! - `munmap` and `MADV_DONTNEED` are put off; lost rights, cleared bits and new mappings over old
//!   ones are not. A full ring means IPIs.
//! - A migration, as NUMA balancing does it, is written down before it begins. It moves the page at
//!   the next tick, when no core has the translation any more.
//!
//! Ours, since that kernel has no answer or another one:
//! - It is native. In a guest, and for a host's updates, cores that do not run the VM drop what is
//!   revoked at once, as in `kvmtlb`; a vCPU that leaves its core sweeps.
//! - A page that is touched again before all have swept ends the wait by IPIs. That kernel keeps
//!   the address of what `munmap` freed out of use; Linux, whose addresses traces have, does not.
//! - An update that frees table pages is not put off.
//!
//! Left out: the reading of empty rings, the fault that a page meets while its migration waits (it
//! stays where it is), and the thread that interrupts cores that have not swept for long.

mod ring;

use std::collections::BTreeMap;

use super::{Runs, Scheme, Spec, Sweep, software};
use crate::Error;
use crate::config::{Allowed, LONGEST_UPDATE, MachineConfig, Parameter, Value};
use crate::cores::CoreSet;
use crate::layout::Key;
use crate::machine::{Fault, Look, View, Walk};
use crate::os::{Agent, Cause, Remap};
use ring::{Rings, State};

/// The scheduler's tick.
pub static TICK: Parameter = Parameter {
    key: "rivals.latr_tick_us",
    default: Value::Number(1000),
    allowed: Allowed::Range(1, 10_000_000),
    help: "Period of the scheduler's tick, microseconds; assumed: Linux with HZ=1000. Debian's \
           kernels have 4000.",
};
/// Writing down an update.
pub static PUBLISH: Parameter = Parameter {
    key: "rivals.latr_publish_cycles",
    default: Value::Number(930),
    allowed: Allowed::Range(0, LONGEST_UPDATE),
    help: "Latr initiator, at 4 GHz: 132 ns for a state (assumed: the paper's figure from memory, \
           not read again), and 100 ns for its own invalidation (Linux 4.10, arch/x86/mm/tlb.c).",
};
/// Sweeping one.
pub static SWEEP: Parameter = Parameter {
    key: "rivals.latr_sweep_cycles",
    default: Value::Number(630),
    allowed: Allowed::Range(0, LONGEST_UPDATE),
    help: "Latr sweep: cycles of a core for each state that names it, 158 ns at 4 GHz (assumed: \
           the paper's figure from memory, not read again).",
};
/// Slots of a ring.
pub static RING: Parameter = Parameter {
    key: "rivals.latr_ring_entries",
    default: Value::Number(256),
    allowed: Allowed::Range(2, 65_536),
    help: "Slots of each core's ring, of which one stays empty (LAZY_TLB_NUM_ENTRIES of the \
           authors' kernel). An update that finds it full is made by IPIs.",
};

/// Lazy shootdowns.
pub static LATR: Spec = Spec {
    name: "latr",
    help: "lazy shootdowns: others sweep at their next tick, frames are kept for two",
    runs: Runs::Anywhere,
    parameters: &[&TICK, &PUBLISH, &SWEEP, &RING],
    validate,
    make: |config| Box::new(Latr::new(config)),
};

/// Frames are kept for two ticks, so that the clocks of two cores must be less than one apart.
fn validate(config: &MachineConfig) -> Result<(), Error> {
    let (tick, lead) = (
        config.cycles(config.schemes.number(&TICK)),
        config.core.lead_cycles,
    );
    if tick < u64::from(lead) {
        let key = TICK.key;
        return Err(Error::Config(format!(
            "`{key}` is {tick} cycles: expected at least `core.lead_cycles`, {lead}; give a longer \
             tick or a shorter lead"
        )));
    }
    Ok(())
}

#[derive(Debug)]
struct Latr {
    period: u64,
    publish: u64,
    sweep: u64,
    ipis: software::Costs,
    rings: Rings,
    /// Each core's last tick.
    ticked: Vec<u64>,
    /// The update asked about is put off.
    put_off: bool,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    published: u64,
    swept: u64,
    full_rings: u64,
    mapped_again: u64,
}

impl Latr {
    fn new(config: &MachineConfig) -> Self {
        let number = |parameter| u64::from(config.schemes.number(parameter));
        let cores = config.core.count as usize;
        Self {
            period: config.cycles(config.schemes.number(&TICK)),
            publish: number(&PUBLISH),
            sweep: number(&SWEEP),
            ipis: software::Costs::of_ipis(config),
            // One slot stays empty.
            rings: Rings::new(cores, config.schemes.number(&RING) as usize - 1),
            ticked: vec![0; cores],
            put_off: false,
            counts: Counts::default(),
        }
    }

    /// Whether what was revoked is so much that a core flushes the VM.
    fn flushes(&self, remap: &Remap) -> bool {
        remap.agent == Agent::Host || remap.changes.len() > self.ipis.ceiling
    }

    fn has_room(&mut self, core: usize) -> bool {
        let room = self.rings.has_room(core);
        self.counts.full_rings += u64::from(!room);
        room
    }

    /// Writes an update down, for the others that run the VM; the rest drop it now.
    fn write_down(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, now: u64) -> u64 {
        let mut state = State::of(remap, self.flushes(remap), now);
        let most = remap.told_at_most(self.ipis.victims);
        for other in m.look().others(core, remap.vm).take(most) {
            // A core whose clock is ahead may have had its tick.
            if self.ticked[other] <= now {
                state.waits.insert(other);
            }
        }
        let rest = (0..m.cores()).filter(|&other| !state.waits.contains(other));
        let rest: Vec<usize> = rest.collect();
        for other in rest {
            state.drop_at(m, other);
        }
        self.counts.published += 1;
        self.rings.push(core, state);
        self.publish
    }

    /// A migration, whose tick has come if it was written down.
    fn carry_out(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, now: u64) -> u64 {
        // A frame that a state still names does not move.
        self.rings.end_of_frames(m, remap);
        let Some(state) = self.rings.planned(remap, now) else {
            return self.ipis.shoot_down(m, remap, core);
        };
        state.moved = true;
        let ready = state.ready.expect("a plan has a tick");
        assert!(ready <= now, "its tick has come");
        for other in 0..self.ticked.len() {
            // Those that run the VM drop it at that tick, which is to come on their clock. From
            // there on no core can load the page until it has moved.
            let runs = m.look().runs(other) == Some(remap.vm);
            if !runs || self.ticked[other] >= ready {
                state.drop_at(m, other);
                state.waits.remove(other);
            }
        }
        self.publish
    }

    /// A page is touched again that others may still have: they are interrupted.
    #[cold]
    fn end_by_ipis(&mut self, m: &mut View<'_>, core: usize, key: Key) -> u64 {
        let others = self.rings.end_of_page(m, key, core);
        self.counts.mapped_again += 1;
        if others == 0 {
            return 0;
        }
        m.interrupt_cores(core, key.vm(), self.ipis.victim, others);
        m.count_ipi_shootdown();
        self.ipis.initiator
    }
}

impl Scheme for Latr {
    fn miss(&mut self, m: &mut View<'_>, core: usize, key: Key, now: u64, _issued: u64) -> Walk {
        let waits = self.rings.names(key) && !m.look().has(Fault::MappedAgainUntold);
        let wait = if waits {
            self.end_by_ipis(m, core, key)
        } else {
            0
        };
        let mut walk = m.walk(core, key, now + wait).0;
        walk.cycles += wait;
        walk
    }

    fn ready_at(&mut self, remap: &Remap, core: usize, now: u64) -> u64 {
        if remap.cause != Cause::Migration || !self.has_room(core) {
            return now;
        }
        let ready = (now / self.period + 1) * self.period;
        assert!(ready > now, "a tick is to come");
        let mut state = State::of(remap, self.flushes(remap), now);
        state.ready = Some(ready);
        state.waits = (0..self.ticked.len()).fold(CoreSet::default(), |mut all, core| {
            all.insert(core);
            all
        });
        self.counts.published += 1;
        self.rings.push(core, state);
        ready
    }

    fn puts_off(&mut self, m: Look<'_>, remap: &Remap, core: usize, _now: u64) -> bool {
        let program = remap.cause == Cause::Program;
        let frees = program && (remap.frees || m.has(Fault::RightsPutOff));
        let told = remap.told_at_most(self.ipis.victims) > 0;
        self.put_off = frees
            && told
            && remap.tables.is_empty()
            && m.others(core, remap.vm).next().is_some()
            && (self.has_room(core) || m.has(Fault::RingOverrun));
        self.put_off
    }

    fn revoke(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, now: u64) -> u64 {
        if std::mem::take(&mut self.put_off) {
            self.write_down(m, remap, core, now)
        } else if remap.cause == Cause::Migration && remap.tables.is_empty() {
            self.carry_out(m, remap, core, now)
        } else {
            self.ipis.shoot_down(m, remap, core)
        }
    }

    fn expires(&self) -> bool {
        true
    }

    fn period(&self) -> Option<u64> {
        Some(self.period)
    }

    fn sweep(&mut self, m: &mut View<'_>, core: usize, sweep: Sweep) -> u64 {
        if let Sweep::Tick(at) = sweep {
            assert!(at >= self.ticked[core], "a core's ticks come in order");
            self.ticked[core] = at;
        }
        let swept = self.rings.sweep(m, core, sweep);
        self.rings.retire(core, self.ticked[core], self.period);
        self.counts.swept += swept;
        swept * self.sweep
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::from([
            ("published", self.counts.published),
            ("swept", self.counts.swept),
            ("full_rings", self.counts.full_rings),
            ("mapped_again", self.counts.mapped_again),
        ])
    }

    fn check(&self, _m: Look<'_>) -> Result<(), String> {
        self.rings.check()
    }
}
