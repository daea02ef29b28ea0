// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Updates of page tables inside a simulation: the program's calls, and migrations, at once or when
//! their leases have ended.

use std::sync::Arc;

use super::Sim;
use crate::block::Call;
use crate::layout::Key;
use crate::machine::{Fault, View};
use crate::oracle::Grace;
use crate::os::{Agent, Bit, Cause, Mapping, Migration, Remap, TablePage};
use crate::scheme::rights::{Attempt, Effect};

impl Sim {
    pub(super) fn call(&mut self, core: usize, vm: u16, call: &Call) {
        let os = &mut self.machine.os;
        if let Some(remap) = os.map_call(vm, call.start, call.len, call.prot, call.kind) {
            self.update(core, &remap);
        }
    }

    /// A marker: of a recorded update, where there are any.
    pub(super) fn marker(&mut self, core: usize, id: u64) {
        let updates = Arc::clone(&self.recorded);
        match updates.get(crate::num::ix(id)) {
            Some(update) => {
                if let Some(remap) = self.machine.os.recorded(update) {
                    self.update(core, &remap);
                }
            }
            None => self.mark(id),
        }
    }

    /// An update that an agent makes as soon as leases let it.
    fn update(&mut self, core: usize, remap: &Remap) {
        let now = self.cores[core].front.drain();
        let ready = self.scheme.ready_at(remap, core, now);
        self.revoke(core, remap, now, ready);
    }

    /// No data cache keeps lines of frames whose contents have moved.
    fn purge(&mut self, frame: u64, pages: u64) {
        if self.machine.fault != Some(Fault::FrameNotPurged) {
            for line in (frame << 6)..((frame + pages) << 6) {
                self.machine.caches.purge(line);
            }
        }
    }

    /// The guest clears a bit of some pages' entries, of one VM; returns how many were set.
    pub fn clear(&mut self, core: usize, bit: Bit, keys: &[Key]) -> u64 {
        let Some(remap) = self.machine.os.clear(bit, keys) else {
            return 0;
        };
        let untold = match bit {
            Bit::Dirty => Fault::CleanUntold,
            Bit::Accessed => Fault::AgeUntold,
        };
        if self.machine.fault == Some(untold) {
            self.tell_oracle(&remap, Grace::None);
        } else {
            self.update(core, &remap);
        }
        remap.changes.len() as u64
    }

    /// Table pages may move from now on, so that a scheme must follow them: before the first
    /// access, as nothing follows what was cached before.
    pub fn let_tables_move(&mut self) {
        assert!(self.machine.counts.walks == 0, "nothing is cached yet");
        self.machine.tables_move = true;
    }

    /// Moves the table page that a walk for `key` reads at `level`, from `core`; false where there
    /// is no such page. The agent that moves it is the one whose page it is.
    pub fn move_table(&mut self, core: usize, which: TablePage, key: Key, level: usize) -> bool {
        assert!(self.machine.tables_move, "the run lets table pages move");
        let Some(remap) = self.machine.os.move_table(which, key, level) else {
            return false;
        };
        self.purge(remap.tables[0].left, 1);
        let now = self.cores[core].front.drain();
        // A lease is a translation's; a table page has none.
        self.revoke(core, &remap, now, now);
        true
    }

    /// Somebody on a core tries to read or write a table of the scheme's directly.
    pub fn attempt(&mut self, core: usize, attempt: &Attempt) -> Effect {
        let now = self.cores[core].front.cycle();
        let mut view = View::of(&mut self.machine);
        self.scheme.attempt(&mut view, core, attempt, now)
    }

    /// The translation that covers 4 KiB page `vpn` of a VM.
    #[must_use]
    pub fn key_of(&self, vm: u16, vpn: u64) -> Key {
        self.machine.os.key_of(vm, vpn)
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
            Some(remap) => self.scheme.ready_at(&remap, core, now),
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
        let frames = self.machine.os.apply_migration(plan);
        for &frame in &frames {
            self.purge(frame, remap.changes[0].key.small_pages());
        }
        let now = self.cores[core].front.cycle();
        self.tell_given(core, &remap, &frames, ready.max(now));
        self.revoke(core, &remap, now, ready.max(now));
    }

    /// The page tables have changed; `grace` is what is left of what was true.
    fn tell_oracle(&mut self, remap: &Remap, grace: Grace) {
        let m = &mut self.machine;
        if let Some(oracle) = &mut m.oracle {
            for change in &remap.changes {
                oracle.updated(change.key, m.os.peek(change.key).as_ref(), grace);
            }
        }
    }

    /// Makes an update, which the page tables hold already, visible to every core.
    fn revoke(&mut self, core: usize, remap: &Remap, now: u64, ready: u64) {
        let free = if self.serialize { self.lock_until } else { 0 };
        // The initiator waits for the lock and for leases; what is left after that is revoked.
        let begin = ready.max(now).max(free);
        let grace = self.grace(core, remap, begin);
        self.tell_oracle(remap, grace);
        // A waiting vCPU runs after those before it have had their slices.
        let wait = match self.options.vms {
            1 => 0,
            _ => self.turns_before(remap.vm) * self.slice_cycles,
        };
        let m = &mut self.machine;
        match (remap.agent, remap.cause) {
            (Agent::Guest, Cause::Migration) => m.counts.guest_migrations += 1,
            (Agent::Host, _) => m.counts.host_migrations += 1,
            (Agent::Guest, Cause::Program) => m.counts.program_updates += 1,
        }
        m.counts.pages_revoked += remap.changes.len() as u64;
        m.preempted_wait[usize::from(remap.vm)] = wait;
        if remap.victims.is_some() {
            let on_a_core = m.running.iter().flatten().filter(|&&vm| vm == remap.vm);
            let all = self.threads.iter().filter(|thread| thread.vm == remap.vm);
            m.away[usize::from(remap.vm)] = (all.count() - on_a_core.count()) as u64;
        }
        let mut cycles = begin - now + m.write_entries(core, remap, begin);
        let mut told = std::borrow::Cow::Borrowed(remap);
        if m.fault == Some(Fault::ColdUntold) && remap.cause == Cause::Migration {
            told.to_mut().changes.truncate(1);
        }
        if m.fault == Some(Fault::FreedTablesKept) && remap.cause == Cause::Program {
            told.to_mut().tables.clear();
        }
        m.network.begin();
        cycles += self.scheme.revoke(&mut View::of(m), &told, core, begin);
        cycles += m.network.wait(core);
        m.counts.initiator_cycles += cycles;
        self.lock_until = now + cycles;
        self.stall(core, cycles);
    }
}
