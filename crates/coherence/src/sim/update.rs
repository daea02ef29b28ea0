// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Updates of page tables inside a simulation: the program's calls, and migrations, at once or when
//! their leases have ended.

use super::Sim;
use crate::block::Call;
use crate::layout::Key;
use crate::machine::View;
use crate::os::{Agent, Cause, Mapping, Migration, Remap};
use crate::scheme::rights::{Attempt, Effect};

impl Sim {
    pub(super) fn call(&mut self, core: usize, vm: u16, call: &Call) {
        let os = &mut self.machine.os;
        if let Some(remap) = os.map_call(vm, call.start, call.len, call.prot, call.kind) {
            let now = self.cores[core].front.drain();
            let ready = self.scheme.ready_at(&remap, now);
            self.revoke(core, &remap, now, ready);
        }
    }

    /// The guest clears the dirty bits of some pages of one VM, as writeback does; returns how many
    /// were set.
    pub fn clean(&mut self, core: usize, keys: &[Key]) -> u64 {
        let Some(remap) = self.machine.os.clean(keys) else {
            return 0;
        };
        let now = self.cores[core].front.drain();
        let ready = self.scheme.ready_at(&remap, now);
        self.revoke(core, &remap, now, ready);
        remap.changes.len() as u64
    }

    /// Somebody on a core tries to read or write a table of the scheme's directly.
    pub fn attempt(&mut self, core: usize, attempt: &Attempt) -> Effect {
        let now = self.cores[core].front.cycle();
        let mut view = View::of(&mut self.machine);
        self.scheme.attempt(&mut view, core, attempt, now)
    }

    /// Where the page is, if it is mapped.
    #[must_use]
    pub fn mapping(&self, key: Key) -> Option<Mapping> {
        self.machine.os.peek(key)
    }

    /// A page has earned its move: now, or once its leases have ended.
    pub(super) fn migrate(&mut self, core: usize, frame: u64) {
        let Some(plan) = self.machine.os.plan_migration(frame) else {
            return;
        };
        let now = self.cores[core].front.drain();
        let ready = match self.machine.os.describe_migration(&plan) {
            Some(remap) => self.scheme.ready_at(&remap, now),
            None => now,
        };
        if ready > now {
            self.machine.counts.deferred += 1;
            self.deferred_seen += 1;
            self.deferred.insert((ready, self.deferred_seen), plan);
            self.next_deferred = self.next_deferred.min(ready);
        } else {
            self.migrate_now(core, &plan, now);
        }
    }

    #[cold]
    pub(super) fn run_deferred(&mut self, core: usize, now: u64) {
        while let Some((&(ready, seen), &plan)) = self.deferred.first_key_value() {
            if ready > now {
                break;
            }
            self.deferred.remove(&(ready, seen));
            self.migrate_now(core, &plan, ready);
        }
        let next = self.deferred.first_key_value();
        self.next_deferred = next.map_or(u64::MAX, |(&(ready, _), _)| ready);
    }

    pub(super) fn migrate_now(&mut self, core: usize, plan: &Migration, ready: u64) {
        let Some(remap) = self.machine.os.describe_migration(plan) else {
            self.machine.os.abandon_migration(plan);
            return;
        };
        for frame in self.machine.os.apply_migration(plan) {
            let pages = remap.changes[0].key.small_pages();
            for line in (frame << 6)..((frame + pages) << 6) {
                self.machine.caches.purge(line);
            }
        }
        let now = self.cores[core].front.cycle();
        self.revoke(core, &remap, now, ready.max(now));
    }

    /// Makes an update, which the page tables hold already, visible to every core.
    fn revoke(&mut self, core: usize, remap: &Remap, now: u64, ready: u64) {
        let m = &mut self.machine;
        let free = if self.serialize { self.lock_until } else { 0 };
        // The initiator waits for the lock and for leases; what is left after that is revoked.
        let begin = ready.max(now).max(free);
        let until = if self.scheme.expires() { begin } else { 0 };
        if let Some(oracle) = &mut m.oracle {
            for change in &remap.changes {
                oracle.updated(change.key, m.os.current(change.key), until);
            }
        }
        match (remap.agent, remap.cause) {
            (Agent::Guest, Cause::Migration) => m.counts.guest_migrations += 1,
            (Agent::Host, _) => m.counts.host_migrations += 1,
            (Agent::Guest, Cause::Program) => m.counts.program_updates += 1,
        }
        m.counts.pages_revoked += remap.changes.len() as u64;
        // A waiting vCPU runs after those before it in the queue have had their slices.
        let threads = &self.threads;
        let waiting = self
            .queue
            .iter()
            .rposition(|&at| threads[at].vm == remap.vm);
        let rounds = waiting.map_or(0, |place| (place / self.cores.len()) as u64 + 1);
        let wait = if self.options.vms > 1 {
            rounds * self.slice_cycles
        } else {
            0
        };
        m.preempted_wait[usize::from(remap.vm)] = wait;
        let mut cycles = begin - now + m.write_entries(core, remap, begin);
        if remap.intermediate {
            for core in m.holders[usize::from(remap.vm)].iter() {
                m.mmu[core].flush_walk_caches(remap.vm);
                m.fifth.forget(core, remap.vm);
            }
        }
        m.network.begin();
        cycles += self.scheme.revoke(&mut View::of(m), remap, core, begin);
        cycles += m.network.wait(core);
        m.counts.initiator_cycles += cycles;
        self.lock_until = now + cycles;
        self.stall(core, cycles);
    }
}
