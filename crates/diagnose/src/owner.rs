// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The VM to whose VMM a thread belongs that ran instead of a vCPU.
//!
//! Left out: threads that are vCPUs, which the machine knows; what a name alone suggests.

use crate::machine::{Machine, Vm, VmId};

/// The owner of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// This VM's VMM.
    Vm(VmId),
    /// The VMM of a VM of the notes of which the trace shows no vCPU.
    Noted(usize),
    /// No VM's.
    Host,
    /// Neither the notes nor the trace show it.
    Unknown,
}

impl Machine {
    /// The owner of a thread of this name, which ran instead of a vCPU of `own`. Threads of a VMM
    /// also begin after notes were taken: then their process decides.
    #[must_use]
    pub fn owner(&self, tid: i32, name: &str, own: Option<VmId>) -> Owner {
        // Notes that have no vCPU of the trace are of another time.
        let foreign = self.vms.iter().all(|vm| vm.note.is_none());
        let process = self.processes.get(&tid);
        let by_process = || process.and_then(|&process| self.of_process(process));
        if let Some(&(note, _)) = self.noted.get(&tid).filter(|_| !foreign) {
            return self.of_note(note);
        }
        let of_kernel = ["vhost-", "kvm-pit/"];
        if let Some(of) = of_kernel.iter().find_map(|kind| name.strip_prefix(kind)) {
            // The kernel names it by the thread that asked for it, and made it a thread of that
            // one's process from Linux 6.4 on.
            let by_name = of.parse().ok().and_then(|of| self.of_thread_or_process(of));
            return by_name.or_else(by_process).unwrap_or(Owner::Unknown);
        }
        let own_is_known = own.is_some_and(|vm| self.process_of(&self.vms[vm]).is_some());
        match process {
            Some(_) if own_is_known => by_process().unwrap_or(Owner::Host),
            _ => by_process().unwrap_or(Owner::Unknown),
        }
    }

    fn of_note(&self, note: usize) -> Owner {
        let vm = self.vms.iter().position(|vm| vm.note == Some(note));
        vm.map_or(Owner::Noted(note), Owner::Vm)
    }

    fn process_of(&self, vm: &Vm) -> Option<i32> {
        let noted = || self.noted_processes.get(vm.note?).copied();
        vm.process.or_else(noted)
    }

    fn of_process(&self, process: i32) -> Option<Owner> {
        let mut vms = self.vms.iter();
        let seen = vms.position(|vm| self.process_of(vm) == Some(process));
        let noted = || self.noted_processes.iter().position(|&of| of == process);
        seen.map(Owner::Vm).or_else(|| noted().map(Owner::Noted))
    }

    fn of_thread_or_process(&self, id: i32) -> Option<Owner> {
        let noted = || self.noted.get(&id).map(|&(note, _)| self.of_note(note));
        let thread = || self.of_process(*self.processes.get(&id)?);
        self.of_process(id).or_else(noted).or_else(thread)
    }
}
