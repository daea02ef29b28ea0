// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Who is where: vCPU threads, the VMs they belong to, and whether each runs.
//!
//! A thread is a vCPU if it enters or leaves a guest. Which VM it belongs to is known from the
//! address of its VM where the probes of `steady record` show it. Without them, threads whose ids
//! follow each other as their vCPU numbers do are taken for one VM, because VMMs create them one
//! after another; the diagnosis says on which ground VMs were distinguished.

use std::collections::BTreeMap;

use steady_events::{Event, ExitReason, Gap, Kind, Task, TaskState, vcpu_number};

/// Place of a vCPU in [`Machine::vcpus`].
pub type VcpuId = usize;
/// Place of a VM in [`Machine::vms`].
pub type VmId = usize;

/// More vCPU threads than this are not distinguished: memory stays bounded whatever a trace holds.
pub const MOST_VCPUS: usize = 4096;
/// Threads whose processes are kept.
const MOST_PROCESSES: usize = 65_536;
/// How far apart the threads of two parts of a VM may be.
const PARTED: i32 = 1024;
/// How far apart two threads may lie from where their vCPU numbers put them.
const ADJACENT: i64 = 2;

/// What a vCPU's thread does, as far as the scheduler's events show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing was seen of it yet.
    Unknown,
    /// On a pCPU.
    Running,
    /// Ready, but another runs. `halted` if it had waited for an interrupt before.
    Ready {
        /// Since when.
        since_ns: u64,
        /// Whether it comes from a halt.
        halted: bool,
    },
    /// It waits for something.
    Blocked,
}

/// A vCPU.
#[derive(Debug, Clone)]
pub struct Vcpu {
    /// Its thread.
    pub tid: i32,
    /// Its VM.
    pub vm: VmId,
    /// Its number in its VM.
    pub number: u32,
    /// Name of its thread.
    pub comm: String,
    /// What it does.
    pub state: State,
    /// Its pCPU, or that whose run queue it is on.
    pub pcpu: u32,
    /// Its last exit.
    pub last_exit: Option<(ExitReason, u64, u64)>,
}

impl Vcpu {
    /// Why it left its guest last.
    #[must_use]
    pub fn last_reason(&self) -> Option<ExitReason> {
        self.last_exit.map(|(reason, ..)| reason)
    }
}

/// On which ground threads were put into VMs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ground {
    /// The host's kernel reported the address of each thread's VM.
    Address,
    /// Thread ids and vCPU numbers follow each other.
    Adjacency,
    /// The notes of the recording, or the records, have each thread's process.
    Process,
}

/// A VM.
#[derive(Debug, Clone)]
pub struct Vm {
    /// Its address in the host's kernel.
    pub address: Option<u64>,
    /// Its place in the notes of the recording.
    pub note: Option<usize>,
    /// The process of its threads, where their records show it.
    pub process: Option<i32>,
    /// Its vCPUs, in the order in which they were seen.
    pub vcpus: Vec<VcpuId>,
}

impl Vm {
    /// Whether its threads were put together by their ids alone.
    fn is_guess(&self) -> bool {
        self.note.is_none() && self.process.is_none() && self.address.is_none()
    }
}

/// All of it.
#[derive(Debug, Default)]
pub struct Machine {
    /// The vCPUs, in the order in which they were seen.
    pub vcpus: Vec<Vcpu>,
    /// The VMs. One may be empty when its threads turned out to belong to another.
    pub vms: Vec<Vm>,
    /// What the notes of the recording say of threads: the VM, and the number of a vCPU.
    pub noted: BTreeMap<i32, (usize, Option<u32>)>,
    /// The processes of the VMs of the notes.
    pub noted_processes: Vec<i32>,
    /// The process of each thread that runs instead of a vCPU, where records show it.
    pub(crate) processes: BTreeMap<i32, i32>,
    by_tid: BTreeMap<i32, VcpuId>,
    by_address: BTreeMap<u64, VcpuId>,
    /// Whether threads without a process were put to one.
    joined: bool,
    /// Events by which threads beyond the bound showed that they are vCPUs.
    pub untold: u64,
}

impl Machine {
    /// The vCPU of a thread.
    #[must_use]
    pub fn of_tid(&self, tid: i32) -> Option<VcpuId> {
        self.by_tid.get(&tid).copied()
    }

