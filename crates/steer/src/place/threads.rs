// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The vCPU threads that `place` looks after: what each did, and which pCPUs it was given.

use std::collections::BTreeMap;
use std::io::ErrorKind;

use steady_hostview::{Cpus, Host, Meter, Reading, Vcpu, Vm, vms};

use super::hands::Hands;
use super::moved::Moved;
use crate::error::SteerError;
use crate::state::State;

/// The VMs of a host that have vCPUs, by process; `only` those of a name or process, all if empty.
pub(super) fn vms_of(host: &Host, only: &[String]) -> BTreeMap<i32, Vm> {
    let wanted = |vm: &Vm| {
        let named = |one: &String| *one == vm.label() || one.parse() == Ok(vm.process);
        only.is_empty() || only.iter().any(named)
    };
    let found = vms(host).into_iter();
    let found = found.filter(|vm| !vm.vcpus.is_empty() && wanted(vm));
    found.map(|vm| (vm.process, vm)).collect()
}

/// One vCPU's thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub number: u32,
    pub meter: Meter,
    last: Reading,
    /// What it did in the last interval.
    pub did: Reading,
    /// Intervals for which it still counts as busy.
    pub busy_for: u32,
    /// The pCPUs that it had when it was found.
    pub before: Cpus,
    /// Those that it is given back: those of before, or all that may come where its cpuset alone
    /// kept it from others, so that it follows that as before.
    pub back: Cpus,
    /// Those that were set since, if any.
    pub set: Option<Cpus>,
    /// Somebody else has changed them since.
    pub theirs: bool,
}

impl Thread {
    fn open(host: &Host, process: i32, vcpu: &Vcpu, possible: &Cpus) -> Option<Self> {
        let meter = Meter::open(host, process, vcpu.tid).ok()?;
        let last = meter.read()?;
        let before = meter.allowed()?;
        Some(Self {
            number: vcpu.number,
            last,
            did: Reading::default(),
            busy_for: 0,
            back: back(&before, &meter, host, possible),
            meter,
            before,
            set: None,
            theirs: false,
        })
    }

    /// Makes the list that of the vCPUs that are there: known threads stay as they are. How many
    /// cannot be read.
    pub fn merge(
        known: &mut Vec<Self>,
        there: Vec<Vcpu>,
        host: &Host,
        process: i32,
        possible: &Cpus,
    ) -> usize {
        known.retain(|thread| thread.meter.read().is_some());
        let mut unreadable = 0;
        for vcpu in there {
            if known.iter().any(|thread| thread.meter.tid() == vcpu.tid) {
                continue;
            }
            let opened = Self::open(host, process, &vcpu, possible);
            unreadable += usize::from(opened.is_none());
            known.extend(opened);
        }
        known.sort_by_key(|thread| (thread.number, thread.meter.tid()));
        unreadable
    }

    /// Reads it; whether it is still there.
    pub fn read(&mut self, length_ns: u64, busy: u64, busy_for: u32) -> bool {
        let Some(now) = self.meter.read() else {
            return false;
        };
        self.did = Reading {
            run_ns: now.run_ns.saturating_sub(self.last.run_ns),
            wait_ns: now.wait_ns.saturating_sub(self.last.wait_ns),
        };
        self.last = now;
        let wanted_ns = self.did.run_ns + self.did.wait_ns;
        self.busy_for = self.busy_for.saturating_sub(1);
        if wanted_ns * 1000 >= length_ns * busy {
            self.busy_for = busy_for;
        }
        true
    }

    /// Looks whether its pCPUs are still those that were set, or those of before.
    pub fn notice(&mut self, host: &Host, possible: &Cpus) {
        let Some(now) = self.meter.allowed() else {
            return;
        };
        match &self.set {
            Some(set) if is_of_set(&now, set, &self.meter, host) => {}
            None if !self.theirs => {
                self.back = back(&now, &self.meter, host, possible);
                self.before = now;
            }
            Some(_) => {
                self.theirs = true;
                self.set = None;
            }
            None => {}
        }
    }

    /// Sets its pCPUs, noted before; whether that was needed and done. A thread that ends, or whose
    /// cpuset has none of them any more, is left as it is.
    pub fn set_to(
        &mut self,
        process: i32,
        cpus: &Cpus,
        state: &mut State<Moved>,
        hands: &mut dyn Hands,
    ) -> Result<bool, SteerError> {
        if self.theirs || self.set.as_ref().unwrap_or(&self.before) == cpus {
            return Ok(false);
        }
        state.note(Moved::new(process, &self.meter, &self.back, cpus))?;
        // The file that stays open is of this thread alone: once it has ended nothing is set.
        if self.meter.read().is_none() {
            return Ok(false);
        }
        match hands.set(self.meter.tid(), cpus) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(SteerError::Denied {
                    tid: self.meter.tid(),
                });
            }
            // It has ended meanwhile, or its cpuset has none of these pCPUs.
            Err(_) => return Ok(false),
        }
        self.set = Some(cpus.clone());
        Ok(true)
    }

    /// Gives back what it had. Where the kernel refuses it stays noted, for the end.
    pub fn give_back(
        &mut self,
        process: i32,
        state: &mut State<Moved>,
        hands: &mut dyn Hands,
    ) -> Result<(), SteerError> {
        let back = self.back.clone();
        if self.set.is_some() && !self.set_to(process, &back, state, hands)? {
            let is_back = self.set.as_ref() == Some(&back);
            if !is_back && self.meter.read().is_some() {
                return Ok(());
            }
        }
        self.set = None;
        Ok(())
    }
}

/// Whether a thread that was set to `set` has `now` by that: it is the same, or what a cpuset that
/// has shrunk since leaves of it, which is all of the cpuset where nothing is left.
pub(super) fn is_of_set(now: &Cpus, set: &Cpus, meter: &Meter, host: &Host) -> bool {
    if now == set {
        return true;
    }
    let Some(cpuset) = meter.cpuset(host) else {
        return false;
    };
    let left = set.and(&cpuset);
    *now == if left.is_empty() { cpuset } else { left }
}

/// What a thread is given back that may run on `before`.
fn back(before: &Cpus, meter: &Meter, host: &Host, possible: &Cpus) -> Cpus {
    match meter.cpuset(host) {
        Some(cpuset) if cpuset == *before => possible.clone(),
        _ => before.clone(),
    }
}
