// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What remedies say of themselves, in a form that none of them owns.
//!
//! A remedy's tracepoints are of the system `kvm_<remedy>`. Where it serves calls, three of them
//! have names and fields in common: `<system>_call` (`call`, `nr_targets`), `<system>_target`
//! (`call`, `vm`, `vcpu`, `action`) and `<system>_done` (`call`, `left`). Where it gives guests
//! their ticks, it records each as `<system>_tick` (`how`: 1 or `injected` if an interrupt was put
//! into the vCPU of the thread). What else a remedy records is known here by its name alone; who
//! knows the remedy reads the rest.

/// One event of a remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemedyEvent<'a> {
    /// The remedy: its trace system without `kvm_`.
    pub remedy: &'a str,
    /// The call that it belongs to, by the remedy's own number; unique in a VM.
    pub call: Option<u64>,
    /// What was done.
    pub step: RemedyStep<'a>,
}

/// What a remedy did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemedyStep<'a> {
    /// A call began, in the caller's thread.
    Begun {
        /// vCPUs that it is about.
        targets: Option<u32>,
    },
    /// A call has dealt with one target.
    Target {
        /// The target's VM, by its VMM's process.
        vm: Option<u32>,
        /// The target's number in it.
        vcpu: Option<u32>,
        /// What was done for it, in the remedy's own numbers.
        outcome: Option<u64>,
    },
    /// A call has ended, in the caller's thread.
    Done {
        /// Targets that the remedy left for its caller to serve.
        left: Option<u32>,
    },
    /// Something else.
    Other {
        /// The tracepoint.
        event: &'a str,
    },
}

impl<'a> RemedyEvent<'a> {
    /// The remedy of a trace system; `None` if the system is not of a remedy.
    #[must_use]
    pub fn of_system(system: &'a str) -> Option<&'a str> {
        system.strip_prefix("kvm_").filter(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_system_of_kvm_alone_or_of_others_is_no_remedys() {
        assert_eq!(RemedyEvent::of_system("kvm_nap"), Some("nap"));
        for system in ["kvm", "kvm_", "sched", ""] {
            assert_eq!(RemedyEvent::of_system(system), None, "{system}");
        }
    }
}