    /// The vCPU at an address of the host's kernel.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<VcpuId> {
        self.by_address.get(&address).copied()
    }

    /// The vCPU of this number in a VM; without an APIC id of its own that is also its APIC id.
    #[must_use]
    pub fn numbered(&self, vm: VmId, number: u32) -> Option<VcpuId> {
        let mut vcpus = self.vms[vm].vcpus.iter().copied();
        vcpus.find(|&id| self.vcpus[id].number == number)
    }

    /// Notes the process of the event's thread, if it shows it.
    #[inline]
    pub fn note_process(&mut self, event: &Event<'_>) {
        if event.process <= 0 || event.tid <= 0 || self.processes.len() >= MOST_PROCESSES {
            return;
        }
        if let Kind::Switch { prev, .. } = event.kind
            && prev.tid == event.tid
        {
            self.processes.insert(event.tid, event.process);
        }
        assert!(
            self.processes.len() <= MOST_PROCESSES,
            "memory stays bounded"
        );
    }

    /// Nothing of what was seen of vCPUs, but what the notes and records have of threads.
    #[must_use]
    pub fn afresh(&mut self) -> Self {
        Self {
            noted: std::mem::take(&mut self.noted),
            noted_processes: std::mem::take(&mut self.noted_processes),
            processes: std::mem::take(&mut self.processes),
            ..Self::default()
        }
    }

    /// The other vCPUs of the same VM.
    pub fn siblings(&self, of: VcpuId) -> impl Iterator<Item = VcpuId> + '_ {
        let vcpus = self.vms[self.vcpus[of].vm].vcpus.iter().copied();
        vcpus.filter(move |&id| id != of)
    }

    /// The vCPU of the event's thread, made known if the event shows that it is one.
    pub fn vcpu_of(&mut self, event: &Event<'_>) -> Option<VcpuId> {
        let number = match event.kind {
            Kind::Entry { vcpu } | Kind::Exit { vcpu, .. } => vcpu,
            Kind::VcpuLoad { number, .. } => number,
            Kind::SpinBegin { .. } => None,
            _ => return self.of_tid(event.tid),
        };
        let known = self.of_tid(event.tid);
        let id = known.or_else(|| self.add(event, number))?;
        match event.kind {
            Kind::VcpuLoad { vcpu, vm, number } => self.told(id, vcpu, vm, number),
            Kind::SpinBegin {
                vcpu: Some(vcpu),
                vm,
            } => self.told(id, vcpu, vm, None),
            _ => {}
        }
        Some(id)
    }

    /// Takes a thread for a vCPU if it is named like one.
    pub fn named(&mut self, task: Task<'_>, cpu: u32) {
        if self.by_tid.contains_key(&task.tid) || task.tid <= 0 {
            return;
        }
        let Some(number) = vcpu_number(task.comm) else {
            return;
        };
        let event = Event {
            time_ns: 0,
            cpu,
            tid: task.tid,
            comm: task.comm,
            process: 0,
            gap: Gap::None,
            kind: Kind::Other,
        };
        if let Some(id) = self.add(&event, Some(number)) {
            self.vcpus[id].state = State::Unknown;
        }
    }

    fn add(&mut self, event: &Event<'_>, number: Option<u32>) -> Option<VcpuId> {
        if self.vcpus.len() >= MOST_VCPUS {
            self.untold += 1;
            return None;
        }
        let id = self.vcpus.len();
        let noted = self.noted.get(&event.tid).copied();
        let number = number.or(noted.and_then(|(_, number)| number));
        let number = number.or_else(|| vcpu_number(event.comm)).unwrap_or(0);
        let vm = match noted {
            Some((note, _)) => self.vm_of_note(note),
            None if event.process > 0 => self.vm_of_process(event.process),
            None => self.vm_by_adjacency(event.tid, number),
        };
        self.vms[vm].vcpus.push(id);
        let before = self.by_tid.insert(event.tid, id);
        assert!(before.is_none(), "a thread is one vCPU");
        self.vcpus.push(Vcpu {
            tid: event.tid,
            vm,
            number,
            comm: String::from_utf8_lossy(event.comm).into_owned(),
            state: State::Running,
            pcpu: event.cpu,
            last_exit: None,
        });
        assert_eq!(self.vcpus.len(), self.by_tid.len(), "a thread each");
        Some(id)
    }

    fn vm_of_note(&mut self, note: usize) -> VmId {
        let known = self.vms.iter().position(|vm| vm.note == Some(note));
        known.unwrap_or_else(|| {
            let vm = self.new_vm(None);
            self.vms[vm].note = Some(note);
            vm
        })
    }

    fn vm_of_process(&mut self, process: i32) -> VmId {
        let mut vms = self.vms.iter();
        let known = vms.position(|vm| vm.process == Some(process));
        known.unwrap_or_else(|| {
            let vm = self.new_vm(None);
            self.vms[vm].process = Some(process);
            vm
        })
    }

    /// Threads without a vCPU 0 beside them are not a whole VM: where their numbers and ids go on
    /// from those of another, they are put to it. VMMs make vCPUs one after the other, with
    /// other threads between them.
    pub fn join_parts(&mut self) {
        let number = |machine: &Self, id: &VcpuId| machine.vcpus[*id].number;
        for part in 0..self.vms.len() {
            let vm = &self.vms[part];
            let whole = vm.vcpus.iter().any(|id| number(self, id) == 0);
            if vm.vcpus.is_empty() || whole || !vm.is_guess() {
                continue;
            }
            let others = (0..self.vms.len()).filter(|&other| other != part);
            let fits = others.filter_map(|other| Some((self.goes_on(other, part)?, other)));
            if let Some((_, other)) = fits.min() {
                let moved = std::mem::take(&mut self.vms[part].vcpus);
                moved.iter().for_each(|&id| self.vcpus[id].vm = other);
                self.vms[other].vcpus.extend(moved);
                self.joined |= self.vms[other].process.is_some();
            }
        }
    }

    /// How far apart the ids of two parts are, if they can be one VM: no number twice, and ids in
    /// the order of numbers.
    fn goes_on(&self, vm: VmId, part: VmId) -> Option<i32> {
        // Notes, and a kernel's address, have all vCPUs of a VM; a process only those whose records
        // show it.
        let whole = &self.vms[vm];
        if whole.vcpus.is_empty() || whole.note.is_some() || whole.address.is_some() {
            return None;
        }
        let pairs = self.vms[vm].vcpus.iter().flat_map(|&one| {
            let others = self.vms[part].vcpus.iter();
            others.map(move |&other| (&self.vcpus[one], &self.vcpus[other]))
        });
        let mut nearest = None;
        for (one, other) in pairs {
            let in_order = (one.number < other.number) == (one.tid < other.tid);
            if one.number == other.number || !in_order {
                return None;
            }
            let apart = one.tid.abs_diff(other.tid);
            let apart = i32::try_from(apart).ok().filter(|&apart| apart <= PARTED)?;
            nearest = Some(nearest.map_or(apart, |known: i32| known.min(apart)));
        }
        nearest
    }

    fn vm_by_adjacency(&mut self, tid: i32, number: u32) -> VmId {
        let distance = |vcpu: &Vcpu| {
            let threads = i64::from(tid) - i64::from(vcpu.tid);
            (threads - (i64::from(number) - i64::from(vcpu.number))).abs()
        };
        let free = self
            .vms
            .iter()
            .enumerate()
            .filter(|(_, vm)| vm.note.is_none() && vm.process.is_none());
        let near = free.filter_map(|(vm, each)| {
            let mut vcpus = each.vcpus.iter().map(|&id| &self.vcpus[id]);
            let taken = vcpus.clone().any(|vcpu| vcpu.number == number);
            let least = vcpus.by_ref().map(distance).min()?;
            (!taken && least <= ADJACENT).then_some((least, vm))
        });
        match near.min() {
            Some((_, vm)) => vm,
            None => self.new_vm(None),
        }
    }

    fn new_vm(&mut self, address: Option<u64>) -> VmId {
        self.vms.push(Vm {
            address,
            note: None,
            process: None,
            vcpus: Vec::new(),
        });
        self.vms.len() - 1
    }

    /// Takes what a probe reports about a thread's vCPU; its VM's address overrules adjacency.
    fn told(&mut self, id: VcpuId, vcpu: u64, vm: Option<u64>, number: Option<u32>) {
        self.by_address.insert(vcpu, id);
        if let Some(number) = number {
            self.vcpus[id].number = number;
        }
        let Some(address) = vm else { return };
        let now = self.vcpus[id].vm;
        if self.vms[now].address == Some(address) {
            return;
        }
        // A process has one VM, as VMMs are: what the notes say holds.
        if self.vms[now].note.is_some() || self.vms[now].process.is_some() {
            self.vms[now].address.get_or_insert(address);
            return;
        }
        let right = self.vms.iter().position(|vm| vm.address == Some(address));
        let to = match right {
            Some(vm) => vm,
            // The first of a group made by adjacency names it, and the others will move if wrong.
            None if self.vms[now].address.is_none() => {
                self.vms[now].address = Some(address);
                return;
            }
            None => self.new_vm(Some(address)),
        };
        assert_ne!(now, to, "its VM has another address");
        let before = self.vms[now].vcpus.len();
        self.vms[now].vcpus.retain(|&other| other != id);
        let after = self.vms[now].vcpus.len();
        assert_eq!(before, after + 1, "a vCPU is in its VM once");
        self.vms[to].vcpus.push(id);
        self.vcpus[id].vm = to;
    }

    /// The place of a VM among those that have vCPUs, from 1: by it VMs are named.
    #[must_use]
    pub fn place_of_vm(&self, vm: VmId) -> usize {
        let before = self.vms[..vm].iter();
        before.filter(|vm| !vm.vcpus.is_empty()).count() + 1
    }

    /// On which ground VMs were distinguished.
    #[must_use]
    pub fn ground(&self) -> Ground {
        let mut vms = self.vms.iter().filter(|vm| !vm.vcpus.is_empty());
        let mut noted = vms.clone();
        if !self.joined && noted.all(|vm| vm.note.is_some() || vm.process.is_some()) {
            Ground::Process
        } else if vms.all(|vm| vm.address.is_some()) {
            Ground::Address
        } else {
            Ground::Adjacency
        }
    }

    /// Notes an event's effect on where vCPUs are; `own` is the vCPU of its thread. To be called
    /// after everybody else has seen it.
    pub fn apply(&mut self, event: &Event<'_>, own: Option<VcpuId>) {
        match event.kind {
            Kind::Entry { .. } | Kind::Exit { .. } => {
                let Some(vcpu) = own.map(|id| &mut self.vcpus[id]) else {
                    return;
                };
                assert_eq!(vcpu.tid, event.tid, "the vCPU of the event's thread");
                vcpu.state = State::Running;
                vcpu.pcpu = event.cpu;
                if let Kind::Exit { reason, rip, .. } = event.kind {
                    vcpu.last_exit = Some((reason, rip, event.time_ns));
                }
            }
            Kind::Switch { prev, state, next } => self.switch(event, prev, state, next),
            Kind::Wakeup { tid, cpu } => self.with(tid, |vcpu| {
                vcpu.pcpu = cpu;
                if matches!(vcpu.state, State::Blocked | State::Unknown) {
                    vcpu.state = State::Ready {
                        since_ns: event.time_ns,
                        halted: true,
                    };
                }
            }),
            Kind::Migrate { tid, to } => self.with(tid, |vcpu| vcpu.pcpu = to),
            _ => {}
        }
    }

    fn switch(&mut self, event: &Event<'_>, prev: Task<'_>, state: TaskState, next: Task<'_>) {
        self.with(prev.tid, |vcpu| {
            vcpu.pcpu = event.cpu;
            vcpu.state = match state {
                TaskState::Runnable => State::Ready {
                    since_ns: event.time_ns,
                    halted: false,
                },
                TaskState::Blocked | TaskState::Uninterruptible | TaskState::Dead => State::Blocked,
            };
        });
        self.with(next.tid, |vcpu| {
            vcpu.pcpu = event.cpu;
            vcpu.state = State::Running;
        });
    }

    fn with(&mut self, tid: i32, change: impl FnOnce(&mut Vcpu)) {
        if let Some(&id) = self.by_tid.get(&tid) {
            change(&mut self.vcpus[id]);
        }
    }
}
