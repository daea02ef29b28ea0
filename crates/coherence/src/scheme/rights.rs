// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who may touch the ATLB and the inverse table: the paper's Table 4, with attempts counted.

/// One try to read or write a table, past all that keeps translations coherent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// Who tries.
    pub actor: Actor,
    /// The VM that a guest's actor is in, from 0.
    pub vm: u16,
    /// At which table.
    pub target: Target,
    /// What.
    pub operation: Operation,
    /// Where: the ATLB's set for small pages, or the frame whose pointers are meant.
    pub place: u64,
}

/// What an attempt did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Effect {
    /// The answer.
    pub decision: Decision,
    /// ATLB entries of the asker's VM that it dropped; of the hypervisor, all that it dropped.
    pub own_dropped: u64,
    /// ATLB entries of other VMs that it dropped.
    pub others_dropped: u64,
}

impl Effect {
    /// Nothing was touched.
    #[must_use]
    pub const fn none(decision: Decision) -> Self {
        Self {
            decision,
            own_dropped: 0,
            others_dropped: 0,
        }
    }
}

/// The agent that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actor {
    /// A process in a guest.
    GuestProcess,
    /// A guest's operating system.
    GuestOs,
    /// The hypervisor, which is trusted.
    Hypervisor,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The addressable TLB.
    Atlb,
    /// The inverse table.
    Invtbl,
}

/// How.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// A load.
    Read,
    /// A store.
    Write,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Carried out.
    Allowed,
    /// Intercepted: the walker invalidates the asker's own entries and writes nothing else.
    Filtered,
    /// Reads give zero, writes do nothing.
    Refused,
}

/// Table 4.
#[must_use]
pub const fn decide(actor: Actor, target: Target, operation: Operation) -> Decision {
    match (actor, target, operation) {
        (Actor::GuestOs, Target::Atlb, Operation::Write) => Decision::Filtered,
        (Actor::Hypervisor, Target::Invtbl, _) => Decision::Allowed,
        _ => Decision::Refused,
    }
}

/// The gate in front of both tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gate {
    /// Attempts refused.
    pub refused: u64,
    /// Writes passed to the walker.
    pub filtered: u64,
    /// Accesses carried out.
    pub allowed: u64,
}

impl Gate {
    /// Decides and counts one attempt.
    pub fn attempt(&mut self, actor: Actor, target: Target, operation: Operation) -> Decision {
        let decision = decide(actor, target, operation);
        match decision {
            Decision::Allowed => self.allowed += 1,
            Decision::Filtered => self.filtered += 1,
            Decision::Refused => self.refused += 1,
        }
        decision
    }
}

#[cfg(test)]
mod tests {
    use super::{Actor, Decision, Gate, Operation, Target};

    #[test]
    fn guests_get_nothing_but_filtered_atlb_writes() {
        let mut gate = Gate::default();
        for actor in [Actor::GuestProcess, Actor::GuestOs] {
            for target in [Target::Atlb, Target::Invtbl] {
                for operation in [Operation::Read, Operation::Write] {
                    gate.attempt(actor, target, operation);
                }
            }
        }
        assert_eq!((gate.refused, gate.filtered, gate.allowed), (7, 1, 0));
    }

    #[test]
    fn the_hypervisor_reads_and_writes_the_inverse_table_only() {
        let mut gate = Gate::default();
        let read = gate.attempt(Actor::Hypervisor, Target::Invtbl, Operation::Read);
        let write = gate.attempt(Actor::Hypervisor, Target::Invtbl, Operation::Write);
        assert_eq!((read, write), (Decision::Allowed, Decision::Allowed));
        let atlb = gate.attempt(Actor::Hypervisor, Target::Atlb, Operation::Write);
        assert_eq!(atlb, Decision::Refused);
    }
}
