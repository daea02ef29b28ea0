// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What becomes of somebody's own reads and writes of the tables (Table 4), and the planted fault
//! of a gate that is open.

use super::{Attc, Pointer};
use crate::layout::Key;
use crate::machine::{Fault, View};
use crate::scheme::rights::{Attempt, Decision, Effect, Operation, Target};

impl Attc {
    /// Asks the gate, and does what it allows.
    pub(super) fn answer(
        &mut self,
        m: &mut View<'_>,
        core: usize,
        attempt: &Attempt,
        now: u64,
    ) -> Effect {
        let &Attempt {
            actor,
            target,
            operation,
            place,
            vm,
        } = attempt;
        let decision = self.gate.attempt(actor, target, operation);
        let mut dropped = [0, 0];
        match decision {
            Decision::Refused => {
                if operation == Operation::Write && m.look().has(Fault::Ungated) {
                    self.trample(attempt);
                }
            }
            Decision::Filtered => {
                let pointer = Pointer {
                    set: place,
                    large: false,
                };
                dropped = self.clear_counted(m, core, pointer, |key, _| key.vm() == vm, now);
            }
            Decision::Allowed => {
                for pointer in self.pointers_asked_for(m, core, attempt, now) {
                    let exact = |_, spn| spn == place;
                    let [meant, other] = self.clear_counted(m, core, pointer, exact, now);
                    dropped = [dropped[0] + meant, dropped[1] + other];
                }
            }
        }
        Effect {
            decision,
            own_dropped: dropped[0],
            others_dropped: dropped[1],
        }
    }

    /// Reads the inverse table's line for the hypervisor; a write takes the pointers out of it.
    fn pointers_asked_for(
        &mut self,
        m: &mut View<'_>,
        core: usize,
        attempt: &Attempt,
        now: u64,
    ) -> Vec<Pointer> {
        let Some(table) = self.invtbl.as_mut() else {
            return Vec::new();
        };
        m.read_line(core, table.line(attempt.place, false), now);
        match attempt.operation {
            Operation::Read => Vec::new(),
            Operation::Write => table.take(attempt.place, false),
        }
    }

    /// Writes a set as an update does; returns the entries dropped that were meant, and others.
    fn clear_counted(
        &mut self,
        m: &mut View<'_>,
        core: usize,
        pointer: Pointer,
        doomed: impl Fn(Key, u64) -> bool,
        now: u64,
    ) -> [u64; 2] {
        if self.walks_of(pointer).is_some() {
            self.write_set(m, core, pointer, doomed, &[], now);
            return [0, 0];
        }
        let held = |attc: &Self, of: &dyn Fn(Key, u64) -> bool| {
            let entries = attc.atlb.entries_of(pointer.set, pointer.large);
            entries.filter(|&(key, spn)| of(key, spn)).count() as u64
        };
        let (meant, before) = (held(self, &doomed), held(self, &|_, _| true));
        self.write_set(m, core, pointer, &doomed, &[], now);
        let gone = before - held(self, &|_, _| true);
        assert!(gone >= meant, "what is meant goes");
        [meant, gone - meant]
    }

    /// The planted fault: a refused write is carried out.
    fn trample(&mut self, attempt: &Attempt) {
        match (attempt.target, self.invtbl.as_mut()) {
            (Target::Atlb, _) => self.atlb.trample(attempt.place),
            (Target::Invtbl, Some(table)) => drop(table.take(attempt.place, false)),
            (Target::Invtbl, None) => {}
        }
    }
}
